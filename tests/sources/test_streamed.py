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

    assert [question.metadata for question in short.questions][6] == {"m": '"seven"'}
    assert short.questions == plan(mixed).questions


def test_a_column_that_the_first_rows_lack_is_looked_for_in_all(benchmark, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 64)
    rows = [{"q": f"question {number}", "a": "x"} for number in range(6)]
    rows.append({"q": "last", "a": "x", "m": "late"})
    paths = benchmark(SHORT, {"q.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})

    assert [question.metadata for question in plan(paths).questions][-2:] == [{"m": None}, {"m": "late"}]
