"""Locate gold texts in a document: map a benchmark's wording to a span of the extracted text.

A PDF breaks lines, hyphenates, draws ligatures and keeps citation marks. The search goes from strict to lenient and
stops at the first hit; no place has another number than the text, whatever else may differ. A text that a table or a
caption interrupts has several places, one per fragment.
"""

import bisect
import re
import unicodedata
from collections.abc import Iterator, Sequence
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
_BESIDE_DIGITS = re.escape(
    "".join(map(chr, sorted({*_PUNCTUATION, *_INVISIBLE}))) + "".join(_DROPPED_PUNCTUATION) + ","
)
# What is kept of white space and punctuation: between digits everything, and the sign or point in front of a number.
_OF_NUMBERS = re.compile(rf"(?<=\d)[\s{_BESIDE_DIGITS}]+(?=\d)|(?<![\w.])(?:[-–−]\.?|\.)(?=\d)")
_NUMBER = re.compile(r"(?:(?<!\d)-)?(?:(?<!\d)\.)?\d+(?:[.,']\d+)*")  # in a folded text
_QUANTITY = re.compile(r"\d{1,3}(?:([.,'])\d{3})(?:\1\d{3})*(?:[.,]\d+)?|\d+[.,]\d+")  # unlike a date or a section
_NUMBER_LENGTH_MAX = 32  # folded characters
_LINE_END_HYPHEN = re.compile(r"(?<=\w)-\s*\n\s*(?=\w)")
_CITATION_MARK = re.compile(r"\[(?:\d{1,3}|citationneeded|edit|note\d+)\]|<\d{1,2}hop>")  # the last is of ragas

_folded_characters: dict[str, str] = {}


class Folded(NamedTuple):
    """A text reduced to what printing does not change, and for each character its offset in the original."""

    text: str
    origin: list[int]


def fold(text: str) -> Folded:
    """Normalise case, composition, ligatures and quotes; drop white space, hyphens, dots and invisible characters.

    Nothing is dropped that makes one number another: `1.5`, `1 5`, `1-5`, `-15` and `15` stay different.
    """
    folded: list[str] = []
    origin: list[int] = []
    end = 0
    for kept in _OF_NUMBERS.finditer(text):
        _fold_into(folded, origin, text, end, kept.start())
        mark = _between_digits(kept[0])
        folded.append(mark)
        origin.extend([kept.start()] * len(mark))
        end = kept.end()
    _fold_into(folded, origin, text, end, len(text))
    return Folded("".join(folded), origin)


def _fold_into(folded: list[str], origin: list[int], text: str, start: int, end: int) -> None:
    for index, char in enumerate(text[start:end], start):
        fold = _folded_characters.get(char)
        if fold is None:
            fold = _folded_characters[char] = _fold_char(char)
        if fold:
            folded.append(fold)
            origin.extend([index] * len(fold))


def _between_digits(run: str) -> str:
    """Return what divides two numbers: a dash, whatever white space is around it; else what is there, squeezed."""
    plain = "".join(char for char in run if ord(char) not in _INVISIBLE).translate(_PUNCTUATION)
    if "-" in plain:
        return "-." if plain.endswith("-.") else "-"
    return re.sub(r"\.?\s+", " ", plain)  # the dot is the end of a sentence


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
        if folded.text[max(0, mark.start() - 1) : mark.start()].isdecimal() and folded.text[end : end + 1].isdecimal():
            kept.append(" ")
            origin.append(folded.origin[mark.start()])
    kept.append(folded.text[end:])
    origin.extend(folded.origin[end:])
    return Folded("".join(kept), origin)


def numbers_of(folded: str, start: int = 0, end: int | None = None) -> list[str]:
    """Return the numbers of a folded text, or those that are partly in a stretch of it, with their signs."""
    end = len(folded) if end is None else end
    near = max(0, start - _NUMBER_LENGTH_MAX)
    found = _NUMBER.finditer(folded, near, min(len(folded), end + _NUMBER_LENGTH_MAX))
    return [number[0] for number in found if number.end() > start and number.start() < end]


