"""Arrays give what a plain walk down each ranking gives, to the last bit, however documents are named and runs cut."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.retrieval import (
    Documents,
    Run,
    parse_measures,
    qrels_from_grades,
    qrels_of,
    run_from_scores,
    runs,
    score,
)
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


@given(collections, st.sampled_from([1, 2]))
def test_scores_are_those_of_a_plain_walk(collection, level):
    run, qrels = collection

    found = score(run_from_scores(run), qrels_from_grades(qrels), MEASURES, level=level)

    assert by_query(found) == expected(run, qrels, level)
    assert found.missing == tuple(query for query in sorted(qrels) if query not in run)
    assert found.unjudged == len(run.keys() - qrels.keys())


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
            Documents.coded(np.array(rows, dtype=np.int32), names),
            np.array(values, dtype=np.float64),
        ),
        qrels_of(
            list(qrels),
            np.repeat(np.arange(len(qrels)), [len(graded) for graded in qrels.values()]),
            Documents.coded(np.array(judged, dtype=np.int32), names),
            np.array(grades, dtype=np.int64),
        ),
    )


@given(collections, st.booleans(), st.randoms(use_true_random=False))
def test_codes_give_the_same_as_ids(collection, in_order, random):
    run, qrels = collection
    vocabulary = sorted({document for part in (*run.values(), *qrels.values()) for document in part})
    if not in_order:
        random.shuffle(vocabulary)

    found = score(*coded(run, qrels, vocabulary, in_order=in_order), MEASURES)

    assert by_query(found) == expected(run, qrels, 1)


@given(collections)
def test_blocks_of_any_size_give_the_same(collection):
    run, qrels = collection
    # A block of one row is a block a query: every border of queries is then one of blocks.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "BLOCK_ROWS", 1)
        found = score(run_from_scores(run), qrels_from_grades(qrels), MEASURES)

    assert by_query(found) == expected(run, qrels, 1)


@given(collections)
def test_ids_of_one_key_are_told_apart_by_name(collection):
    run, qrels = collection
    made, judged = run_from_scores(run), qrels_from_grades(qrels)
    # The worst hash there is: one key for all.
    made.documents.keys[:] = 7
    judged.documents.keys[:] = 7

    assert by_query(score(made, judged, MEASURES)) == expected(run, qrels, 1)


def test_the_mean_is_added_up_query_by_query_in_the_order_of_their_bytes():
    qrels = {f"q{i}": {"a": 1} for i in range(300)}
    run = {f"q{i}": {"a": 1.0} | {f"b{j}": 2.0 for j in range(i % 7)} for i in range(300)}
    total = 0.0
    for query in sorted(qrels):
        total += 1 / len(run[query])

    found = score(run_from_scores(run), qrels_from_grades(qrels), parse_measures(["recip_rank"]))

    assert found.summary(found.measures[0]) == total / 300
