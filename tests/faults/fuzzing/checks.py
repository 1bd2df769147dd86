"""What must hold of every parser: it returns, or raises a typed error that is one printable line and names the place."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.judges.replies import Unparsable

MESSAGE_MAX = 4_000  # characters; an error is a line for people


class Parser(NamedTuple):
    """What reads an input, in a folder of its own that stays between inputs.

    Args:
        errors: What may be raised.
        places: Names of which one is in the message of each error; empty where the caller names the place.
    """

    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[Exception], ...] = (InputError,)
    places: tuple[str, ...] = ()


def check(parser: Parser, data: bytes, folder: Path) -> str:
    """Read an input and return `read`, or the code of its error; anything else that is raised is a fault."""
    found: Exception | None = None
    try:
        parser.read(data, folder)
    except parser.errors as error:
        found = error
    if found is None:
        return "read"
    text = found.fault if isinstance(found, Unparsable) else str(found)
    assert_printable(text)
    assert 0 < len(text) < MESSAGE_MAX, f"a message of {len(text)} characters: {text[:300]!r}"
    assert not parser.places or any(place in text for place in parser.places), f"no place in {text!r}"
    return str(getattr(found, "code", type(found).__name__))


# What ends a line or changes how a terminal shows the rest of it, and what cannot be printed at all.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def assert_printable(message: str) -> None:
    """Assert that a message is one line without control characters."""
    wrong = _UNPRINTABLE.search(message)
    assert wrong is None, f"a message with {wrong[0]!r}: {message!r}"


def read_any(*readings: Callable[[], object], errors: type[Exception] | tuple[type[Exception], ...]) -> list[object]:
    """Read in several ways; return what those return that succeed, or raise the first error if none does."""
    found: list[object] = []
    faults: list[Exception] = []
    for read in readings:
        try:
            found.append(read())
        except errors as fault:
            faults.append(fault)
    if not found:
        raise faults[0]
    return found


def encoded(*values: Any, indent: int | None = None) -> list[bytes]:
    return [json.dumps(value, indent=indent, ensure_ascii=False).encode() for value in values]