def contains(text: str, part: str) -> bool:
    """Whether a text has another one, but for white space, case and the like, and not as a part of a number."""
    folded = fold(part)
    return not folded.text or any(_occurrences(folded, fold(text), text))


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
        span = (
            self._with_edge_punctuation(span, gold, folded) if span else self._place(gold, folded, self._folded, hint)
        )
        if span:
            method: Method = "exact" if self.text[slice(*span)] == gold else "normalised"
            return (self._located(gold, method, 100.0, *span),)
        span = self._place(gold, unmarked, self._unmarked, hint)
        if span:
            return (self._located(gold, "citations", 100.0, *span),)
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
        own = list(_occurrences(gold, self._folded, self.text))
        theirs = list(_occurrences(gold, body._folded, body.text))
        number = sum(at < start for at, _ in theirs)
        if number == len(theirs):  # the stated place begins or ends within a number
            return None
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

    def _place(self, gold: str, folded: Folded, within: Folded, hint: Hint) -> tuple[int, int] | None:
        """Return the place of a folded text that the hint means, or else the one most like the text."""
        spans = [self._with_edge_punctuation(span, gold, folded) for span in self._word_occurrences(folded, within)]
        return self._choose([span for span in spans if not _is_other_word(gold, self.text[slice(*span)])], hint, gold)

    def _word_occurrences(self, gold: Folded, within: Folded) -> list[tuple[int, int]]:
        """Return the spans of a folded text, only those of whole words if there are any."""
        whole: list[tuple[int, int]] = []
        inside: list[tuple[int, int]] = []
        for span in _occurrences(gold, within, self.text):
            spans = inside if self._cuts_word(*span) else whole
            if len(spans) < _OCCURRENCES_MAX:
                spans.append(span)
        if whole or len(gold.text) >= INSIDE_WORDS_LENGTH_MIN:
            return whole or inside
        return [span for span in inside if len(gold.text) >= INSIDE_WORD_LENGTH_MIN and self._is_one_word(*span)]

    def _is_one_word(self, start: int, end: int) -> bool:
        return not any(map(str.isspace, self.text[start:end].replace("-\n", "")))

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

    def _choose(self, spans: list[tuple[int, int]], hint: Hint, gold: str) -> tuple[int, int] | None:
        """Return the span on the stated page that is most like the text, and of equal ones the nearest or first."""
        if hint.page is not None:
            spans = [span for span in spans if self.page_of(span[0]) == hint.page] or spans
        if len(spans) < 2:
            return next(iter(spans), None)
        expected = None if hint.position is None else hint.position * len(self.text)

        def rank(span: tuple[int, int]) -> tuple[int, float]:
            difference = _difference(gold, self.text[slice(*span)])
            return (difference, 0.0) if expected is None else (max(1, difference), abs(span[0] - expected))

        return min(spans, key=rank)

    def _fuzzy(self, gold: str, folded: str, common: CommonNgrams, hint: Hint) -> tuple[Located, ...]:
        similar = most_similar(
            folded, self._unmarked.text, common, lambda one: self._has_numbers(folded, one.start, one.end)
        )
        hits = {self._span(hit): hit.score for hit in similar}
        span = self._choose(list(hits), hint, gold)
        return (self._located(gold, "fuzzy", round(hits[span], 1), *span),) if span else ()

    def _fragments(self, gold: str, folded: Folded, common: CommonNgrams, hint: Hint) -> tuple[Located, ...]:
        def accepts(match: FragmentMatch) -> bool:
            return all(
                self._has_numbers(folded.text, one.start, one.end, one.gold_start, one.gold_end)
                for one in match.fragments
            )

        matches = match_fragments(folded.text, self._unmarked.text, common, self._break_strength, accepts)
        hits = {self._span(match): match for match in matches}
        span = self._choose(list(hits), hint, gold)
        if span is None:
            return ()
        hit = hits[span]
        # A single fragment is a fuzzy hit that was too long for the window of the fuzzy search.
        method: Method = "pieces" if len(hit.fragments) > 1 else "fuzzy"
        texts = (gold[folded.origin[f.gold_start] : folded.origin[f.gold_end - 1] + 1] for f in hit.fragments)
        return tuple(
            self._located(text, method, round(hit.score, 1), *self._span(fragment))
            for text, fragment in zip(texts, hit.fragments, strict=True)
        )

    def _has_numbers(self, gold: str, start: int, end: int, gold_start: int = 0, gold_end: int | None = None) -> bool:
        """Whether a similar place has the numbers of its part of the gold text; it may have more, as of a page."""
        found = iter(numbers_of(self._unmarked.text, start, end))
        return all(number in found for number in numbers_of(gold, gold_start, gold_end))

    def _span(self, folded: Stretch | Fragment | FragmentMatch) -> tuple[int, int]:
        return self._unmarked.origin[folded.start], self._unmarked.origin[folded.end - 1] + 1

    def _break_strength(self, at: int) -> int:
        """How likely a paragraph or line ends before a folded character, 0 to 2."""
        origin = self._unmarked.origin
        if not 0 < at < len(origin):
            return 2
        between = self.text[origin[at - 1] + 1 : origin[at]]
        return 2 if "\n" in between or PAGE_BREAK in between else 1 if between else 0

    def page_of(self, offset: int) -> int:
        """Return the 1-based page of a character."""
        return bisect.bisect_right(self._page_starts, offset)

    def _located(self, text: str, method: Method, score: float, start: int, end: int) -> Located:
        page = self.page_of(start)
        page_start = self._page_starts[page - 1]
        is_last = page == len(self._page_starts)
        page_end = len(self.text) if is_last else self._page_starts[page] - len(PAGE_BREAK)
        return Located(text, method, score, start, end, page, start - page_start, min(end, page_end) - page_start)


