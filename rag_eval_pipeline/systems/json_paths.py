"""Find the parts of a server's JSON by JMESPath, and report paths that found nothing and keys that were not read.

Paths are compiled when the system's file is read, so a bad one is an error of the file and not of every question.
Source: https://jmespath.org/specification.html
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jmespath
from jmespath.exceptions import JMESPathError

from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.systems.foreign_values import MAX_EXACT, WrongShape, is_amount, joined_text
from rag_eval_pipeline.text.folding import scalar_text

T = TypeVar("T")

_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,20})?")
KEYS_SHOWN = 20  # of a reply, in a warning
ITEMS_SHOWN = 5  # of a list, when looking for unread keys; the others have the same keys

# What is read of a chat completion apart from its passages; None means everything below.
_MESSAGE = dict.fromkeys(("role", "content", "refusal", "reasoning", "reasoning_content"))
CHAT_COMPLETION: Mapping[str, Any] = {
    **dict.fromkeys(("id", "object", "created", "model", "system_fingerprint", "service_tier", "usage")),
    "choices": {
        **dict.fromkeys(("index", "finish_reason", "logprobs", "stop_reason")), "message": _MESSAGE, "delta": _MESSAGE,
    },
}  # fmt: skip


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path; None if there is none."""
    try:
        return jmespath.search(path, value)
    except JMESPathError as error:
        raise WrongShape(f"a value that {path!r} can be applied to ({str(error).splitlines()[0]})") from None


def text_at(value: Any, path: str) -> str | None:
    """Return the text at a path, also of a number, a boolean or a list of texts; None if there is none."""
    return _converted(value, path, _text, "a text")


def _text(found: Any) -> str | None:
    return joined_text(found) if isinstance(found, list) else scalar_text(found)


def items_at(value: Any, path: str) -> list[Any]:
    """Return the list at a path; an empty one if there is none."""
    return _converted(value, path, lambda found: found if isinstance(found, list) else None, "a list") or []


def last_items(values: Sequence[Any], path: str | None) -> list[Any]:
    """Return the items at a path in the last value that has some there; a stream has several values."""
    found = (items_at(value, path) for value in reversed(values)) if path is not None else ()
    return next(filter(None, found), [])


def number_at(value: Any, path: str) -> float | None:
    """Return the number at a path, 0 or more, also one that is a text, as Dify's prices; None if there is none."""
    return _converted(value, path, _amount, "a number of 0 or more")


def _amount(found: Any) -> float | None:
    if isinstance(found, str) and _DECIMAL.fullmatch(found):
        found = float(found)
    return found if is_amount(found) and found <= MAX_EXACT else None


def _converted(value: Any, path: str, convert: Callable[[Any], T | None], expected: str) -> T | None:
    found = value_at(value, path)
    converted = None if found is None else convert(found)
    if found is not None and converted is None:
        raise WrongShape(f"{expected} at {path!r}, found {excerpt(found)}")
    return converted


class UnfoundPaths:
    """Configured paths that have found nothing so far, and the keys that were there instead.

    Args:
        paths: Setting -> its path; None for a setting that is not made.
        of: What is searched, in the plural, for the warning.
    """

    def __init__(self, paths: Mapping[str, str | None], *, of: str) -> None:
        self._unfound = {setting: path for setting, path in paths.items() if path is not None}
        self._of = of
        self._searched = 0
        self._keys: dict[str, None] = {}

    def search(self, values: Sequence[Any]) -> None:
        """Search one reply: its JSON values, of which a stream has several."""
        if not self._unfound:
            return
        self._searched += 1
        for setting, path in list(self._unfound.items()):
            if any(value_at(value, path) not in (None, [], "") for value in values):
                del self._unfound[setting]
        if self._unfound and len(self._keys) < KEYS_SHOWN:
            self._keys |= dict.fromkeys(key for value in values for key in _nested_keys(value))

    def warnings(self) -> list[str]:
        """Return a line for each path that found nothing."""
        if not self._searched:
            return []
        keys = ", ".join(list(self._keys)[:KEYS_SHOWN]) or "none"
        return [
            f"{setting} {path!r} found nothing in any of {self._searched} {self._of}. Keys that were there: {keys}."
            for setting, path in self._unfound.items()
        ]


def _nested_keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys of JSON objects as paths: `data.hits[].text`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            below = list(_nested_keys(inner, path))
            yield from below or [path]
    elif isinstance(value, list):
        for item in value[:3]:
            yield from _nested_keys(item, f"{prefix}[]")


class ReadDict(dict[Any, Any]):
    """A dictionary that remembers which of its keys were read."""

    def __init__(self, items: Iterable[tuple[Any, Any]]) -> None:
        super().__init__(items)
        self.read: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or the default; the key counts as read."""
        self.read.add(key)
        return super().get(key, default)


def observed(value: Any) -> Any:
    """Return the same value with dictionaries that remember which keys were read."""
    if type(value) is dict:
        return ReadDict((key, observed(inner)) for key, inner in value.items())
    if type(value) is list:
        return [observed(item) for item in value]
    return value


def mark_read(value: Any, known: Mapping[str, Any] | None) -> None:
    """Count the known keys of an observed value as read; None means all."""
    if isinstance(value, list):
        for item in value:
            mark_read(item, known)
    elif isinstance(value, ReadDict):
        for key in list(value) if known is None else value.keys() & known.keys():
            mark_read(value[key], None if known is None else known[key])


def unread_keys(value: Any) -> list[str]:
    """Return the keys of an observed value that were not read, as paths such as `data.hits[].author`, each once."""
    return list(dict.fromkeys(_unread(value, "")))


def _unread(value: Any, prefix: str) -> Iterator[str]:
    if isinstance(value, ReadDict):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            if key in value.read or _is_read(inner):
                yield from _unread(inner, path)
            else:
                yield path
    elif isinstance(value, list):
        for item in value[:ITEMS_SHOWN]:
            yield from _unread(item, f"{prefix}[]")


def _is_read(value: Any) -> bool:
    """Return whether something below was read: a pipeline's components are searched without reading their names."""
    if isinstance(value, ReadDict):
        return bool(value.read & value.keys()) or any(_is_read(inner) for inner in value.values())
    return isinstance(value, list) and any(_is_read(item) for item in value)


# The published fields of an event of `/v1/generate`; None: everything below.
GENERATE_EVENT: Mapping[str, Any] = {
    **dict.fromkeys(("id", "object", "created", "model", "usage", "metrics", "event_type", "stage")),
    "choices": dict.fromkeys(("index", "finish_reason", "message", "delta")),
    "citations": {
        "total_results": None,
        "results": {
            **dict.fromkeys(("document_id", "document_name", "document_type", "content", "score", "stage")),
            "metadata": dict.fromkeys(
                (
                    *("description", "page_number", "language", "date_created", "last_modified"),
                    *("height", "width", "location", "location_max_dimensions", "content_metadata"),
                )
            ),
        },
    },
}
