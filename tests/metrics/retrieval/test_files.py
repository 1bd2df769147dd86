"""Runs are read a piece at a time, and whole queries come out wherever the pieces cut."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.retrieval import files
from rag_eval_pipeline.metrics.retrieval.files import Columns, UnsortedRunError, group_by_query, iterate_queries
from rag_eval_pipeline.metrics.retrieval.names import parse_measures
from rag_eval_pipeline.metrics.retrieval.runs import hash_ids


def piece(rows):
    queries = [query for query, _ in rows]
    starts = [i for i, query in enumerate(queries) if i == 0 or query != queries[i - 1]]
    documents = pa.array([str(document) for _, document in rows], pa.string())
    scores = np.arange(len(rows), dtype=np.float64)
    return Columns([queries[i] for i in starts], np.array(starts, dtype=np.int64), documents, scores)


def as_dict(*parts):
    found = {}
    for part in parts:
        for i, query in enumerate(part.queries):
            rows = range(part.offsets[i], part.offsets[i + 1])
            found[query] = [part.documents.name(row) for row in rows]
    return found


@given(st.lists(st.integers(0, 5), max_size=8), st.lists(st.integers(1, 7), max_size=30))
def test_iterate_queries_cuts_no_query_and_loses_no_row(lengths, cuts):
    rows = [(f"q{i}", document) for i, length in enumerate(lengths) for document in range(length)]
    pieces, start = [], 0
    for cut in [*cuts, len(rows) + 1]:
        if rows[start : start + cut]:
            pieces.append(piece(rows[start : start + cut]))
        start += cut

    found = as_dict(*iterate_queries(pieces, "run"))

    assert found == {f"q{i}": [str(n) for n in range(length)] for i, length in enumerate(lengths) if length}


def test_a_query_that_returns_is_group_by_query():
    pieces = [piece([("q1", 1), ("q2", 1)]), piece([("q2", 2), ("q1", 2)])]

    with pytest.raises(UnsortedRunError):
        list(iterate_queries(pieces, "run"))
    assert as_dict(group_by_query(pieces, "run")) == {"q1": ["1", "2"], "q2": ["1", "2"]}


def test_file_of_many_pieces_scores_as_one(tmp_path, monkeypatch):
    queries = [f"q{i}" for i in range(40) for _ in range(i % 7)]
    documents = [f"d{j}" for i in range(40) for j in range(i % 7)]
    scores = [float(j) for i in range(40) for j in range(i % 7)]
    pq.write_table(pa.table({"qid": queries, "docid": documents, "score": scores}), tmp_path / "run.parquet")
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 d{i % 5} 1\n" for i in range(40)))
    measures = parse_measures(["recip_rank", "num_ret"])
    whole = files.score_file(tmp_path / "run.parquet", tmp_path / "qrels", measures).scores

    monkeypatch.setattr(files, "PIECE_ROWS", 5)
    cut = files.score_file(tmp_path / "run.parquet", tmp_path / "qrels", measures).scores

    assert [values.tolist() for values in cut.values] == [values.tolist() for values in whole.values]
    # Of 40 queries those of no rows are missing: 0, 7, ..., 35.
    assert cut.missing == whole.missing == ("q0", "q14", "q21", "q28", "q35", "q7")


ids = st.lists(st.one_of(st.text(), st.text("ab", min_size=6, max_size=26)), max_size=40)


@given(ids, st.sampled_from([pa.string(), pa.large_string(), pa.binary()]), st.integers(0, 5))
def test_hash_is_equal_for_equal_ids(names, kind, start):
    names = [name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name in names]
    values = [name.encode() for name in names] if pa.types.is_binary(kind) else names
    array = pa.array(values, kind)

    keys = hash_ids(array)

    assert hash_ids(array.slice(start)).tolist() == keys[start:].tolist()
    by_name = {}
    for name, key in zip(names, keys.tolist(), strict=True):
        assert by_name.setdefault(name, key) == key


def test_hash_differs_for_ids_that_differ_in_one_byte():
    names = [f"{'x' * n}{letter}{'y' * m}" for n in range(12) for m in range(12) for letter in "abcdefgh"]
    names += [f"{number}" for number in range(100_000)]

    keys = hash_ids(pa.array(names))

    # Of 101,152 keys of 32 bits some 1.2 pairs are equal by chance.
    assert len(set(names)) - len(set(keys.tolist())) < 10
