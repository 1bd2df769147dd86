r"""Citations: the span model of the specifications and the grammar in which answers carry them.

Standard `[file:page:start-end]`, several spans `[file:page:s1-e1,s2-e2]`, with an excerpt `[file:page:start-end |
excerpt: "..."]`, and several brackets in a row. Offsets are half-open code points into the document's text (pages
joined by one form feed). In an excerpt a backslash precedes `"` and `\`, and `\n` is a line's end; a backslash
before anything else is one, as in `C:\data`, which writers of answers seldom double; so is one before the last quote.
What is written is read again.
Source: Citation Accuracy Evaluation 2.1, 2.2; Evaluation Data Formats 2.1.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Self

import pydantic

from rag_eval_pipeline.formats.model import Model

# Anchored from the right: file names made from URLs contain `:`, `#`, `,` and `]` themselves. Names have 255 bytes at
# most; without a limit, a text of nothing but brackets takes time by the square of its length. Numbers have as many
# digits as any document may need: Python refuses to read those of thousands.
_PLACES = (
    r":(?P<page>\d{1,9}):(?P<spans>\d{1,15}-\d{1,15}(?:,\d{1,15}-\d{1,15})*)"
    r'(?:\s*\|\s*excerpt:\s*"(?:(?P<excerpt>(?:[^"\\]|\\.)*+)"|(?P<bare>[^"\n]*+(?<=\\))"))?\]'
)
_LONGEST_NAME = 400
_CITATION = re.compile(rf"\[(?P<file>[^\n]{{1,{_LONGEST_NAME}}}?){_PLACES}", re.DOTALL)
_FILLER = "\x1a"  # SUBSTITUTE: no writer uses it
_GAP = re.compile(rf"[ \t]*{_FILLER}[ \t{_FILLER}]*(?P<end>(?=[.,;:!?)\n]|$))?", re.MULTILINE)
_ESCAPED = re.compile(r'\\(["\\n])')


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
    confidence_score: float | None = pydantic.Field(
        None, ge=0, le=1, description="Confidence of the citation's author."
    )
    context_text: str | None = pydantic.Field(None, description="The cited text, or text around it.")

    @pydantic.model_serializer(mode="wrap")
    def _stated(self, write: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is not stated: the specification's optional fields are numbers and texts, never null."""
        return {name: value for name, value in write(self).items() if value is not None}

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end_char <= self.start_char:
            raise ValueError(f"end_char greater than start_char ({self.start_char}); spans are half-open")
        return self


def format_citation(file_name: str, page: int, spans: Sequence[tuple[int, int]], *, excerpt: str | None = None) -> str:
    """Return a citation in the standard or the several-spans format, extended by an excerpt where there is one."""
    places = ",".join(f"{start}-{end}" for start, end in spans)
    if excerpt is None:
        return f"[{file_name}:{page}:{places}]"
    escaped = excerpt.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'[{file_name}:{page}:{places} | excerpt: "{escaped}"]'


class Marker(NamedTuple):
    """A citation in an answer: its bracket, and the places it names without empty and reversed spans."""

    start: int
    end: int
    spans: tuple[CitationSpan, ...]


def find_citations(answer: str, known_files: Collection[str] = (), *, first_page: int = 1) -> list[Marker]:
    """Return the citations of an answer in order, with their places.

    Args:
        answer: An answer's text.
        known_files: Names in the corpus; they settle where a file name with `[` inside begins.
        first_page: Number that the answer gives to a document's first page, 0 or 1.
    """
    markers = []
    match = _CITATION.search(answer)
    while match is not None:
        marker = _marker(match, known_files, first_page)
        markers.append(marker)
        match = _CITATION.search(answer, marker.end)
    return markers


def parse_citations(answer: str, known_files: Collection[str] = ()) -> list[CitationSpan]:
    """Return the cited places of an answer in order; arguments as in `find_citations`."""
    return [span for marker in find_citations(answer, known_files) for span in marker.spans]


def _marker(match: re.Match[str], known_files: Collection[str], first_page: int) -> Marker:
    begin = _name_start(match["file"], known_files)
    name, page = match["file"][begin:], int(match["page"]) + 1 - first_page
    excerpt = match["excerpt"] if match["bare"] is None else match["bare"]
    if excerpt is not None:
        excerpt = _ESCAPED.sub(lambda escaped: "\n" if escaped[1] == "n" else escaped[1], excerpt)
    pairs = ((int(start), int(end)) for start, end in (span.split("-") for span in match["spans"].split(",")))
    spans = tuple(
        CitationSpan(file_name=name, start_char=start, end_char=end, page_number=page, context_text=excerpt)
        for start, end in pairs
        if end > start and page >= 1
    )
    # A match may begin at an earlier bracket of the line; the citation's bracket is the one before its file name.
    return Marker(match.start("file") + begin - 1, match.end(), spans)


def strip_citations(answer: str, known_files: Collection[str] = ()) -> str:
    """Return the answer without its citations, for scorers that compare words; arguments as in `find_citations`."""
    bare, position = [], 0
    for marker in find_citations(answer, known_files):
        bare.append(answer[position : marker.start])
        position = marker.end
    if not bare:
        return answer
    # Only the gap that a citation leaves is closed: the blanks of tables and code stay.
    return _GAP.sub(_closed, _FILLER.join([*bare, answer[position:]])).strip()


def _closed(gap: re.Match[str]) -> str:
    return " " if gap["end"] is None and gap[0] != gap[0].strip(" \t") else ""


def _name_start(matched: str, known_files: Collection[str]) -> int:
    """Return where the file name begins in the text between a first bracket and the page.

    The longest tail that is a file of the corpus; else the shortest tail whose brackets close.
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
