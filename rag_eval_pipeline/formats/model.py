"""What all file models share: frozen, strict about unknown keys, read and written as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import atomic_write

SCHEMA_VERSION = "1.0"


class Model(pydantic.BaseModel):
    """A part of a file: immutable, and a key it does not know is an error."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FileModel(Model):
    """A whole file."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file's content.

        Raises:
            InputError: `missing_file`, or `bad_format` naming the place of the first error and how many there are.
        """
        try:
            return cls.model_validate_json(read_bytes(path))
        except pydantic.ValidationError as error:
            raise bad_format(path, error) from error

    def write(self, path: Path) -> None:
        """Publishes the file atomically; equal content gives equal bytes."""
        atomic_write(path, self.model_dump_json(indent=2, exclude_none=True).encode() + b"\n")


def read_bytes(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        InputError: `missing_file`, or `unreadable_file` with the system's reason.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except OSError as error:
        raise InputError("unreadable_file", path, "a readable file", found=error.strerror) from error


def bad_format(path: Path, error: pydantic.ValidationError) -> InputError:
    """The first of pydantic's findings as the house's error."""
    first, *others = error.errors()
    more = f"There are {len(others)} more." if others else None
    found = None if first["type"] == "missing" else first["input"]
    return InputError("bad_format", path, expectation(first), field=place(first["loc"]), found=found, hint=more)


def place(location: Sequence[int | str]) -> str:
    """A pydantic location as people write it: `queries[3].query_id`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(top level)"


def expectation(finding: Any) -> str:
    """What one of pydantic's findings says should have stood there."""
    if finding["type"] == "missing":
        return "this field to be present"
    if finding["type"] == "extra_forbidden":
        return "no such field"
    message: str = finding["msg"]
    return message.removeprefix("Input should be ").removeprefix("Value error, ")
