"""Gold texts found again in a document: a benchmark's wording to a span of the extracted text.

A PDF breaks lines, hyphenates, draws ligatures and keeps citation marks, so `str.find` alone finds next to nothing. The
search goes from strict to lenient and stops at the first hit; a text that is not there is not found.
"""

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, ScoreAlignment

from rag_eval_pipeline.corpus.text.folding import Folded, drop_citation_marks, even_out, fold
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK

Method = Literal["exact", "normalised", "citations", "fuzzy"]

FUZZY_CUTOFF = 80.0  # 5 % character noise is found in 99.6 % of cases, and of 240 foreign texts none
FUZZY_LENGTH_MIN = 24  # normalised characters; 80 % of less than that is found by chance
INSIDE_WORD_LENGTH_MIN = 12  # a shorter text is found only as whole words: "art" is not in "heart"

_OCCURRENCES_MAX = 1000
_NO_SPACES_FROM = 0x2E80  # CJK and what follows: words are not set apart, so every place is a word's edge
_SHINGLE = 12
_SHINGLE_OF_SHORT = 6
_BUCKET = 64  # width of a diagonal, in characters
_BEFORE, _AFTER = 96, 224  # margins of the window that is aligned
_SHINGLE_HITS_MAX = 8
_WINDOWS = 3
_ANCHOR = 4  # characters in a row that are no coincidence


class Hint(NamedTuple):
    """Where a source says that its gold text stands; decides between repetitions only.

    Args:
        page: 1-based.
        position: Start of the text divided by the length of the source's body, in [0, 1].
    """

    page: int | None = None
    position: float | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """A gold text's place in a document.

    Args:
        method: What it took to find it.
        score: 100.0, or the similarity of a fuzzy hit in [80, 100].
        start: In the document's text, code points.
        end: Exclusive.
        page: 1-based page where it starts.
        page_start: In that page's text.
        page_end: Exclusive; the page's end where the text goes on overleaf.
    """

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

    def locate(self, gold: str, hint: Hint | None = None) -> Located | None:
        """The span of a gold text; None when the document does not hold it."""
        hint = hint or Hint()
        gold = gold.strip()
        folded = fold(gold)
        unmarked = drop_citation_marks(folded)
        if not unmarked.text:
            return None
        spans = self._occurrences(folded, self._folded)
        if spans:
            start, end = self._widened(self._choose(spans, hint), gold, folded)
            return self._located("exact" if self.text[start:end] == gold else "normalised", 100.0, start, end)
        spans = self._occurrences(unmarked, self._unmarked)
        if spans:
            return self._located("citations", 100.0, *self._widened(self._choose(spans, hint), gold, unmarked))
        return self._fuzzy(unmarked.text, hint)

    def _occurrences(self, gold: Folded, within: Folded) -> list[tuple[int, int]]:
        """Spans where a folded text stands, those of whole words if there are any."""
        if not gold.text:
            return []
        spans: list[tuple[int, int]] = []
        at = within.text.find(gold.text)
        while at >= 0 and len(spans) < _OCCURRENCES_MAX:
            spans.append((within.origin[at], within.origin[at + len(gold.text) - 1] + 1))
            at = within.text.find(gold.text, at + 1)
        whole = [span for span in spans if not self._cuts_word(*span)]
        return whole or (spans if len(gold.text) >= INSIDE_WORD_LENGTH_MIN else [])

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

    def _fuzzy(self, gold: str, hint: Hint) -> Located | None:
        """The most similar stretch: shingles vote for places, and only those are aligned."""
        if len(gold) < FUZZY_LENGTH_MIN:
            return None
        text, origin = self._unmarked
        hits: list[tuple[float, int, int]] = []
        for low, high in self._windows(gold):
            window = text[low:high]
            if len(window) < len(gold):
                # partial_ratio would look for the window in the gold text, and any short document would do.
                score = fuzz.ratio(gold, window, score_cutoff=FUZZY_CUTOFF)
                first, last = low, high
            else:
                aligned = fuzz.partial_ratio_alignment(gold, window, score_cutoff=FUZZY_CUTOFF)
                score = aligned.score if aligned else 0.0
                first, last = _trimmed(gold, window, aligned) if aligned else (0, 0)
                first, last = low + first, low + last
            if score and first < last:
                hits.append((score, origin[first], origin[last - 1] + 1))
        if not hits:
            return None
        best = max(score for score, _, _ in hits)
        start, end = self._choose([(start, end) for score, start, end in hits if score > best - 1.0], hint)
        score = next(score for score, *span in hits if span == [start, end])
        return self._located("fuzzy", round(score, 1), start, end)

    def _windows(self, gold: str) -> Iterator[tuple[int, int]]:
        text = self._unmarked.text
        size = _SHINGLE if len(gold) >= 5 * _SHINGLE else _SHINGLE_OF_SHORT
        votes: Counter[int] = Counter()
        for offset in range(0, len(gold) - size + 1, size // 2):
            at = text.find(gold[offset : offset + size])
            for _ in range(_SHINGLE_HITS_MAX):
                if at < 0:
                    break
                votes[(at - offset) // _BUCKET] += 1
                at = text.find(gold[offset : offset + size], at + 1)
        # Insertions move the rest of a text to the next diagonal, so neighbours count together.
        ranked = sorted(votes, key=lambda bucket: (-(votes[bucket] + votes.get(bucket + 1, 0)), bucket))
        for bucket in ranked[:_WINDOWS]:
            yield max(0, bucket * _BUCKET - _BEFORE), min(len(text), bucket * _BUCKET + len(gold) + _AFTER)

    def _page(self, offset: int) -> int:
        return bisect.bisect_right(self._page_starts, offset)

    def _located(self, method: Method, score: float, start: int, end: int) -> Located:
        page = self._page(start)
        page_start = self._page_starts[page - 1]
        is_last = page == len(self._page_starts)
        page_end = len(self.text) if is_last else self._page_starts[page] - len(PAGE_BREAK)
        return Located(method, score, start, end, page, start - page_start, min(end, page_end) - page_start)


def _trimmed(gold: str, window: str, aligned: ScoreAlignment) -> tuple[int, int]:
    """Where the gold text begins and ends in a window: the aligned stretch has its length, which slips have changed."""
    stretch = window[aligned.dest_start : aligned.dest_end]
    anchors = [block for block in Indel.opcodes(gold, stretch).as_matching_blocks() if block.size >= _ANCHOR]
    if not anchors:
        return aligned.dest_start, aligned.dest_end
    first, last = anchors[0], anchors[-1]
    start = aligned.dest_start + first.b - first.a
    end = aligned.dest_start + last.b + len(gold) - last.a
    return max(0, start), min(len(window), end)


def _joined(pair: str) -> bool:
    """Whether two neighbours belong to one word."""
    return len(pair) == 2 and all(char.isalnum() and ord(char) < _NO_SPACES_FROM for char in pair)
