"""The words of a sentence that answer a question: a reader without a model.

The kind of answer follows from the question's first words (a number, a date, a name); of the candidates of that kind in
the sentence, the one nearest to the question's own words is taken. It is a yardstick, not a language model: what it
cannot do, it does equally badly every night.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rag_eval_pipeline.systems.embedded.terms import STOP_WORDS, placed_terms, terms
from rag_eval_pipeline.text.tokens import has_unspaced, iterate_tokens

_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_YEAR = r"(?:1[0-9]{3}|20[0-9]{2})"
_DATE = re.compile(
    rf"\b(?:\d{{1,2}} {_MONTH} {_YEAR}|{_MONTH} \d{{1,2}}, {_YEAR}|{_MONTH} {_YEAR}|\d{{1,2}} {_MONTH}|{_YEAR})\b"
)
_NUMBER = re.compile(
    r"[$£€]?\d[\d,]*(?:\.\d+)?(?: ?(?:%|per cent|million|billion|thousand))?(?: [a-zà-ÿ]+)?"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty)\b(?: [a-z]+)?"
)
_NAME = re.compile(
    r"\b[A-ZÀ-Þ][\w'’-]*(?:\s(?:(?:of|the|de|da|van|von|and|du|la)\s)*[A-ZÀ-Þ][\w'’-]*)*"
)  # fmt: skip


_CLAUSE = re.compile(r"[^,;:()\n.!?，、；：。！？（）]+")


class Place(NamedTuple):
    """A stretch of a sentence, half-open."""

    start: int
    end: int


def extract(question: str, sentence: str) -> Place:
    """The place of the answer in a sentence; the whole sentence when nothing in it looks like the answer."""
    asked = set(terms(question))
    if has_unspaced(sentence):
        return _shared_clause(asked, sentence)
    anchors = [term.start for term in placed_terms(sentence) if term.text in asked]
    candidates = [place for place in _finder(question)(sentence) if not set(terms(_cut(sentence, place))) & asked]
    if not candidates:
        return Place(0, len(sentence))
    if not anchors:
        return candidates[0]
    return min(candidates, key=lambda place: (_distance(place, anchors), place.start))


def _shared_clause(asked: set[str], sentence: str) -> Place:
    """The clause that has most of the question's terms: without spaces, nothing shows where a name or a noun ends."""
    clauses = [Place(match.start(), match.end()) for match in _CLAUSE.finditer(sentence)]
    return max(
        clauses, key=lambda place: len(set(terms(_cut(sentence, place))) & asked), default=Place(0, len(sentence))
    )


def _cut(sentence: str, place: Place) -> str:
    return sentence[place.start : place.end]


def _distance(place: Place, anchors: list[int]) -> float:
    nearest = sorted(abs(place.start - anchor) for anchor in anchors)[:2]
    return sum(nearest) / len(nearest)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Place]]:
    return lambda sentence: (Place(match.start(), match.end()) for match in pattern.finditer(sentence))


def _names(sentence: str) -> Iterator[Place]:
    """Capitalised runs but for months; the first word alone is none, as every sentence begins with a capital."""
    for match in _NAME.finditer(sentence):
        start = match.start()
        first = next(iterate_tokens(sentence[start:], keep_apostrophes=True), None)
        if first is not None and first[0].casefold() in STOP_WORDS:  # "The Hague" loses its article, "The" is nothing
            rest = _NAME.search(sentence, start + first.end(), match.end())
            if rest is None:
                continue
            start = rest.start()
        if re.fullmatch(_MONTH, sentence[start : match.end()]) or (start == 0 and " " not in match[0]):
            continue
        yield Place(start, match.end())


def _clauses(sentence: str) -> Iterator[Place]:
    """Runs of words between function words and punctuation: the nearest thing to a noun phrase without a grammar."""
    yield from _names(sentence)
    for match in re.finditer(r"[^,;:()\n.]+", sentence):
        begin = None
        end = 0
        for word in iterate_tokens(match[0], keep_apostrophes=True):
            if word[0].casefold() in STOP_WORDS:
                if begin is not None:
                    yield Place(begin, end)
                begin = None
            else:
                begin = match.start() + word.start() if begin is None else begin
                end = match.start() + word.end()
        if begin is not None:
            yield Place(begin, end)


# The first rule whose pattern stands in the question decides what an answer looks like.
_KINDS: tuple[tuple[re.Pattern[str], Callable[[str], Iterator[Place]]], ...] = (
    (re.compile(r"\bwhen\b|\b(?:what|which) (?:year|date|day|month)\b", re.IGNORECASE), _matches(_DATE)),
    (
        re.compile(r"\bhow (?:many|much|long|far|tall|high|deep|old|wide|heavy|fast|often|large|big)\b", re.IGNORECASE),
        _matches(_NUMBER),
    ),
    (re.compile(r"\bwh(?:o|om|ose)\b", re.IGNORECASE), _names),
)  # fmt: skip


def _finder(question: str) -> Callable[[str], Iterator[Place]]:
    return next((finder for pattern, finder in _KINDS if pattern.search(question)), _clauses)
