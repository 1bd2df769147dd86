"""Decoded values as Arrow relations, so that SQL sees lists and structs, and text stays the text it was.

A JSON column has the type that all its values share. Where they share none (a number here, a text there), each value is
kept as JSON text, at the innermost place that is mixed; nothing is converted to make it fit.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # noqa: TID253  # this module exists to make Arrow relations

SOURCE_FILE = "source_file"
SOURCE_ROW = "source_row"

MAX_DEPTH = 64  # deeper values stay JSON text: DuckDB and parquet recurse over the type
MAX_FIELDS = 500  # objects with more different keys are maps, not records; as struct each key would be a column
EXACT_FLOAT = 2**53  # integers above it change when they become floats
INT64 = range(-(2**63), 2**63)


def column(values: Sequence[Any], depth: int = 0) -> pa.Array:
    """JSON values as one Arrow array of the type they share."""
    kinds: set[type] = {type(value) for value in values} - {type(None)}
    if depth > MAX_DEPTH or len(kinds) > 1:
        numbers = kinds == {int, float} and all(abs(value) <= EXACT_FLOAT for value in values if type(value) is int)
        return pa.array(values, pa.float64()) if numbers and depth <= MAX_DEPTH else _json_texts(values)
    kind: Any = next(iter(kinds), str)
    if kind is str:
        return pa.array(values, pa.string())
    if kind is bool:
        return pa.array(values, pa.bool_())
    if kind is float:
        return pa.array(values, pa.float64())
    if kind is int:
        fits = all(value is None or value in INT64 for value in values)
        return pa.array(values, pa.int64()) if fits else _json_texts(values)
    return _lists(values, depth) if kind is list else _structs(values, depth)


def table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Decoded values as a relation."""
    return pa.table({name: column(values) for name, values in columns.items()})


def with_rows(relation: pa.Table, files: Sequence[str], rows: Sequence[int]) -> pa.Table:
    """The relation with `source_file` and `source_row` at its end; its own ones get a trailing underscore."""
    names = list(relation.column_names)
    taken = {name.casefold() for name in names}
    for own in (SOURCE_FILE, SOURCE_ROW):
        for position, name in enumerate(names):
            if name.casefold() == own:
                free = f"{name}_"
                while free.casefold() in taken:
                    free += "_"
                taken.add(free.casefold())
                names[position] = free
    relation = relation.rename_columns(names)
    relation = relation.append_column(SOURCE_FILE, pa.array(files, pa.string()))
    return relation.append_column(SOURCE_ROW, pa.array(rows, pa.int64()))


def _lists(values: Sequence[Any], depth: int) -> pa.Array:
    offsets = [0]
    flat: list[Any] = []
    for value in values:
        flat.extend(value or ())
        offsets.append(len(flat))
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column(flat, depth + 1), mask=mask)


def _structs(values: Sequence[Any], depth: int) -> pa.Array:
    names = list(dict.fromkeys(name for value in values if value is not None for name in value))
    # DuckDB's field names do not tell upper from lower case and may not be empty.
    alike = len({name.casefold() for name in names}) < len(names) or "" in names
    if not names or alike or len(names) > MAX_FIELDS:
        return _json_texts(values)
    children = [column([None if value is None else value.get(name) for value in values], depth + 1) for name in names]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, names=names, mask=mask)


def _json_texts(values: Sequence[Any]) -> pa.Array:
    return pa.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values], pa.string())
