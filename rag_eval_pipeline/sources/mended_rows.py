"""A source's rows with the mends in their places, as if the file had been so from the start.

A replaced row leaves nothing behind: a number that made a column of texts mixed does not, once it is mended. For that,
columns of files that have mends are read as what loses nothing, and typed by the rows that are left. Files without
mends are read as ever; of the others, pieces without a mended row pass as they are where types agree.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import Piece
from rag_eval_pipeline.sources.mend_checks import kind_fault, row_fault, stated_array, stated_fault
from rag_eval_pipeline.sources.mends import MENDED, Mend, Mends, read_mends
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.sources.kinds import Columns, Kind

Read = Callable[["Columns | None"], Iterator[Piece]]  # types that a file's columns must get -> its pieces


class MendedRows:
    """Files of a source with their mends.

    Args:
        mends: Of the source.
    """

    def __init__(self, mends: Mends) -> None:
        self.findings = [*mends.findings]
        self._mends = mends
        self._files: dict[str, _File] = {}

    @property
    def notes(self) -> list[str]:
        """Mends that are not applied, a line each; complete when all files were read."""
        return [str(finding) for finding in self.findings]

    def pieces(self, name: str, read: Read, kinds: "Columns | None") -> Iterator[Piece]:
        """A file's pieces, mended rows in their places.

        Args:
            name: Of the file.
            read: Reads it from its start; called several times when the file has mends.
            kinds: Types that its columns must get, known from an earlier reading of all files.
        """
        mends = self._mends.for_file(name)
        if not mends:
            return read(kinds)
        if name not in self._files:
            self._files[name] = _checked(mends, read, self.findings)
        return self._files[name].pieces(read, kinds)


def source_mends(paths: BenchmarkPaths, spec: SourceSpec, origins: Origins) -> MendedRows | None:
    """The mends of a benchmark's source; None when there can be none.

    Raises:
        InputError: `path_outside`, when `mended.jsonl` is a link, and those of `Origins`.
    """
    path = paths.source / MENDED
    if spec.files is not None or not (path.exists() or path.is_symlink()):
        return None
    return MendedRows(read_mends(paths, {file.name: file.path for file in origins.data_files(spec)}))


def exact_kinds(read: Read) -> "Columns | None":
    """Kinds as which a file's columns keep every value as it is written; None when the file states its types."""
    from rag_eval_pipeline.sources.kinds import ListOf, merge_columns

    kinds: dict[str, Kind] = {}
    for piece in read(None):
        if piece.kinds is None:
            return None
        kinds = merge_columns(kinds, piece.kinds)

    def is_exact(kind: "Kind") -> bool:
        # A whole number among floats and a key that an object lacks leave no trace in an array.
        while isinstance(kind, ListOf):
            kind = kind.item
        return isinstance(kind, str) and kind in {"null", "text", "boolean", "integer"}

    return {name: kind if is_exact(kind) else "json" for name, kind in kinds.items()}


def values_of(column: "pa.Array", kind: "Kind | None") -> list[Any]:
    """The JSON values of a column of an exact kind; of a file that states its types, what Arrow has for them."""
    values: list[Any] = column.to_pylist()
    return [None if value is None else json.loads(value) for value in values] if kind == "json" else values


@dataclass(frozen=True, slots=True)
class _File:
    """A file's mends that hold, and its types with them.

    Args:
        exact: As which it is read; None when it states its types.
        kinds: Of its columns when the mends are in their places.
    """

    mends: Mapping[int, Mend]
    exact: "Columns | None"
    kinds: "Columns"

    def pieces(self, read: Read, kinds: "Columns | None") -> Iterator[Piece]:
        target = {name: (kinds or self.kinds)[name] for name in self.kinds}
        same = self.exact is None or target == self.exact
        for piece in read(self.exact):
            here = _rows_here(piece, self.mends)
            yield piece if same and not here else self._mended(piece, here, target)

    def _mended(self, piece: Piece, rows: "Collection[int]", target: "Columns") -> Piece:
        import numpy as np
        import pyarrow as pa

        from rag_eval_pipeline.sources.kinds import array

        values = [self.mends[row].values for row in rows]
        kept = _kept_places(piece, rows)
        numbers = sorted([*np.asarray(piece.numbers, np.int64)[kept].tolist(), *rows])
        order = _order(piece, kept, rows)
        arrays, fields = [], []
        stated = {field.name: field for field in piece.batch.schema}
        for name in stated if self.exact is None else target:
            new = [row.get(name) for row in values]
            old = piece.batch.column(name).take(kept) if name in stated else pa.nulls(len(kept))
            if self.exact is None:
                old_and_new = [old, stated_array(new, stated[name].type)]
            elif target[name] == self.exact.get(name):
                old_and_new = [old, array(new, target[name])]
            else:
                old_and_new = [array([*values_of(old, self.exact.get(name)), *new], target[name])]
            arrays.append(pa.concat_arrays(old_and_new).take(pa.array(order)))
            fields.append(pa.field(name, arrays[-1].type))
        return Piece(
            pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)),
            numbers,
            _lines(piece, numbers),
            [row for row in piece.unread if row.row not in rows],
            None if self.exact is None else target,
        )