def _occurrences(gold: Folded, within: Folded, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a folded text in the original of another one, but none that begins or ends in a number."""
    at = within.text.find(gold.text)
    while at >= 0:
        end = at + len(gold.text)
        if not (_divides_number(within, text, at) or _divides_number(within, text, end)):
            yield within.origin[at], within.origin[end - 1] + 1
        at = within.text.find(gold.text, at + 1)


def _divides_number(folded: Folded, text: str, at: int) -> bool:
    """Whether the character before and the one at an offset belong to the same number, its sign included."""
    pair = folded.text[max(0, at - 1) : at + 1]
    if len(pair) < 2 or not all(char.isdecimal() or char in ".,'-" for char in pair):
        return False
    if pair.isdecimal():  # and no mark of a note, whose raised digits are folded to plain ones
        return all(text[folded.origin[place]].isdecimal() for place in (at - 1, at))
    for number in _NUMBER.finditer(folded.text, max(0, at - _NUMBER_LENGTH_MAX), at + _NUMBER_LENGTH_MAX):
        if number.start() < at < number.end():
            is_lead = not any(map(str.isdecimal, number[0][: at - number.start()]))
            return is_lead or _QUANTITY.fullmatch(number[0].lstrip("-.")) is not None
    return False


def _is_other_word(gold: str, found: str) -> bool:
    """Whether a single word differs as words do: `US` from `us`, `re-sign` from `resign`."""
    if gold == found or any(char.isspace() or ord(char) >= _NO_SPACES_FROM for char in gold):
        return False
    hyphens = [{text.count("-") for text in _unprinted(own)} for own in (gold, found)]
    return (gold.isupper() and found.islower()) or hyphens[0].isdisjoint(hyphens[1])


def _difference(gold: str, found: str) -> int:
    """Return 0 for equal texts, 1 for texts that are equal but for print: white space, quotes, ligatures; else 2."""
    return 0 if gold == found else 2 if _unprinted(gold).isdisjoint(_unprinted(found)) else 1


def _unprinted(text: str) -> set[str]:
    """Return a text without what print does to it; a hyphen at a line's end may be the word's own."""
    plain = unicodedata.normalize("NFKC", text.translate(_PUNCTUATION))
    return {
        "".join(char for char in one if not (char.isspace() or ord(char) in _INVISIBLE))
        for one in (plain, _LINE_END_HYPHEN.sub("", plain))
    }


def _in_one_word(pair: str) -> bool:
    if len(pair) < 2 or not all(char.isalnum() and ord(char) < _NO_SPACES_FROM for char in pair):
        return False
    return not any(map(_NO_SPACES.match, pair))
