"""Rows are found, read and written one at a time, and the files are those that are written whole."""

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats import row_files
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery, open_dataset
from rag_eval_pipeline.formats.row_files import RowFile, write_with_rows


def dataset(queries, documents=None):
    return EvaluationDataset(
        dataset_id="d", name='d\n  "queries": [', version="1.0.0", queries=queries, documents=documents
    )


def query(number, text, **metadata):
    return EvaluationQuery(query_id=str(number), query_text=text, relevant_documents=("a",), metadata=metadata)


TEXTS = st.text(alphabet=st.sampled_from(['"', "\n", " ", "}", "{", ",", "]", "é", "\\", "x"]), min_size=1, max_size=12)


@given(
    texts=st.lists(TEXTS, max_size=12),
    block=st.integers(1, 60),
    documents=st.sampled_from([None, ({"document_id": "a", "content": "\n    {\n"},)]),
)
def test_rows_are_those_of_the_whole_file_however_it_is_cut(tmp_path_factory, texts, block, documents):
    queries = [query(number, text, nested={"queries": [{text: []}]}) for number, text in enumerate(texts)]
    folder = tmp_path_factory.mktemp("rows")
    whole = dataset(queries, documents)
    whole.write(folder / "whole.json")
    write_with_rows(folder / "parts.json", dataset((), documents), "queries", queries)

    assert (folder / "parts.json").read_bytes() == (folder / "whole.json").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "BLOCK", block)
        patch.setattr(row_files, "ROWS_AT_ONCE", 2)
        rows = RowFile.open(folder / "whole.json", "queries", EvaluationQuery.model_validate_json)
        if not queries:
            assert rows is None
            return
        assert rows is not None
        assert list(rows) == queries
        assert [rows[-1], *rows[1:4]] == [queries[-1], *queries[1:4]]
        assert (len(rows), len(rows[2:])) == (len(queries), len(queries[2:]))
        assert EvaluationDataset.model_validate_json(rows.rest) == dataset((), documents)


OTHER_LAYOUTS = {
    "compact": lambda value: json.dumps(value),
    "indented by one": lambda value: json.dumps(value, indent=1),
    "cut off": lambda value: json.dumps(value, indent=2)[:-30],
    "no such key": lambda value: json.dumps({"rows": value["queries"]}, indent=2),
    "not JSON": lambda value: "queries",
}


@pytest.mark.parametrize("layout", OTHER_LAYOUTS.values(), ids=OTHER_LAYOUTS)
def test_file_in_another_layout_is_none_of_these(tmp_path, layout):
    value = json.loads(dataset([query(1, "a"), query(2, "b")]).model_dump_json())
    (tmp_path / "d.json").write_text(layout(value))

    assert RowFile.open(tmp_path / "d.json", "queries", json.loads) is None


@pytest.mark.parametrize("between", [b",\n  x {\n", b',\n "  {\n', b",\n    x{\n", b", \n    {\n", b"\n    {\n"])
def test_rows_with_something_else_between_them_are_not_read(tmp_path, between):
    path = tmp_path / "d.json"
    write_with_rows(path, dataset(()), "queries", [query(number, "a") for number in range(3)])
    path.write_bytes(path.read_bytes().replace(b",\n    {\n", between, 1))

    rows = RowFile.open(path, "queries", json.loads)
    with pytest.raises(ValueError, match=r"Expecting|Extra|column|Invalid"):
        list(rows or json.loads(path.read_bytes())["queries"])


def test_replaced_file_is_read_to_its_end(tmp_path):
    write_with_rows(tmp_path / "d.json", dataset(()), "queries", [query(number, "old") for number in range(600)])
    rows = RowFile.open(tmp_path / "d.json", "queries", json.loads)
    write_with_rows(tmp_path / "d.json", dataset(()), "queries", [query(1, "new")])

    assert {row["query_text"] for row in rows} == {"old"}
    assert [row["query_id"] for row in islice(rows, 2)] == ["0", "1"]


def test_rows_are_written_only_where_there_are_none(tmp_path):
    with pytest.raises(ValueError, match="not empty"):
        write_with_rows(tmp_path / "d.json", dataset([query(1, "a")]), "queries", [])


@pytest.mark.parametrize("whole_bytes", [0, 1 << 20])
def test_edited_row_of_a_dataset_is_refused_by_its_place(whole_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.formats.dataset.WHOLE_BYTES", whole_bytes)
    path = tmp_path / "d.eval.json"
    dataset([query(1, "a")]).write(path)
    path.write_text(path.read_text().replace('"query_text": "a"', '"query_text": 5'))

    with pytest.raises(InputError, match=r"queries\[0\]\.query_text.*\[bad_format\]"):
        list(open_dataset(path).queries)
