"""Gold texts found again in a document: a benchmark's wording to a span of the extracted text.

A PDF breaks lines, hyphenates, draws ligatures and keeps citation marks, so `str.find` alone finds next to nothing. The
search goes from strict to lenient and stops at the first hit; a text that is not there is not found. One that has
been torn apart by a table or a caption has several places, one for each piece.
"""

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import Indel

from rag_eval_pipeline.corpus.text.folding import Folded, drop_citation_marks, even_out, fold
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.corpus.text.pieces import Piece, Torn, torn
from rag_eval_pipeline.corpus.text.similarity import FUZZY_LENGTH_MIN, PartIndex, Parts, Stretch, most_similar

Method = Literal["exact", "normalised", "citations", "fuzzy", "pieces"]

INSIDE_WORDS_LENGTH_MIN = 12  # folded characters; a shorter text does not begin in one word and end in another
INSIDE_WORD_LENGTH_MIN = 4  # of one word in a longer one: "1970" is in "1970s", "art" is not in "heart"

_OCCURRENCES_MAX = 1000
_NO_SPACES_FROM = 0x2E80  # CJK and what follows: words are not set apart, so every place is a word's edge
_NO_SPACES = re.compile("[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf]")  # nor in Thai to Burmese, Khmer, Tai
_AROUND = 60  # folded characters on either side, by which repetitions are told apart
_SURE = 90.0  # score of pieces above which the slower search for one similar stretch finds nothing better


class Stated(NamedTuple):
    """Characters `[start, end)` of the source's own body."""

    body: "TextIndex"
    start: int
    end: int


