"""Rows that a mapping gave: foreign columns under our names, with what `where` said of them and where they stood."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

TRACE_COLUMNS = ("source_file", "source_row", "source_item")

# Columns beside the mapped ones: what `where` said, and where a row came from.
KEEP, FROM_FILE, FROM_ROW = "__keep", "__source_file", "__source_row"


@dataclass(frozen=True, slots=True)
class MappedRow:
    """A row that a query returned.

    Args:
        values: By column; what is missing is None.
        keep: False when `where` was false or NULL.
        file: Source file, None when the query does not say.
        row: 1-based row in it.
    """

    values: dict[str, Any]
    keep: bool
    file: str | None
    row: int | None


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a query or the short form returned, in the source's order.

    Args:
        columns: Names of the mapped columns; a batch has `KEEP`, `FROM_FILE` and `FROM_ROW` beside them.
        batches: Reads the rows from their start, some thousands at a time.
    """

    columns: tuple[str, ...]
    batches: "Callable[[], Iterator[pa.RecordBatch]]"

    @property
    def rows(self) -> list[MappedRow]:
        """All rows, in memory."""
        return [row for batch in self.batches() for row in mapped_rows(batch)]


def mapped_rows(batch: "pa.RecordBatch") -> list[MappedRow]:
    """The rows of a batch as Python values."""
    own = [name for name in batch.schema.names if not name.startswith("__")]
    rows = batch.to_pylist()
    for name in own:
        _decode_mixed(rows, batch.schema.field(name))
    return [
        MappedRow({name: row[name] for name in own}, row[KEEP] is True, row[FROM_FILE], row[FROM_ROW]) for row in rows
    ]


def _decode_mixed(rows: Sequence[dict[str, Any]], field: "pa.Field") -> None:
    """Gives JSON texts of a column whose values share no type as the values that stood in the source."""
    if is_mixed(field):
        for row in rows:
            row[field.name] = None if row[field.name] is None else json.loads(row[field.name])
    for inner in getattr(field.type, "fields", ()) if field.name == "metadata" else ():
        _decode_mixed([row[field.name] for row in rows if row[field.name] is not None], inner)


def is_mixed(field: "pa.Field") -> bool:
    """Whether a column's values are kept as JSON text."""
    from rag_eval_pipeline.sources.kinds import MIXED

    return bool((field.metadata or {}).items() >= MIXED.items())
