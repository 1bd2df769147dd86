"""A row's metadata as JSON values: a struct, a map or a JSON object, whatever else the source kept."""

import datetime
import decimal
import json
import math
from typing import Any

from rag_eval_pipeline.conversion.row_fault import RowFault


def metadata_of(value: Any) -> dict[str, Any]:
    """The metadata of a row; none is an empty mapping.

    Raises:
        RowFault: `bad_metadata`, `bad_number`.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise RowFault("bad_metadata", "metadata", "a struct, a map or a JSON object", value) from None
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):  # how Arrow gives a MAP
        value = dict(value)
    if not isinstance(value, dict):
        raise RowFault("bad_metadata", "metadata", "a struct, a map or a JSON object", value)
    return {str(key): _json_value(item) for key, item in value.items()}


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
        return {str(key): _json_value(item) for key, item in value}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    raise RowFault("bad_metadata", "metadata", "JSON values", value)
