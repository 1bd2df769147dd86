"""Citations and texts are read from our own files and from rows; an error names its file, row and field."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.span_files import CitedQuestion, ReadOptions, read_gold, read_predicted, read_texts
from rag_eval_pipeline.metrics.spans import Citation, Span

PLACE = {"file_name": "a.pdf", "page_number": 2, "start_char": 10, "end_char": 20}
CITED = (Citation("a.pdf", 2, Span(10, 20)),)
DATASET = {
    "schema_version": "1.0", "dataset_id": "d", "name": "D", "version": "1.0.0",
    "queries": [
        {"query_id": "0", "query_text": "?", "relevant_documents": ["a.pdf"], "citations": [PLACE]},
        {"query_id": "1", "query_text": "?", "relevant_documents": [], "metadata": {"is_impossible": True}},
        {"query_id": "2", "query_text": "?", "relevant_documents": ["a.pdf"]},
    ],
}  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def annotation(query_id, annotator, citations):
    return {
        "annotation_id": f"{annotator}-{query_id}", "query_id": query_id, "annotator_id": annotator,
        "citations": [{**place, "text": "t"} for place in citations],
    }  # fmt: skip


def test_gold_of_a_dataset_has_the_reason_why_there_is_none(tmp_path):
    path = tmp_path / "d_v1.0.0.eval.json"
    path.write_text(json.dumps(DATASET))

    assert list(read_gold(path, ReadOptions()).values()) == [
        CitedQuestion("0", CITED), CitedQuestion("1", None, "impossible"), CitedQuestion("2", None, "no_gold_spans"),
    ]  # fmt: skip


def test_gold_of_annotations_is_the_source_or_the_named_annotator(tmp_path):
    path = tmp_path / "d_v1.0.0.gt.json"
    annotations = [annotation("0", "source", [PLACE]), annotation("0", "ada", []), annotation("1", "ada", [PLACE])]
    path.write_text(json.dumps(annotations))

    assert read_gold(path, ReadOptions()) == {"0": CitedQuestion("0", CITED)}
    assert read_gold(path, ReadOptions(annotator="ada")) == {
        "0": CitedQuestion("0", ()),
        "1": CitedQuestion("1", CITED),
    }


def test_gold_of_several_annotators_needs_a_name(tmp_path):
    path = tmp_path / "d_v1.0.0.gt.json"
    path.write_text(json.dumps([annotation("0", "ada", [PLACE]), annotation("0", "bell", [PLACE])]))

    with pytest.raises(InputError) as several:
        read_gold(path, ReadOptions())
    with pytest.raises(InputError) as unknown:
        read_gold(path, ReadOptions(annotator="cleo"))

    assert (several.value.code, unknown.value.code) == ("several_annotators", "unknown_annotator")


ROWS = {
    "places": ({"query_id": "0", "citations": [PLACE]}, CITED),
    "the specification's other name": ({"query_id": "0", "citation_spans": [PLACE]}, CITED),
    "a number as id": ({"query_id": 0, "citations": [PLACE]}, CITED),
    "no page": ({"query_id": "0", "citations": [{**PLACE, "page_number": None}]}, (CITED[0]._replace(page=None),)),
    "further keys": ({"query_id": "0", "model": "m", "citations": [{**PLACE, "confidence_score": 1}]}, CITED),
    "citations in the text": ({"query_id": "0", "answer": "In 1887 [a.pdf:2:10-20]."}, CITED),
    "an answer without citations": ({"query_id": "0", "answer": "In 1887."}, ()),
    "nothing cited": ({"query_id": "0", "citations": []}, ()),
    "a name without its ending": ({"query_id": "0", "citations": [{**PLACE, "file_name": "a"}]}, CITED),
}


@pytest.mark.parametrize(("row", "expected"), ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("form", ["lines", "array", "packed"])
def test_rows(tmp_path, form, row, expected):
    path = write(tmp_path / "cited.jsonl", [row])
    if form == "array":
        path.write_text(json.dumps([row], indent=2))
    elif form == "packed":
        path = tmp_path / "cited.jsonl.gz"
        path.write_bytes(gzip.compress(json.dumps(row).encode()))

    assert read_predicted(path, ReadOptions({"a.pdf"})) == {"0": CitedQuestion("0", expected)}


def test_end_inclusive_counts_the_last_character(tmp_path):
    path = write(tmp_path / "c.jsonl", [{"query_id": "0", "citations": [{**PLACE, "start_char": 20}]}])

    (question,) = read_predicted(path, ReadOptions(end_inclusive=True)).values()

    assert question.citations == (Citation("a.pdf", 2, Span(20, 21)),)


GOOD = {"query_id": "0", "citations": [PLACE]}
BAD = {
    "no id": ({"citations": []}, "bad_row", "query_id"),
    "true as id": ({"query_id": True, "citations": []}, "bad_row", "query_id"),
    "neither citations nor answer": ({"query_id": "1"}, "bad_row", "citations"),
    "an answer that is no text": ({"query_id": "1", "answer": 5}, "bad_row", "answer"),
    "citations that are no list": ({"query_id": "1", "citations": PLACE}, "bad_row", "citations"),
    "a place that is no object": ({"query_id": "1", "citations": [[1, 2]]}, "bad_row", "citations[0]"),
    "no file": ({"query_id": "1", "citations": [{"start_char": 1, "end_char": 2}]}, "bad_row", "citations[0].file_name"),
    "an offset as text": ({"query_id": "1", "citations": [{**PLACE, "start_char": "1"}]}, "bad_row", "citations[0].start_char"),
    "a negative offset": ({"query_id": "1", "citations": [{**PLACE, "start_char": -1}]}, "bad_row", "citations[0].start_char"),
    "page zero": ({"query_id": "1", "citations": [{**PLACE, "page_number": 0}]}, "bad_row", "citations[0].page_number"),
    "an empty span": ({"query_id": "1", "citations": [PLACE, {**PLACE, "end_char": 10}]}, "empty_span", "citations[1].end_char"),
    "a question twice": (GOOD, "duplicate_query", None),
    "a list as row": ([], "bad_row", None),
}  # fmt: skip


@pytest.mark.parametrize(("row", "code", "field"), BAD.values(), ids=BAD)
def test_bad_row_is_named_with_its_field(tmp_path, row, code, field):
    path = write(tmp_path / "cited.jsonl", [GOOD, row])

    with pytest.raises(InputError) as error:
        read_predicted(path, ReadOptions())

    found = error.value
    assert (found.code, found.file, found.row, found.field) == (code, str(path), 2, field)


def test_line_that_is_no_json_is_named_after_blank_ones(tmp_path):
    path = tmp_path / "cited.jsonl"
    path.write_text(json.dumps(GOOD) + "\n\n{broken\n")

    with pytest.raises(InputError) as error:
        read_predicted(path, ReadOptions())

    assert (error.value.code, error.value.row) == ("bad_json", 3)
    assert ".results.json" in error.value.hint


def test_files_of_the_other_side_are_refused(tmp_path):
    for read, name in ((read_gold, "e.results.json"), (read_predicted, "d.eval.json"), (read_predicted, "d.gt.json")):
        with pytest.raises(InputError) as error:
            read(tmp_path / name, ReadOptions())

        assert error.value.code == "wrong_kind"


TEXTS = {"a.pdf": "One.\fTwo.", "b.pdf": "Three."}


def test_texts_of_pages_are_joined_in_their_order(tmp_path):
    rows = [("a.pdf", 2, "Two."), ("b.pdf", 1, "Three."), ("a.pdf", 1, "One.")]
    columns = dict(zip(("file_name", "page", "text"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "start": [5, 0, 0]}), tmp_path / "pages.parquet")

    assert read_texts(tmp_path / "pages.parquet") == TEXTS


def test_texts_of_json_lines_and_a_dataset(tmp_path):
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    lines = [json.dumps({"file_name": name, "text": text}) for name, text in TEXTS.items()]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    documents = [{"document_id": name, "content": text} for name, text in TEXTS.items()]
    dataset = {"schema_version": "1.0", "dataset_id": "d", "name": "D", "version": "1.0.0", "queries": []}
    (tmp_path / "d.eval.json").write_text(json.dumps({**dataset, "documents": documents}))

    for name in ("texts.json", "texts.jsonl", "d.eval.json"):
        assert read_texts(tmp_path / name) == TEXTS


BAD_TEXTS = {
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


@pytest.mark.parametrize(("name", "text", "code"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_file_without_texts_is_refused(tmp_path, name, text, code):
    (tmp_path / name).write_text(text)

    with pytest.raises(InputError) as error:
        read_texts(tmp_path / name)

    assert error.value.code == code


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.json"])
def test_missing_file_is_named(tmp_path, name):
    for read in (read_texts, lambda path: read_predicted(path, ReadOptions())):
        with pytest.raises(InputError) as error:
            read(tmp_path / name)

        assert error.value.code == "missing_file"
