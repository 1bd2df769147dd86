"""The type that JSON values share, found piece by piece, and Arrow arrays of it.

Kinds form a lattice: `merge` is commutative and associative, so the type of a column does not depend on where a file
was cut or in which order its rows came. Where values share no type (a number here, a text there) each is kept as JSON
text, at the innermost place that is mixed; nothing is converted to make it fit.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa  # noqa: TID253  # this module exists to make Arrow arrays
import pyarrow.compute as pc  # noqa: TID253

MAX_DEPTH = 60  # deeper values stay JSON text: DuckDB, parquet and Arrow's files (64) recurse over the type
MAX_FIELDS = 500  # objects with more different keys are maps, not records; as struct each key would be a column
EXACT_FLOAT = 2**53  # integers above it change when they become floats
INT64 = range(-(2**63), 2**63)

Scalar = Literal["null", "text", "boolean", "integer", "long", "float", "json"]


@dataclass(frozen=True, slots=True)
class ListOf:
    """Lists whose items share a kind."""

    item: "Kind"


@dataclass(frozen=True, slots=True)
class Record:
    """Objects; a key that one of them lacks is null there."""

    fields: Mapping[str, "Kind"]


Kind = Scalar | ListOf | Record
Columns = Mapping[str, Kind]

_NUMBERS = {  # whole numbers become floats only where a double holds them all; `long` is beyond 2**53
    frozenset({"integer", "long"}): "long",
    frozenset({"integer", "float"}): "float",
}
_ARROW: dict[str, pa.DataType] = {
    "null": pa.string(),
    "text": pa.string(),
    "json": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
}


def kind_of(values: Sequence[Any], depth: int = 0) -> Kind:
    """The kind that all values share."""
    types: set[type] = {type(value) for value in values}
    types.discard(type(None))
    if depth > MAX_DEPTH:
        return "json"
    if not types:
        return "null"
    if types <= {int, float}:
        return _number(values, types)
    if len(types) > 1:
        return "json"
    [only] = types
    if only is str:
        return "text"
    if only is bool:
        return "boolean"
    if only is list:
        return ListOf(kind_of([item for value in values if value is not None for item in value], depth + 1))
    return _record(values, depth)


def merge(one: Kind, other: Kind) -> Kind:
    """The least kind that holds the values of both."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, ListOf) and isinstance(other, ListOf):
        return ListOf(merge(one.item, other.item))
    if isinstance(one, Record) and isinstance(other, Record):
        return _checked(merge_columns(one.fields, other.fields))
    if isinstance(one, str) and isinstance(other, str):
        return _NUMBERS.get(frozenset({one, other}), "json")  # type: ignore[return-value]  # values are scalars
    return "json"


def merge_columns(one: Columns, other: Columns) -> dict[str, Kind]:
    """Columns of both, in the order in which they were met."""
    merged = dict(one)
    for name, kind in other.items():
        merged[name] = merge(merged[name], kind) if name in merged else kind
    return merged


def holds(old: Kind, new: Kind) -> bool:
    """Whether an array of the old kind, cast to the new one's Arrow type, is what its values are as the new kind."""
    if isinstance(old, ListOf) and isinstance(new, ListOf):
        return holds(old.item, new.item)
    if isinstance(old, Record) and isinstance(new, Record):
        return list(old.fields) == list(new.fields) and all(holds(k, new.fields[n]) for n, k in old.fields.items())
    if old == "null":  # nothing but null, in a column of text
        return bool(arrow_type(new) == _ARROW["null"])
    return old == new or (old, new) in (("integer", "long"), ("integer", "float"))


def arrow_type(kind: Kind) -> pa.DataType:
    """The Arrow type of a column of this kind."""
    if isinstance(kind, ListOf):
        return pa.list_(arrow_field("item", kind.item))
    if isinstance(kind, Record):
        return pa.struct([arrow_field(n, k) for n, k in kind.fields.items()]) if kind.fields else pa.string()
    return _ARROW[kind]


JSON_TEXT = {b"values": b"JSON text"}  # marks a field, at any depth, whose values are kept as JSON text


