"""What readers take and give: a file, pieces of its decoded rows, and the rows that it would not give."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.sources.source_spec import SourceSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.sources.kinds import Kind

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")  # stands for a byte that is no text, or for half a character


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to be decoded.

    Args:
        path: Absolute.
        name: Relative to the benchmark's folder, with `/`.
        shown: How messages name it.
        encoding: Of its text.
        kinds: Types that its columns must get, known from an earlier reading of all files; None: the reader finds them.
    """

    path: Path
    name: str
    shown: str
    spec: SourceSpec
    encoding: str = "utf-8"
    kinds: "Mapping[str, Kind] | None" = None


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row that could not be decoded.

    Args:
        row: 1-based among the file's rows.
        line: 1-based physical line where it starts; None in files without lines.
    """

    file: str
    row: int
    line: int | None
    code: str
    expected: str
    found: str | None = None
    field: str | None = None


@dataclass(slots=True)
class Piece:
    """Consecutive rows of one file, decoded.

    Args:
        batch: The rows.
        numbers: 1-based place of each row among the file's rows, unread ones counted.
        lines: 1-based physical line of each row; empty for files without lines.
        unread: Rows that stood between them and could not be decoded.
        kinds: What their columns are; None where the file states its types.
    """

    batch: "pa.RecordBatch"
    numbers: Sequence[int]
    lines: Sequence[int] = ()
    unread: list[UnreadRow] = field(default_factory=list)
    kinds: "Mapping[str, Kind] | None" = None


Reader = Callable[[BinaryIO, SourceFile], Iterator[Piece]]


class BadRow(Exception):
    """A row's fault, before its place is known."""

    def __init__(self, code: str, expected: str, found: object = None, field: str | None = None) -> None:
        super().__init__(code)
        self.code, self.expected, self.found, self.field = (
            code,
            expected,
            None if found is None else excerpt(found),
            field,
        )

    def unread(self, file: str, row: int, line: int | None) -> UnreadRow:
        """The fault at its place."""
        return UnreadRow(file, row, line, self.code, self.expected, self.found, self.field)


def object_piece(
    objects: Sequence[Mapping[str, Any]],
    numbers: Sequence[int],
    lines: Sequence[int],
    unread: list[UnreadRow],
    kinds: "Mapping[str, Kind] | None",
) -> Piece:
    """Objects as a piece; their kinds are found unless they are known."""
    import pyarrow as pa

    from rag_eval_pipeline.sources.kinds import array, kind_of

    names = list(kinds) if kinds is not None else list(dict.fromkeys(name for item in objects for name in item))
    columns = {name: [item.get(name) for item in objects] for name in names}
    found = kinds if kinds is not None else {name: kind_of(values) for name, values in columns.items()}
    arrays = [array(columns[name], found[name]) for name in names]
    if not names:  # a batch that has no columns must still know how many rows it has
        empty = pa.array([{}] * len(objects), pa.struct([]))
        return Piece(pa.RecordBatch.from_struct_array(empty), numbers, lines, unread, found)
    return Piece(pa.RecordBatch.from_arrays(arrays, names=names), numbers, lines, unread, found)
