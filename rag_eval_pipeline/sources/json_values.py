"""JSON as the standard has it: each key once, finite numbers, whole characters."""

import json
import re
from typing import Any, BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import LONE_SURROGATE, BadRow, SourceFile

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def json_object(raw: bytes, *, allow_nan: bool = False) -> dict[str, Any]:
    """The object of one line.

    Raises:
        BadRow: `bad_encoding`, `bad_json`, `bad_number`, `duplicate_key`, `not_an_object`.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadRow(
            "bad_encoding", f"UTF-8 at byte {error.start} of the line", raw[error.start : error.start + 16]
        ) from None
    value = json_value(text, allow_nan=allow_nan)
    if not isinstance(value, dict):
        raise BadRow("not_an_object", "a JSON object", value)
    return value


def whole_text(handle: BinaryIO, file: SourceFile) -> str:
    """All of a file as text, its byte order mark left out.

    Raises:
        InputError: `bad_encoding` with the byte.
    """
    try:
        return handle.read().decode(file.encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            "bad_encoding",
            file.shown,
            f"{file.encoding} text at byte {error.start}",
            found=error.object[error.start : error.start + 8],
            hint="State `encoding` in benchmark.yaml.",
        ) from None


def json_value(text: str, *, allow_nan: bool = False) -> Any:
    """A JSON value under the standard: each key once, finite numbers, no lone surrogates.

    Args:
        text: One value.
        allow_nan: NaN and infinities are null instead of a fault.

    Raises:
        BadRow: `bad_encoding`, `bad_json`, `bad_number`, `duplicate_key`.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_each_key_once,
            parse_float=_finite,
            parse_constant=_null if allow_nan else _no_constant,
        )
    except RecursionError:
        raise BadRow("bad_json", "JSON of bearable depth") from None
    except json.JSONDecodeError as error:
        raise BadRow(
            "bad_json", f"JSON: {error.msg} at character {error.pos}", text[max(0, error.pos - 20) : error.pos + 20]
        ) from None
    except ValueError:  # an integer of thousands of digits
        raise BadRow("bad_number", "numbers of at most 4,300 digits") from None
    if _ESCAPED_SURROGATE.search(text) and (lone := LONE_SURROGATE.search(json.dumps(value, ensure_ascii=False))):
        raise BadRow("bad_encoding", "text without lone surrogates", lone.group())
    return value


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadRow("duplicate_key", "each key once", next(name for name in names if names.count(name) > 1))
    return value


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadRow("bad_number", "a number that a double can hold", text)
    return value


def _null(text: str) -> None:
    return None


def _no_constant(text: str) -> Any:
    raise BadRow("bad_number", "a JSON number or null", text)
