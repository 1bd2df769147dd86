"""Retrieval scores are those of trec_eval, to the digits that it prints; what cannot be scored is listed, not zero."""

import json
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval import (
    DEFAULT_MEASURES,
    parse_measure,
    rank_by_score,
    reduce_to_documents,
    score_queries,
    score_query,
    score_run,
)
from rag_eval_pipeline.metrics.statistics import mean

TREC_CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
TREC_MEASURES = (
    *(f"{family}@{k}" for family in ("recall", "precision", "ndcg", "map") for k in TREC_CUTOFFS),
    *(f"hit@{k}" for k in (1, 5, 10)),
    "map",
    "ndcg",
    "mrr",
)  # fmt: skip
OTHER_CUTOFFS = ("precision@3", "precision@5", "precision@7", "recall@20", "recall@2000", "hit@2", "hit@5", "hit@20",
                 "ndcg@10", "ndcg@20", "ndcg@23")  # fmt: skip


def read_qrels(path):
    qrels = defaultdict(dict)
    for line in path.read_text().splitlines():
        query, _, document, grade = line.split()
        qrels[query][document] = int(grade)
    return qrels


def read_run(path):
    scored = defaultdict(list)
    for line in path.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        scored[query].append((document, float(score)))
    return {query: rank_by_score(pairs) for query, pairs in scored.items()}


def read_printed(path):
    """(trec_eval's measure, query or "all") -> the text that it printed."""
    lines = (line.split() for line in path.read_text().splitlines() if line.strip())
    return {(measure, query): text for measure, query, text in lines}


def printed(scores, names):
    """The same from our scores; means in trec_eval's order of addition."""
    ours = {}
    for name in names:
        trec_name = parse_measure(name).trec_name
        for query, by_measure in scores.scores.items():
            ours[trec_name, query] = f"{by_measure[name]:.4f}"
        ours[trec_name, "all"] = f"{mean(scores.values(name)):.4f}"
    return ours


@pytest.mark.parametrize(
    ("file", "names", "compared"),
    # names x (3 queries and their mean)
    [("out.test.aq", TREC_MEASURES, 42 * 4), ("out.test.meas_params", OTHER_CUTOFFS, 11 * 4)],
    ids=["-q -m all_trec", "other cutoffs"],
)
def test_every_score_and_mean_is_what_trec_eval_printed(oracles, file, names, compared):
    folder = oracles / "trec_eval"
    scores = score_run(read_qrels(folder / "qrels.test"), read_run(folder / "results.test"), names)

    ours = printed(scores, names)

    theirs = read_printed(folder / file)
    assert len(ours) == compared
    assert ours == {key: theirs[key] for key in ours}
    assert (scores.skipped, scores.failed, scores.unjudged) == ((), (), ())


@pytest.mark.parametrize("form", ["trec", "json"])
def test_the_ranx_example_is_in_ideal_order(oracles, form):
    folder = oracles / "ranx"
    if form == "trec":
        qrels, run = read_qrels(folder / "qrels.trec"), read_run(folder / "run.trec")
    else:
        qrels = json.loads((folder / "qrels.json").read_text())
        scored = json.loads((folder / "run.json").read_text())
        run = {query: rank_by_score(documents.items()) for query, documents in scored.items()}

    scores = score_run(qrels, run, ["ndcg@10", "map", "mrr", "precision@5", "recall@1", "all_hit@3"])

    # Every judged document is relevant and retrieved, best grade first: 3 of q1 and 2 of q2.
    perfect = {"ndcg@10": 1.0, "map": 1.0, "mrr": 1.0, "all_hit@3": 1.0}
    assert scores.scores == {
        "q1": perfect | {"precision@5": 3 / 5, "recall@1": 1 / 3},
        "q2": perfect | {"precision@5": 2 / 5, "recall@1": 1 / 2},
    }


RANKINGS = {
    "higher scores first": ([("a", 0.1), ("b", 0.3), ("c", 0.2)], ["b", "c", "a"]),
    "equal scores by id, descending": ([("a", 1.0), ("c", 1.0), ("b", 1.0)], ["c", "b", "a"]),
    "upper case sorts below lower case, as bytes do": ([("B", 1.0), ("a", 1.0)], ["a", "B"]),
    "characters of two bytes sort above those of one": ([("z", 1.0), ("é", 1.0)], ["é", "z"]),
    "outside the basic plane last, unlike in UTF-16": (
        [("\uffee", 1.0), ("\U0001f600", 1.0)],
        ["\U0001f600", "\uffee"],
    ),
    "scores that differ in the ninth digit are no tie": ([("b", 1.0), ("a", 1.000000001)], ["a", "b"]),
    "minus zero is zero": ([("a", 0.0), ("b", -0.0)], ["b", "a"]),
    "infinite scores are scores": ([("a", -math.inf), ("b", 0.0), ("c", math.inf)], ["c", "b", "a"]),
    "nothing retrieved": ([], []),
}


