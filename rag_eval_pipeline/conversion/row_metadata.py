"""A row's metadata as JSON values: a struct, a map or a JSON object, whatever else the source kept."""

import datetime
import decimal
import math
from collections.abc import Iterable
from typing import Any

from rag_eval_pipeline.conversion.row_fault import RowFault, bad_value
from rag_eval_pipeline.sources.decoded import BadRow
from rag_eval_pipeline.sources.json_values import json_value

_EXPECTED = "a struct, a map or a JSON object"


def metadata_of(value: Any) -> dict[str, Any]:
    """The metadata of a row; none is an empty mapping.

    Raises:
        RowFault: `bad_metadata`, `bad_number`, `duplicate_key`, `bad_encoding`.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json_value(value)
        except BadRow as bad:
            if bad.code == "bad_json":
                raise RowFault("bad_metadata", "metadata", _EXPECTED, value) from None
            raise bad_value(bad, "metadata") from None
    if isinstance(value, dict):
        return _object(value.items())
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):  # how Arrow gives a MAP
        return _object(value)
    raise RowFault("bad_metadata", "metadata", _EXPECTED, value)


def _object(members: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in members:
        if str(key) in value:
            raise RowFault("duplicate_key", "metadata", "each key once", str(key))
        value[str(key)] = _json_value(item)
    return value


def _json_value(value: Any) -> Any:
    """A value as JSON can hold it: dates as ISO 8601, decimals as numbers."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, decimal.Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RowFault("bad_number", "metadata", "finite numbers", value)
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return _object(value)
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return _object(value.items())
    raise RowFault("bad_metadata", "metadata", "JSON values", value)
