"""benchmark.yaml says everything in one place; what it says wrongly is named with its line."""

import datetime

import pytest

from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec, Expect, read_spec, spec_place
from rag_eval_pipeline.conversion.summaries import Counts
from rag_eval_pipeline.errors import InputError
from tests.conversion.conftest import HEAD, PLAIN

QUESTIONS = "questions: {question: q, answer: a}\n"


def test_every_key_is_read(benchmark):
    spec = read_spec(
        benchmark(
            HEAD
            + "title: 1984\nlanguage: no\nreleased: 2024-09-19\nsource: {path: [b.csv, 'a/*.csv'], encoding: latin1}\n"
            + "tables: {docs: {files: 'docs/*.pdf'}, mirror: mirror.csv}\nquestions: SELECT 1 AS question\n"
            + "documents: SELECT file FROM docs\nwhere: answer <> ''\non_missing_document: keep\nnaming: strict\n"
            + "expect: {questions: 12}\nevaluation: {k: [1, 5], rerank: true}\n"
        )
    )

    assert (spec.title, spec.language, spec.released) == ("1984", "no", datetime.date(2024, 9, 19))
    assert (spec.source.path, spec.source.encoding) == (("b.csv", "a/*.csv"), "iso8859-1")
    assert (spec.tables["docs"].files, spec.tables["mirror"].path) == ("docs/*.pdf", ("mirror.csv",))
    assert (spec.questions.sql, spec.where) == ("SELECT 1 AS question", "answer <> ''")
    assert (spec.on_missing_document, spec.naming, spec.expect.questions) == ("keep", "strict", 12)
    assert spec.evaluation == {"k": [1, 5], "rerank": True}


REFUSED = {
    "an unknown key": (PLAIN + "licence: MIT\n", "unknown_key", 5),
    "an unknown column of ours": (HEAD + "source: q.csv\nquestions:\n  question: q\n  answr: a\n", "unknown_key", 6),
    "a key that is gone": (HEAD + "source:\n  path: q.csv\n  compression: gz\n" + QUESTIONS, "unknown_key", 5),
    "another folder's name": (PLAIN.replace("scratch", "other"), "name_mismatch", 1),
    "no source": (HEAD + QUESTIONS, "missing_key", 1),
    "a path to the parent": (HEAD + "source: ../secret.csv\n" + QUESTIONS, "path_outside", 3),
    "two origins": (HEAD + "source: {path: q.csv, url: 'https://x.org/q.csv'}\n" + QUESTIONS, "bad_value", 3),
    "members both read and listed": (
        HEAD + "source: {path: q.zip, member: a.csv, files: '*'}\n" + QUESTIONS,
        "bad_value",
        3,
    ),
    "an encoding that Python does not know": (
        HEAD + "source: {path: q.csv, encoding: utf-9}\n" + QUESTIONS,
        "bad_value",
        3,
    ),
    "a count that is a word": (PLAIN + "expect:\n  questions: many\n", "bad_value", 6),
    "a table called source": (PLAIN + "tables: {source: x.csv}\n", "bad_value", 5),
}


@pytest.mark.parametrize(("text", "code", "line"), REFUSED.values(), ids=REFUSED)
def test_refused(benchmark, text, code, line):
    with pytest.raises(InputError) as caught:
        read_spec(benchmark(text))

    assert caught.value.code == code
    assert caught.value.file == f"data/sources/scratch/benchmark.yaml, line {line}"


def test_file_that_is_no_mapping_is_refused(benchmark):
    with pytest.raises(InputError, match="a mapping with name"):
        read_spec(benchmark("- 1\n"))


def test_every_field_says_what_it_is_for():
    definitions = BenchmarkSpec.model_json_schema()
    models = [definitions, *definitions["$defs"].values()]

    undescribed = [
        name for model in models for name, field in model["properties"].items() if "description" not in field
    ]

    assert undescribed == []


def test_counts_that_came_out_otherwise_are_listed():
    counts = Counts(rows=10, accepted=7, dropped=2, quarantined=1, impossible=0, contexts=9, documents=3)

    assert Expect(questions=8, dropped=2, documents=4).differences(counts.record()) == [
        ("questions", 8, 7),
        ("documents", 4, 3),
    ]


PLACES = {
    "a block begins below its key": ("questions: |\n  SELECT 1\n  FROM x\n", 2, 5),
    "folded text too": ("questions: >-  # why\n  SELECT 1\n  FROM x\n", 2, 5),
    "quoted text beside its key": ('questions: "SELECT 1"\n', 1, 3),
    "the key itself": ("questions: {question: q, answer: a}\n", None, 3),
}


@pytest.mark.parametrize(("text", "line", "expected"), PLACES.values(), ids=PLACES)
def test_line_of_sql_is_a_line_of_the_file(benchmark, text, line, expected):
    place = spec_place(benchmark(HEAD + text))

    assert place("questions", line).endswith(f"benchmark.yaml, line {expected}")
