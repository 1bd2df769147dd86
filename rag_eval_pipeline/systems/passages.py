"""Parse retrieved passages: texts, mappings, or the objects of LangChain, LlamaIndex, Haystack and others."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.systems.foreign_values import (
    WrongShape,
    describe,
    finite_number,
    identifier,
    part,
    peek,
    whole_number,
)
from rag_eval_pipeline.text.folding import plain_text

# Where a passage or a citation has its parts, in the words of LangChain, LlamaIndex, Haystack and others.
TEXT = (
    "text", "content", "page_content", "pageContent", "chunk", "passage", "snippet", "body", "excerpt", "chunk_text",
)  # fmt: skip
_NAMES = ("file_name", "filename", "file_path", "filepath", "source", "document", "document_name", "path")
DOCUMENT = ("document", "file_name", "filename", "document_name", "source", "file", "file_path", "filepath", "path")
_PLACES = ("sourcefile", "sourcepage", "url", "uri", "source_url", "link", "doc_name")
DOCUMENT_IN_METADATA = (*_NAMES, "file", *_PLACES)
WEAK_NAMES = ("title", "document_id", "doc_id", "name", "id")  # where nothing else names the document
METADATA = ("metadata", "meta")
SCORE = ("score", "relevance_score", "similarity")
PAGE = ("page", "page_number", "page_no", "page_num", "pageNumber", "pg")
PAGE_FROM_ZERO = ("page_index", "page_idx")
IDS = ("id", "chunk_id", "passage_id", "node_id", "id_", "_id")  # of the passage, not of its document
WRAPPED = ("node", "kwargs", "document", "doc", "chunk", "passage")  # the passage itself, beside its score

_PAGE_FRAGMENT = re.compile(r"#page=(\d{1,6})\b.*", re.DOTALL)  # of a PDF's URL, counted from 1
_FILE_NAME = re.compile(r"(?:https?://\S+|[^\s<>\"|?*]+\.(?:pdf|html?|md|txt|docx?|pptx?))(?:#\S*)?", re.IGNORECASE)


class ParsedPassage(NamedTuple):
    """A passage as the system states it.

    Args:
        document: Name or path of its document; None if the system does not say.
        counts_from_zero: It is a LangChain document, whose loaders call the first page 0, or its page is an index.
        text: May be empty if a document is named.
        score: Finite; None if there is none or it may be a distance.
        other_names: Further names of the document, used if the corpus does not know `document`.
        source_id: The system's id of the passage.
    """

    document: str | None
    page: int | None
    counts_from_zero: bool
    text: str
    score: float | None
    start: int | None = None
    end: int | None = None
    kind: str = "text"
    other_names: tuple[str, ...] = ()
    source_id: str | None = None


def parse_passages(values: Sequence[Any]) -> tuple[ParsedPassage, ...]:
    """Parse retrieved passages: texts, mappings, or the objects of LangChain, LlamaIndex and Haystack.

    They are in their order, or in that of their ranks if each mapping states another `rank`.
    """
    parsed = tuple(_parse_passage(value, number) for number, value in enumerate(values))
    stated = [whole_number(part(value, "rank")) if isinstance(value, Mapping) else None for value in values]
    ranks = {rank: place for place, rank in enumerate(stated) if rank is not None}
    return tuple(parsed[ranks[rank]] for rank in sorted(ranks)) if len(ranks) == len(parsed) else parsed


def split_page(name: str) -> tuple[str, int | None]:
    """Split `report.pdf#page=3` into the name and its page, counted from 1; None for a name without a page."""
    found = _PAGE_FRAGMENT.search(name)
    return (name, None) if found is None else (name[: found.start()], int(found[1]))


def is_file_name(text: str) -> bool:
    """Return whether a text is nothing but a URL or a file's name without blanks."""
    return _FILE_NAME.fullmatch(text.strip()) is not None


def is_passage(value: Any) -> bool:
    """Return whether a value looks like a retrieved document: a text with metadata, a score or a document's name."""
    if isinstance(value, tuple | list):
        return len(value) == 2 and isinstance(value[1], int | float) and is_passage(value[0])
    if value is None or isinstance(value, str | bytes | int | float):
        return False
    inner = _inner(value)
    if not isinstance(peek(inner, *TEXT), str):
        return False
    beside = (*METADATA, *SCORE, *DOCUMENT, *_PLACES, *PAGE)
    return inner is not value or any(peek(inner, name) is not None for name in beside)


