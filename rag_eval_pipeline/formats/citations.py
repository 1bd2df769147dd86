"""Citations: the span model of the specifications and the grammar in which answers carry them.

Standard `[file:page:start-end]`, several spans `[file:page:s1-e1,s2-e2]`, with an excerpt `[file:page:start-end |
excerpt: "..."]`, and several brackets in a row. Offsets are half-open code points into the document's text (pages
joined by one form feed).
Source: Citation Accuracy Evaluation 2.1, 2.2; Evaluation Data Formats 2.1.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Self

import pydantic

from rag_eval_pipeline.formats.model import Model

# Anchored from the right: file names made from URLs contain `:`, `#`, `,` and `]` themselves.
_CITATION = re.compile(
    r"\[(?P<file>[^\n]+?):(?P<page>\d+):(?P<spans>\d+-\d+(?:,\d+-\d+)*)"
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


def parse_citations(answer: str, known_files: Collection[str] = ()) -> list[CitationSpan]:
    """The citations of an answer in order, one span each; empty and reversed spans are left out.

    Args:
        answer: An answer's text.
        known_files: Names in the corpus; they settle where a file name with `[` inside begins.
    """
    citations = []
    for match in _CITATION.finditer(answer):
        for span in match["spans"].split(","):
            start, end = (int(number) for number in span.split("-"))
            page = int(match["page"])
            if end > start and page >= 1:
                citations.append(
                    CitationSpan(
                        file_name=_file_name(match["file"], known_files),
                        start_char=start,
                        end_char=end,
                        page_number=page,
                        context_text=match["excerpt"],
                    )
                )
    return citations


def strip_citations(answer: str) -> str:
    """The answer without its citations, for scorers that compare words."""
    return re.sub(r"[ \t]+(?=[.,;:!?]|$)", "", re.sub(r"\s*" + _CITATION.pattern, "", answer)).strip()


def _file_name(matched: str, known_files: Collection[str]) -> str:
    """The longest tail of what stood before the page that is a file of the corpus; all of it where none is."""
    return next((tail for tail in _tails(matched) if tail in known_files), matched)


def _tails(matched: str) -> Iterator[str]:
    yield matched
    for bracket in re.finditer(r"\[", matched):
        yield matched[bracket.end() :]
