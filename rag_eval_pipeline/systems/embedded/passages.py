"""Documents cut into sentences and passages, each with its place.

A passage never crosses a page: its page number is a fact, not a guess. Offsets are code points of the document's text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rag_eval_pipeline.systems.corpus import PageText
from rag_eval_pipeline.systems.embedded.terms import spaced_words
from rag_eval_pipeline.text.tokens import has_unspaced, tokenize

# A sentence ends at `.`, `!` or `?` with closing marks, before white space and a new start, at an empty line, or at the
# full stop of a script that needs no space behind it.
# `Dr. Smith` and `3.5 m` are told apart by what stands around the mark.
_BREAK = re.compile(
    r"(?<!\b[A-Z])(?<!\b(?:Dr|Mr|St|No))(?<!\b(?:Mrs|vol))[.!?][\"'”’)\]]*(?:\[\d+\])*\s+(?=[\"'“‘(]?[A-Z0-9])|\n\s*\n"
    r"|[。！？｡។။།॥।]+[\"'”’」』）)\]]*(?:\[\d+\])*\s*"
)
CHARACTERS_A_WORD = 2  # about; in scripts that are written without spaces


class Sentence(NamedTuple):
    """One sentence; `start` and `end` are document offsets."""

    document: str
    page: int
    start: int
    end: int
    text: str


class Passage(NamedTuple):
    """Neighbouring sentences of one page."""

    document: str
    page: int
    start: int
    end: int
    text: str
    sentences: tuple[Sentence, ...]


def sentences(page: PageText) -> Iterator[Sentence]:
    """The sentences of a page in order, without white space at their edges."""
    begin = 0
    for end in [*(match.end() for match in _BREAK.finditer(page.text)), len(page.text)]:
        raw = page.text[begin:end]
        if text := raw.strip():
            start = page.start + begin + len(raw) - len(raw.lstrip())
            yield Sentence(page.document, page.page, start, start + len(text), text)
        begin = end


def passages(pages: Iterable[PageText], *, words: int) -> Iterator[Passage]:
    """Passages of at most `words` words; a longer sentence is a passage of its own."""
    for page in pages:
        group: list[Sentence] = []
        size = 0
        for sentence in sentences(page):
            length = _words(sentence.text)
            if group and size + length > words:
                yield _passage(page, group)
                group, size = [], 0
            group.append(sentence)
            size += length
        if group:
            yield _passage(page, group)


def _words(text: str) -> int:
    """Words of a text, those of unspaced scripts estimated."""
    if not has_unspaced(text):
        return len(text.split())
    unspaced = sum(has_unspaced(token) for token in tokenize(text))
    return len(spaced_words(text)) + -(-unspaced // CHARACTERS_A_WORD)


def _passage(page: PageText, group: Sequence[Sentence]) -> Passage:
    start, end = group[0].start, group[-1].end
    text = page.text[start - page.start : end - page.start]
    return Passage(page.document, page.page, start, end, text, tuple(group))
