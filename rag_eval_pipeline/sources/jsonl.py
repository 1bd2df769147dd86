"""Read JSON lines and JSON files strictly: each key once, finite numbers, no lone surrogates.

Lines end at LF only, so U+2028 inside a text is text. A bad line is a rejected row, and the others are read. Blocks
whose column types are known are parsed by Arrow, which is as strict and several times faster than Python; a block that
Arrow refuses, or whose values it may have changed, is read line by line.
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from rag_eval_pipeline.errors import FOUND_LIMIT, InputError, unknown_name_hint
from rag_eval_pipeline.sources.arrow_types import (
    EXACT_FLOAT,
    ColumnTypes,
    JsonType,
    ListOf,
    Record,
    arrow_type,
    contains_json_text,
    merge_columns,
)
from rag_eval_pipeline.sources.batches import UTF8, DecodedBatch, InputFile, RejectedRow, RowError, batch_of_objects
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK, JsonError, strict_json
from rag_eval_pipeline.storage.yaml_files import DATA, parse_yaml, resolve_scalars

_SEVERAL_VALUES = (
    "The file holds several JSON values: write each on one line (`jq -c . FILE > rows.jsonl`), or all as one list."
)
_MAYBE_ZERO = re.compile(r"\.[0-9]+0[\s,}\]]")  # a quick test
_LAST_ZERO = re.compile(r'"(?:[^"\\]++|\\.)*+"|(-?[0-9]+\.[0-9]+0)(?=[\s,}\]])')  # a text, or a number such as 1.10
BLOCK_BYTES = 2 << 20
MAX_ROW_BYTES = 100_000_000  # of a line; a longer one is a file without line ends
BATCH_ROWS = 20_000  # of a JSON file


def read_jsonl(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a file with one JSON object a line."""
    if file.encoding not in UTF8:
        handle = io.BytesIO(_whole_text(handle, file).encode())
    types = file.types
    number, line = 1, 1
    zeros: list[str] = []
    for block in _blocks(handle):
        batch = _parse_with_arrow(block, types, number, line) if types else None
        lines = (
            block.count(b"\n") if batch is None else len(batch.numbers)
        )  # Arrow's blocks have an object on each line
        if batch is None:
            batch = _parse_lines(block, file, number, line)
        if file.types is None:
            types = merge_columns(types or {}, batch.types or {})
        if "'float'" in (kinds := str(batch.types)) or "'json'" in kinds:  # at any depth
            zeros += _last_zeros(block.decode(errors="replace"), line)
        number += len(batch.numbers) + len(batch.rejected)
        line += lines
        yield batch
    yield from _zeros_note(zeros)


