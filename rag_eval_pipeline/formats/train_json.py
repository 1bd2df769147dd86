"""`train.json`: the questions of an evaluation root, as NVIDIA's `evaluate_rag.py` reads them.

The file is an array of objects with the five keys of the specification. Ids are integers; `filename` is the exact
basename under `corpus/`.
Source: Dataset layout, `train.json`, and conversion: checklist.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Finding, decoding_error, finding
from rag_eval_pipeline.storage.json_files import decode_utf8, read_bytes, read_json_bytes


class TrainContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A supporting document, and the gold text where there is one."""

    filename: str
    text: str | None = None


class TrainRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question. Plain strings among `contexts` are gold texts without a document."""

    id: int
    question: str
    answer: str
    is_impossible: bool
    contexts: list[TrainContext | str]


def read_train_json(path: Path) -> list[TrainRow]:
    """Return the rows of a `train.json`, every one strictly checked."""
    data = read_bytes(path)
    try:
        return msgspec.json.decode(data, type=list[TrainRow])
    except UnicodeDecodeError:
        decode_utf8(data, path)  # raises it with the place
        raise
    except (msgspec.DecodeError, RecursionError) as error:
        raise decoding_error(error, path) from error


def check_train_json(path: Path, *, corpus: Path | None = None) -> list[Finding]:
    """Return what is wrong or doubtful in a `train.json`."""
    text = read_json_bytes(path)
    try:
        rows = msgspec.json.decode(text, type=list[TrainRow])
    except msgspec.ValidationError:
        return list(_bad_rows(text, path))
    folder = path.parent / "corpus" if corpus is None else corpus
    return [*_rows(rows, path), *_answers(rows, path), *_documents(rows, path, folder)]


def _bad_rows(text: bytes, path: Path) -> Iterator[Finding]:
    """Yield the first error of every bad row, which the decoder of all rows at once does not name."""
    try:
        rows = msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise InputError("bad_format", path, "an array of objects", field="(top level)") from None
    for number, row in enumerate(rows, start=1):
        try:
            msgspec.json.decode(row, type=TrainRow)
        except msgspec.ValidationError as error:
            yield Finding("error", decoding_error(error, path, row=number))


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
    """Yield empty answers of answerable questions; a file without any answer is made for retrieval, and good."""
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
