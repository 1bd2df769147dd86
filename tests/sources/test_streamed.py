"""A relation that is never written gives the same rows, and says when they have to be read again."""

import json

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.sources import json_lines
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.sources.reading import read_relation, stream_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.sources.streamed import TypesChanged
from tests.conversion.conftest import HEAD

SHORT = HEAD + "source: q.jsonl\nquestions: {question: q, answer: a, metadata: [m]}\n"


@pytest.fixture
def mixed(benchmark, monkeypatch):
    """Rows whose third column is a number first and a text later, in blocks of a few rows."""
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 64)
    values = [*range(6), "seven", None, 8]
    rows = [{"q": f"question {number}", "a": "x", "m": value} for number, value in enumerate(values)]
    return benchmark(SHORT, {"q.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})


def test_rows_that_change_their_type_are_read_again_with_the_right_one(mixed):
    streamed = stream_relation(mixed, SourceSpec(path=("q.jsonl",)), ["q"], Origins(mixed))

    with pytest.raises(TypesChanged):
        list(streamed.batches())
    rows = [row for batch in streamed.batches() for row in batch.to_pylist()]

    assert rows == read_relation(mixed, SourceSpec(path=("q.jsonl",)), origin=True).table.to_pylist()
    assert [row["m"] for row in rows[5:]] == ["5", '"seven"', None, "8"]


def test_a_plan_is_the_same_by_the_short_form_and_by_sql(mixed):
    short = plan(mixed)
    mixed.spec.write_text(SHORT.replace("metadata: [m]}", "metadata: [m]}\nwhere: 'true'"))

    assert [question.metadata["m"] for question in short.questions] == [0, 1, 2, 3, 4, 5, "seven", None, 8]
    assert short.questions == plan(mixed).questions


@pytest.mark.parametrize("where", ["", "where: answer IS NOT NULL\n"], ids=["short form", "with a condition"])
def test_a_value_of_another_type_costs_its_own_row_alone(benchmark, where):
    """`question: 5` among texts made every question JSON text, in quotes."""
    rows = [{"q": 'say "so"', "a": "x"}, {"q": 5, "a": "x"}, {"q": "two", "a": ["y"]}, {"q": "last", "a": "z"}]
    paths = benchmark(
        HEAD + "source: q.jsonl\nquestions: {question: q, answer: a}\n" + where,
        {"q.jsonl": "".join(json.dumps(row) + "\n" for row in rows)},
    )

    found = plan(paths)

    assert [(question.id, question.question, question.answer) for question in found.questions] == [
        (0, 'say "so"', "x"),
        (3, "last", "z"),
    ]
    assert [(record.row, record.code, record.field, record.excerpt) for record in found.quarantine] == [
        (2, "bad_type", "q", "5"),
        (3, "bad_type", "a", "['y']"),
    ]


def test_a_column_that_the_first_rows_lack_is_looked_for_in_all(benchmark, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 64)
    rows = [{"q": f"question {number}", "a": "x"} for number in range(6)]
    rows.append({"q": "last", "a": "x", "m": "late"})
    paths = benchmark(SHORT, {"q.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})

    assert [question.metadata for question in plan(paths).questions][-2:] == [{"m": None}, {"m": "late"}]
