r"""JSON lines: one object a line, read as the standard has it: each key once, finite numbers, whole characters.

Lines end at LF alone, so U+2028 inside a text is text. A bad line is an unread row and the others go on.

Blocks whose columns are known go through Arrow's parser, which is as strict; a block that it refuses, or that needs
another look, is read line by line. Arrow takes 1.3 to 2.4 us for a row of 1 kB, Python's json and its columns 13 us.
"""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from rag_eval_pipeline.sources.decoded import BadRow, Piece, SourceFile, UnreadRow, object_piece
from rag_eval_pipeline.sources.json_values import json_object, whole_text

if TYPE_CHECKING:
    from rag_eval_pipeline.sources.kinds import Columns

BLOCK_BYTES = 2 << 20
MAX_ROW_BYTES = 100_000_000  # of a line; a longer one is a file without line ends

_UTF8 = frozenset({"utf-8", "utf-8-sig", "ascii"})


def read_jsonl(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """The file's rows, a few megabytes at a time.

    Raises:
        InputError: `bad_encoding`, of a stated encoding that the file does not have.
    """
    if file.encoding not in _UTF8:
        handle = io.BytesIO(whole_text(handle, file).encode())
    kinds = file.kinds
    number, line = 1, 1
    for block in _blocks(handle):
        piece = _parsed(block, kinds, number, line) if kinds else None
        if piece is None:
            piece = _line_by_line(block, file, number, line)
        if file.kinds is None:
            from rag_eval_pipeline.sources.kinds import merge_columns

            kinds = merge_columns(kinds or {}, piece.kinds or {})
        number += len(piece.numbers) + len(piece.unread)
        line += block.count(b"\n")
        yield piece


def _blocks(handle: BinaryIO) -> Iterator[bytes]:
    """Whole lines, about `BLOCK_BYTES` at a time; a byte order mark is left out."""
    rest = handle.read(3)
    rest = b"" if rest == b"\xef\xbb\xbf" else rest
    while chunk := handle.read(BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        elif len(rest) <= MAX_ROW_BYTES:  # more of such a line is not kept: it is refused for its length
            rest += chunk
    if rest:
        yield rest


def _parsed(block: bytes, kinds: "Columns", number: int, line: int) -> Piece | None:
    """The block by Arrow's parser; None when a person would have to be told more than it tells, or types differ."""
    import pyarrow as pa
    import pyarrow.json as pj

    from rag_eval_pipeline.sources.kinds import arrow_type, holds_json_text, refined

    if any(map(holds_json_text, kinds.values())):
        return None
    count = _objects_by_line(block)
    if count is None:
        return None
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = pj.ReadOptions(use_threads=True, block_size=max(BLOCK_BYTES // 4, 2 * (len(block) // count)))
    try:
        table = pj.read_json(pa.BufferReader(block), reading, parsing)
        table.validate(full=True)  # the parser does not look whether text is UTF-8
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if table.num_rows != count:
        return None
    [batch] = table.combine_chunks().to_batches()
    exact = {name: refined(batch.column(name), kind) for name, kind in kinds.items()}
    known = {name: kind for name, kind in exact.items() if kind is not None}
    if len(known) < len(exact):
        return None
    return Piece(batch, range(number, number + count), range(line, line + count), kinds=known)


def _objects_by_line(block: bytes) -> int | None:
    """The number of lines, when each begins and ends as an object does; None when one does not.

    Arrow does not mind two objects in a line or one in several. Where this holds, a line feed stands between objects
    and nowhere else, so as many objects as lines are one a line.
    """
    import numpy as np

    body = np.frombuffer(block, np.uint8)
    feeds = np.flatnonzero(body == ord("\n"))
    ends = feeds if block.endswith(b"\n") else np.append(feeds, len(body))
    starts = np.append(0, feeds[: len(ends) - 1] + 1)
    last = ends - 1
    last = np.where(body[last] == ord("\r"), last - 1, last)
    if starts[-1] >= len(body) or (last < starts).any():
        return None
    whole = (body[starts] == ord("{")).all() and (body[last] == ord("}")).all()
    return len(ends) if whole else None


def _line_by_line(block: bytes, file: SourceFile, number: int, line: int) -> Piece:
    """The block by Python's parser, with the cause of each bad line."""
    objects, numbers, lines = [], [], []
    unread: list[UnreadRow] = []
    for place, raw in enumerate(block.removesuffix(b"\n").split(b"\n"), start=line):
        if not raw.strip():
            continue
        try:
            if len(raw) > MAX_ROW_BYTES:
                raise BadRow("cell_too_long", f"a line of at most {MAX_ROW_BYTES} bytes", len(raw))
            objects.append(json_object(raw, allow_nan=file.spec.allow_nan))
        except BadRow as bad:
            unread.append(bad.unread(file.name, number, place))
        else:
            numbers.append(number)
            lines.append(place)
        number += 1
    return object_piece(objects, numbers, lines, unread, file.kinds)
