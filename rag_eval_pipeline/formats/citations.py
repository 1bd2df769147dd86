"""Citations: the span model of the specifications and the grammar in which answers carry them.

Standard `[file:page:start-end]`, several spans `[file:page:s1-e1,s2-e2]`, with an excerpt `[file:page:start-end |
excerpt: "..."]`, and several brackets in a row. Offsets are half-open code points into the document's text (pages
joined by one form feed).
Source: Citation Accuracy Evaluation 2.1, 2.2; Evaluation Data Formats 2.1.
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple, Self

import pydantic

from rag_eval_pipeline.formats.model import Model

# Anchored from the right: file names made from URLs contain `:`, `#`, `,` and `]` themselves. Names have 255 bytes at
# most; without a limit, a text of nothing but brackets takes time by the square of its length.
_CITATION = re.compile(
    r"\[(?P<file>[^\n]{1,400}?):(?P<page>\d+):(?P<spans>\d+-\d+(?:,\d+-\d+)*)"
    r'(?:\s*\|\s*excerpt:\s*"(?P<excerpt>(?:[^"\\]|\\.)*)")?\]'
)


class CitationSpan(Model):
    """A place in a document's text."""

    file_name: str = pydantic.Field(description="Exact basename in the corpus.")
    start_char: int = pydantic.Field(ge=0, description="First code point, counted in the document's extracted text.")
    end_char: int = pydantic.Field(description="One past the last code point; greater than start_char.")
    page_number: int | None = pydantic.Field(None, ge=1, description="1-based page on which the span starts.")
    page_start: int | None = pydantic.Field(
        None, ge=0, description="start_char counted from the page's first character."
    )
    page_end: int | None = pydantic.Field(None, ge=0, description="end_char counted from the page's first character.")
    confidence_score: float | None = pydantic.Field(None, ge=0, le=1, description="Of whoever made the citation.")
    context_text: str | None = pydantic.Field(None, description="The cited text, or text around it.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end_char <= self.start_char:
            raise ValueError(f"end_char greater than start_char ({self.start_char}); spans are half-open")
        return self


def format_citation(file_name: str, page: int, spans: Sequence[tuple[int, int]]) -> str:
    """A citation in the standard or the several-spans format."""
    return f"[{file_name}:{page}:{','.join(f'{start}-{end}' for start, end in spans)}]"


class Marker(NamedTuple):
    """One citation as it stands in an answer.

    Args:
        start: First code point of its bracket.
        end: One past the last.
        spans: The places it names, in its order; empty and reversed spans are left out.
    """

    start: int
    end: int
    spans: tuple[CitationSpan, ...]


def find_citations(answer: str, known_files: Collection[str] = ()) -> list[Marker]:
    """The citations of an answer in order, with where they stand.

    Args:
        answer: An answer's text.
        known_files: Names in the corpus; they settle where a file name with `[` inside begins.
    """
    return [_marker(match, known_files) for match in _CITATION.finditer(answer)]


def parse_citations(answer: str, known_files: Collection[str] = ()) -> list[CitationSpan]:
    """The cited places of an answer in order; arguments as in `find_citations`."""
    return [span for marker in find_citations(answer, known_files) for span in marker.spans]


def _marker(match: re.Match[str], known_files: Collection[str]) -> Marker:
    begin = _name_start(match["file"], known_files)
    page = int(match["page"])
    places = ((int(start), int(end)) for start, end in (span.split("-") for span in match["spans"].split(",")))
    spans = tuple(
        CitationSpan(
            file_name=match["file"][begin:],
            start_char=start,
            end_char=end,
            page_number=page,
            context_text=match["excerpt"],
        )
        for start, end in places
        if end > start and page >= 1
    )
    # A match may begin at an earlier bracket of the line; the citation's own stands before its file name.
    return Marker(match.start() + begin, match.end(), spans)


def strip_citations(answer: str, known_files: Collection[str] = ()) -> str:
    """The answer without its citations, for scorers that compare words; arguments as in `parse_citations`."""
    # A match may begin at an earlier bracket of the line, `in 1887[3] by Ada [a.pdf:1:0-5]`: that part is text.
    bare = _CITATION.sub(lambda match: match[0][: _name_start(match["file"], known_files)], answer)
    return re.sub(r"[ \t]+(?=[.,;:!?]|$)", "", re.sub(r"[ \t]{2,}", " ", bare), flags=re.MULTILINE).strip()


def _name_start(matched: str, known_files: Collection[str]) -> int:
    """Where the file name begins in what stood between a first bracket and the page.

    The longest tail that is a file of the corpus; else the shortest tail whose own brackets close.
    """
    starts = [0, *(bracket.end() for bracket in re.finditer(r"\[", matched))]
    known = next((start for start in starts if matched[start:] in known_files), None)
    if known is not None:
        return known
    closed = (start for start in reversed(starts) if _is_balanced(matched[start:]))
    return next(closed, 0)


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            return False
    return depth == 0
