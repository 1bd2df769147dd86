"""A file is what its content says; names decide only where contents cannot."""

import gzip

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.detect import detect_encoding, detect_format

OBJECTS = b'{"q": 1}\n{"q": 2}\n'

FORMATS = {
    "JSON lines called .json": (OBJECTS, "questions.json", "jsonl"),
    "JSON lines called .txt": (OBJECTS, "questions.txt", "jsonl"),
    "one JSON line called .jsonl": (b'{"q": 1}\n', "q.jsonl", "jsonl"),
    "one object on one line": (b'{"data": [1]}', "q.json", "json"),
    "an indented object": (b'{\n "data": [\n  1\n ]\n}\n', "q.json", "json"),
    "an array": (b'[\n {"q": 1}\n]', "q.dat", "json"),
    "JSON lines whose second line is cut": (b'{"q": 1}\n{"q": \n{"q": 3}', "q.json", "jsonl"),
    "JSON lines whose first line is bad": (b'{"q": \n{"q": 2}\n{"q": 3}', "q.jsonl", "jsonl"),
    "comma-separated called .txt": (b"q,a\n1,2\n", "q.txt", "csv"),
    "tab-separated called .csv": (b"q\ta, b\n1\t2\n", "q.csv", "tsv"),
    "a CSV whose header begins with a bracket": (b"[q],a\n1,2\n", "q.csv", "csv"),
    "a single column": (b"question\nwho?\n", "q.csv", "csv"),
    "parquet called .csv": (b"PAR1\x15\x00", "q.csv", "parquet"),
    "UTF-16 JSON": ('{"q": 1}\n{"q": 2}'.encode("utf-16"), "q.json", "jsonl"),
}


@pytest.mark.parametrize(("raw", "name", "expected"), FORMATS.values(), ids=FORMATS)
def test_formats(raw, name, expected):
    assert detect_format(raw, name, name, encoding=detect_encoding(raw), whole=True) == expected


REFUSED = {
    "an empty file": (b"", "empty_source"),
    "blanks": (b" \n\n", "empty_source"),
    "a compressed file, by its bytes": (gzip.compress(OBJECTS), "unsupported_format"),
    "an archive": (b"PK\x03\x04....", "unsupported_format"),
    "a log-in page instead of the data": (b"<!DOCTYPE html><title>Sign in</title>", "unsupported_format"),
}


@pytest.mark.parametrize(("raw", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(raw, code):
    with pytest.raises(InputError) as caught:
        detect_format(raw, "q.csv", "q.csv", encoding="utf-8", whole=True)
    assert caught.value.code == code
