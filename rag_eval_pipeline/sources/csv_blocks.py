"""Cutting CSV into blocks of whole records, as long as its quotes are where RFC 4180 wants them.

Then, and only then, a line feed before which an even number of quotes stands ends a record, and every parser reads the
same cells.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

BLOCK_BYTES = 1 << 20
MAX_BLOCK = 64 << 20  # a record that is longer lost a quote


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Block(NamedTuple):
    """Whole records.

    Args:
        data: Their bytes.
        lines: For each line feed that ends a record, how many lines of the block stand before that record.
        line_count: Of the whole block.
    """

    data: bytes
    lines: Any
    line_count: int


class Irregular(Exception):
    """From here on the quotes tell nothing; `data` was read and not yielded."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


def regular_blocks(handle: _Readable, delimiter: str, quote: str) -> Iterator[Block]:
    """Blocks of a file in UTF-8, its byte order mark left out.

    Args:
        handle: At the start of the file, or of a record.
        delimiter: One ASCII character.
        quote: One ASCII character.

    Raises:
        Irregular: At the first block of which not all quotes are at the edges of cells or doubled.
    """
    rest = handle.read(3)
    rest = b"" if rest == b"\xef\xbb\xbf" else rest
    if not (delimiter.isascii() and quote.isascii()):
        raise Irregular(rest)
    while chunk := handle.read(BLOCK_BYTES):
        rest += chunk
        block = _block(rest, delimiter, quote)
        if block is not None:
            rest = rest[len(block.data) :]
            yield block
        elif len(rest) > MAX_BLOCK:
            raise Irregular(rest)
    if rest:
        block = _block(rest + b"\n", delimiter, quote)
        if block is None or len(block.data) <= len(rest):
            raise Irregular(rest)
        yield block


def _block(data: bytes, delimiter: str, quote: str) -> Block | None:
    """The whole records at the start of some bytes; None when there are none."""
    import numpy as np

    characters = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(characters == 10)
    quotes = np.flatnonzero(characters == ord(quote))
    before = np.searchsorted(quotes, feeds)
    ends = feeds[before % 2 == 0]
    if not len(ends):
        return None
    size = int(ends[-1]) + 1
    # Lines that end at CR alone; one at the very end of what was read may belong to a line feed that was not.
    if data.count(b"\r", 0, size) != data.count(b"\r\n", 0, size):
        raise Irregular(data)
    quotes = quotes[: int(before[before % 2 == 0][-1])]
    opening, closing = quotes[0::2], quotes[1::2]
    edges = np.array([ord(delimiter), 10, 13], np.uint8)
    # A closing quote right before an opening one is one doubled inside a cell.
    doubled = np.zeros(len(opening), bool)
    if len(opening) > 1:
        doubled[1:] = opening[1:] == closing[:-1] + 1
    previous = np.where(opening == 0, 10, characters[np.maximum(opening - 1, 0)])
    following = characters[closing + 1]
    opens = np.isin(previous, edges[:2]) | doubled
    closes = np.isin(following, edges) | np.append(doubled[1:], False)[: len(closing)]
    if not (opens.all() and closes.all()):
        raise Irregular(data)
    starts = np.concatenate(([0], ends[:-1] + 1))
    return Block(data[:size], np.searchsorted(feeds, starts), int(np.searchsorted(feeds, size)))
