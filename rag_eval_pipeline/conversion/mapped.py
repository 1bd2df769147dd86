"""Rows that a mapping gave: foreign columns under our names, with what `where` said of them and where they stood."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.conversion.row_fault import RowFault, bad_value
from rag_eval_pipeline.sources.decoded import BadRow
from rag_eval_pipeline.sources.json_values import json_value

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
        fault: Why a value could not be decoded.
    """

    values: dict[str, Any]
    keep: bool
    file: str | None
    row: int | None
    fault: RowFault | None = None


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
    """The rows of a batch as Python values; JSON text is given as the value it stands for."""
    from rag_eval_pipeline.sources.kinds import has_json

    own = [field for field in batch.schema if not field.name.startswith("__")]
    encoded = [field for field in own if has_json(field)]
    rows = []
    for row in batch.to_pylist():
        fault = None
        for field in encoded:
            try:
                row[field.name] = _decoded(row[field.name], field)
            except BadRow as bad:
                fault = fault or bad_value(bad, field.name)
        values = {field.name: row[field.name] for field in own}
        rows.append(MappedRow(values, row[KEEP] is True, row[FROM_FILE], row[FROM_ROW], fault))
    return rows


def _decoded(value: Any, field: "pa.Field") -> Any:
    """A value of a column in which some places, at any depth, are JSON text.

    Raises:
        BadRow: A key stands twice, or a number is none.
    """
    from pyarrow import types

    from rag_eval_pipeline.sources.kinds import has_json, inner_fields, is_json

    if value is None:
        return None
    if is_json(field):
        return json_value(value)
    inner = inner_fields(field.type)
    if types.is_struct(field.type):
        return {**value, **{part.name: _decoded(value[part.name], part) for part in inner if has_json(part)}}
    if types.is_map(field.type):
        key, item = inner_fields(inner[0].type)
        return [(_decoded(name, key), _decoded(held, item)) for name, held in value]
    if inner and has_json(inner[0]):
        return [_decoded(item, inner[0]) for item in value]
    return value
