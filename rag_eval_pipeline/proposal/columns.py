"""A relation's columns as SQL will see them: name, kind, sample values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rag_eval_pipeline.proposal.draft import Origin, identifier

SAMPLE_ROWS = 5_000  # rows whose values are looked at; types and uniqueness are those of all rows
SHOWN_CHARACTERS = 50  # of a sample value in a comment
HIDDEN_COLUMNS = frozenset({"source_file", "source_row", "source_item"})  # the source's own names for what SQL adds

Kind = Literal["text", "integer", "number", "boolean", "texts", "text lists", "structs", "struct", "other"]


class Field(NamedTuple):
    """A field of a struct, or of the structs of a list."""

    name: str
    kind: Kind
    fields: tuple["Field", ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation.

    Args:
        name: As it stands in the file.
        kind: From its type.
        values: Of the first rows, NULL included.
        fields: Of a struct, or of a list of structs.
        is_unique: All rows have a value and no two the same.
    """

    name: str
    kind: Kind
    values: tuple[Any, ...] = field(repr=False)
    fields: tuple[Field, ...] = ()
    is_unique: bool = False

    @property
    def present(self) -> list[Any]:
        """Sample values without NULL, empty lists and texts of nothing but blanks."""
        return [value for value in self.values if value is not None and value != [] and str(value).strip()]

    @property
    def is_full(self) -> bool:
        """Whether each row of the sample has a value."""
        return len(self.present) == len(self.values)

    def field_kind(self, name: str) -> Kind | None:
        """Kind of a field; None when there is none of that name."""
        return next((item.kind for item in self.fields if item.name == name), None)

    @property
    def as_text(self) -> str:
        """SQL of its values as texts."""
        name = identifier(self.name)
        return name if self.kind == "text" else f"CAST({name} AS VARCHAR)"

    @property
    def described(self) -> str:
        """Name, kind and a sample, for people."""
        sample = f", such as {_shortened(self.present[0])}" if self.present else ", empty"
        return f"{self.name!r} ({self.kind}{sample})"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, or a part of a JSON file, that is a relation.

    Args:
        origin: How benchmark.yaml is to name it.
        columns: Those that SQL can name.
        rows: How many it has.
        table: All of it, an Arrow table.
    """

    origin: Origin
    columns: tuple[Column, ...]
    rows: int
    table: Any = field(repr=False)

    def column(self, name: str) -> Column | None:
        """The column of exactly that name."""
        return next((column for column in self.columns if column.name == name), None)

    def share_known(self, column: Column, values: Sequence[object]) -> float:
        """Share of the values, as texts, that the column has in any row; 0.0 without values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not values:
            return 0.0
        known = self.table.column(column.name).combine_chunks().cast(pa.string())
        asked = pa.array([str(value) for value in values], pa.string())
        found: list[bool] = pc.is_in(asked, value_set=known).to_pylist()
        return sum(found) / len(found)


def data_file(origin: Origin, table: Any) -> DataFile:
    """A relation's columns; those whose names SQL cannot say, or says for something else, are left out."""
    columns = tuple(
        _column(table, place, name)
        for place, name in enumerate(table.column_names)
        if name.casefold() not in HIDDEN_COLUMNS and "\x00" not in name
    )
    return DataFile(origin, columns, table.num_rows, table)


def _column(table: Any, place: int, name: str) -> Column:
    import pyarrow.compute as pc

    values = table.column(place)
    shape = _shape(name, values.type)
    sample = tuple(values.slice(0, SAMPLE_ROWS).to_pylist())
    # Counting all values of a column of texts is dear; the sample of most columns says no at once.
    is_unique = shape.kind in {"text", "integer"} and bool(sample) and len(set(sample)) == len(sample)
    if is_unique:
        is_unique = not values.null_count and pc.count_distinct(values).as_py() == table.num_rows
    return Column(name, shape.kind, sample, shape.fields, is_unique)


def _shape(name: str, kind: Any) -> Field:
    """A column's or field's kind, from its Arrow type."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Field(name, "text")
    if types.is_boolean(kind):
        return Field(name, "boolean")
    if types.is_integer(kind):
        return Field(name, "integer")
    if types.is_floating(kind) or types.is_decimal(kind):
        return Field(name, "number")
    if types.is_struct(kind):
        return Field(name, "struct", tuple(_shape(part.name, part.type) for part in kind.fields))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _shape(name, kind.value_type)
        kinds: dict[Kind, Kind] = {"text": "texts", "texts": "text lists", "struct": "structs"}
        return Field(name, kinds.get(inner.kind, "other"), inner.fields)
    return Field(name, "other")


def _shortened(value: object) -> str:
    """A sample value for people; `repr` closes the quotes of a text that was cut."""
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "…")
    shown = repr(value)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + "…"
