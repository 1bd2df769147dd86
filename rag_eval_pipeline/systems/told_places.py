"""Passages and citations that stand in a server's JSON, in the normal form."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.systems.answer import Citation, RetrievedPassage
from rag_eval_pipeline.systems.json_paths import WrongShape
from rag_eval_pipeline.systems.python.passages import (
    DOCUMENT,
    BadPassage,
    identifier,
    in_words,
    part,
    passages,
    plain_text,
    whole,
)
from rag_eval_pipeline.systems.reading import AnswerReader


def told_passages(items: Sequence[Any], where: str, reader: AnswerReader) -> tuple[RetrievedPassage, ...]:
    """The passages in a server's order.

    Args:
        items: Texts, or mappings with the keys that frameworks use.
        where: The path that they stand at, for messages.
        reader: Knows the corpus, and how the server counts.

    Raises:
        WrongShape: One has neither text nor document.
    """
    try:
        told = passages(items)
    except BadPassage as bad:
        raise WrongShape(f"passages at {where!r}: {bad}") from None
    return tuple(reader.passage(passage, rank) for rank, passage in enumerate(told, start=1))


def told_citations(items: Sequence[Any], where: str, reader: AnswerReader) -> tuple[Citation, ...]:
    """The cited places in a server's order; an item without characters, such as a document alone, is no place.

    Raises:
        WrongShape: One names no document.
    """
    found = (_citation(item, f"{where}[{number}]", reader) for number, item in enumerate(items))
    return tuple(citation for citations in found for citation in citations)


def _citation(item: Any, where: str, reader: AnswerReader) -> tuple[Citation, ...]:
    if isinstance(item, str):
        # Its mark stands in this text, not in the answer.
        found = reader.citations(plain_text(item))
        return tuple(msgspec.structs.replace(citation, marker_start=None, marker_end=None) for citation in found)
    name = identifier(part(item, *DOCUMENT)) if isinstance(item, Mapping) else None
    if name is None:
        raise WrongShape(f"a citation with a document at {where!r}, found {in_words(item)}")
    start, end = whole(part(item, "start", "start_char")), whole(part(item, "end", "end_char"))
    if start is None or end is None:
        return ()
    page = reader.page(whole(part(item, "page", "page_number")))
    citation = reader.citation(name, page, start, end)
    return () if citation is None else (citation,)


def merged(in_text: Sequence[Citation], beside: Sequence[Citation]) -> tuple[Citation, ...]:
    """Citations of a text, and behind them those of the data beside it that the text has not."""
    known = {_place(citation) for citation in in_text}
    return (*in_text, *(citation for citation in beside if _place(citation) not in known))


class _Place(NamedTuple):
    file_name: str
    start: int
    end: int


def _place(citation: Citation) -> _Place:
    return _Place(citation.file_name, citation.start_char, citation.end_char)
