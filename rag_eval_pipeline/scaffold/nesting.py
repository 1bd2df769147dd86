"""Columns inside columns: the fields of structs, and the keys of JSON objects and Python dicts in cells of text.

A nested column is named by its path (`Answer.Value`) and carries the SQL that reads it, so that roles and links treat
it as a column of the file.
"""

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.scaffold.columns import Column, Kind, read_cell

MAX_DEPTH = 3  # of structs in structs
MAX_KEYS = 100  # of the objects in a column; more are data that is keyed by ids

_SCALARS: dict[type, Kind] = {str: "text", bool: "boolean", int: "integer", float: "number"}


def nested_columns(columns: Iterable[Column], rows: int) -> tuple[Column, ...]:
    """Return the columns inside columns, in their order.

    Args:
        rows: Of the whole relation: ids are only known to be unique if the sample is all of it.
    """
    return tuple(nested for column in columns for nested in _inside(column, rows, 1))


def _inside(column: Column, rows: int, depth: int) -> Iterator[Column]:
    if column.kind == "struct":
        for part in column.fields:
            values = tuple(None if value is None else value.get(part.name) for value in column.values)
            found = Column(
                f"{column.name}.{part.name}",
                part.kind,
                values,
                part.fields,
                _is_unique(part.kind, values, rows),
                f"{column.sql}.{identifier(part.name)}",
            )
            yield found
            if depth < MAX_DEPTH:
                yield from _inside(found, rows, depth + 1)
    elif column.kind == "text" and column.path is None:
        yield from _keys_of_objects(column, rows)


# Ways to write objects in text, with the function that parses them in SQL.
_NOTATIONS: tuple[tuple[Callable[[str], Any], str], ...] = (
    (json.loads, "json({})"), (ast.literal_eval, "python_dict({})"),
)  # fmt: skip


def _keys_of_objects(column: Column, rows: int) -> Iterator[Column]:
    """Yield the keys of a column of text in which each cell that is not blank is an object."""
    cells = [value if isinstance(value, str) and value.strip() else None for value in column.values]
    given = [cell for cell in cells if cell is not None]
    if not given or not all(cell.lstrip().startswith("{") for cell in given):
        return
    tried = ((sql, [None if cell is None else _parsed(parse, cell) for cell in cells]) for parse, sql in _NOTATIONS)
    read = [(sql, objects) for sql, objects in tried if objects.count(None) == cells.count(None)]
    if not read:
        return
    sql, objects = read[0]
    keys = list(dict.fromkeys(key for value in objects if value is not None for key in value))
    if len(keys) > MAX_KEYS or not all(isinstance(key, str) and key.isprintable() and '"' not in key for key in keys):
        return
    source = sql.format(f"nullif(trim({column.sql}), '')")
    for key in keys:
        values = tuple(None if value is None else value.get(key) for value in objects)
        kind = _kind(values)
        if kind is not None:
            path = _read_key(source, key, kind)
            yield Column(f"{column.name}.{key}", kind, values, (), _is_unique(kind, values, rows), path)


def _parsed(parse: Callable[[str], Any], cell: str) -> dict[Any, Any] | None:
    value = read_cell(parse, cell)
    return value if isinstance(value, dict) else None


def _kind(values: Iterable[Any]) -> Kind | None:
    """Return the kind of some values; None if they have no common one."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1 and (kind := next(iter(kinds))) in _SCALARS:
        return _SCALARS[kind]
    if kinds == {list} and all(isinstance(item, str) for value in values if value for item in value):
        return "texts"
    return None


def _read_key(source: str, key: str, kind: Kind) -> str:
    path = literal(f'$."{key}"')
    if kind == "texts":
        return f"""from_json(json_extract({source}, {path}), '["VARCHAR"]')"""
    text = f"json_extract_string({source}, {path})"
    return {
        "boolean": f"CAST({text} AS BOOLEAN)",
        "integer": f"CAST({text} AS BIGINT)",
        "number": f"CAST({text} AS DOUBLE)",
    }.get(kind, text)


def _is_unique(kind: Kind, values: tuple[Any, ...], rows: int) -> bool:
    return (
        kind in {"text", "integer"}
        and 0 < len(values) == rows
        and None not in values
        and len(set(values)) == len(values)
    )
