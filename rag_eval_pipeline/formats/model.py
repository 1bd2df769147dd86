"""The base of all file models: frozen, strict about unknown keys, read from JSON or YAML, written as JSON.

JSON distinguishes numbers from text, so text is never read as a number. YAML does not: an unquoted scalar is a
number, true or false where the model takes one, and text where it takes text (`query_id: 12`, `version: 1.10`).
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, get_args

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError, did_you_mean, other_errors, unknown_name_hint
from rag_eval_pipeline.formats.removed_settings import removed_hint
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.json_files import JSON, read_json_bytes
from rag_eval_pipeline.storage.yaml_files import YAML, Unquoted, read_settings, read_yaml_data, resolve_scalars

SCHEMA_VERSION = "1.0"  # of every file whose class states no other
VERSION_CODES = frozenset({"bad_version", "newer_schema"})
# Error types of models that are error codes of ours; all others are `bad_format`.
CODES = VERSION_CODES | {"duplicate_id", "bad_labels", "two_labels", "empty_question"}
# Error types, and keys, whose value no message shows: it may be a secret in the wrong place.
UNQUOTED = frozenset(
    {
        *("missing", "extra_forbidden", "misplaced_secret"),
        *("api_key_env", "headers_env", "credentials", "proxy", "proxy_credentials"),
    }
)

AnyModel = TypeVar("AnyModel", bound=pydantic.BaseModel)


class Model(pydantic.BaseModel):
    """A part of a file: immutable, and an unknown key is an error."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    operational: ClassVar[frozenset[str]] = frozenset()
    """Fields that cannot change an answer, such as time limits and prices: no part of a system's fingerprint."""

    strict_types: ClassVar[bool] = False
    """Whether reading refuses a text for a number and the like. The types of `fields` always do."""


SchemaVersion = Annotated[str, pydantic.Field(json_schema_extra={"pattern": r"^[0-9]{1,4}\.[0-9]{1,4}$"})]
"""Version of a file's schema."""


class FileModel(Model):
    """A whole file. A file that states no schema version is of the current one."""

    file_type: ClassVar[str] = "file"  # in messages
    current_version: ClassVar[str] = SCHEMA_VERSION  # that is written, and the only one that is read
    keeps_nulls: ClassVar[bool] = False  # whether nulls are written, for readers that expect every key

    @pydantic.field_validator("schema_version", check_fields=False)
    @classmethod
    def _is_current(cls, version: str) -> str:
        return check_schema_version(version, cls.file_type, cls.current_version)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the content of a `.json`, `.json.gz`, `.yaml` or `.yml` file."""
        with bad_format_of(path, cls):
            return parse_file(cls, path)

    def write(self, path: Path) -> None:
        """Publish the file atomically as JSON; equal content gives equal bytes."""
        atomic_write(path, self.model_dump_json(indent=2, exclude_none=not self.keeps_nulls).encode() + b"\n")


def check_schema_version(version: str, file_type: str, current: str) -> str:
    """Return a schema version that is read; raise pydantic's error for any other."""
    if version == current:
        return version
    parts, newest = _numbers(version), _numbers(current)
    if parts is None or newest is None or parts < newest:
        raise PydanticCustomError("bad_version", "schema version {version}", {"version": current})
    expected = {"version": current, "type": file_type}
    remedy = "upgrade rag-eval-pipeline, a later release wrote it"
    raise PydanticCustomError("newer_schema", f"schema version {{version}} of the {{type}} ({remedy})", expected)