def _checked(mends: Mapping[int, Mend], read: Read, findings: list[InputError]) -> _File:
    """The mends that agree with their file; the others become findings."""
    exact = exact_kinds(read)
    rows, schema = _rows_of(mends, read, exact)
    known = schema.names if exact is None else list(exact)
    kinds = {} if exact is None else _kinds(read, exact, rows, {})
    good = {}
    for row, mend in sorted(mends.items()):
        fault = row_fault(mend, rows, known)
        if fault is None:
            fault = stated_fault(mend, schema) if exact is None else kind_fault(mend, kinds)
        if fault is None:
            good[row] = mend
        else:
            findings.append(fault)
    # Rows that stay do have a say in the types, and the keys of objects stand in the order in which rows have them.
    if exact is not None and good and (len(good) < len(rows) or "json" in exact.values()):
        kinds = _kinds(read, exact, good, good)
    return _File(good, exact, kinds)


def _rows_of(mends: Mapping[int, Mend], read: Read, exact: "Columns | None") -> "tuple[set[int], pa.Schema]":
    """Mended rows that the file has, and its types."""
    rows: set[int] = set()
    schema = None
    for piece in read(exact):
        rows.update(_rows_here(piece, mends))
        schema = piece.batch.schema
    return rows, schema


def _kinds(read: Read, exact: "Columns", left_out: Collection[int], mends: Mapping[int, Mend]) -> "dict[str, Kind]":
    """What the columns are by the rows that are left and by mends."""
    from rag_eval_pipeline.sources.kinds import kind_of, merge_columns

    kinds: dict[str, Kind] = dict.fromkeys(exact, "null")
    has_rows, has_null = False, False
    for piece in read(exact):
        kept = _kept_places(piece, left_out)
        has_rows = has_rows or len(kept) > 0
        has_null = has_null or any(column.null_count for column in piece.batch.columns)
        here = _rows_here(piece, mends)
        if not here and all(kinds[name] == kind != "json" for name, kind in exact.items()):
            continue
        batch = piece.batch.take(kept)
        order = _order(piece, kept, here)
        for name in dict.fromkeys([*exact, *(name for row in here for name in mends[row].values)]):
            old = values_of(batch.column(name), exact[name]) if name in exact else [None] * len(kept)
            values = [*old, *(mends[row].values.get(name) for row in here)]
            kinds = merge_columns(kinds, {name: kind_of([values[place] for place in order])})
    # A file of nothing but texts is taken for CSV, whose cells stay texts when all rows are mended.
    if not (has_rows or has_null or mends) and set(exact.values()) == {"text"}:
        return dict(exact)
    return kinds


def _order(piece: Piece, kept: Any, rows: Collection[int]) -> Any:
    """Places, in order of row, of kept rows and of rows that follow them."""
    import numpy as np

    numbers = np.asarray(piece.numbers, np.int64)[kept]
    return np.argsort(np.concatenate([numbers, np.array([*rows], np.int64)]))


def _rows_here(piece: Piece, mends: Mapping[int, Mend]) -> list[int]:
    """Mended rows that stand in a piece, in order."""
    unread = {row.row for row in piece.unread}
    first = min([*piece.numbers[:1], *unread], default=1)
    last = max([*piece.numbers[-1:], *unread], default=0)
    if last - first < len(mends):
        return [row for row in range(int(first), int(last) + 1) if row in mends]
    return sorted(row for row in mends if first <= row <= last)


def _kept_places(piece: Piece, rows: Collection[int]) -> Any:
    import numpy as np

    numbers = np.asarray(piece.numbers, np.int64)
    return np.flatnonzero(~np.isin(numbers, np.array([*rows], np.int64)))


def _lines(piece: Piece, numbers: list[int]) -> list[int]:
    """Physical line of each row; none in files without lines."""
    lines = {row.row: row.line for row in piece.unread if row.line is not None}
    if len(piece.lines):
        lines.update(zip(piece.numbers, map(int, piece.lines), strict=True))
    return [lines.get(number, 0) for number in numbers] if lines else []
