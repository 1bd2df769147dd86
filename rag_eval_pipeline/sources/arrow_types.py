"""Column types of JSON values, inferred batch by batch, and Arrow arrays of these types.

The types form a lattice: `merge_types` is commutative and associative, so a column's type does not depend on the order
of the rows or on where the file was cut into batches. Values that share no type (a number here, a text there) are kept
as JSON text, at the innermost level that is mixed; no value is converted to make it fit.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from rag_eval_pipeline.storage.arrow import skip_pandas

skip_pandas()

MAX_DEPTH = 60  # deeper values stay JSON text: DuckDB, parquet and Arrow's files (64) recurse over the type
MAX_FIELDS = 500  # objects with more different keys are maps rather than records; each key would be a column
EXACT_FLOAT = 2**53  # larger integers change when they become floats
INT64 = range(-(2**63), 2**63)

Scalar = Literal["null", "text", "boolean", "integer", "long", "float", "json"]


@dataclass(frozen=True, slots=True)
class ListOf:
    """Lists whose items share a type."""

    item: "JsonType"


class Repeated(ListOf):
    """Lists of XML elements that have one tag: where a row has a single one, it is a list, too."""


class Repeats(list[Any]):
    """The value of a type `Repeated`; other rows may have a single item instead."""


@dataclass(frozen=True, slots=True)
class Record:
    """Objects; a key that an object lacks is null there."""

    fields: Mapping[str, "JsonType"]


JsonType = Scalar | ListOf | Record
ColumnTypes = Mapping[str, JsonType]

_NUMBERS: dict[frozenset[str], Scalar] = {  # "long" is an integer beyond 2**53, which a float may not hold exactly
    frozenset({"integer", "long"}): "long",
    frozenset({"integer", "float"}): "float",
}
_ARROW: dict[Scalar, pa.DataType] = {
    "null": pa.string(),
    "text": pa.string(),
    "json": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
}
JSON_TEXT = {b"values": b"JSON text"}  # metadata of a field, at any depth, whose values are kept as JSON text


def infer_type(values: Sequence[Any], depth: int = 0) -> JsonType:
    """Return the type that all values share."""
    types: set[type] = {type(value) for value in values}
    types.discard(type(None))
    if depth > MAX_DEPTH:
        return "json"
    if not types:
        return "null"
    if types <= {int, float}:
        return _number(values, types)
    if Repeats in types:
        return Repeated(infer_type([item for value in _as_lists(values) for item in value or ()], depth + 1))
    if len(types) > 1:
        return "json"
    [only] = types
    if only is str:
        return "text"
    if only is bool:
        return "boolean"
    if only is list:
        return ListOf(infer_type([item for value in values if value is not None for item in value], depth + 1))
    names = list(dict.fromkeys(name for value in values if value is not None for name in value))
    if len(names) > MAX_FIELDS:
        return "json"
    objects = [value for value in values if value is not None]
    return _checked({name: infer_type([value.get(name) for value in objects], depth + 1) for name in names})


def merge_types(one: JsonType, other: JsonType) -> JsonType:
    """Return the narrowest type that holds the values of both."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    if isinstance(one, Repeated) or isinstance(other, Repeated):
        return Repeated(merge_types(*(kind.item if isinstance(kind, ListOf) else kind for kind in (one, other))))
    if isinstance(one, ListOf) and isinstance(other, ListOf):
        return ListOf(merge_types(one.item, other.item))
    if isinstance(one, Record) and isinstance(other, Record):
        return _checked(merge_columns(one.fields, other.fields))
    if isinstance(one, str) and isinstance(other, str):
        return _NUMBERS.get(frozenset({one, other}), "json")
    return "json"


def merge_columns(one: ColumnTypes, other: ColumnTypes) -> dict[str, JsonType]:
    """Return the columns of both, in the order of their first appearance."""
    merged = dict(one)
    for name, type_ in other.items():
        merged[name] = merge_types(merged[name], type_) if name in merged else type_
    return merged


