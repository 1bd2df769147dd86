"""`train.json`: the questions of an evaluation root, as NVIDIA's `evaluate_rag.py` takes it.

A top-level array; only the five keys of the specification. Ids are integers, `filename` is the exact basename under
`corpus/`.
Source: Dataset layout, `train.json`, and conversion.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.storage.atomic import publishing


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
    """The rows of a `train.json`, every one strictly checked.

    Raises:
        InputError: `missing_file`, or `bad_format` with the place of the first error.
    """
    try:
        return msgspec.json.decode(read_bytes(path), type=list[TrainRow])
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        message, _, place = str(error).partition(" - at ")
        raise InputError(
            "bad_format", path, message[:1].lower() + message[1:], field=place.strip("`") or "(top level)"
        ) from error  # fmt: skip


def write_train_json(path: Path, rows: Iterable[TrainRow]) -> int:
    """Publishes rows, indented by two spaces, in constant memory.

    Returns:
        The number of rows written.
    """
    encoder = msgspec.json.Encoder()
    count = 0
    with publishing(path) as file:
        file.write(b"[")
        for row in rows:
            text = msgspec.json.format(encoder.encode(row), indent=2).replace(b"\n", b"\n  ")
            file.write((b",\n  " if count else b"\n  ") + text)
            count += 1
        file.write(b"\n]\n" if count else b"]\n")
    return count
