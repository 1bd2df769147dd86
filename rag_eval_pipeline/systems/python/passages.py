"""Passages as frameworks have them: text, LangChain's and Haystack's documents, LlamaIndex's nodes, mappings."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TEXT = ("text", "content", "page_content", "chunk", "passage")
DOCUMENT = ("document", "file_name", "filename", "document_name", "source", "file", "file_path", "path")
IN_METADATA = ("file_name", "filename", "file_path", "source", "document", "document_name", "path")
METADATA = ("metadata", "meta")
SCORE = ("score", "relevance_score", "similarity")
EXACT = 2**53  # every reader of JSON has whole numbers up to here


class SaidPassage(NamedTuple):
    """A passage in a system's own words.

    Args:
        document: Name or path of its document; None when the system does not say.
        page: As the system counts.
        counts_from_zero: LangChain's loaders call the first page 0.
        text: May be empty where a document is named.
        score: Finite; None when there is none or it may be a distance.
        start: In the document's text.
        end: One past the last.
        kind: What the text describes, where a mapping says.
    """

    document: str | None
    page: int | None
    counts_from_zero: bool
    text: str
    score: float | None
    start: int | None = None
    end: int | None = None
    kind: str = "text"


class BadPassage(ValueError):
    """Something among the passages that is none; its text says what and where."""


def passages(values: Sequence[Any]) -> tuple[SaidPassage, ...]:
    """Retrieved passages in the system's order.

    Raises:
        BadPassage: One has neither text nor document.
    """
    return tuple(_passage(value, number) for number, value in enumerate(values))


def part(value: Any, *names: str) -> Any:
    """The first of some keys or attributes that is there and not None, else None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None and not callable(found):
            return found
    return None


def plain_text(value: str) -> str:
    """The text with what no file can hold, lone surrogates, replaced."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def scalar_text(value: Any) -> str | None:
    """A text, or a number or a boolean as JSON writes it (`12`, `0.5`, `true`); None for anything else."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return None


def identifier(value: Any) -> str | None:
    """A document's name, or its number as text; None for anything else."""
    return None if isinstance(value, bool) else scalar_text(value) or None


def in_words(value: Any) -> str:
    """What a value is, in the words of JSON; the name of its type where JSON has none."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        keys = " ".join(", ".join(sorted(map(str, value))).split())
        return f"an object with the keys {keys[:150]}" if keys else "an empty object"
    if isinstance(value, str | int | float):
        kind = "text" if isinstance(value, str) else "number"
        return f"the {kind} {repr(value)[:100]}"
    return "a list" if isinstance(value, list | tuple) else type(value).__name__


def whole(value: Any) -> int | None:
    """A whole number that files can hold, also as a text of digits (`page_label`); None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= EXACT else None


def _passage(value: Any, number: int) -> SaidPassage:
    if isinstance(value, str):
        return SaidPassage(None, None, False, plain_text(value), None)
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | float):
        # LangChain's `similarity_search_with_score`: of some stores a distance, so the order says more than the number.
        return _passage(value[0], number)._replace(score=None)
    inner = part(value, "node")
    inner = value if inner is None else inner
    metadata = part(inner, *METADATA)
    text = part(inner, *TEXT)
    document = _document(value, inner, metadata)
    if not isinstance(text, str) and document is None:
        raise BadPassage(f"contexts[{number}] that is {in_words(value)}, without text or document")
    page, counts_from_zero = _page(value, inner, metadata)
    score = part(value, *SCORE)
    return SaidPassage(
        document=None if document is None else plain_text(document),
        page=page,
        counts_from_zero=counts_from_zero,
        text=plain_text(text) if isinstance(text, str) else "",
        score=_score(score if score is not None else part(metadata, *SCORE)),
        start=whole(part(value, "start", "start_char")),
        end=whole(part(value, "end", "end_char")),
        kind=kind if isinstance(value, Mapping) and isinstance(kind := value.get("kind"), str) and kind else "text",
    )


def _document(value: Any, inner: Any, metadata: Any) -> str | None:
    """The first name that is a text, else the first number; `source: {source_name: ...}` names it, too."""
    named = [part(of, name) for of, names in ((value, DOCUMENT), (inner, DOCUMENT)) for name in names]
    number = None
    for name in [*named, *(part(metadata, name) for name in IN_METADATA)]:
        found = part(name, "source_name", "source_id", "file_name", "name") if isinstance(name, Mapping) else name
        if isinstance(found, str) and found:
            return found
        if hasattr(found, "__fspath__"):
            return str(found)
        number = number or identifier(found)
    return number


def _page(value: Any, inner: Any, metadata: Any) -> tuple[int | None, bool]:
    page = whole(part(metadata, "page"))
    # LangChain's loaders count from 0, also where a path of the system's file has copied their page to the passage.
    is_langchain = page is not None and part(inner, "page_content") is not None
    own = whole(part(value, "page", "page_number"))
    if own is not None:
        return own, is_langchain and own == page
    number = whole(part(metadata, "page_number"))
    if number is not None:
        return number, False
    if page is not None:
        return page, is_langchain
    return whole(part(metadata, "page_label")), False


def _score(value: Any) -> float | None:
    if isinstance(value, str | bool) or value is None:
        return None
    try:
        number = float(value)  # numpy's, too
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
