"""Field types for what people and other programs fill in: numbers, times, scores, versions, open objects.

A boolean is never a number, and text never one either; numbers are finite, times become UTC. Open objects hold what
JSON can carry with their keys in order, so that equal content gives equal bytes.
"""

import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import pydantic
import semver
from pydantic_core import PydanticCustomError

_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _bad(code: str, expected: str) -> PydanticCustomError:
    return PydanticCustomError(code, "{expected}", {"expected": expected})


def _offset(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise _bad("bad_span", "a whole number of 0 or more")
    return value


def _moment(value: Any) -> Any:
    # pydantic would read a bare number as a time.
    if isinstance(value, datetime) or (isinstance(value, str) and _ISO_8601.match(value)):
        return value
    raise _bad("moment", "an ISO 8601 time with its zone, such as 2024-01-15T10:30:45Z")


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time in the years 1 to 9999") from None


def _score(value: Any) -> Any:
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    raise _bad("score", "a finite number, true, false, a text or null")


def canonical(value: Any) -> Any:
    """Return the value with the keys of its objects in order and its lists as lists."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("keys that are text")
        return {canonical(key): canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"values that JSON can carry, but one is {value!r}")


def with_canonical_extras(data: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return the data of an open model: the fields it knows, then the others in canonical form without nulls."""
    extras = {key: value for key, value in data.items() if key not in fields and value is not None}
    known = {key: value for key, value in data.items() if key in fields}
    return {**known, **canonical(extras)}


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("text without lone surrogates") from None
    return str(value)


def _in_order(value: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))


Text = Annotated[str, pydantic.AfterValidator(_text)]
Name = Annotated[str, pydantic.Field(min_length=1), pydantic.AfterValidator(_text)]
Whole = Annotated[int, pydantic.Field(strict=True)]
Count = Annotated[Whole, pydantic.Field(ge=0)]
Offset = Annotated[int, pydantic.Field(ge=0), pydantic.BeforeValidator(_offset)]  # in code points
Number = Annotated[float, pydantic.Field(strict=True, allow_inf_nan=False)]
Amount = Annotated[Number, pydantic.Field(ge=0)]
Share = Annotated[Number, pydantic.Field(ge=0, le=1)]
Truth = Annotated[bool, pydantic.Field(strict=True)]
Moment = Annotated[pydantic.AwareDatetime, pydantic.BeforeValidator(_moment), pydantic.AfterValidator(_utc)]
Score = Annotated[bool | int | float | str | None, pydantic.PlainValidator(_score)]  # 1, 1.0 and true stay as they are
Open = Annotated[dict[str, Any], pydantic.AfterValidator(canonical)]
Numbers = Annotated[dict[Name, Number], pydantic.AfterValidator(_in_order)]
Shares = Annotated[dict[Name, Share], pydantic.AfterValidator(_in_order)]
Texts = Annotated[dict[Name, Text], pydantic.AfterValidator(_in_order)]
Version = Annotated[str, pydantic.Field(pattern=r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$")]


MAX_LENGTH = 128  # a version becomes part of file names
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # of ids and folders that become file names
UNVERSIONED = "0.0.0"  # of a dataset that states no version

_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
# For JSON Schemas and pydantic's `pattern`; the regular expression of Semantic Versioning 2.0 without groups.
SEMVER = (
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class VersionedName(NamedTuple):
    """An id, and the version at its end if it has one."""

    dataset_id: str
    version: str | None


def parse_version(text: str) -> semver.Version | None:
    """Return the version, which compares by precedence; None if the text is not a semantic version."""
    return semver.Version.parse(text) if len(text) <= MAX_LENGTH and semver.Version.is_valid(text) else None


def split_version(name: str) -> VersionedName:
    """Return `personal_rag_eval_v1.0.0` as id and version."""
    dataset_id, _, version = name.rpartition("_v")
    if dataset_id and parse_version(version) is not None:
        return VersionedName(dataset_id, version)
    return VersionedName(name, None)


def _checked(text: str) -> str:
    if parse_version(text) is None:
        raise PydanticCustomError("bad_version", "a semantic version such as 1.2.0")
    return text


SemanticVersion = Annotated[
    str, pydantic.AfterValidator(_checked), pydantic.Field(json_schema_extra={"pattern": f"^{SEMVER}$"})
]
"""A text that is a semantic version."""
