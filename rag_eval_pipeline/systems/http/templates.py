"""Requests made from templates: placeholders are replaced within the texts of a JSON value, never in its source."""

import re
from collections.abc import Mapping
from typing import Any


def filled(template: Any, values: Mapping[str, str]) -> Any:
    """The template with `{name}` replaced in all of its texts; keys and unknown names stay as they are.

    All names are replaced in one pass: a question that contains `{query_id}` is sent as it is.
    """
    if isinstance(template, str):
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)
    if isinstance(template, list | tuple):
        return [filled(item, values) for item in template]
    if isinstance(template, dict):
        return {key: filled(item, values) for key, item in template.items()}
    return template
