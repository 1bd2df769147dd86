"""Decoded files as relations for SQL: typed, on disk, a batch in memory at a time.

A relation's type is known when all its files were read. Files whose first pieces show it are read once; where a later
piece needs another type (a number in a column of texts), all are read again with the types of all.
"""

from array import array as machine_array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa  # noqa: TID253  # this module exists to make Arrow relations
import pyarrow.ipc  # noqa: TID253

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import Piece, UnreadRow
from rag_eval_pipeline.sources.kinds import arrow_field, holds, merge_columns
from rag_eval_pipeline.storage.scratch import ScratchFolder

if TYPE_CHECKING:
    from rag_eval_pipeline.sources.kinds import Kind

SOURCE_FILE = "source_file"
SOURCE_ROW = "source_row"

Kinds = Mapping[str, "Kind"]
Read = Callable[[str, Kinds | None], Iterator[Piece]]  # name of a file, types it must have


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation for SQL, and what its files would not give.

    Args:
        folder: Holds `path`.
        path: Arrow file with its rows; goes with the relation.
        schema: Of the rows.
        files: Names of the files it was read from, in order.
        unread: Rows that could not be decoded.
        paths: Where the files lie.
        lines: Physical line of each row by file, 0 for rows that could not be decoded; none for files without lines.
    """

    folder: ScratchFolder
    path: Path
    schema: pa.Schema
    files: tuple[str, ...]
    unread: tuple[UnreadRow, ...] = ()
    lines: "Mapping[str, machine_array[int]]" = field(default_factory=dict, repr=False)
    paths: Mapping[str, Path] = field(default_factory=dict, repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order, a few thousand at a time."""
        with pa.OSFile(str(self.path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    @property
    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def line(self, file: str | None, row: int | None) -> int | None:
        """1-based physical line of a row; None in files without lines."""
        lines = self.lines.get(file or "")
        return lines[row - 1] or None if lines and row is not None and 0 < row <= len(lines) else None


def relation(names: Sequence[str], read: Read, shown: str, *, origin: bool) -> Relation:
    """All rows of some files.

    Args:
        names: Of the files, in order.
        read: Gives a file's pieces.
        shown: How messages name the files together.
        origin: Adds source_file and source_row.

    Raises:
        InputError: `duplicate_column`, `mixed_types` and whatever `read` raises.
    """
    folder = ScratchFolder("source")
    types = Types(shown)
    spool = _fill(folder.path, names, read, types, origin=origin)
    if spool is None:
        spool = _fill(folder.path, names, read, types.settled(), origin=origin)
    assert spool is not None  # settled types do not change
    return Relation(folder, spool.path, spool.schema, tuple(names), tuple(spool.unread), spool.lines)


class Types:
    """The columns of some files, as far as they were read."""

    def __init__(self, shown: str) -> None:
        self.given: Kinds | None = None
        self.shown = shown
        self.kinds: Kinds = {}
        self._stated: pa.Schema | None = None  # of files that carry their types

    def settled(self) -> "Types":
        """The same types for a second reading, which cannot change them."""
        self.given = self.kinds
        return self

    def add(self, piece: Piece) -> None:
        """Takes a piece's columns up."""
        if piece.kinds is not None:
            self.kinds = merge_columns(self.kinds, piece.kinds)
        elif self._stated is None or not piece.batch.schema.equals(self._stated):
            self._stated = self._unified(self._stated, piece.batch.schema)

    def schema(self) -> pa.Schema:
        """Of the rows so far."""
        own = pa.schema([arrow_field(name, kind) for name, kind in self.kinds.items()])
        return own if self._stated is None else self._unified(self._stated, own)

    def hold(self, kinds: Kinds) -> bool:
        """Whether rows written as some kinds are what they would be as the present ones."""
        return all(holds(kind, self.kinds[name]) for name, kind in kinds.items())

    def _unified(self, one: pa.Schema | None, other: pa.Schema) -> pa.Schema:
        try:
            schemas = [schema.remove_metadata() for schema in (one, other) if schema is not None]
            return pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            found = str(error).splitlines()[0]
            raise InputError("mixed_types", self.shown, "files whose columns agree in type", found=found) from None


def _fill(folder: Path, names: Sequence[str], read: Read, types: Types, *, origin: bool) -> "_Spool | None":
    """Writes all rows; None when a piece changed the type of those already written. Then all were read for theirs."""
    spool: _Spool | None = None
    unread: list[UnreadRow] = []
    lines: dict[str, machine_array[int]] = {}
    fits = True
    for name in names:
        for piece in read(name, types.given):
            types.add(piece)
            unread.extend(piece.unread)
            note_lines(lines, name, piece)
            schema = types.schema()
            if spool is None:
                spool = _Spool(folder / "rows.arrow", types, origin=origin)
            fits = fits and schema.equals(spool.rows) and types.hold(spool.kinds) and types.hold(piece.kinds or {})
            if fits:
                spool.write(name, piece)
    if spool is None:
        spool = _Spool(folder / "rows.arrow", types, origin=origin)
    spool.unread, spool.lines = unread, lines
    spool.close()
    return spool if fits else None


def note_lines(lines: "dict[str, machine_array[int]]", name: str, piece: Piece) -> None:
    """Remembers where a piece's rows stand in their file."""
    if len(piece.lines):
        known = lines.setdefault(name, machine_array("q"))
        known.extend([0] * (piece.numbers[-1] - len(known)))
        first = piece.numbers[0]
        if piece.numbers[-1] - first + 1 == len(piece.numbers):
            known[first - 1 :] = machine_array("q", piece.lines)
        else:
            for number, line in zip(piece.numbers, piece.lines, strict=True):
                known[number - 1] = line


class _Spool:
    """The file of a relation while it is written."""

    def __init__(self, path: Path, types: Types, *, origin: bool) -> None:
        self.path, self.rows, self.kinds = path, types.schema(), types.kinds
        self.unread: list[UnreadRow] = []
        self.lines: dict[str, machine_array[int]] = {}
        self.schema = named(self.rows, origin, types.shown)
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, self.schema)

    def write(self, name: str, piece: Piece) -> None:
        """Adds rows."""
        if len(piece.numbers):
            self._writer.write_batch(shaped(name, piece, self.rows, self.schema))

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()
        self._file.close()


def shaped(name: str, piece: Piece, rows: pa.Schema, schema: pa.Schema) -> pa.RecordBatch:
    """A piece's rows in the columns of the relation; columns that they lack are null.

    Args:
        name: Of the file.
        piece: Its rows.
        rows: Columns of the files.
        schema: The same under the names that SQL knows, with the columns of origin where the relation has them.
    """
    batch, count = piece.batch, len(piece.numbers)
    places = {column: number for number, column in enumerate(batch.schema.names)}
    arrays = [
        batch.column(places[field.name]).cast(field.type) if field.name in places else pa.nulls(count, field.type)
        for field in rows
    ]
    if len(schema) > len(rows):
        arrays += [pa.repeat(name, count), pa.array(piece.numbers, pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def named(rows: pa.Schema, origin: bool, shown: str) -> pa.Schema:
    """Column names that SQL can tell apart; the source's own `source_file` gives way to ours with an underscore."""
    seen: dict[str, str] = {}
    for name in rows.names:
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            raise InputError(
                "duplicate_column", shown, "columns that differ in more than case", field=name, found=[other, name]
            )
    fields = []
    for position, column in enumerate(rows, start=1):
        name = column.name or f"column_{position}"
        while origin and name.casefold() in {SOURCE_FILE, SOURCE_ROW, *(seen if name != column.name else ())}:
            name += "_"
        fields.append(column.with_name(name))
    if origin:
        fields += [pa.field(SOURCE_FILE, pa.string()), pa.field(SOURCE_ROW, pa.int64())]
    return pa.schema(fields)
