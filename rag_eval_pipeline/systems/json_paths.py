"""Parts of a server's JSON, found by JMESPath: what a system's file says of where they stand.

Paths are compiled when the file is read, so a bad one is an error of the file and not of every question.
Source: https://jmespath.org/specification.html
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import pydantic

from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.systems.python.passages import scalar_text


def _compiles(path: str) -> str:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        jmespath.compile(path)
    except JMESPathError as error:
        raise ValueError(f"a JMESPath expression ({str(error).splitlines()[0]})") from None
    return path


KEYS_SHOWN = 20  # of a reply, in a warning

JsonPath = Annotated[str, pydantic.AfterValidator(_compiles)]
"""A JMESPath expression."""


class WrongShape(ValueError):
    """A reply in which a part is not where, or not what, the file says; its text names the path and what was found."""


def value_at(value: Any, path: str) -> Any:
    """What stands there; None where nothing does.

    Raises:
        WrongShape: A function of the path was given what it does not take.
    """
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(path, value)
    except JMESPathError as error:
        raise WrongShape(f"what {path!r} can be applied to ({str(error).splitlines()[0]})") from None


def text_at(value: Any, path: str) -> str | None:
    """The text that stands there, also of a number or a boolean; None where nothing does.

    Raises:
        WrongShape: Something else stands there.
    """
    found = value_at(value, path)
    text = scalar_text(found)
    if found is None or text is not None:
        return text
    raise WrongShape(f"a text at {path!r}, found {excerpt(found)}")


def items_at(value: Any, path: str) -> list[Any]:
    """The list that stands there; empty where nothing does.

    Raises:
        WrongShape: Something else stands there.
    """
    found = value_at(value, path)
    if found is None:
        return []
    if isinstance(found, list):
        return found
    raise WrongShape(f"a list at {path!r}, found {excerpt(found)}")


def number_at(value: Any, path: str) -> float | None:
    """The number that stands there, 0 or more; None where nothing does.

    Raises:
        WrongShape: Something else stands there.
    """
    found = value_at(value, path)
    if found is None:
        return None
    if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found) and found >= 0:
        return found
    raise WrongShape(f"a number of 0 or more at {path!r}, found {excerpt(found)}")


class UnfoundPaths:
    """Configured paths that have found nothing in any value so far, and the keys that were there instead.

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
        """Search one reply: its values, of which a stream has several."""
        if not self._unfound:
            return
        self._searched += 1
        for setting, path in list(self._unfound.items()):
            if any(value_at(value, path) not in (None, [], "") for value in values):
                del self._unfound[setting]
        if self._unfound and len(self._keys) < KEYS_SHOWN:
            self._keys |= dict.fromkeys(key for value in values for key in nested_keys(value))

    def warnings(self) -> list[str]:
        """A line for each path that found nothing."""
        if not self._searched:
            return []
        keys = ", ".join(list(self._keys)[:KEYS_SHOWN]) or "none"
        return [
            f"{setting} {path!r} found nothing in any of {self._searched} {self._of}. Keys that were there: {keys}."
            for setting, path in self._unfound.items()
        ]


def nested_keys(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys of JSON objects as paths: `data.hits[].text`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            below = list(nested_keys(inner, path))
            yield from below or [path]
    elif isinstance(value, list):
        for item in value[:3]:
            yield from nested_keys(item, f"{prefix}[]")
