"""The columns of a relation as `init` sees them: name, kind, sample values, and the SQL that reads them.

Columns inside columns are the fields of structs, and the keys of JSON objects and Python dicts in cells of text. They
are named by their path (`Answer.Value`), and roles and links treat them as columns of the file.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.storage.python_literals import python_literal

SAMPLE_VALUE_CHARACTERS = 50
HTML_SHARE = 0.5  # of the values begin with a tag
MAX_DEPTH = 3  # of structs in structs
MAX_KEYS = 100  # of the objects in a column; more are data that is keyed by ids

Kind = Literal[
    "text", "integer", "number", "boolean", "texts", "text lists", "structs", "struct lists", "struct", "other"
]

_SCALARS: dict[type, Kind] = {str: "text", bool: "boolean", int: "integer", float: "number"}


class Field(NamedTuple):
    """A field of a struct, or of the structs in a list."""

    name: str
    kind: Kind
    fields: tuple["Field", ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    kind: Kind
    values: tuple[Any, ...] = field(repr=False)  # of the first rows, NULL included
    fields: tuple[Field, ...] = ()  # of a struct, or of the structs in a list
    is_unique: bool = False  # every row has a value, and no two rows have the same
    path: str | None = None  # the SQL that reads it out of another column; None for a column of the relation

    @property
    def sql(self) -> str:
        """The SQL of its values."""
        return self.path or identifier(self.name)

    @property
    def present(self) -> list[Any]:
        """The sample values without NULL, empty lists and blank texts."""
        return [
            value
            for value in self.values
            if value is not None and value != [] and not (isinstance(value, str) and (not value or value.isspace()))
        ]

    @property
    def is_full(self) -> bool:
        """Whether every sampled row has a value."""
        return len(self.present) == len(self.values)

    @property
    def as_text(self) -> str:
        """The SQL of its values as texts."""
        return self.sql if self.kind == "text" else f"CAST({self.sql} AS VARCHAR)"

    @property
    def described(self) -> str:
        """Name, kind and a sample value, for users."""
        sample = f", such as {_shorten(self.present[0])}" if self.present else ", empty"
        return f"{self.name!r} ({self.kind}{sample})"


def field_of(name: str, kind: pa.DataType) -> Field:
    """Return a field's name and kind, with the fields inside it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Field(name, "text")
    if pa.types.is_boolean(kind):
        return Field(name, "boolean")
    if pa.types.is_integer(kind):
        return Field(name, "integer")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Field(name, "number")
    if pa.types.is_struct(kind):
        return Field(name, "struct", tuple(field_of(part.name, part.type) for part in kind.fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = field_of(name, kind.value_type)
        kinds: dict[Kind, Kind] = {
            "text": "texts", "texts": "text lists", "struct": "structs", "structs": "struct lists",
        }  # fmt: skip
        return Field(name, kinds.get(inner.kind, "other"), inner.fields)
    return Field(name, "other")


def are_keys(kind: Kind, values: Sequence[Any]) -> bool:
    """Return whether values can be ids: texts or integers, none of which is missing or there twice."""
    return kind in {"text", "integer"} and bool(values) and None not in values and len(set(values)) == len(values)


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
                len(values) == rows and are_keys(part.kind, values),
                f"{column.sql}.{identifier(part.name)}",
            )
            yield found
            if depth < MAX_DEPTH:
                yield from _inside(found, rows, depth + 1)
    elif column.kind == "text" and column.path is None:
        yield from _keys_of_objects(column, rows)


# Ways to write objects in text, with the function that parses them in SQL.
_NOTATIONS: tuple[tuple[Callable[[str], Any], str], ...] = (
    (json.loads, "json({})"), (python_literal, "python_dict({})"),
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
            yield Column(f"{column.name}.{key}", kind, values, (), len(values) == rows and are_keys(kind, values), path)


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


def is_html(values: Sequence[str]) -> bool:
    """Return whether most of some texts are HTML."""
    tagged = sum(value.lstrip()[:1] == "<" and "</" in value for value in values)
    return bool(values) and tagged >= HTML_SHARE * len(values)


def read_cell(parse: Callable[[str], Any], cell: str) -> Any:
    """Return the value that a cell states in some notation; None if it is not in this notation."""
    try:
        return parse(cell)
    except (ValueError, RecursionError):
        return None


def _shorten(value: object) -> str:
    """Return a sample value for users; a text is cut before it is quoted."""
    shown = value if isinstance(value, str) else repr(value)
    if len(shown) > SAMPLE_VALUE_CHARACTERS:
        shown = shown[:SAMPLE_VALUE_CHARACTERS] + "…"
    return repr(shown) if isinstance(value, str) else shown