class Hint(NamedTuple):
    """Where a source says that its gold text stands.

    Args:
        page: 1-based; decides between repetitions.
        position: Start of the text divided by the length of the source's body, in [0, 1]; decides between repetitions.
        stated: The gold text in the source's body; where the body has it there, this wins over the other two.
    """

    page: int | None = None
    position: float | None = None
    stated: Stated | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """A place of a gold text, or of a piece of it, in a document.

    Args:
        text: The gold text, or the piece of it that stands here; without blanks around it.
        method: What it took to find it.
        score: 100.0, or in [80, 100] the similarity of a fuzzy hit, or the share of the gold text in all its pieces.
        start: In the document's text, code points.
        end: Exclusive.
        page: 1-based page where it starts.
        page_start: In that page's text.
        page_end: Exclusive; the page's end where the text goes on overleaf.
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
    """A document's text, ready for searches.

    Args:
        pages: Texts of its pages in order.
    """

    def __init__(self, pages: Sequence[str]) -> None:
        self.text = PAGE_BREAK.join(pages)
        self._page_starts = [0]
        for page in pages[:-1]:
            self._page_starts.append(self._page_starts[-1] + len(page) + len(PAGE_BREAK))
        self._folded = fold(self.text)
        self._unmarked = drop_citation_marks(self._folded)
        self._parts = PartIndex(self._unmarked.text)

    def locate(self, gold: str, hint: Hint | None = None) -> tuple[Located, ...]:
        """The places of a gold text: one; several of a text torn apart, in order; none when it is not there.

        A span that goes on overleaf with nothing in between is one place, as a citation of it is one citation.
        """
        hint = hint or Hint()
        gold = gold.strip()
        folded = fold(gold)
        unmarked = drop_citation_marks(folded)
        if not unmarked.text:
            return ()
        span = self._at_statement(folded, hint)
        spans = [span] if span else self._occurrences(folded, self._folded)
        if spans:
            start, end = self._widened(self._choose(spans, hint), gold, folded)
            method: Method = "exact" if self.text[start:end] == gold else "normalised"
            return (self._located(gold, method, 100.0, start, end),)
        spans = self._occurrences(unmarked, self._unmarked)
        if spans:
            start, end = self._widened(self._choose(spans, hint), gold, unmarked)
            return (self._located(gold, "citations", 100.0, start, end),)
        if len(unmarked.text) < FUZZY_LENGTH_MIN:
            return ()
        parts = self._parts.common(unmarked.text)
        found = self._pieces(gold, unmarked, parts, hint)
        if found and found[0].score >= _SURE:
            return found
        whole = self._fuzzy(gold, unmarked.text, parts, hint)
        return whole if whole and (not found or whole[0].score >= found[0].score) else found

    def _at_statement(self, gold: Folded, hint: Hint) -> tuple[int, int] | None:
        """The place that is the source's own: as many repetitions stand before it, or else the same text around it."""
        if hint.stated is None:
            return None
        body, start, end = hint.stated
        if fold(body.text[start:end]).text != gold.text:
            return None
        own = self._everywhere(gold, self._folded)
        theirs = body._everywhere(gold, body._folded)
        number = sum(at < start for at, _ in theirs)
        if len(own) == len(theirs):
            return own[number]
        wanted = body._around(theirs[number])
        position = start / len(body.text) * len(self.text)

        def likeness(span: tuple[int, int]) -> tuple[float, float]:
            around = zip(wanted, self._around(span), strict=True)
            return sum(Indel.normalized_similarity(*texts) for texts in around), -abs(span[0] - position)

        return max(own, key=likeness, default=None)

    def _around(self, span: tuple[int, int]) -> tuple[str, str]:
        before = fold(self.text[max(0, span[0] - 2 * _AROUND) : span[0]]).text
        return before[-_AROUND:], fold(self.text[span[1] : span[1] + 2 * _AROUND]).text[:_AROUND]

    @staticmethod
    def _everywhere(gold: Folded, within: Folded, limit: int | None = None) -> list[tuple[int, int]]:
        """Spans where a folded text stands."""
        spans: list[tuple[int, int]] = []
        at = within.text.find(gold.text)
        while at >= 0 and len(spans) != limit:
            spans.append((within.origin[at], within.origin[at + len(gold.text) - 1] + 1))
            at = within.text.find(gold.text, at + 1)
        return spans

    def _occurrences(self, gold: Folded, within: Folded) -> list[tuple[int, int]]:
        """Spans where a folded text stands, those of whole words if there are any."""
        if not gold.text:
            return []
        spans = self._everywhere(gold, within, _OCCURRENCES_MAX)
        whole = [span for span in spans if not self._cuts_word(*span)]
        if whole or len(gold.text) >= INSIDE_WORDS_LENGTH_MIN:
            return whole or spans
        return [span for span in spans if len(gold.text) >= INSIDE_WORD_LENGTH_MIN and self._is_inside_word(*span)]

    def _is_inside_word(self, start: int, end: int) -> bool:
        """Whether a span is a part of one word, and not of a longer number."""
        edges = self.text[max(0, start - 1) : start + 1], self.text[end - 1 : end + 1]
        cuts_number = any(len(pair) == 2 and pair.isdigit() for pair in edges)
        return not cuts_number and not any(map(str.isspace, self.text[start:end].replace("-\n", "")))

    def _widened(self, span: tuple[int, int], gold: str, folded: Folded) -> tuple[int, int]:
        """With the quotes and stops at the gold text's edges, which folding dropped, where the document has them."""
        start, end = span
        before, after = gold[: folded.origin[0]], gold[folded.origin[-1] + 1 :]
        if before and even_out(self.text[max(0, start - len(before)) : start]) == even_out(before):
            start -= len(before)
        if after and even_out(self.text[end : end + len(after)]) == even_out(after):
            end += len(after)
        return start, end

    def _cuts_word(self, start: int, end: int) -> bool:
        return _joined(self.text[max(0, start - 1) : start + 1]) or _joined(self.text[end - 1 : end + 1])

    def _choose(self, spans: list[tuple[int, int]], hint: Hint) -> tuple[int, int]:
        if hint.page is not None:
            spans = [span for span in spans if self._page(span[0]) == hint.page] or spans
        if hint.position is None:
            return spans[0]
        expected = hint.position * len(self.text)
        return min(spans, key=lambda span: abs(span[0] - expected))

    def _fuzzy(self, gold: str, folded: str, parts: Parts, hint: Hint) -> tuple[Located, ...]:
        hits = {self._span(hit): hit.score for hit in most_similar(folded, self._unmarked.text, parts)}
        if not hits:
            return ()
        span = self._choose(list(hits), hint)
        return (self._located(gold, "fuzzy", round(hits[span], 1), *span),)

    def _pieces(self, gold: str, folded: Folded, parts: Parts, hint: Hint) -> tuple[Located, ...]:
        hits = {self._span(hit): hit for hit in torn(folded.text, self._unmarked.text, parts, self._tear)}
        if not hits:
            return ()
        hit = hits[self._choose(list(hits), hint)]
        # A single piece is a fuzzy hit that was too long for the window of one.
        method: Method = "pieces" if len(hit.pieces) > 1 else "fuzzy"
        texts = (gold[folded.origin[p.gold_start] : folded.origin[p.gold_end - 1] + 1] for p in hit.pieces)
        return tuple(
            self._located(text, method, round(hit.score, 1), *self._span(piece))
            for text, piece in zip(texts, hit.pieces, strict=True)
        )

    def _span(self, folded: Stretch | Piece | Torn) -> tuple[int, int]:
        """Where characters of the folded text stand in the document."""
        return self._unmarked.origin[folded.start], self._unmarked.origin[folded.end - 1] + 1

    def _tear(self, at: int) -> int:
        """How much the place in front of a folded character looks like the end of a paragraph or line."""
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


def _joined(pair: str) -> bool:
    """Whether two neighbours belong to one word."""
    if len(pair) < 2 or not all(char.isalnum() and ord(char) < _NO_SPACES_FROM for char in pair):
        return False
    return not any(map(_NO_SPACES.match, pair))
