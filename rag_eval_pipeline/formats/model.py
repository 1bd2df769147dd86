"""What all file models share: frozen, strict about unknown keys, read and written as JSON."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.forms import Form, present_json
from rag_eval_pipeline.storage.atomic import atomic_write

SCHEMA_VERSION = "1.0"  # of every form that has had no other
# Errors of models whose type is the code that people see; all others are `bad_format`.
# Kinds of findings, and keys, whose value a message does not show: it may be a secret in the wrong place.
UNQUOTED = frozenset({"missing", "extra_forbidden", "misplaced_secret", "api_key_env", "headers_env"})
CODES = frozenset({"bad_version", "duplicate_id", "newer_schema", "not_json", "old_schema"})


class Model(pydantic.BaseModel):
    """A part of a file: immutable, and a key it does not know is an error."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    operational: ClassVar[frozenset[str]] = frozenset()
    """Fields that cannot change an answer, such as time limits and prices: no part of a system's fingerprint."""


class FileModel(Model):
    """A whole file; `form` names its versions, and the model is of the present one."""

    form: ClassVar[Form] = Form()

    @pydantic.field_validator("schema_version", check_fields=False)
    @classmethod
    def _is_present(cls, version: str) -> str:
        check_version(cls.form, version)
        if version != cls.form.present:  # readers bring older files forward before a model sees them
            raise PydanticCustomError("old_schema", "form {present}", {"present": cls.form.present})
        return version

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file's content; that of an older form as the present one has it.

        Raises:
            InputError: `missing_file`; `newer_schema` or `old_schema`; or `bad_format` naming the place of the first
                error and how many there are.
        """
        data = present_json(cls.form, read_bytes(path), path)
        try:
            return cls.model_validate_json(data)
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


def check_version(form: Form, version: str) -> None:
    """Raises pydantic's error for a version that is not read; older ones have been brought forward before."""
    if fault := form.fault_of(version):
        hint = f": {fault.hint[0].lower()}{fault.hint[1:].rstrip('.')}" if fault.hint else ""
        raise PydanticCustomError(fault.code, "{expected}{hint}", {"expected": fault.expected, "hint": hint})


SchemaVersion = Annotated[str, pydantic.Field(json_schema_extra={"pattern": r"^[0-9]{1,4}\.[0-9]{1,4}$"})]
"""Version of a file's form; which are read, its `Form` says."""


def read_bytes(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        InputError: `missing_file`, or `unreadable_file` for a folder.
        OSError: The machine could not read it, which says nothing of the file (EIO, EMFILE, no permission).
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (IsADirectoryError, NotADirectoryError) as error:
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