def read_json(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a JSON file: an array of objects, an object of objects, or an object of lists of one length."""
    text = _whole_text(handle, file)
    value = _parsed(text, file)
    zeros = list(_last_zeros(text, 1))
    del text
    yield from _batches(_items(_at_root(value, file), file), (), file)
    yield from _zeros_note(zeros)


def read_json_value(handle: BinaryIO, file: InputFile) -> Any:
    """Return the value of a JSON file."""
    return _parsed(_whole_text(handle, file), file)


def _parsed(text: str, file: InputFile) -> Any:
    try:
        return json_value(text, allow_nan=file.spec.allow_nan)
    except RowError as fault:
        is_several = fault.code == "bad_json" and "Extra data" in fault.expected
        error = InputError(fault.code, file.shown, fault.expected, hint=_SEVERAL_VALUES if is_several else None)
        error.found = fault.found  # an excerpt already
        raise error from None


def _last_zeros(text: str, line: int) -> Iterator[str]:
    """Yield the numbers whose last zero a double does not keep, with their lines; the text begins at `line`."""
    place = 0
    for match in _LAST_ZERO.finditer(text) if _MAYBE_ZERO.search(text) else ():
        if match[1]:
            line += text.count("\n", place, match.start())
            place = match.start()
            yield f"{match[1]} (line {line})"


def _zeros_note(zeros: Sequence[str]) -> Iterator[DecodedBatch]:
    """Yield a batch without rows that has the note on numbers which lose their last zeros."""
    if zeros:
        shown = ", ".join([*zeros[:3], "..."][: len(zeros)])
        note = f"numbers are read without the zeros at their end ({len(zeros)}: {shown}); quote those that are texts"
        yield DecodedBatch(pa.RecordBatch.from_pylist([]), (), types={}, notes=(note,))


def read_yaml_rows(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a YAML file, whose value has the shapes of a JSON file's; unquoted numbers and booleans are such."""
    document = parse_yaml(_whole_text(handle, file).encode(), file.shown, DATA)
    value = _at_root(resolve_scalars(document.value), file)
    root = tuple(file.spec.root.removeprefix("$").strip(".").split(".")) if file.spec.root else ()
    known = [document.lines.get((*root, number)) for number in range(len(value))] if isinstance(value, list) else []
    lines = [line for line in known if line is not None]
    yield from _batches(_items(value, file), lines if len(lines) == len(known) else (), file)


def _batches(items: Sequence[Any], lines: Sequence[int], file: InputFile) -> Iterator[DecodedBatch]:
    """Yield rows in batches; `lines` are those on which they start, if known."""
    for start in range(0, len(items), BATCH_ROWS):
        objects, numbers = [], []
        rejected: list[RejectedRow] = []
        for number, item in enumerate(items[start : start + BATCH_ROWS], start=start + 1):
            if isinstance(item, dict):
                objects.append(item)
                numbers.append(number)
            else:
                line = lines[number - 1] if lines else None
                rejected.append(RowError("not_an_object", None, "an object", item).at(file.name, number, line))
        found = [lines[number - 1] for number in numbers] if lines else ()
        yield batch_of_objects(objects, numbers, found, rejected, file.types)


def json_value(text: str, *, allow_nan: bool = False) -> Any:
    """Return the value of strict JSON; with `allow_nan`, NaN and infinities are null."""
    try:
        return strict_json(text, allow_nan=allow_nan)
    except json.JSONDecodeError as error:
        found = text[max(0, error.pos - 20) : error.pos + 20]
        raise RowError("bad_json", None, f"JSON: {error.msg} at character {error.pos}", found) from None
    except JsonError as error:
        is_constant = error.found in ("NaN", "Infinity", "-Infinity")
        expected = f"{error.expected}, or `allow_nan: true` beside `path`" if is_constant else error.expected
        raise RowError(error.code, None, expected, error.found) from None


def _frame_rows(value: Any) -> list[Any] | None:
    """Return the rows of a data frame that pandas wrote with `orient` split or columns; None for other values."""
    if not isinstance(value, dict) or not value:
        return None
    names: Any = value.get("columns")
    cells = value.get("data")
    if set(value) <= {"columns", "index", "data", "index_names", "column_names"} and isinstance(cells, list):
        is_table = isinstance(names, list) and all(isinstance(row, list) and len(row) == len(names) for row in cells)
        return [dict(zip(map(str, names), row, strict=True)) for row in cells] if is_table else None
    if any(map(str.isdecimal, value)) or not all(isinstance(column, dict) and column for column in value.values()):
        return None
    first, *others = value.values()
    if not all(map(str.isdecimal, first)) or any(list(column) != list(first) for column in others):
        return None
    # Labels count from 0, or are rows left of a larger frame: numbers by other numbers are grades of documents by ids.
    if next(iter(first)) != "0" and not any(
        isinstance(cell, str) for column in value.values() for cell in column.values()
    ):
        return None
    return [{name: column[label] for name, column in value.items()} for label in first]


def _whole_text(handle: BinaryIO, file: InputFile) -> str:
    try:
        return handle.read().decode(file.encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        expected = f"{file.encoding} text at byte {error.start}"
        hint = "Save the file as UTF-8, or state `encoding` in benchmark.yaml."
        found = error.object[error.start : error.start + 8]
        raise InputError("bad_encoding", file.shown, expected, found=found, hint=hint) from None


def _blocks(handle: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, about `BLOCK_BYTES` at a time, without a byte order mark."""
    rest = handle.read(3).removeprefix(BYTE_ORDER_MARK)
    while chunk := handle.read(BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        elif len(rest) <= MAX_ROW_BYTES:  # the rest of a longer line is not kept, because the line is rejected
            rest += chunk
    if rest:
        yield rest


def _parse_with_arrow(block: bytes, types: ColumnTypes, number: int, line: int) -> DecodedBatch | None:
    """Return the rows of a block; None if Python has to find what is wrong with them, or if types differ."""
    if any(map(contains_json_text, types.values())):
        return None
    count = _count_objects(block)
    if count is None:
        return None
    schema = pa.schema([(name, arrow_type(json_type)) for name, json_type in types.items()])
    parsing = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = pa.json.ReadOptions(use_threads=True, block_size=max(BLOCK_BYTES // 4, 2 * (len(block) // count)))
    try:
        table = pa.json.read_json(pa.BufferReader(block), reading, parsing)
        table.validate(full=True)  # the parser does not check that texts are UTF-8
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != count:
        return None
    [rows] = table.combine_chunks().to_batches()
    found = {name: _narrow_type(rows.column(name), json_type) for name, json_type in types.items()}
    exact = {name: json_type for name, json_type in found.items() if json_type is not None}
    if len(exact) < len(found):
        return None
    return DecodedBatch(rows, range(number, number + count), range(line, line + count), types=exact)


def _narrow_type(values: pa.Array, json_type: JsonType) -> JsonType | None:
    """Return the type of an array that Arrow parsed as `json_type`; None if parsing may have changed its values."""
    if isinstance(json_type, ListOf):
        item = _narrow_type(values.flatten(), json_type.item)
        return None if item is None else ListOf(item)
    if isinstance(json_type, Record):
        fields = {name: _narrow_type(values.field(name), inner) for name, inner in json_type.fields.items()}
        known = {name: inner for name, inner in fields.items() if inner is not None}
        return Record(known) if len(known) == len(fields) else None
    if json_type == "null":
        return "text" if values.null_count < len(values) else "null"
    if json_type in {"integer", "long", "float"}:
        bounds = pc.min_max(values)
        least, most = bounds["min"].as_py(), bounds["max"].as_py()
        # 2**53 as a double may have been 2**53 + 1 in the file.
        limit = EXACT_FLOAT - (json_type == "float")
        is_exact = least is None or (least >= -limit and most <= limit)
        if json_type == "float":
            # JSON cannot write infinities, so one in a double was a number too large for it.
            return json_type if is_exact and pc.all(pc.is_finite(values)).as_py() is not False else None
        return json_type if is_exact else "long"
    return json_type


def _count_objects(block: bytes) -> int | None:
    """Return the number of lines if each begins and ends as an object does; None otherwise.

    Arrow accepts two objects on one line, and one object on two lines. If every line has this form and there are as
    many objects as lines, each line is one object.
    """
    body = np.frombuffer(block, np.uint8)
    feeds = np.flatnonzero(body == ord("\n"))
    ends = feeds if block.endswith(b"\n") else np.append(feeds, len(body))
    starts = np.append(0, feeds[: len(ends) - 1] + 1)
    last = ends - 1
    last = np.where(body[last] == ord("\r"), last - 1, last)
    if starts[-1] >= len(body) or (last < starts).any():
        return None
    is_regular = (body[starts] == ord("{")).all() and (body[last] == ord("}")).all()
    return len(ends) if is_regular else None


def _parse_lines(block: bytes, file: InputFile, number: int, line: int) -> DecodedBatch:
    """Return the rows of a block, with the cause of each bad line."""
    objects, numbers, lines = [], [], []
    rejected: list[RejectedRow] = []
    for position, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), start=line):
        if not raw.strip():
            continue
        try:
            objects.append(_json_object(raw, allow_nan=file.spec.allow_nan))
        except RowError as fault:
            rejected.append(fault.at(file.name, number, position))
        else:
            numbers.append(number)
            lines.append(position)
        number += 1
    return batch_of_objects(objects, numbers, lines, rejected, file.types)


def _json_object(raw: bytes, *, allow_nan: bool) -> dict[str, Any]:
    if len(raw) > MAX_ROW_BYTES:
        raise RowError("cell_too_long", None, f"a line of at most {MAX_ROW_BYTES} bytes", len(raw))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        found = raw[error.start : error.start + 16]
        raise RowError("bad_encoding", None, f"UTF-8 at byte {error.start} of the line", found) from None
    value = json_value(text, allow_nan=allow_nan)
    if not isinstance(value, dict):
        raise RowError("not_an_object", None, "a JSON object", value)
    return value


def _at_root(value: Any, file: InputFile) -> Any:
    """Return the part of a value to which `root` leads; `$` and `*` make rows of it."""
    if file.spec.root is None:
        return value
    if file.spec.root == "$":
        return [value] if isinstance(value, dict) else value
    *keys, last = file.spec.root.removeprefix("$.").split(".")
    for key in keys if last == "*" else [*keys, last]:
        if not isinstance(value, dict) or key not in value:
            found = list(value) if isinstance(value, dict) else type(value).__name__
            hint = unknown_name_hint(key, map(str, value)) if isinstance(value, dict) else None
            expected = f"the key {key!r} of `root`"
            raise InputError("missing_root", file.shown, expected, field=file.spec.root, found=found, hint=hint)
        value = value[key]
    if last != "*":
        return value
    if isinstance(value, dict):
        members = [(item if isinstance(item, dict) else {"value": item}, key) for key, item in value.items()]
        return [{"source_key": key, **item} for item, key in members]
    return [item if isinstance(item, dict) else {"value": item} for item in value] if isinstance(value, list) else value


def _items(value: Any, file: InputFile) -> list[Any]:
    """Return the rows of a JSON value."""
    if (frame := _frame_rows(value)) is not None:
        return frame
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
        return [{"source_key": key, **item} for key, item in value.items()]
    if isinstance(value, dict) and value and all(isinstance(item, list) for item in value.values()):
        lengths = {len(item) for item in value.values()}
        has_objects = any(isinstance(cell, dict) for item in value.values() for cell in item[:1])
        if len(lengths) == 1 and not has_objects:
            return [dict(zip(value, cells, strict=True)) for cells in zip(*value.values(), strict=True)]
    items = value.items() if isinstance(value, dict) else ()
    lists = [key for key, item in items if isinstance(item, list) and len(key) <= FOUND_LIMIT]
    expected = "an array of objects, an object of objects, or lists of one length"
    found = list(value) if isinstance(value, dict) else value
    hint = (
        f"State `root: {lists[0]}`." if lists else "State `root` in benchmark.yaml; `root: $` makes the value one row."
    )
    raise InputError("missing_root", file.shown, expected, found=found, hint=hint)