def _numbers(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        return None
    return tuple(map(int, parts))


def parse_file(model: type[AnyModel], path: Path) -> AnyModel:
    """Return the model that a JSON or YAML file holds, recognised by its ending."""
    if path.name.endswith(JSON):
        return _validated(model, read_json_bytes(path))
    if path.name.endswith(YAML):
        return parse_value(model, read_yaml_data(path))
    raise InputError("unknown_form", path, f"a name ending in {', '.join(JSON + YAML)}")


def parse_value(model: type[AnyModel], value: Any) -> AnyModel:
    """Return the model that a value of JSON or YAML holds."""
    resolved = resolve_scalars(value)
    try:
        return _validated(model, json.dumps(resolved))
    except pydantic.ValidationError as error:
        as_text = [fault["loc"] for fault in error.errors(include_url=False) if fault["type"] == "string_type"]
        if sum([_restore_text(resolved, value, location) for location in as_text]) == 0:
            raise
    return _validated(model, json.dumps(resolved))


def _validated(model: type[AnyModel], text: bytes | str) -> AnyModel:
    is_strict = issubclass(model, Model) and model.strict_types
    # Not False, which would make strict fields lax: a score of 0 would be read as false.
    return model.model_validate_json(text, strict=True if is_strict else None)


def _restore_text(resolved: Any, written: Any, location: tuple[int | str, ...]) -> bool:
    """Put the text of an unquoted scalar back in place of its value; return whether there was one."""
    *parents, last = location
    try:
        for part in parents:
            if isinstance(written, dict) and part not in written:
                continue  # the name of a union's member, which the file does not have
            resolved, written = resolved[part], written[part]
        text = written[last]
    except (KeyError, IndexError, TypeError):
        return False
    if not isinstance(text, Unquoted):
        return False
    resolved[last] = str(text)
    return True


JsonValue = Annotated[pydantic.JsonValue, pydantic.WithJsonSchema({})]
JsonObject = Annotated[dict[str, JsonValue], pydantic.WithJsonSchema({"additionalProperties": True, "type": "object"})]
"""An object with keys of its writer's choice, in the writer's order."""


def model_errors(error: pydantic.ValidationError) -> list[Any]:
    """Return pydantic's errors; of a file with another schema version only that one, because it explains the others."""
    errors = error.errors(include_url=False)
    return [one for one in errors if one["loc"] == ("schema_version",) and one["type"] in VERSION_CODES] or errors


def bad_format(
    path: Path | str, error: pydantic.ValidationError, model: type[pydantic.BaseModel] | None = None
) -> InputError:
    """Return the first of pydantic's errors as an InputError that names the others; `model` names the known keys."""
    errors = sorted(model_errors(error), key=lambda one: one["type"] == "missing")  # an unknown key may be the cause
    first, *others = errors
    hints = [value_hint(first, model), other_errors([field_path(one["loc"]) for one in others])]
    found = None if UNQUOTED & {first["type"], *map(str, first["loc"])} else first["input"]
    hint = " ".join(filter(None, hints)) or None
    return InputError(code_of(first), path, expectation(first), field=field_path(first["loc"]), found=found, hint=hint)


def value_hint(error: Any, model: type[pydantic.BaseModel] | None) -> str | None:
    """Return what replaced an unknown key that is gone, else the known keys; for an unknown value those like it."""
    if error["type"] == "extra_forbidden" and (hint := removed_hint(error["loc"])):
        return hint
    if error["type"] == "extra_forbidden" and model is not None:
        return unknown_name_hint(error["loc"][-1], known_keys(model, error["loc"]), "keys")
    if error["type"] == "literal_error":
        return did_you_mean(error["input"], re.findall(r"'([^']+)'", error["ctx"]["expected"]))
    return None


def known_keys(model: type[pydantic.BaseModel], location: Sequence[int | str]) -> list[str]:
    """Return the keys that a file of a model may have where pydantic found an unknown one."""
    models = [model]
    for part in location[:-1]:  # an index, a key of a mapping and the name of a union's member lead to no field
        fields = [field for one in models for name, field in one.model_fields.items() if part in (name, field.alias)]
        models = [inner for field in fields for inner in _models_in(field.annotation)] or models
    return [field.alias or name for one in models for name, field in one.model_fields.items()]


def _models_in(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def decoding_error(error: Exception, path: Path, *, row: int | None = None) -> InputError:
    """Return an error of msgspec as an InputError with the field."""
    message, _, place = str(error).partition(" - at ")
    expected = (message[:1].lower() + message[1:]).removeprefix("expected ")
    field = place.strip("`$").removeprefix(".") or None
    return InputError("bad_format", path, expected, row=row, field=field)


@contextlib.contextmanager
def bad_format_of(path: Path | str, model: type[pydantic.BaseModel]) -> Iterator[None]:
    """Raise pydantic's errors of a file or a part of one as `bad_format`."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise bad_format(path, error, model) from error


def read_model(model: type[AnyModel], path: Path, *, missing_ok: bool = True) -> AnyModel:
    """Return what a settings file holds; the defaults if there is none and `missing_ok`."""
    with bad_format_of(path, model):
        return model.model_validate(read_settings(path, missing_ok=missing_ok))


def code_of(error: Any) -> str:
    """Return the code of one of pydantic's errors."""
    return error["type"] if error["type"] in CODES else "bad_format"


def field_path(location: Sequence[int | str]) -> str:
    """Return a pydantic location as people write it: `queries[3].query_id`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "(top level)"


# Pydantic says a valid tuple, a valid dictionary or an instance of a class of ours.
_KINDS = {
    **dict.fromkeys(("tuple_type", "list_type", "set_type", "frozen_set_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "keys with values"),
}


def expectation(error: Any) -> str:
    """Return what one of pydantic's errors expected."""
    if error["type"] == "missing":
        return "this field to be present"
    if error["type"] == "extra_forbidden":
        return "a known key"
    if error["type"] in _KINDS:
        return _KINDS[error["type"]]
    message: str = error["msg"]
    return message.removeprefix("Input should be ").removeprefix("Value error, ")


Severity = Literal["error", "warning", "info"]
SHOWN = 5  # rows or ids that one line lists


class Finding(NamedTuple):
    """Something found in a file: an error, a doubt, or what was not checked."""

    severity: Severity
    error: InputError

    def __str__(self) -> str:
        return str(self.error)


def finding(severity: Severity, code: str, file: Path | str, expected: str, **facts: Any) -> Finding:
    """Return a finding; the facts are those of `InputError`."""
    return Finding(severity, InputError(code, file, expected, **facts))


def first_of(errors: Sequence[InputError]) -> InputError:
    """Return the first of several errors, to raise; its hint names the others."""
    first, *others = errors
    more = other_errors([one.field or str(one.file) if one.row is None else f"row {one.row}" for one in others])
    first.hint = " ".join(filter(None, (first.hint, more))) or None
    return first


def model_findings(path: Path, error: pydantic.ValidationError, *, rows_of: str | None = None) -> list[Finding]:
    """Return every error that a model found in a file; those of the list `rows_of` by row."""
    findings = []
    for one in model_errors(error):
        location, row = one["loc"], None
        if len(location) > 1 and location[0] == rows_of:
            row, location = location[1] + 1, location[2:]
        found = None if one["type"] in _INPUT_IN_MESSAGE else one["input"]
        field = None if row is not None and not location else field_path(location)
        findings.append(finding("error", code_of(one), path, expectation(one), row=row, field=field, found=found))
    return findings


# The message names what was found, and the input is a whole object; of a missing field it is the object around it.
_INPUT_IN_MESSAGE = frozenset({"missing", "value_error", "duplicate_id", "empty_span", "two_labels", "empty_question"})


def errors_in(findings: Iterable[Finding]) -> list[InputError]:
    """Return the errors, which make a file unusable."""
    return [found.error for found in findings if found.severity == "error"]


def listed(items: Iterable[object]) -> str:
    """Return the first few of many, and how many there are: `'a', 'b', ... (7 in all)`."""
    every = list(items)
    text = ", ".join(repr(item) for item in every[:SHOWN])
    return text if len(every) <= SHOWN else f"{text}, ... ({len(every)} in all)"
