"""Scratch benchmarks whose sources are bad, and what became of their rows."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from tests.conversion.conftest import HEAD, benchmark, write_benchmark

__all__ = ["benchmark"]

SHORT = "questions: {question: q, answer: a}\n"


class Refused(NamedTuple):
    """A record of the quarantine, as a person needs it to find the row."""

    code: str
    row: int | None
    line: int | None
    field: str | None


class Outcome(NamedTuple):
    """What a plan accepted, in order, and what it refused."""

    questions: list[str]
    answers: list[str]
    refused: list[Refused]


def outcome(folder: Path, files: Mapping[str, str | bytes], *, source: str, mapping: str = SHORT) -> Outcome:
    """The plan of a benchmark; whatever its rows are, each one is accepted or refused."""
    found = plan(write_benchmark(folder, f"{HEAD}source: {source}\n{mapping}", files))
    questions = list(found.questions)
    counts = found.counts
    assert counts.rows == counts.accepted + counts.dropped + counts.quarantined
    assert (counts.accepted, counts.dropped + counts.quarantined) == (len(questions), len(found.quarantine))
    return Outcome(
        [question.question for question in questions],
        [question.answer for question in questions],
        [Refused(record.code, record.row, record.line, record.field) for record in found.quarantine],
    )


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Outcome]:
    """`read(content, name)` is what became of the rows of that file."""

    def reading(content: str | bytes, name: str, *, stated: str = "", mapping: str = SHORT) -> Outcome:
        return outcome(tmp_path, {name: content}, source=f"{{path: {name}{stated}}}", mapping=mapping)

    return reading


@pytest.fixture
def refuse(read: Callable[..., Outcome]) -> Callable[..., InputError]:
    """`refuse(content, name)` is the error with which the whole file is refused; it names the file."""

    def refusing(content: str | bytes, name: str, **stated: str) -> InputError:
        with pytest.raises(InputError) as caught:
            read(content, name, **stated)
        assert caught.value.file.startswith(f"data/sources/scratch/{name}")
        assert "\n" not in str(caught.value)
        return caught.value

    return refusing
