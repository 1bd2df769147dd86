"""Parts of a server's JSON, found by JMESPath: what a system's file says of where they stand.

Paths are compiled when the file is read, so a bad one is an error of the file and not of every question.
Source: https://jmespath.org/specification.html
"""

import math
from typing import Annotated, Any

import pydantic

from rag_eval_pipeline.errors import excerpt


def _compiles(path: str) -> str:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        jmespath.compile(path)
    except JMESPathError as error:
        raise ValueError(f"a JMESPath expression ({str(error).splitlines()[0]})") from None
    return path


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
    """The text that stands there; None where nothing does.

    Raises:
        WrongShape: Something else stands there.
    """
    found = value_at(value, path)
    if found is None or isinstance(found, str):
        return found
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
