"""Checks of a `train.json`: its rows one by one, its ids, its answers, and its documents.

Source: Dataset layout, `train.json`, and conversion: checklist.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.findings import Finding, finding
from rag_eval_pipeline.formats.json_text import checked_json
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.schemas import schema_place
from rag_eval_pipeline.formats.train_json import TrainRow

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")  # of a place such as contexts[0].filename


def check_train_json(path: Path, *, corpus: Path | None = None) -> list[Finding]:
    """What is wrong or doubtful in a `train.json`.

    Args:
        path: The file.
        corpus: Where the documents are; else the folder `corpus` beside the file, if there is one.

    Raises:
        InputError: The file's fault, or `bad_format` when it is no array.
    """
    text = checked_json(read_bytes(path), path)
    try:
        rows = msgspec.json.decode(text, type=list[TrainRow])
    except msgspec.ValidationError:
        return list(_bad_rows(text, path))
    folder = path.parent / "corpus" if corpus is None else corpus
    return [*_rows(rows, path), *_answers(rows, path), *_documents(rows, path, folder)]


def _bad_rows(text: bytes, path: Path) -> Iterator[Finding]:
    """The first fault of every row that is none; the decoder of all rows at once does not say which it was."""
    try:
        rows = msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise InputError("bad_format", path, "an array of objects", field="(top level)") from None
    for number, row in enumerate(rows, start=1):
        try:
            msgspec.json.decode(row, type=TrainRow)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at ")
            field = place.strip("`$").removeprefix(".")
            expected = (message[:1].lower() + message[1:]).removeprefix("expected ")
            steps = [0, *(int(index) if index else name for index, name in _STEP.findall(field))]
            yield finding(
                "error", "bad_format", path, expected, row=number, field=field or None,
                schema=schema_place("train", steps),
            )  # fmt: skip


def _rows(rows: Sequence[TrainRow], path: Path) -> Iterator[Finding]:
    seen: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        if (earlier := seen.setdefault(row.id, number)) != number:
            expected = f"an id that row {earlier} does not have"
            yield finding("error", "duplicate_id", path, expected, row=number, field="id", found=row.id)
        if not row.question.strip():
            yield finding("error", "empty_question", path, "the question's text", row=number, field="question")
    if not rows:
        yield finding("warning", "no_questions", path, "one question or more")


def _answers(rows: Sequence[TrainRow], path: Path) -> Iterator[Finding]:
    """Empty answers of questions that have one; a file without any answer is made for retrieval, and fine."""
    possible = [(number, row) for number, row in enumerate(rows, start=1) if not row.is_impossible]
    if possible and not any(row.answer.strip() for row in rows):
        yield finding(
            "info", "retrieval_only", path, "answers; without any, only retrieval can be scored", field="answer"
        )
        return
    for number, row in possible:
        if not row.answer.strip():
            expected = "the answer, or is_impossible to be true"
            yield finding("error", "empty_answer", path, expected, row=number, field="answer", found=row.answer)


def _documents(rows: Sequence[TrainRow], path: Path, corpus: Path) -> Iterator[Finding]:
    if not corpus.is_dir():
        if any(row.contexts for row in rows):
            expected = "a folder `corpus` beside the file; without, its documents are not looked up"
            yield finding("info", "references_unchecked", path, expected)
        return
    files = {file.name for file in corpus.rglob("*") if file.is_file() and not file.is_symlink()}
    for number, row in enumerate(rows, start=1):
        for index, context in enumerate(row.contexts):
            if not isinstance(context, str) and context.filename not in files:
                field = f"contexts[{index}].filename"
                expected = "the exact name of a file in the corpus"
                yield finding(
                    "error", "missing_file", path, expected, row=number, field=field, found=context.filename
                )  # fmt: skip