def arrow_field(name: str, kind: Kind) -> pa.Field:
    """Return a column or inner field of this kind, marked when its values are kept as JSON text."""
    is_json = kind == "json" or kind == Record({})
    return pa.field(name, arrow_type(kind), metadata=JSON_TEXT if is_json else None)


def is_json(field: pa.Field) -> bool:
    """Whether the values of a field are kept as JSON text."""
    return (field.metadata or {}).get(b"values") == JSON_TEXT[b"values"]


def inner_fields(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields inside a list, struct or map type; none for other types."""
    return [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_nested(kind) else []


def has_json(field: pa.Field) -> bool:
    """Whether a field or one inside it keeps values as JSON text."""
    return is_json(field) or any(map(has_json, inner_fields(field.type)))


def holds_json_text(kind: Kind) -> bool:
    """Whether some place of it keeps values as JSON text, which only a reader that has the values can write."""
    if isinstance(kind, ListOf):
        return holds_json_text(kind.item)
    if isinstance(kind, Record):
        return not kind.fields or any(map(holds_json_text, kind.fields.values()))
    return kind == "json"


def array(values: Sequence[Any], kind: Kind) -> pa.Array:
    """JSON values as an Arrow array of a kind that holds them."""
    if kind == "json" or kind == Record({}):
        texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return pa.array(texts, pa.string())
    if isinstance(kind, ListOf):
        return _lists(values, kind)
    if isinstance(kind, Record):
        fields = [arrow_field(name, field) for name, field in kind.fields.items()]
        children = [
            array([None if value is None else value.get(name) for value in values], field)
            for name, field in kind.fields.items()
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    return pa.array(values, _ARROW[kind])


def refined(values: pa.Array, kind: Kind) -> Kind | None:
    """The kind of an array that was parsed as `kind`, by what is in it; None when values may have been changed to fit.

    A double holds no infinity that JSON can write, and no whole number above 2**53 for certain.
    """
    if isinstance(kind, ListOf):
        item = refined(values.flatten(), kind.item)
        return None if item is None else ListOf(item)
    if isinstance(kind, Record):
        fields = {name: refined(values.field(name), field) for name, field in kind.fields.items()}
        return None if None in fields.values() else Record({n: k for n, k in fields.items() if k is not None})
    if kind == "null":
        return "text" if values.null_count < len(values) else "null"
    if kind in {"integer", "long", "float"}:
        bounds = pc.min_max(values)
        least, most = bounds["min"].as_py(), bounds["max"].as_py()
        # 2**53 as a double may have been 2**53 + 1 in the file.
        limit = EXACT_FLOAT - (kind == "float")
        exact = least is None or (least >= -limit and most <= limit)
        if kind == "float":
            return kind if exact and pc.all(pc.is_finite(values)).as_py() is not False else None
        return kind if exact else "long"
    return kind


def _lists(values: Sequence[Any], kind: ListOf) -> pa.Array:
    offsets = [0]
    flat: list[Any] = []
    for value in values:
        flat.extend(value or ())
        offsets.append(len(flat))
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array(flat, kind.item), mask=mask)


def _number(values: Sequence[Any], types: set[type]) -> Kind:
    if types == {float}:
        return "float"
    whole = [value for value in values if type(value) is int]
    least, most = min(whole), max(whole)
    if least not in INT64 or most not in INT64:
        return "json"
    kind: Kind = "integer" if least >= -EXACT_FLOAT and most <= EXACT_FLOAT else "long"
    return merge(kind, "float") if float in types else kind


def _record(values: Sequence[Any], depth: int) -> Kind:
    names = list(dict.fromkeys(name for value in values if value is not None for name in value))
    if len(names) > MAX_FIELDS:
        return "json"
    fields = {name: kind_of([value.get(name) for value in values if value is not None], depth + 1) for name in names}
    return _checked(fields)


def _checked(fields: Mapping[str, Kind]) -> Kind:
    # DuckDB's field names do not tell upper from lower case and may not be empty.
    alike = len({name.casefold() for name in fields}) < len(fields) or "" in fields
    return "json" if alike or len(fields) > MAX_FIELDS else Record(fields)
