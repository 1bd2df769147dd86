"""Parse retrieved passages: texts, mappings, or the objects of LangChain, LlamaIndex, Haystack and others."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.systems.values import (
    WrongShape,
    describe,
    finite_number,
    identifier,
    part,
    plain_text,
    whole_number,
)

# Where a passage or a citation has its parts, in the words of LangChain, LlamaIndex, Haystack and others.
TEXT = ("text", "content", "page_content", "chunk", "passage")
DOCUMENT = ("document", "file_name", "filename", "document_name", "source", "file", "file_path", "path")
DOCUMENT_IN_METADATA = ("file_name", "filename", "file_path", "source", "document", "document_name", "path")
METADATA = ("metadata", "meta")
SCORE = ("score", "relevance_score", "similarity")


class ParsedPassage(NamedTuple):
    """A passage as the system states it.

    Args:
        document: Name or path of its document; None if the system does not say.
        counts_from_zero: It is a LangChain document, whose loaders call the first page 0.
        text: May be empty if a document is named.
        score: Finite; None if there is none or it may be a distance.
    """

    document: str | None
    page: int | None
    counts_from_zero: bool
    text: str
    score: float | None
    start: int | None = None
    end: int | None = None
    kind: str = "text"


def parse_passages(values: Sequence[Any]) -> tuple[ParsedPassage, ...]:
    """Parse retrieved passages: texts, mappings, or the objects of LangChain, LlamaIndex and Haystack."""
    return tuple(_parse_passage(value, number) for number, value in enumerate(values))


def _parse_passage(value: Any, number: int) -> ParsedPassage:
    if isinstance(value, str):
        return ParsedPassage(None, None, False, plain_text(value), None)
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | float):
        # LangChain's `similarity_search_with_score`: some stores give a distance, so only the order is reliable.
        return _parse_passage(value[0], number)._replace(score=None)
    inner = part(value, "node")
    inner = value if inner is None else inner
    metadata = part(inner, *METADATA)
    text = part(inner, *TEXT)
    document = _document_of(value, inner, metadata)
    if not isinstance(text, str) and document is None:
        raise WrongShape(f"contexts[{number}] that is {describe(value)}, without text or document")
    page, counts_from_zero = _page_of(value, inner, metadata)
    score = part(value, *SCORE)
    return ParsedPassage(
        document=None if document is None else plain_text(document),
        page=page,
        counts_from_zero=counts_from_zero,
        text=plain_text(text) if isinstance(text, str) else "",
        score=finite_number(score if score is not None else part(metadata, *SCORE)),
        start=whole_number(part(value, "start", "start_char")),
        end=whole_number(part(value, "end", "end_char")),
        kind=kind if isinstance(value, Mapping) and isinstance(kind := value.get("kind"), str) and kind else "text",
    )


def _document_of(value: Any, inner: Any, metadata: Any) -> str | None:
    """Return the first name that is a text, else the first number; `source: {source_name: ...}` is a name too."""
    names = [part(of, name) for of in (value, inner) for name in DOCUMENT]
    number = None
    for name in [*names, *(part(metadata, name) for name in DOCUMENT_IN_METADATA)]:
        found = part(name, "source_name", "source_id", "file_name", "name") if isinstance(name, Mapping) else name
        if isinstance(found, str) and found:
            return found
        if hasattr(found, "__fspath__"):
            return str(found)
        number = number or identifier(found)
    return number


def _page_of(value: Any, inner: Any, metadata: Any) -> tuple[int | None, bool]:
    """Return the page, and whether LangChain counted it."""
    page = whole_number(part(metadata, "page"))
    # A path in the system's file may have copied LangChain's page to the passage itself: it still counts from 0.
    is_langchain = page is not None and part(inner, "page_content") is not None
    own = whole_number(part(value, "page", "page_number"))
    if own is not None:
        return own, is_langchain and own == page
    number = whole_number(part(metadata, "page_number"))
    if number is not None:
        return number, False
    if page is not None:
        return page, is_langchain
    return whole_number(part(metadata, "page_label")), False
