"""Which keys of a reply have not been read: what a system returns and its file, or our reading of it, passes over."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ITEMS_SHOWN = 5  # of a list; the others have the same keys

# What is read of a chat completion before its passages are looked for; None for all that is below.
_MESSAGE = dict.fromkeys(("role", "content", "refusal", "reasoning", "reasoning_content"))
CHAT_COMPLETION: Mapping[str, Any] = {
    **dict.fromkeys(("id", "object", "created", "model", "system_fingerprint", "service_tier", "usage")),
    "choices": {
        **dict.fromkeys(("index", "finish_reason", "logprobs", "stop_reason")), "message": _MESSAGE, "delta": _MESSAGE,
    },
}  # fmt: skip


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
    """Return the same value with dictionaries that remember what is read of them."""
    if type(value) is dict:
        return ReadDict((key, observed(inner)) for key, inner in value.items())
    if type(value) is list:
        return [observed(item) for item in value]
    return value


def mark_read(value: Any, known: Mapping[str, Any] | None) -> None:
    """Count the known keys of an observed value as read; None stands for all."""
    if isinstance(value, list):
        for item in value:
            mark_read(item, known)
    elif isinstance(value, ReadDict):
        for key in list(value) if known is None else value.keys() & known.keys():
            mark_read(value[key], None if known is None else known[key])


def unread_keys(value: Any) -> list[str]:
    """Return the keys that nobody read, as paths such as `data.hits[].author`, each once."""
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
    """Whether something below was read: components of a pipeline are looked through without their names."""
    if isinstance(value, ReadDict):
        return bool(value.read & value.keys()) or any(_is_read(inner) for inner in value.values())
    return isinstance(value, list) and any(_is_read(item) for item in value)
