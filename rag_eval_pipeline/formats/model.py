"""What all file models share: frozen, strict about unknown keys, read and written as JSON."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import atomic_write

SCHEMA_VERSION = "1.0"
# Errors of models whose type is the code that people see; all others are `bad_format`.
# Kinds of findings, and keys, whose value a message does not show: it may be a secret in the wrong place.
UNQUOTED = frozenset({"missing", "extra_forbidden", "misplaced_secret", "api_key_env", "headers_env"})
CODES = frozenset({"bad_version", "duplicate_id", "newer_schema", "not_json"})


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


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PydanticCustomError("not_json", "text without lone surrogates") from None
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {_plain(key): _plain(item) for key, item in value.items()}
    raise PydanticCustomError("not_json", "what JSON can carry: text, finite numbers, lists, objects with text as keys")


JsonValue = Annotated[Any, pydantic.AfterValidator(_plain)]
"""Anything that JSON can carry."""

JsonObject = Annotated[dict[str, Any], pydantic.AfterValidator(_plain)]
"""An object whose keys are its writer's, in the writer's order."""


def _known_schema(version: str) -> str:
    parts = version.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        raise PydanticCustomError("bad_version", "a version of the file's form such as 1.0")
    if [int(part) for part in parts] > [int(part) for part in SCHEMA_VERSION.split(".")]:
        raise PydanticCustomError(
            "newer_schema", "{known} or older: a later release wrote this file", {"known": SCHEMA_VERSION}
        )
    return version


SchemaVersion = Annotated[
    str,
    pydantic.AfterValidator(_known_schema),
    pydantic.Field(json_schema_extra={"pattern": r"^[0-9]{1,4}\.[0-9]{1,4}$"}),
]
"""Version of a file's form; a file that a later release wrote is refused."""


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


def bad_format(path: Path | str, error: pydantic.ValidationError) -> InputError:
    """The first of pydantic's findings as the house's error."""
    first, *others = error.errors()
    more = f"There are {len(others)} more." if others else None
    found = None if UNQUOTED & {first["type"], *map(str, first["loc"])} else first["input"]
    return InputError(code_of(first), path, expectation(first), field=place(first["loc"]), found=found, hint=more)


def code_of(finding: Any) -> str:
    """The code of one of pydantic's findings."""
    return finding["type"] if finding["type"] in CODES else "bad_format"


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
