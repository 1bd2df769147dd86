"""JSON files of very many rows, written from Arrow batches column by column.

The text is what `json.dumps(..., ensure_ascii=False)` writes row by row, but no row becomes a Python object, and a
million rows need no more memory than a thousand. `bench/conversion.py` compares the ways to write rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.storage.atomic_files import publishing

INDENT = "  "
THREADS = 2  # Arrow releases the interpreter's lock while it writes text
BATCHES_AHEAD = 2  # that may wait to be written

# Control characters that JSON has no short escape for are rare enough to be left to Python.
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SHORT = frozenset(map(ord, "\n\r\t"))


JsonText = Sequence[str | pa.Array]
"""JSON text of each value of a column, in parts: text that all values share, and columns; only a single column may have
nulls. Text is copied once, when all parts are joined."""


def texts(column: pa.Array, depth: int = 0) -> JsonText:
    """Return JSON text of each value; null where the value is null.

    Args:
        column: Text, whole numbers, booleans, or lists of them.
        depth: Nesting level of the lists in a file indented by two spaces.
    """
    kind = column.type
    if pa.types.is_string(kind):
        return _strings(column)
    if pa.types.is_boolean(kind):
        return [pc.if_else(column, "true", "false")]
    if pa.types.is_integer(kind):
        return [column.cast(pa.string())]
    if pa.types.is_list(kind):
        inner = texts(column.flatten(), depth + 1)
        return lists(column, [pc.fill_null(inner[0], "null")] if _count_nulls(inner) else inner, depth)
    raise TypeError(f"no JSON text for a column of {kind}")


def join(text: JsonText) -> pa.Array:
    """Return JSON text as one column."""
    parts: list[str | pa.Array] = []
    for part in text:
        if parts and isinstance(part, str) and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "")


def objects(members: Mapping[str, JsonText], depth: int) -> JsonText:
    """Return objects of members, the first of which is there in all; a null one of the others is left out."""
    before, between, after = _layout(depth)
    parts: list[str | pa.Array] = ["{" + before]
    for number, (name, value) in enumerate(members.items()):
        key = (between if number else "") + json.dumps(name, ensure_ascii=False) + ": "
        nulls = _count_nulls(value)
        if nulls and nulls == len(value[0]):
            continue
        if nulls:
            parts.append(pc.fill_null(pc.binary_join_element_wise(key, value[0], ""), ""))
        else:
            parts += [key, *value]
    return [*parts, after + "}"]


def _count_nulls(text: JsonText) -> int:
    return 0 if len(text) > 1 or isinstance(text[0], str) else int(text[0].null_count)


def lists(column: pa.Array, items: JsonText, depth: int) -> JsonText:
    """Return lists of items, which have no nulls; null where the list is null."""
    before, between, after = _layout(depth)
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    opening, values, closing = "", items, ""
    if len(items) == 3 and isinstance(items[0], str) and isinstance(items[2], str):  # what all share separates them
        opening, values, closing = items[0], items[1:2], items[2]
    inner = pc.binary_join(pa.ListArray.from_arrays(offsets, join(values)), closing + between + opening)
    written = ["[" + before + opening, inner, closing + after + "]"]
    is_empty = pc.equal(lengths, 0)
    if is_empty.true_count:
        written = [pc.if_else(is_empty, "[]", join(written))]
    return (
        [pc.if_else(column.is_valid(), join(written), pa.scalar(None, pa.string()))] if column.null_count else written
    )


def consecutive(members: Mapping[str, JsonText], depth: int) -> memoryview:
    """Return the bytes of objects as consecutive elements of an array."""
    between = ",\n" + INDENT * depth
    column = join([*objects(members, depth), between])  # whose bytes are those of the file
    return memoryview(_values(column))[: -len(between)]


def _layout(depth: int) -> tuple[str, str, str]:
    """Return the text after a bracket, between members, and before the closing bracket."""
    return "\n" + INDENT * (depth + 1), ",\n" + INDENT * (depth + 1), "\n" + INDENT * depth


def _strings(column: pa.Array) -> JsonText:
    if column.null_count == len(column):
        return [column]
    data = text_bytes(column)
    codes = np.frombuffer(data, np.uint8)
    if not _SHORT.issuperset(codes[codes < 32].tobytes()):
        return [pa.array([None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()])]
    for character, escaped in _ESCAPES.items():
        if character.encode() in data:
            column = pc.replace_substring(column, character, escaped)
    return [join(['"', column, '"'])] if column.null_count else ['"', column, '"']


def text_bytes(column: pa.Array) -> bytes:
    """Return the bytes of all texts, one after the other."""
    return bytes(_values(column))


def _values(column: pa.Array) -> pa.Buffer | bytes:
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    bounds = memoryview(offsets).cast("i")
    first = bounds[column.offset]
    return data.slice(first, bounds[column.offset + len(column)] - first)


def write_rows(
    path: Path,
    batches: Iterable[pa.RecordBatch],
    render: Callable[[pa.RecordBatch], Mapping[str, JsonText]],
    *,
    depth: int,
    head: bytes = b"",
    tail: bytes = b"\n",
    check: Callable[[memoryview], None] | None = None,
) -> None:
    """Publish an array of rows atomically; equal batches give equal bytes.

    Args:
        render: Returns the members of the rows of a batch, which are at the nesting level `depth`.
        head: Text before the array; `tail` comes after it.
        check: Called with the bytes of each batch's rows, with commas between them, in order.
    """
    between = ("\n" + INDENT * depth).encode()
    with publishing(path) as file:
        file.write(head + b"[")
        is_first = True
        for text in _in_order(
            lambda batch: consecutive(render(batch), depth), (batch for batch in batches if len(batch))
        ):
            file.write(between if is_first else b"," + between)
            file.write(text)
            if check is not None:
                check(text)
            is_first = False
        file.write((b"]" if is_first else b"\n" + (INDENT * (depth - 1)).encode() + b"]") + tail)


def _in_order(
    function: Callable[[pa.RecordBatch], memoryview], batches: Iterator[pa.RecordBatch]
) -> Iterator[memoryview]:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="rows") as pool:
        waiting: list[Future[memoryview]] = [pool.submit(function, batch) for batch in islice(batches, BATCHES_AHEAD)]
        while waiting:
            text = waiting.pop(0).result()
            waiting.extend(pool.submit(function, batch) for batch in islice(batches, 1))
            yield text