def _parse_passage(value: Any, number: int) -> ParsedPassage:
    if isinstance(value, str):
        return ParsedPassage(None, None, False, plain_text(value), None)
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | float):
        # LangChain's `similarity_search_with_score`: some stores give a distance, so only the order is reliable.
        return _parse_passage(value[0], number)._replace(score=None)
    inner = _inner(value)
    metadata = part(inner, *METADATA)
    text = _text_of(inner)
    names = _document_names(value, inner, metadata)
    if text is None and not names:
        raise WrongShape(f"contexts[{number}] that is {describe(value)}, without text or document")
    page, counts_from_zero = _page_of(value, inner, metadata)
    score = part(value, *SCORE)
    return ParsedPassage(
        document=names[0] if names else None,
        page=page,
        counts_from_zero=counts_from_zero,
        text=text or "",
        score=finite_number(score if score is not None else part(metadata, *SCORE)),
        start=whole_number(part(value, "start", "start_char")),
        end=whole_number(part(value, "end", "end_char")),
        kind=kind if isinstance(value, Mapping) and isinstance(kind := value.get("kind"), str) and kind else "text",
        other_names=names[1:],
        source_id=next((found for of in (value, inner) if (found := identifier(peek(of, *IDS))) is not None), None),
    )


def _inner(value: Any) -> Any:
    """Return the passage in a value: the value itself, or what it wraps, such as `{document: {...}, score: 0.5}`."""
    for name in WRAPPED:
        found = peek(value, name)
        if found is None or isinstance(found, str | bytes | int | float | list | tuple):
            continue
        if any(peek(found, key) is not None for key in TEXT):
            return part(value, name)
    return value


def _text_of(value: Any) -> str | None:
    """Return the text of a passage, also of parts `[{type: text, text: ...}]`."""
    found = part(value, *TEXT)
    if isinstance(found, list):
        parts = [item if isinstance(item, str) else part(item, "text") for item in found]
        found = "\n".join(item for item in parts if isinstance(item, str)) if parts else None
    return plain_text(found) if isinstance(found, str) else None


def _document_names(value: Any, inner: Any, metadata: Any) -> tuple[str, ...]:
    """Return the names of a passage's document, each once: texts before numbers, weak ones only if there are no others.

    `source: {source_name: ...}` is a name too, and docling's `origin: {filename: ...}`.
    """
    origin = part(part(metadata, "dl_meta") or metadata, "origin")
    keys = (
        *((of, name) for of in (value, inner) for name in (*DOCUMENT, *_PLACES)),
        *((metadata, name) for name in DOCUMENT_IN_METADATA),
        (origin, "filename"),
    )
    if names := _names(keys):
        return names
    return _names([(of, name) for of in (value, inner, metadata) for name in WEAK_NAMES])


def _names(keys: Sequence[tuple[Any, str]]) -> tuple[str, ...]:
    texts, numbers = [], []
    for of, key in keys:
        found = part(of, key)
        if isinstance(found, Mapping):
            found = part(found, "source_name", "source_id", "file_name", "name")
        if isinstance(found, str) and found:
            texts.append(plain_text(found))
        elif hasattr(found, "__fspath__"):
            texts.append(str(found))
        elif (number := identifier(found)) is not None:
            numbers.append(number)
    return tuple(dict.fromkeys([*texts, *numbers]))


def _page_of(value: Any, inner: Any, metadata: Any) -> tuple[int | None, bool]:
    """Return the page, and whether it counts from 0: LangChain counted it, or it is an index."""
    page = _number(metadata, "page")
    # A path in the system's file may have copied LangChain's page to the passage itself: it still counts from 0.
    is_langchain = page is not None and part(inner, "page_content") is not None
    own = _number(value, *PAGE)
    own = own if own is not None else _number(inner, *PAGE)
    if own is not None:
        return own, is_langchain and own == page
    stated = _number(metadata, *PAGE[1:])
    if stated is not None:
        return stated, False
    if page is not None:
        return page, is_langchain
    index = next(
        (found for of in (value, inner, metadata) if (found := _number(of, *PAGE_FROM_ZERO)) is not None), None
    )
    if index is not None:
        return index, True
    for of, keys in (
        (_docling_place(metadata), ("page_no",)),
        (part(metadata, "loc"), ("pageNumber",)),  # LangChain for JavaScript
        (value, ("page_numbers", "pages", "start_page")),
        (metadata, ("page_label", "page_numbers", "pages", "start_page")),
    ):
        if (number := _number(of, *keys)) is not None:
            return number, False
    return None, False


def _docling_place(metadata: Any) -> Any:
    """Return the first place of docling's `doc_items: [{prov: [{page_no: ...}]}]`."""
    items = part(part(metadata, "dl_meta") or metadata, "doc_items")
    for item in items if isinstance(items, list) else ():
        places = part(item, "prov")
        if isinstance(places, list) and places:
            return places[0]
    return None


def _number(value: Any, *names: str) -> int | None:
    """Return the first whole number under some names; of a list its first item."""
    for name in names:
        found = part(value, name)
        if isinstance(found, list | tuple) and found:
            found = found[0]
        if (number := whole_number(found)) is not None:
            return number
    return None
