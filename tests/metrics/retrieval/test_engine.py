"""The engine gives what a plain walk down each ranking gives, to the last bit, however documents are named."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.retrieval import runs
from rag_eval_pipeline.metrics.retrieval.names import parse_measures
from rag_eval_pipeline.metrics.retrieval.runs import Documents, Run, make_qrels, qrels_from_dict, run_from_dict
from rag_eval_pipeline.metrics.retrieval.scoring import score, score_rankings
from tests.metrics.retrieval.plain_measures import plain_scores

MEASURES = parse_measures(
    [
        "num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret", "utility", "recip_rank", "set", "Rprec", "bpref",
        "P.1,3,10", "recall.1,3,10", "success.1,3,10", "relative_P.1,3,10", "unj.1,3,10", "Rprec_mult.0.2,1,1.4",
        "map", "infAP", "binG", "map_cut.1,3,10", "yaap", "gm_map", "gm_bpref", "iprec_at_recall", "11pt_avg",
        "ndcg_cut.1,3,10", "ndcg", "dcg", "ideal_dcg", "ndcg_rel", "Rndcg", "G", "rbp", "rbp_resid",
        *(f"{name}@{k}" for name in ("all_hit", "mrr", "rbp", "err") for k in (1, 3, 10)),
    ]
)  # fmt: skip
MEASURES = tuple(measure for measure in MEASURES if measure.label != "num_q")

# Few ids, so that rankings and judgements meet; of one, two, three and four bytes, and prefixes of one another.
documents = st.one_of(
    st.integers(0, 30).map(str),
    st.sampled_from(
        ["é", "z", "Z", "ﾮ", "\U0001f600", "document-of-a-long-name-1", "document-of-a-long-name-2", "12345678"]
    ),
)
scores = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 2.0, math.inf, -math.inf]), st.floats(-2, 2, width=16))
rankings = st.dictionaries(documents, scores, max_size=25)
judgements = st.dictionaries(documents, st.integers(-1, 5), min_size=1, max_size=20)
queries = st.sampled_from(["q1", "q2", "q10", "é", "Q"])
collections = st.tuples(st.dictionaries(queries, rankings), st.dictionaries(queries, judgements, min_size=1))


def expected(run, qrels, level):
    return {
        query: {measure.label: plain[measure.label] for measure in MEASURES}
        for query in sorted(qrels)
        for plain in [plain_scores(run.get(query, {}), qrels[query], level=level)]
    }


def by_query(found):
    columns = [values.tolist() for values in found.values]
    return {
        query: dict(zip((measure.label for measure in MEASURES), row, strict=True))
        for query, row in zip(found.queries, zip(*columns, strict=True), strict=True)
    }


def coded(run, qrels, vocabulary, *, in_order):
    place = {name: code for code, name in enumerate(vocabulary)}
    names = None if in_order else pa.array(vocabulary, pa.string())
    lengths = [len(scored) for scored in run.values()]
    rows = [place[document] for scored in run.values() for document in scored]
    values = [value for scored in run.values() for value in scored.values()]
    judged = [place[document] for graded in qrels.values() for document in graded]
    grades = [grade for graded in qrels.values() for grade in graded.values()]
    return (
        Run(
            list(run),
            np.cumsum([0, *lengths]),
            Documents.from_codes(np.array(rows, dtype=np.int32), names),
            np.array(values, dtype=np.float64),
        ),
        make_qrels(
            list(qrels),
            np.repeat(np.arange(len(qrels)), [len(graded) for graded in qrels.values()]),
            Documents.from_codes(np.array(judged, dtype=np.int32), names),
            np.array(grades, dtype=np.int64),
        ),
    )


@given(collections, st.sampled_from([1, 2]), st.sampled_from(["ids", "codes", "codes in order"]), st.booleans(),
       st.randoms(use_true_random=False))  # fmt: skip
def test_scores_are_those_of_a_plain_walk(collection, level, naming, is_cut, random):
    run, qrels = collection
    vocabulary = sorted({document for part in (*run.values(), *qrels.values()) for document in part})
    if naming == "codes":
        random.shuffle(vocabulary)
    with pytest.MonkeyPatch.context() as patch:
        if is_cut:
            # A block of one row is a block per query: every border of queries is then one of blocks.
            patch.setattr(runs, "BLOCK_ROWS", 1)
        if naming == "ids":
            sides = run_from_dict(run), qrels_from_dict(qrels)
        else:
            sides = coded(run, qrels, vocabulary, in_order=naming == "codes in order")

        found = score(*sides, MEASURES, level=level)

    assert by_query(found) == expected(run, qrels, level)
    assert found.missing == tuple(query for query in sorted(qrels) if query not in run)
    assert found.unjudged == len(run.keys() - qrels.keys())


@given(collections)
def test_ids_with_equal_keys_are_told_apart_by_name(collection):
    run, qrels = collection
    made, judged = run_from_dict(run), qrels_from_dict(qrels)
    # The worst hash there is: one key for all.
    made.documents.keys[:] = 7
    judged.documents.keys[:] = 7

    assert by_query(score(made, judged, MEASURES)) == expected(run, qrels, 1)


@given(st.dictionaries(queries, st.tuples(st.lists(documents, unique=True), judgements), min_size=1))
def test_rankings_score_like_runs(given_rankings):
    names = [measure.name for measure in MEASURES if measure.label != "unj_1"]
    run = {query: {d: -float(rank) for rank, d in enumerate(ranking)} for query, (ranking, _) in given_rankings.items()}
    whole = expected(run, {query: grades for query, (_, grades) in given_rankings.items()}, 1)

    found = score_rankings(given_rankings.values(), names)

    for query, row in zip(given_rankings, found, strict=True):
        if row is None:
            assert whole[query]["num_rel"] == 0
        else:
            assert row == {m.name: whole[query][m.label] for m in MEASURES if m.name in row}


def test_mean_is_added_up_in_the_byte_order_of_queries():
    qrels = {f"q{i}": {"a": 1} for i in range(300)}
    run = {f"q{i}": {"a": 1.0} | {f"b{j}": 2.0 for j in range(i % 7)} for i in range(300)}
    total = 0.0
    for query in sorted(qrels):
        total += 1 / len(run[query])

    found = score(run_from_dict(run), qrels_from_dict(qrels), parse_measures(["recip_rank"]))

    assert found.summary(found.measures[0]) == total / 300
