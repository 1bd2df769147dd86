"""The columns of a relation as `init` sees them: name, kind, sample values, and the SQL that reads them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from rag_eval_pipeline.conversion.mapping import identifier

SAMPLE_VALUE_CHARACTERS = 50

Kind = Literal[
    "text", "integer", "number", "boolean", "texts", "text lists", "structs", "struct lists", "struct", "other"
]


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

    def field_kind(self, name: str) -> Kind | None:
        """Return the kind of a field; None if there is no field of that name."""
        return next((item.kind for item in self.fields if item.name == name), None)


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


def read_cell(parse: Callable[[str], Any], cell: str) -> Any:
    """Return the value that a cell states in some notation; None if it is not in this notation."""
    try:
        return parse(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _shorten(value: object) -> str:
    """Return a sample value for users; a text is cut before it is quoted."""
    shown = value if isinstance(value, str) else repr(value)
    if len(shown) > SAMPLE_VALUE_CHARACTERS:
        shown = shown[:SAMPLE_VALUE_CHARACTERS] + "…"
    return repr(shown) if isinstance(value, str) else shown
