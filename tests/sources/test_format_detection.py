"""Formats are detected by content; names decide only where contents cannot."""

import gzip

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.format_detection import detect_encoding, detect_format
from tests.conversion.conftest import write_benchmark
from tests.sources.conftest import zipped

OBJECTS = b'{"q": 1}\n{"q": 2}\n'

FORMATS = {
    "JSON lines called .json": (OBJECTS, "questions.json", "jsonl"),
    "one JSON line called .jsonl": (b'{"q": 1}\n', "q.jsonl", "jsonl"),
    "an indented object": (b'{\n "data": [\n  1\n ]\n}\n', "q.json", "json"),
    "an indented object called .jsonl, with a repeated key": (b'{\n "a": 1,\n "a": 2\n', "q.jsonl", "json"),
    "an indented object called .jsonl, its first row on the first line": (
        b'{"data": [\n {"q": 1},\n',
        "q.jsonl",
        "json",
    ),
    "Python's dictionaries called .jsonl": (b"{'q': 1}\n{'q': 2}\n", "q.jsonl", "jsonl"),
    "an array": (b'[\n {"q": 1}\n]', "q.dat", "json"),
    "a CSV whose header begins as an ORC file does": (b"ORCID,q\n1,2\n", "q.csv", "csv"),
    "JSON lines whose first line is bad": (b'{"q": \n{"q": 2}\n{"q": 3}', "q.jsonl", "jsonl"),
    "tab-separated called .csv": (b"q\ta, b\n1\t2\n", "q.csv", "tsv"),
    "a CSV whose header begins with a bracket": (b"[q],a\n1,2\n", "q.csv", "csv"),
    "parquet called .csv": (b"PAR1\x15\x00", "q.csv", "parquet"),
    "YAML by its first line": (b"---\n- q: who?\n  a: me\n", "q.csv", "yaml"),
    "XML, whatever its name": (b'<?xml version="1.0"?><posts/>', "q.csv", "xml"),
    "XML without a declaration": (b"<!-- 2024 --><posts/>", "q.xml", "xml"),
    "UTF-16 JSON": ('{"q": 1}\n{"q": 2}'.encode("utf-16"), "q.json", "jsonl"),
}


@pytest.mark.parametrize(("raw", "name", "expected"), FORMATS.values(), ids=FORMATS)
def test_formats(raw, name, expected):
    assert detect_format(raw, name, name, encoding=detect_encoding(raw), whole=True) == expected


REFUSED = {
    "an empty file": (b"", "empty_source"),
    "a compressed file, by its bytes": (gzip.compress(OBJECTS), "unsupported_format"),
    "XHTML": (b'<?xml version="1.0"?>\n<html><title>Sign in</title>', "unsupported_format"),
    "a log-in page instead of the data": (b"<!DOCTYPE html><title>Sign in</title>", "unsupported_format"),
}


OTHERS = {
    "Word": (zipped({"word/document.xml": ""}), "'a Word document (.docx)'", "as .xlsx or CSV; save a document"),
    "PowerPoint": (zipped({"ppt/presentation.xml": ""}), "(.pptx)'", "as PDF."),
    "binary Excel": (zipped({"xl/workbook.bin": ""}), "(.xlsb)'", "Save it as .xlsx."),
    "ODS": (zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet"}), "(.ods)'", "Save it as .xlsx"),
    "ODT": (zipped({"mimetype": "application/vnd.oasis.opendocument.text"}), "(.odt, .odp)'", "as .xlsx or CSV"),
    "Numbers": (zipped({"Index/Document.iwa": ""}), "'a document of Numbers, Pages", "Export it"),
    "old Excel": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "(.xls, .doc, .ppt)", "Save it as .xlsx, without"),
    "PDF": (b"%PDF-1.7\n", "'a PDF'", 'belongs under `tables`, as `{files: "docs/*.pdf"}`'),
    "an image": (b"\x89PNG\r\n\x1a\n", "'an image'", "Questions have to be a table"),
    "SQLite": (b"SQLite format 3\0", "'an SQLite database'", "Export a table: sqlite3"),
    "ORC": (b"ORC\n\x06\n\x04\x08\x01", "'an ORC file'", "Save it as parquet."),
    "a pickle": (b"\x80\x04\x95\x10", "'a Python pickle'", "Loading one can run any code."),
}


@pytest.mark.parametrize(("raw", "found", "hint"), OTHERS.values(), ids=OTHERS)
def test_file_of_another_program_is_refused_by_name_with_a_way_out(raw, found, hint, tmp_path):
    spec = "name: scratch\nversion: 1.0.0\nsource: q.csv\nquestions: {question: q, answer: a}\n"
    with pytest.raises(InputError) as caught:
        plan(write_benchmark(tmp_path, spec, {"q.csv": raw}))
    assert caught.value.code == "unsupported_format"
    assert found in caught.value.found
    assert hint in caught.value.hint


@pytest.mark.fault(17)
@pytest.mark.parametrize(("raw", "code"), REFUSED.values(), ids=REFUSED)
def test_format_is_refused_by_name(raw, code):
    with pytest.raises(InputError) as caught:
        detect_format(raw, "q.csv", "q.csv", encoding="utf-8", whole=True)
    assert caught.value.code == code


NAMED = {
    "a Git LFS pointer whose format is stated": (
        "{path: q.csv, format: parquet}",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n",
        "found 'a Git LFS pointer' [unsupported_format]. Fetch the file itself: git lfs pull.",
    ),
    "one JSON value that is stated to be lines": (
        "{path: q.jsonl, format: jsonl}",
        b'{\n "data": [\n  {\n   "q": "x"\n  }\n ]\n}\n',
        "found 'one JSON value over several lines' [bad_json]. State `format: json` in benchmark.yaml.",
    ),
}


@pytest.mark.fault(31)
@pytest.mark.parametrize(("source", "raw", "message"), NAMED.values(), ids=NAMED)
def test_file_that_is_no_table_is_named_for_what_it_is(source, raw, message, tmp_path):
    name = source.removeprefix("{path: ").partition(",")[0]
    spec = f"name: scratch\nversion: 1.0.0\nsource: {source}\nquestions: {{question: q, answer: a}}\n"
    with pytest.raises(InputError) as caught:
        plan(write_benchmark(tmp_path, spec, {name: raw}))
    assert str(caught.value).endswith(message)
