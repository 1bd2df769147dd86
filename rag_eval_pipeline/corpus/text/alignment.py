"""Locate gold texts in a document: map a benchmark's wording to a span of the extracted text.

A PDF breaks lines, hyphenates, draws ligatures and keeps citation marks. The search goes from strict to lenient and
stops at the first hit. A text that a table or a caption interrupts has several places, one per fragment.
"""

import bisect
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import Indel

from rag_eval_pipeline.corpus.text.fuzzy_search import (
    FUZZY_LENGTH_MIN,
    CommonNgrams,
    Fragment,
    FragmentMatch,
    NgramIndex,
    Stretch,
    match_fragments,
    most_similar,
)
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK

Method = Literal["exact", "normalised", "citations", "fuzzy", "pieces"]

INSIDE_WORDS_LENGTH_MIN = 12  # folded characters; a shorter text does not begin in one word and end in another
INSIDE_WORD_LENGTH_MIN = 4  # of one word in a longer one: "1970" is in "1970s", "art" is not in "heart"

_OCCURRENCES_MAX = 1000
_NO_SPACES_FROM = 0x2E80  # CJK and beyond: words are not separated, so every place is a word boundary
_NO_SPACES = re.compile("[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf]")  # nor in Thai to Burmese, Khmer, Tai
_CONTEXT = 60  # folded characters on either side, by which repetitions are distinguished
_CERTAIN = 90.0  # a score of fragments above which the slower search for one similar stretch finds nothing better

_INVISIBLE = {0xAD, 0xFFFE, 0x02, 0x200B, 0x200C, 0x200D, 0xFEFF, 0x2060}
_PUNCTUATION = {
    ord(mark): plain for mark, plain in zip("‘’‚‛′`´“”„‟″«»‐‑‒–—―−…·", "'''''''\"\"\"\"\"\"\"-------.·", strict=True)
}
_DROPPED_PUNCTUATION = frozenset("-\"'`.")
_CITATION_MARK = re.compile(r"\[(?:\d{1,3}|citationneeded|edit|note\d+)\]")

_folded_characters: dict[str, str] = {}


class Folded(NamedTuple):
    """A text reduced to what printing does not change, and for each character its offset in the original."""

    text: str
    origin: list[int]


def fold(text: str) -> Folded:
    """Normalise case, composition, ligatures and quotes; drop white space, hyphens, dots and invisible characters."""
    folded, origin = [], []
    for index, char in enumerate(text):
        fold = _folded_characters.get(char)
        if fold is None:
            fold = _folded_characters[char] = _fold_char(char)
        if fold:
            folded.append(fold)
            origin.extend([index] * len(fold))
    return Folded("".join(folded), origin)


def _fold_char(char: str) -> str:
    if ord(char) in _INVISIBLE or char.isspace():
        return ""
    plain = unicodedata.normalize("NFKD", char).translate(_PUNCTUATION).casefold()
    return "".join(
        c
        for c in plain
        if not (c.isspace() or unicodedata.combining(c) or c in _DROPPED_PUNCTUATION or ord(c) in _INVISIBLE)
    )


def drop_citation_marks(folded: Folded) -> Folded:
    """Remove `[12]`, `[edit]` and the like, which a printed encyclopedia has and a benchmark's copy has not."""
    kept, origin, end = [], [], 0
    for mark in _CITATION_MARK.finditer(folded.text):
        kept.append(folded.text[end : mark.start()])
        origin.extend(folded.origin[end : mark.start()])
        end = mark.end()
    kept.append(folded.text[end:])
    origin.extend(folded.origin[end:])
    return Folded("".join(kept), origin)


class SourcePlace(NamedTuple):
    """Characters `[start, end)` of the source's own text."""

    body: "TextIndex"
    start: int
    end: int


class Hint(NamedTuple):
    """Where a source says that its gold text is, to decide between repetitions.

    Args:
        page: 1-based.
        position: Start of the text divided by the length of the source's body.
        source: The gold text in the source's body; if the body has it there, this wins over the other two.
    """

    page: int | None = None
    position: float | None = None
    source: SourcePlace | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """A place of a gold text, or of a fragment of it, in a document. Offsets are code points.

    Args:
        text: The gold text or fragment, without surrounding white space.
        score: 100.0, or in [80, 100] the similarity of a fuzzy hit or the share of the gold text in all its fragments.
        start: In the document's text; `end` is exclusive.
        page: 1-based page where it starts; `page_start` and `page_end` are offsets in its text.
        page_end: The end of the page if the text continues on the next one.
    """

    text: str
    method: Method
    score: float
    start: int
    end: int
    page: int
    page_start: int
    page_end: int


