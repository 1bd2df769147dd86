"""Types of fields that people and other programs fill in: whole numbers, numbers, moments, scores, open objects.

JSON says what is a number and what is text, so a text is never read as a number; YAML does not, so an unquoted scalar
(`Plain`) is read as what the field asks for. A boolean is never a number. Open objects hold what JSON can carry, with
their keys in order, so that equal content gives equal bytes.
"""

import contextlib
import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.formats.yaml_reader import plain_value

_ISO_8601 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _bad(code: str, expected: str) -> PydanticCustomError:
    return PydanticCustomError(code, "{expected}", {"expected": expected})


def _whole(value: Any) -> int:
    value = plain_value(value)
    if type(value) is not int:
        raise _bad("whole_number", "a whole number")
    return value


def _number(value: Any) -> float:
    value = plain_value(value)
    if type(value) in (int, float):
        with contextlib.suppress(OverflowError):  # an integer of 400 digits
            if math.isfinite(number := float(value)):
                return number
    raise _bad("finite_number", "a finite number")


def _offset(value: Any) -> int:
    value = plain_value(value)
    if type(value) is not int or value < 0:
        raise _bad("bad_span", "a whole number of 0 or more")
    return value


def _truth(value: Any) -> bool:
    value = plain_value(value)
    if type(value) is not bool:
        raise _bad("truth", "true or false")
    return value


def _moment(value: Any) -> datetime:
    # A bare number is no time, though pydantic would read it as one.
    if isinstance(value, datetime) or (isinstance(value, str) and _ISO_8601.match(value)):
        return value  # type: ignore[return-value]  # a text is read by the type behind this check
    raise _bad("moment", "an ISO 8601 time with its zone, such as 2024-01-15T10:30:45Z")


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time in the years 1 to 9999") from None


def _score(value: Any) -> bool | int | float | str | None:
    value = plain_value(value)
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value  # type: ignore[no-any-return]  # mypy does not follow `type(value) in`
    raise _bad("score", "a finite number, true, false, a text or null")


def canonical(value: Any) -> Any:
    """The value with the keys of its objects in order and its lists as lists.

    Raises:
        ValueError: Something that JSON cannot carry: NaN, an infinity, a lone surrogate, a key that is no text, ....
    """
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
    """The data of an open model: the fields it knows, then the others in order and as JSON has them, nulls left out."""
    own = {key: value for key, value in data.items() if key not in fields and value is not None}
    canonical_own: dict[str, Any] = canonical(plain_value(own))
    return {key: value for key, value in data.items() if key in fields} | canonical_own


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("text without lone surrogates") from None
    return str(value)


def _in_order(value: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))


Text = Annotated[str, pydantic.AfterValidator(_text)]
"""Any text that UTF-8 can carry."""

Name = Annotated[Text, pydantic.Field(min_length=1)]
"""A text of one character or more."""

Whole = Annotated[int, pydantic.BeforeValidator(_whole)]
"""An integer; no boolean, no float, no text."""

Offset = Annotated[int, pydantic.BeforeValidator(_offset), pydantic.Field(ge=0)]
"""A place in a text, in code points from 0."""

Number = Annotated[float, pydantic.BeforeValidator(_number)]
"""A finite number; no boolean, no text."""

Share = Annotated[Number, pydantic.Field(ge=0, le=1)]
"""A number in [0, 1]."""

Truth = Annotated[bool, pydantic.BeforeValidator(_truth)]
"""True or false; not 1, not "false"."""

Moment = Annotated[
    pydantic.AwareDatetime,
    pydantic.BeforeValidator(_moment),
    pydantic.AfterValidator(_utc),
]
"""A time with its zone, kept and written as UTC."""

Score = Annotated[
    pydantic.StrictBool | pydantic.StrictInt | pydantic.StrictFloat | pydantic.StrictStr | None,
    pydantic.Field(union_mode="left_to_right"),  # 1, 1.0 and true are equal in Python, and stay what they are
    pydantic.BeforeValidator(_score),
]
"""A score of any kind; its kind survives writing and reading."""

Open = Annotated[dict[str, Any], pydantic.BeforeValidator(plain_value), pydantic.AfterValidator(canonical)]
"""An object whose keys are its writer's."""

Numbers = Annotated[dict[Name, Number], pydantic.AfterValidator(_in_order)]
"""Named numbers, in the order of their names."""

Shares = Annotated[dict[Name, Share], pydantic.AfterValidator(_in_order)]
"""Named numbers in [0, 1], in the order of their names."""

Texts = Annotated[dict[Name, Text], pydantic.AfterValidator(_in_order)]
"""Named texts, in the order of their names."""

Version = Annotated[str, pydantic.Field(pattern=r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$")]
"""A semantic version, with or without the `v`."""
