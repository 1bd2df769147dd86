"""Texts come from pages, JSON, lines or a dataset, and a fault names its place."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.document_texts import read_texts

TEXTS = {"a.pdf": "One.\fTwo.", "b.pdf": "Three."}


def test_pages_are_joined_in_their_order(tmp_path):
    rows = [("a.pdf", 2, "Two."), ("b.pdf", 1, "Three."), ("a.pdf", 1, "One.")]
    columns = dict(zip(("file_name", "page", "text"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "start": [5, 0, 0]}), tmp_path / "pages.parquet")

    assert read_texts(tmp_path / "pages.parquet") == TEXTS


def test_json_lines_and_a_dataset_say_the_same(tmp_path):
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    lines = [json.dumps({"file_name": name, "text": text}) for name, text in TEXTS.items()]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    documents = [{"document_id": name, "content": text} for name, text in TEXTS.items()]
    dataset = {"schema_version": "1.0", "dataset_id": "d", "name": "D", "version": "1.0.0", "queries": []}
    (tmp_path / "d.eval.json").write_text(json.dumps({**dataset, "documents": documents}))

    for name in ("texts.json", "texts.jsonl", "d.eval.json"):
        assert read_texts(tmp_path / name) == TEXTS


BAD = {
    "a list": ("t.json", "[1]", "bad_row"),
    "a text that is none": ("t.json", '{"a.pdf": 5}', "bad_row"),
    "a line without a name": ("t.jsonl", '{"text": "t"}', "bad_row"),
    "a line without a text": ("t.jsonl", '{"file_name": "a.pdf"}', "bad_row"),
    "a document twice": (
        "t.jsonl",
        '{"file_name": "a", "text": ""}\n{"file_name": "a", "text": ""}',
        "duplicate_document",
    ),
    "no JSON": ("t.jsonl", "{", "bad_json"),
    "no parquet": ("t.parquet", "PAR", "bad_parquet"),
    "a dataset without documents": (
        "d.eval.json",
        '{"schema_version": "1.0", "dataset_id": "d", "name": "D", "version": "1.0.0", "queries": []}',
        "no_documents",
    ),
}


@pytest.mark.parametrize(("name", "text", "code"), BAD.values(), ids=BAD)
def test_what_holds_no_texts_is_refused(tmp_path, name, text, code):
    (tmp_path / name).write_text(text)

    with pytest.raises(InputError) as error:
        read_texts(tmp_path / name)

    assert error.value.code == code


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.json"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(InputError) as error:
        read_texts(tmp_path / name)

    assert error.value.code == "missing_file"