class TextIndex:
    """A document's text, made of the texts of its pages, ready for searches."""

    def __init__(self, pages: Sequence[str]) -> None:
        self.text = PAGE_BREAK.join(pages)
        self._page_starts = [0]
        for page in pages[:-1]:
            self._page_starts.append(self._page_starts[-1] + len(page) + len(PAGE_BREAK))
        self._folded = fold(self.text)
        self._unmarked = drop_citation_marks(self._folded)
        self._ngrams = NgramIndex(self._unmarked.text)

    def locate(self, gold: str, hint: Hint | None = None) -> tuple[Located, ...]:
        """Return the places of a gold text: one, several for an interrupted text, or none.

        A span that continues on the next page with nothing in between is one place, as a citation of it is one.
        """
        hint = hint or Hint()
        gold = gold.strip()
        folded = fold(gold)
        unmarked = drop_citation_marks(folded)
        if not unmarked.text:
            return ()
        span = self._at_source_place(folded, hint)
        spans = [span] if span else self._word_occurrences(folded, self._folded)
        if spans:
            start, end = self._with_edge_punctuation(self._choose(spans, hint), gold, folded)
            method: Method = "exact" if self.text[start:end] == gold else "normalised"
            return (self._located(gold, method, 100.0, start, end),)
        spans = self._word_occurrences(unmarked, self._unmarked)
        if spans:
            start, end = self._with_edge_punctuation(self._choose(spans, hint), gold, unmarked)
            return (self._located(gold, "citations", 100.0, start, end),)
        if len(unmarked.text) < FUZZY_LENGTH_MIN:
            return ()
        common = self._ngrams.common(unmarked.text)
        fragments = self._fragments(gold, unmarked, common, hint)
        if fragments and fragments[0].score >= _CERTAIN:
            return fragments
        whole = self._fuzzy(gold, unmarked.text, common, hint)
        return whole if whole and (not fragments or whole[0].score >= fragments[0].score) else fragments

    def _at_source_place(self, gold: Folded, hint: Hint) -> tuple[int, int] | None:
        """Return the repetition that the source means: the one with the same number, else with the same context."""
        if hint.source is None:
            return None
        body, start, end = hint.source
        if fold(body.text[start:end]).text != gold.text:
            return None
        own = _occurrences(gold, self._folded)
        theirs = _occurrences(gold, body._folded)
        number = sum(at < start for at, _ in theirs)
        if len(own) == len(theirs):
            return own[number]
        wanted = body._context(theirs[number])
        position = start / len(body.text) * len(self.text)

        def likeness(span: tuple[int, int]) -> tuple[float, float]:
            contexts = zip(wanted, self._context(span), strict=True)
            return sum(Indel.normalized_similarity(*texts) for texts in contexts), -abs(span[0] - position)

        return max(own, key=likeness, default=None)

    def _context(self, span: tuple[int, int]) -> tuple[str, str]:
        before = fold(self.text[max(0, span[0] - 2 * _CONTEXT) : span[0]]).text
        return before[-_CONTEXT:], fold(self.text[span[1] : span[1] + 2 * _CONTEXT]).text[:_CONTEXT]

    def _word_occurrences(self, gold: Folded, within: Folded) -> list[tuple[int, int]]:
        """Return the spans of a folded text, only those of whole words if there are any."""
        if not gold.text:
            return []
        spans = _occurrences(gold, within, _OCCURRENCES_MAX)
        whole = [span for span in spans if not self._cuts_word(*span)]
        if whole or len(gold.text) >= INSIDE_WORDS_LENGTH_MIN:
            return whole or spans
        return [span for span in spans if len(gold.text) >= INSIDE_WORD_LENGTH_MIN and self._is_inside_word(*span)]

    def _is_inside_word(self, start: int, end: int) -> bool:
        """Whether a span is a part of one word, and not of a longer number."""
        edges = self.text[max(0, start - 1) : start + 1], self.text[end - 1 : end + 1]
        cuts_number = any(len(pair) == 2 and pair.isdigit() for pair in edges)
        return not cuts_number and not any(map(str.isspace, self.text[start:end].replace("-\n", "")))

    def _with_edge_punctuation(self, span: tuple[int, int], gold: str, folded: Folded) -> tuple[int, int]:
        """Extend a span by the quotes and dots at the gold text's edges, if the document has them."""
        start, end = span
        before, after = gold[: folded.origin[0]], gold[folded.origin[-1] + 1 :]
        if self.text[max(0, start - len(before)) : start].translate(_PUNCTUATION) == before.translate(_PUNCTUATION):
            start -= len(before)
        if self.text[end : end + len(after)].translate(_PUNCTUATION) == after.translate(_PUNCTUATION):
            end += len(after)
        return start, end

    def _cuts_word(self, start: int, end: int) -> bool:
        return _in_one_word(self.text[max(0, start - 1) : start + 1]) or _in_one_word(self.text[end - 1 : end + 1])

    def _choose(self, spans: list[tuple[int, int]], hint: Hint) -> tuple[int, int]:
        if hint.page is not None:
            spans = [span for span in spans if self._page(span[0]) == hint.page] or spans
        if hint.position is None:
            return spans[0]
        expected = hint.position * len(self.text)
        return min(spans, key=lambda span: abs(span[0] - expected))

    def _fuzzy(self, gold: str, folded: str, common: CommonNgrams, hint: Hint) -> tuple[Located, ...]:
        hits = {self._span(hit): hit.score for hit in most_similar(folded, self._unmarked.text, common)}
        if not hits:
            return ()
        span = self._choose(list(hits), hint)
        return (self._located(gold, "fuzzy", round(hits[span], 1), *span),)

    def _fragments(self, gold: str, folded: Folded, common: CommonNgrams, hint: Hint) -> tuple[Located, ...]:
        matches = match_fragments(folded.text, self._unmarked.text, common, self._break_strength)
        hits = {self._span(match): match for match in matches}
        if not hits:
            return ()
        hit = hits[self._choose(list(hits), hint)]
        # A single fragment is a fuzzy hit that was too long for the window of the fuzzy search.
        method: Method = "pieces" if len(hit.fragments) > 1 else "fuzzy"
        texts = (gold[folded.origin[f.gold_start] : folded.origin[f.gold_end - 1] + 1] for f in hit.fragments)
        return tuple(
            self._located(text, method, round(hit.score, 1), *self._span(fragment))
            for text, fragment in zip(texts, hit.fragments, strict=True)
        )

    def _span(self, folded: Stretch | Fragment | FragmentMatch) -> tuple[int, int]:
        return self._unmarked.origin[folded.start], self._unmarked.origin[folded.end - 1] + 1

    def _break_strength(self, at: int) -> int:
        """How likely a paragraph or line ends before a folded character, 0 to 2."""
        origin = self._unmarked.origin
        if not 0 < at < len(origin):
            return 2
        between = self.text[origin[at - 1] + 1 : origin[at]]
        return 2 if "\n" in between or PAGE_BREAK in between else 1 if between else 0

    def _page(self, offset: int) -> int:
        return bisect.bisect_right(self._page_starts, offset)

    def _located(self, text: str, method: Method, score: float, start: int, end: int) -> Located:
        page = self._page(start)
        page_start = self._page_starts[page - 1]
        is_last = page == len(self._page_starts)
        page_end = len(self.text) if is_last else self._page_starts[page] - len(PAGE_BREAK)
        return Located(text, method, score, start, end, page, start - page_start, min(end, page_end) - page_start)


def _occurrences(gold: Folded, within: Folded, limit: int | None = None) -> list[tuple[int, int]]:
    """Return the spans of a folded text in the original of another one."""
    spans: list[tuple[int, int]] = []
    at = within.text.find(gold.text)
    while at >= 0 and len(spans) != limit:
        spans.append((within.origin[at], within.origin[at + len(gold.text) - 1] + 1))
        at = within.text.find(gold.text, at + 1)
    return spans


def _in_one_word(pair: str) -> bool:
    if len(pair) < 2 or not all(char.isalnum() and ord(char) < _NO_SPACES_FROM for char in pair):
        return False
    return not any(map(_NO_SPACES.match, pair))
