"""Read values of unknown type: parts by key or attribute, texts, numbers, and descriptions for messages."""

import functools
import json
import math
import sys
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from rag_eval_pipeline.text.folding import plain_text, scalar_text

MAX_EXACT = 2**53  # whole numbers up to here survive every JSON reader


class WrongShape(ValueError):
    """A part of a reply that is missing or not what it should be; the message names what was expected and found."""


def part(value: Any, *names: str) -> Any:
    """Return the first of some keys or attributes that is present and not None, else None; methods are left out."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        # A text may be callable: the `text` of LangChain's messages is, and so is what StrOutputParser returns.
        if found is not None and (isinstance(found, str) or not callable(found)):
            return found
    return None


def peek(value: Any, *names: str) -> Any:
    """Return what `part` does, but do not count the keys as read where that is observed."""
    if not isinstance(value, Mapping):
        return part(value, *names)
    found: dict[str, Any] = {}
    for one in reversed(value.maps) if isinstance(value, ChainMap) else [value]:
        get = functools.partial(dict.get, one) if isinstance(one, dict) else one.get  # observed ones override `get`
        found |= {name: inner for name in names if (inner := get(name)) is not None}
    return part(found, *names)


def joined_text(values: Sequence[Any]) -> str | None:
    """Return the text of a list: sentences with a blank between them, or a message's parts but thoughts.

    None without any part that is a text or a thought.
    """
    if len(values) > 1 and all(isinstance(item, str) for item in values):
        return plain_text(" ".join(item.strip() for item in values if item.strip()))
    spoken = [item for item in values if not _is_thought(item)]
    parts = [item if isinstance(item, str) else part(item, "text") for item in spoken]
    texts = [item for item in parts if isinstance(item, str)]
    return plain_text("".join(texts)) if texts or len(spoken) < len(values) else None


def _is_thought(item: Any) -> bool:
    """Return whether a part of a message is what a model thought: Gemini marks these, others name their type."""
    if isinstance(item, str):
        return False
    return peek(item, "thought") is True or peek(item, "type") in ("thinking", "reasoning")


def identifier(value: Any) -> str | None:
    """Return a document's name, or its number as text; None for anything else."""
    return None if isinstance(value, bool) else scalar_text(value) or None


def whole_number(value: Any) -> int | None:
    """Return a whole number, also one written in digits (`page_label`); None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_EXACT else None


def finite_number(value: Any) -> float | None:
    """Return a number as a float; None for anything else, infinity and NaN included."""
    if isinstance(value, str | bool) or value is None:
        return None
    try:
        number = float(value)  # numpy's too
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def is_amount(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number of 0 or more."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def describe(value: Any) -> str:
    """Describe a value for a message, on one line: in JSON's words, or the name of its type if JSON has none."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        keys = " ".join(", ".join(sorted(map(str, value))).split())
        return f"an object with the keys {keys[:150]}" if keys else "an empty object"
    if isinstance(value, str | int | float):
        return f"the {'text' if isinstance(value, str) else 'number'} {repr(value)[:100]}"
    if isinstance(value, list | tuple):
        return f"the list {repr(list(value))[:100]}" if value else "an empty list"
    return type(value).__name__
