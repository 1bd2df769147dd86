"""The engine ranks and judges as a plain sort does; `test_oracles` compares its scores with pytrec_eval's."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation import trec_scoring as files
from rag_eval_pipeline.metrics.retrieval import rankings as runs
from rag_eval_pipeline.metrics.retrieval.engine import score, score_rankings
from rag_eval_pipeline.metrics.retrieval.names import parse_measures
from rag_eval_pipeline.metrics.retrieval.rankings import (
    Documents,
    Run,
    make_qrels,
    qrels_from_dict,
    run_from_dict,
)
from tests.conftest import ranked

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
# The grade at each rank, which every other measure follows from, and what depends on the level.
MEASURES = parse_measures(["relstring.25", "num_ret", "num_rel", "num_rel_ret", "num_nonrel_judged_ret"])


def plain_scores(scored, judged, level):
    grades = [judged.get(document) for document in ranked(scored)]
    return {
        "num_ret": len(grades),
        "num_rel": sum(grade >= level for grade in judged.values()),
        "num_rel_ret": sum(grade is not None and grade >= level for grade in grades),
        "relstring_25": "".join("-" if grade is None else "." if grade < 0 else str(grade) for grade in grades),
        "num_nonrel_judged_ret": sum(grade is not None and 0 <= grade < level for grade in grades),
    }


def coded(run, qrels):
    """The collection with codes in the order of the ids' bytes."""
    vocabulary = {document for part in (*run.values(), *qrels.values()) for document in part}
    code = {name: place for place, name in enumerate(sorted(vocabulary, key=str.encode))}

    def columns(side, dtype):
        codes = np.array([code[document] for row in side.values() for document in row], dtype=np.int32)
        values = np.array([value for row in side.values() for value in row.values()], dtype=dtype)
        return Documents(codes=codes), values, [len(row) for row in side.values()]

    retrieved, values, lengths = columns(run, np.float64)
    judged, grades, n_judged = columns(qrels, np.int64)
    return (
        Run(list(run), np.cumsum([0, *lengths]), retrieved, values),
        make_qrels(list(qrels), np.repeat(np.arange(len(qrels)), n_judged), judged, grades),
    )


NAMINGS = ["ids", "ids of one hash", "codes"]


@given(collections, st.sampled_from([1, 2]), st.sampled_from(NAMINGS), st.booleans())
def test_ranks_and_grades_are_those_of_a_plain_sort(collection, level, naming, is_cut):
    run, qrels = collection
    sides = coded(run, qrels) if naming == "codes" else (run_from_dict(run), qrels_from_dict(qrels))
    if naming == "ids of one hash":
        sides[0].documents.keys[:] = sides[1].documents.keys[:] = 7
    with pytest.MonkeyPatch.context() as patch:
        if is_cut:
            patch.setattr(runs, "BLOCK_ROWS", 1)  # a block per query
        found = score(*sides, MEASURES, level=level)

    columns = zip(*(values.tolist() for values in found.values), strict=True)
    by_query = {
        query: dict(zip((measure.label for measure in MEASURES), row, strict=True))
        for query, row in zip(found.queries, columns, strict=True)
    }
    assert by_query == {query: plain_scores(run.get(query, {}), qrels[query], level) for query in sorted(qrels)}
    assert found.missing == tuple(query for query in sorted(qrels) if query not in run)
    assert found.unjudged == len(run.keys() - qrels.keys())


def test_mean_is_added_up_in_the_byte_order_of_queries():
    qrels = {f"q{i}": {"a": 1} for i in range(300)}
    run = {f"q{i}": {"a": 1.0} | {f"b{j}": 2.0 for j in range(i % 7)} for i in range(300)}
    total = 0.0
    for query in sorted(qrels):
        total += 1 / len(run[query])

    found = score(run_from_dict(run), qrels_from_dict(qrels), parse_measures(["recip_rank"]))

    assert found.summary(found.measures[0]) == total / 300


def test_score_rankings_keeps_the_order_of_queries():
    given = [
        (["x", "b"], {"b": 1}),  # rank 2
        ([], {"a": 2}),  # nothing retrieved: a zero
        (["a"], {"a": 0, "b": -1}),  # nothing relevant: no score
        (["a"], {}),
        # Grades below 1 are not relevant: only "good" at rank 3 counts, (2 / log2(4)) / (2 / log2(2)).
        (["negative", "zero", "good"], {"negative": -1, "zero": 0, "good": 2}),
        (["\ud800", "b"], {"b": 1}),  # not valid Unicode
    ]

    assert score_rankings(given, ["RR", "ndcg@3"]) == [
        {"mrr": 1 / 2, "ndcg@3": 1 / math.log2(3)},
        {"mrr": 0.0, "ndcg@3": 0.0},
        None,
        None,
        {"mrr": 1 / 3, "ndcg@3": 1 / 2},
        {"mrr": 1 / 2, "ndcg@3": 1 / math.log2(3)},
    ]
    assert score_rankings([], ["mrr"]) == []


def test_ranking_refuses_a_document_twice():
    with pytest.raises(InputError, match="duplicate_document"):
        score_rankings([(["a", "b", "a"], {"a": 1})], ["mrr"])


@pytest.mark.parametrize("is_grouped", [True, False])
def test_file_of_many_pieces_scores_as_one(is_grouped, tmp_path, monkeypatch):
    rows = [(f"q{i}", f"d{j}", float(j)) for i in range(40) for j in range(i % 7)]
    rows = rows if is_grouped else sorted(rows, key=lambda row: row[1])
    columns = zip(("qid", "docid", "score"), zip(*rows, strict=True), strict=True)
    pq.write_table(pa.table(dict(columns)), tmp_path / "run")
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 d{i % 5} 1\n" for i in range(40)))
    monkeypatch.setattr(files, "PIECE_ROWS", 5)

    cut, _ = files.score_file(tmp_path / "run", tmp_path / "qrels", parse_measures(["recip_rank", "num_ret"]))

    # A query of n rows has documents 0 to n - 1, the last one first.
    rank = {f"q{i}": i % 7 - i % 5 for i in range(40)}
    expected = [(int(query[1:]) % 7, 1 / rank[query] if rank[query] > 0 else 0.0) for query in sorted(rank)]
    assert list(zip(*(values.tolist() for values in cut.values), strict=True)) == expected
    # Of 40 queries those of no rows are missing: 0, 7, ..., 35.
    assert cut.missing == ("q0", "q14", "q21", "q28", "q35", "q7")
