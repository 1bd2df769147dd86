"""Rows 31 to 33: JSON is read as the standard has it, line by line.

Bad fields: tests/conversion/test_row_rules.py. Ids that repeat: tests/conversion/test_planning.py.
"""

import pytest

from rag_eval_pipeline.conversion.planning import plan
from tests.conversion.conftest import HEAD
from tests.faults.conftest import SHORT
from tests.validation import validate

GOOD = b'{"q": "x", "a": "y"}\n'

LINES = {
    "the last one, cut": (b'{"q": "z", "a', "bad_json"),
    "two objects": (b'{"q": "1"}{"q": "2"}', "bad_json"),
    "a list": (b'["x"]', "not_an_object"),
    "NaN": (b'{"q": "n", "a": NaN}', "bad_number"),
    "a number that no double holds": (b'{"q": "n", "a": 1e999}', "bad_number"),
    "a number of 5,000 digits": (b'{"q": "n", "a": ' + b"9" * 5000 + b"}", "bad_number"),
    "a key that stands twice": (b'{"q": "n", "q": "m"}', "duplicate_key"),
    "a hundred thousand brackets": (b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "bad_json"),
    "half a character": (b'{"q": "\\ud800", "a": "y"}', "bad_encoding"),
}


@pytest.mark.fault(30, 31, 32)
@pytest.mark.parametrize(("line", "code"), LINES.values(), ids=LINES)
def test_bad_line_is_quarantined_and_the_lines_around_it_are_questions(line, code, read):
    found = read(GOOD + b"\r\n" + line + b"\n" + GOOD, "q.jsonl")

    assert [(row.code, row.row, row.line) for row in found.refused] == [(code, 2, 3)]
    assert found.questions == ["x", "x"]


@pytest.mark.fault(31)
def test_line_separator_inside_a_text_ends_no_line(read):
    found = read('{"q": "one\u2028two", "a": "y"}\r\n\r\n'.encode() + GOOD, "q.jsonl")

    assert (found.questions, found.refused) == (["one\u2028two", "x"], [])


FILES = {
    "cut": (b'[{"q": "x", "a": "y"}, {"q"', "bad_json"),
    "NaN": (b'[{"q": "x", "a": NaN}]', "bad_number"),
    "a key that stands twice": (b'[{"q": "x", "q": "y", "a": "z"}]', "duplicate_key"),
    "a hundred thousand objects": (b'{"a":' * 100_000, "bad_json"),
}


@pytest.mark.fault(32)
@pytest.mark.parametrize(("raw", "code"), FILES.values(), ids=FILES)
def test_json_file_is_one_value_and_refused_as_one(raw, code, refuse):
    assert refuse(raw, "q.json").code == code


WRITTEN = ("NaN", "1e999", "9" * 5000, '1, "overall_score": 1', "[" * 100_000)


@pytest.mark.fault(32)
@pytest.mark.parametrize("name", ["train.json", "d_v1.0.0.eval.json", "d.gt.json", "d.results.json"])
def test_our_own_files_are_read_as_strictly(name, tmp_path):
    for content in WRITTEN:
        (tmp_path / name).write_text(f'{{"overall_score": {content}}}')

        findings = validate(tmp_path / name)

        assert findings
        assert all(str(tmp_path / name) in line and "\n" not in line for line in findings)


IDS = {
    "texts, which stay as they are": ('"007"', '"dataset-0"', [], ["007", "dataset-0"]),
    "whole numbers, which become their digits": ("12", "9223372036854775807", [], ["12", "9223372036854775807"]),
    "none": ("null", "null", [], [None, None]),
    "numbers with a fraction": ("12.0", "1.5", [1, 2], []),
    "truths": ("true", "false", [1, 2], []),
}


@pytest.mark.fault(33)
@pytest.mark.parametrize(("one", "two", "refused", "ids"), IDS.values(), ids=IDS)
def test_sources_id_is_kept_or_its_row_is_refused_and_ours_is_the_row(one, two, refused, ids, benchmark):
    mapping = "source: q.jsonl\nquestions: {question: q, answer: a, source_id: i}\n"
    rows = "".join(f'{{"q": "x", "a": "y", "i": {value}}}\n' for value in (one, two))

    found = plan(benchmark(HEAD + mapping, {"q.jsonl": rows}))

    questions = list(found.questions)
    assert [question.source_id for question in questions] == ids
    assert [question.id for question in questions] == [0, 1][: len(ids)]
    assert [(r.code, r.row, r.field) for r in found.quarantine] == [("bad_type", row, "i") for row in refused]
    assert found.counts.conserved


SELECT = "questions: SELECT q AS question, a AS answer FROM source\n"


@pytest.mark.fault(32)
@pytest.mark.parametrize("mapping", [SHORT, SELECT], ids=["short form", "SQL"])
def test_deep_value_beside_the_question_does_no_harm(mapping, read):
    line = b'{"q": "n", "a": "y", "m": ' + b"[" * 500 + b"]" * 500 + b"}\n"

    found = read(GOOD + line, "q.jsonl", mapping=mapping)

    assert (found.questions, found.refused) == (["x", "n"], [])