@pytest.mark.parametrize(("scored", "expected"), RANKINGS.values(), ids=RANKINGS)
def test_documents_are_ranked_as_trec_eval_sorts_them(scored, expected):
    assert rank_by_score(scored) == expected


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(InputError) as error:
        rank_by_score([("a", 1.0), ("b", math.nan)])

    assert error.value.code == "bad_score"


def test_a_document_may_be_ranked_once_only():
    with pytest.raises(InputError) as error:
        score_query(["a", "b", "a"], {"a": 1}, ["recall@3"])

    assert error.value.code == "duplicate_document"


def test_a_document_stands_at_the_rank_of_its_best_passage():
    assert reduce_to_documents(["b.pdf", "a.pdf", "b.pdf", "c.pdf", "a.pdf"]) == ["b.pdf", "a.pdf", "c.pdf"]


def test_grades_below_one_are_not_relevant():
    relevant = {"negative": -1, "zero": 0, "good": 2}

    # Only "good" counts: at rank 3, so 1/3 and (2 / log2(4)) / (2 / log2(2)) = 1/2.
    assert score_query(["negative", "zero", "good"], relevant, ["mrr", "ndcg@3"]) == {"mrr": 1 / 3, "ndcg@3": 1 / 2}


def test_a_query_that_retrieved_nothing_scores_zero():
    assert score_query([], {"a": 1}, ["hit@5", "ndcg@5"]) == {"hit@5": 0.0, "ndcg@5": 0.0}


NOTHING_RELEVANT = {"no judgements": {}, "all grades are zero": {"a": 0}, "all grades are negative": {"a": -1}}


@pytest.mark.parametrize("relevant", NOTHING_RELEVANT.values(), ids=NOTHING_RELEVANT)
def test_a_query_without_relevant_documents_has_no_score(relevant):
    assert score_query(["a"], relevant, ["mrr"]) is None


def test_queries_without_a_score_are_listed_by_cause():
    qrels = {"q2": {"a": 1}, "q1": {"a": 1}, "impossible": {}, "lost": {"a": 1}, "lost and impossible": {"a": 0}}

    scores = score_run(qrels, {"q1": ["a"], "q2": [], "impossible": ["a"], "extra": ["a"]}, ["RR"])

    assert scores.scores == {"q1": {"mrr": 1.0}, "q2": {"mrr": 0.0}}
    assert scores.values("mrr") == [1.0, 0.0]
    assert (scores.skipped, scores.failed, scores.unjudged) == (
        ("impossible", "lost and impossible"),
        ("lost",),
        ("extra",),
    )


def test_many_queries_at_once_score_as_one_by_one():
    given = [(["a", "b"], {"b": 1}), ([], {"a": 2}), (["a"], {"a": 0}), (["c", "a"], {"a": 2, "c": 1})]

    assert score_queries(given, DEFAULT_MEASURES) == [score_query(*one, DEFAULT_MEASURES) for one in given]
    assert score_queries(given, DEFAULT_MEASURES)[2] is None


documents = st.lists(st.integers(0, 30).map(str), unique=True, max_size=20)
qrels_of_a_query = st.dictionaries(st.integers(0, 30).map(str), st.integers(-1, 3), max_size=8)


@given(documents, qrels_of_a_query)
def test_scores_stay_in_range_and_only_grow_with_k(ranking, relevant):
    scores = score_query(ranking, relevant, DEFAULT_MEASURES)

    if not any(grade >= 1 for grade in relevant.values()):
        assert scores is None
        return
    assert all(0.0 <= score <= 1.0 + 1e-12 for score in scores.values())
    for family in ("hit", "all_hit", "recall", "map"):
        growing = [scores[f"{family}@{k}"] for k in (1, 3, 5, 10)]
        assert growing == sorted(growing)
    assert all(scores[f"all_hit@{k}"] <= scores[f"hit@{k}"] for k in (1, 3, 5, 10))


@given(documents, qrels_of_a_query)
def test_scores_equal_a_plain_walk_down_the_ranking(ranking, relevant):
    """The definitions written over the whole ranking, in trec_eval's order of operations: equal to the last bit."""
    ideal = sorted((grade for grade in relevant.values() if grade >= 1), reverse=True)
    found = 0
    gain = best = precisions = 0.0
    for i, document in enumerate(ranking[:10]):
        grade = max(0, relevant.get(document, 0))
        if grade:
            found += 1
            precisions += found / (i + 1)
            gain += grade / math.log2(i + 2)
    for i, grade in enumerate(ideal[:10]):
        best += grade / math.log2(i + 2)

    scores = score_query(ranking, relevant, ["ndcg@10", "map@10", "recall@10", "precision@10"])

    if ideal:
        assert scores == {
            "ndcg@10": gain / best,
            "map@10": precisions / len(ideal),
            "recall@10": found / len(ideal),
            "precision@10": found / 10,
        }
