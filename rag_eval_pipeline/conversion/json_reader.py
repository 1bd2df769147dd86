"""JSON and JSON lines, read as the standard has them: each key once, finite numbers, whole characters.

A bad line of JSON lines is an unread row and the others go on; a JSON file is one value, good or not.
"""

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from rag_eval_pipeline.conversion.decoded import LONE_SURROGATE, BadRow, Rows, SourceFile, UnreadRow
from rag_eval_pipeline.errors import InputError, excerpt

MAX_ROW_BYTES = 100_000_000  # of a line; a longer one is a file without line ends

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_jsonl(handle: BinaryIO, file: SourceFile) -> Rows:
    r"""One JSON object a line; lines end at LF alone, so U+2028 inside a text is text."""
    if file.encoding not in {"utf-8", "utf-8-sig", "ascii"}:
        handle = io.BytesIO(_whole_text(handle, file).encode())
    rows = Rows()
    objects = []
    number = 0
    for line, raw in enumerate(handle, start=1):
        raw = raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw
        if not raw.strip():
            continue
        number += 1
        try:
            objects.append(_json_object(raw))
        except BadRow as bad:
            rows.unread.append(UnreadRow(file.name, number, line, bad.code, bad.expected, bad.found, bad.field))
            continue
        rows.numbers.append(number)
        rows.lines.append(line)
    rows.columns = _columns(objects, file)
    return rows


def _json_object(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_ROW_BYTES:
        raise BadRow("cell_too_long", f"a line of at most {MAX_ROW_BYTES} bytes", len(raw))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadRow(
            "bad_encoding", f"UTF-8 at byte {error.start} of the line", raw[error.start : error.start + 16]
        ) from None
    value = _json_value(text)
    if not isinstance(value, dict):
        raise BadRow("not_an_object", "a JSON object", value)
    return value


def read_json(handle: BinaryIO, file: SourceFile) -> Rows:
    """A JSON file: an array of objects, an object of objects, or an object of equally long lists.

    Raises:
        InputError: `bad_json`, `bad_encoding`, `bad_number`, `duplicate_key`, `duplicate_column`, `missing_root`.
    """
    try:
        value = _json_value(_whole_text(handle, file))
    except BadRow as bad:
        raise InputError(bad.code, file.shown, bad.expected, found=bad.found) from None
    for key in file.spec.root.split(".") if file.spec.root else ():
        if not isinstance(value, dict) or key not in value:
            found = list(value) if isinstance(value, dict) else type(value).__name__
            raise InputError(
                "missing_root", file.shown, f"the key {key!r} of `root`", field=file.spec.root, found=found
            )
        value = value[key]
    rows = Rows()
    objects = []
    for number, item in enumerate(_items(value, file), start=1):
        if isinstance(item, dict):
            objects.append(item)
            rows.numbers.append(number)
        else:
            rows.unread.append(UnreadRow(file.name, number, None, "not_an_object", "a JSON object", excerpt(item)))
    rows.columns = _columns(objects, file)
    return rows


def _items(value: Any, file: SourceFile) -> list[Any]:
    """The rows of a JSON value, by its shape."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
        return [{"source_key": key, **item} for key, item in value.items()]
    if isinstance(value, dict) and value and all(isinstance(item, list) for item in value.values()):
        lengths = {len(item) for item in value.values()}
        records = any(isinstance(cell, dict) for item in value.values() for cell in item[:1])
        if len(lengths) == 1 and not records:
            return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]
    lists = [key for key, item in value.items() if isinstance(item, list)] if isinstance(value, dict) else []
    raise InputError(
        "missing_root",
        file.shown,
        "an array of objects, an object of objects, or lists of one length",
        found=list(value) if isinstance(value, dict) else value,
        hint=f"State `root: {lists[0]}`." if lists else "State `root` in benchmark.yaml.",
    )


def _columns(objects: Sequence[Mapping[str, Any]], file: SourceFile) -> dict[str, list[Any]]:
    names = list(dict.fromkeys(name for item in objects for name in item))
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(
                "duplicate_column", file.shown, "keys that differ in more than case", field=name, found=[other, name]
            )
    return {
        name or f"column_{position}": [item.get(name) for item in objects]
        for position, name in enumerate(names, start=1)
    }


def _whole_text(handle: BinaryIO, file: SourceFile) -> str:
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


def _json_value(text: str) -> Any:
    """A JSON value under the standard: each key once, finite numbers, no lone surrogates."""
    try:
        value = json.loads(text, object_pairs_hook=_each_key_once, parse_float=_finite, parse_constant=_no_constant)
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


def _no_constant(text: str) -> Any:
    raise BadRow("bad_number", "a JSON number or null", text)
