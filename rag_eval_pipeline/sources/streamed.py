"""A relation that is never written: rows straight from their files, for mappings that need no SQL.

Its types are those of the first rows until a later one needs another; then everything that was made of the rows so far
has to be made anew, which `TypesChanged` says.
"""

from array import array as machine_array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa  # noqa: TID253  # this module exists to make Arrow relations

from rag_eval_pipeline.sources.decoded import Piece, UnreadRow
from rag_eval_pipeline.sources.relations import Read, Types, named, note_lines, shaped
from rag_eval_pipeline.storage.ahead import ahead


class TypesChanged(Exception):
    """Rows that were given have another type than was said; the next reading of the relation has the right ones."""


class StreamedRelation:
    """All rows of some files, with `source_file` and `source_row`.

    Args:
        names: Of the files, in order.
        read: Gives a file's pieces.
        shown: How messages name the files together.
        paths: Where the files lie.

    Attributes:
        schema: Of the rows.
        unread: Rows that could not be decoded; complete when all batches were read.
    """

    def __init__(self, names: Sequence[str], read: Read, shown: str, paths: Mapping[str, Path]) -> None:
        self.files, self.paths = tuple(names), paths
        self.unread: list[UnreadRow] = []
        self._read, self._shown = read, shown
        self._lines: dict[str, machine_array[int]] = {}
        self._settled: Types | None = None
        types = Types(shown)
        pieces = read(names[0], None)
        first = list(islice(pieces, 1))
        for piece in first:
            types.add(piece)
        self.schema = named(types.schema(), True, shown)
        # The first reading goes on where this stopped: a parquet file would be decoded as a whole once more.
        self._begun: Iterator[Piece] | None = chain(first, pieces)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, a few thousand at a time.

        Raises:
            TypesChanged: Once at most.
        """
        types = self._settled or Types(self._shown)
        self.unread, self._lines = [], {}
        rows: pa.Schema | None = types.schema() if self._settled else None
        kinds = types.kinds
        changed = False
        for name in self.files:
            begun, self._begun = self._begun, None
            pieces = begun if begun is not None and types.given is None else self._read(name, types.given)
            for piece in ahead(pieces):
                types.add(piece)
                schema = types.schema()
                if rows is None:
                    rows, kinds = schema, types.kinds
                    self.schema = named(rows, True, self._shown)
                changed = changed or not (schema.equals(rows) and types.hold(kinds) and types.hold(piece.kinds or {}))
                if changed:  # what is left is read for its types alone
                    continue
                self.unread += piece.unread
                note_lines(self._lines, name, piece)
                if len(piece.numbers):
                    yield shaped(name, piece, rows, self.schema)
        if changed:
            self._settled = types.settled()
            self.schema = named(types.schema(), True, self._shown)
            raise TypesChanged

    def line(self, file: str | None, row: int | None) -> int | None:
        """1-based physical line of a row that was read; None in files without lines."""
        lines = self._lines.get(file or "")
        return lines[row - 1] or None if lines and row is not None and 0 < row <= len(lines) else None