def is_castable(old: JsonType, new: JsonType) -> bool:
    """Return whether casting an array of the old type gives the array that its values have as the new type."""
    if isinstance(old, ListOf) and isinstance(new, ListOf):
        return is_castable(old.item, new.item)
    if isinstance(old, Record) and isinstance(new, Record):
        same_order = list(old.fields) == list(new.fields)
        return same_order and all(is_castable(inner, new.fields[name]) for name, inner in old.fields.items())
    if old == "null":  # nulls are written as a column of text
        return bool(arrow_type(new) == _ARROW["null"])
    return old == new or (old, new) in (("integer", "long"), ("integer", "float"))


def arrow_type(json_type: JsonType) -> pa.DataType:
    """Return the Arrow type of a column."""
    if isinstance(json_type, ListOf):
        return pa.list_(arrow_field("item", json_type.item))
    if isinstance(json_type, Record):
        fields = [arrow_field(name, inner) for name, inner in json_type.fields.items()]
        return pa.struct(fields) if fields else pa.string()
    return _ARROW[json_type]


def arrow_field(name: str, json_type: JsonType) -> pa.Field:
    """Return a column or inner field, marked if its values are kept as JSON text."""
    return pa.field(name, arrow_type(json_type), metadata=JSON_TEXT if _is_json_type(json_type) else None)


def is_json(field: pa.Field) -> bool:
    """Return whether the values of a field are kept as JSON text."""
    return (field.metadata or {}).get(b"values") == JSON_TEXT[b"values"]


def inner_fields(arrow_type: pa.DataType) -> list[pa.Field]:
    """Return the fields inside a list, struct or map type; none for other types."""
    return [arrow_type.field(i) for i in range(arrow_type.num_fields)] if pa.types.is_nested(arrow_type) else []


def has_json(field: pa.Field) -> bool:
    """Return whether a field or one inside it keeps values as JSON text."""
    return is_json(field) or any(map(has_json, inner_fields(field.type)))


def contains_json_text(json_type: JsonType) -> bool:
    """Return whether values at some level are kept as JSON text, which needs a reader that has the values."""
    if isinstance(json_type, ListOf):
        return contains_json_text(json_type.item)
    if isinstance(json_type, Record):
        return not json_type.fields or any(map(contains_json_text, json_type.fields.values()))
    return json_type == "json"


def to_arrow(values: Sequence[Any], json_type: JsonType) -> pa.Array:
    """Return JSON values as an Arrow array of a type that holds them."""
    if _is_json_type(json_type):
        texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return pa.array(texts, pa.string())
    if isinstance(json_type, str):
        return pa.array(values, _ARROW[json_type])
    nulls = pa.array([value is None for value in values], pa.bool_())
    if isinstance(json_type, ListOf):
        values = _as_lists(values) if isinstance(json_type, Repeated) else values
        offsets: list[int] = [0]
        flat: list[Any] = []
        for value in values:
            flat.extend(value or ())
            offsets.append(len(flat))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), to_arrow(flat, json_type.item), mask=nulls)
    children = [
        to_arrow([None if value is None else value.get(name) for value in values], inner)
        for name, inner in json_type.fields.items()
    ]
    fields = [arrow_field(name, inner) for name, inner in json_type.fields.items()]
    return pa.StructArray.from_arrays(children, fields=fields, mask=nulls)


def _as_lists(values: Sequence[Any]) -> list[Any]:
    return [value if value is None or isinstance(value, list) else [value] for value in values]


def _is_json_type(json_type: JsonType) -> bool:
    return json_type == "json" or json_type == Record({})


def _number(values: Sequence[Any], types: set[type]) -> JsonType:
    if types == {float}:
        return "float"
    integers = [value for value in values if type(value) is int]
    least, most = min(integers), max(integers)
    if least not in INT64 or most not in INT64:
        return "json"
    integer: JsonType = "integer" if least >= -EXACT_FLOAT and most <= EXACT_FLOAT else "long"
    return merge_types(integer, "float") if float in types else integer


def _checked(fields: Mapping[str, JsonType]) -> JsonType:
    # DuckDB does not distinguish upper and lower case in field names, and refuses empty ones.
    is_ambiguous = len({name.casefold() for name in fields}) < len(fields) or "" in fields
    return "json" if is_ambiguous or len(fields) > MAX_FIELDS else Record(fields)
