"""Dates in a text: day, month and year as one thing, in the spellings of the configured language and in numbers."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from rag_eval_pipeline.judges.lexical.languages import LANGUAGES
from rag_eval_pipeline.judges.lexical.settings import LanguageCode
from rag_eval_pipeline.text.normalise import fold

_DAY = r"(?P<day>[0-3]?[0-9])"
_YEAR = r"(?P<year>[12][0-9]{3})(?!\w)"
_GAP = r"[ \n-]{1,3}"
_LINK = r"(?:(?:of|the|de|del|des)[ \n]{1,2})?"
_NUMBER = re.compile(r"[0-9]")
_SIGNED = re.compile(r"[0-9][-/.][0-9]")
_NUMERIC = (
    re.compile(r"(?<![\w./-])(?P<year>[12][0-9]{3})[-/.](?P<month>[01]?[0-9])[-/.](?P<day>[0-3]?[0-9])(?![\w/-])"),
    re.compile(r"(?<![\w./-])(?P<one>[0-3]?[0-9])([-/.])(?P<two>[0-3]?[0-9])\2(?P<year>[12][0-9]{3})(?![\w/-])"),
)
_EAST_ASIAN = (
    re.compile(r"(?P<year>[12][0-9]{3}) ?[年년] ?(?P<month>[01]?[0-9]) ?[月월](?: ?(?P<day>[0-3]?[0-9]) ?[日일])?"),
    re.compile(r"(?<![0-9])(?P<month>[01]?[0-9]) ?[月월] ?(?P<day>[0-3]?[0-9]) ?[日일]"),
)
_CAPITAL_ONLY = frozenset({"may", "march", "mar"})  # `it may 5 times` is no date


class Date(NamedTuple):
    """A date as far as it is written; never only a year."""

    year: int | None
    month: int
    day: int | None

    def covers(self, wanted: "Date") -> bool:
        """Whether all that is wanted stands here: a day of May 2021 covers May 2021, and not the reverse."""
        return all(part is None or part == own for part, own in zip(wanted, self, strict=True))


class FoundDate(NamedTuple):
    """A date and its place in the folded text, half-open."""

    date: Date
    start: int
    end: int


def find_dates(folded: str, unified: str, language: LanguageCode) -> list[FoundDate]:
    """The dates of a text, in order, none inside another.

    Args:
        folded: The folded text.
        unified: The same before folding; its capitals tell `May` from `may` where both are of one length.
        language: Whose names of months, besides the English ones, and whose order of 3/4/2021.
    """
    if _NUMBER.search(folded) is None:
        return []
    result: list[FoundDate] = []
    for found in sorted(_candidates(folded, unified, language), key=lambda found: (found.start, -found.end)):
        if not result or found.start >= result[-1].end:
            result.append(found)
    return result


def _candidates(folded: str, unified: str, language: LanguageCode) -> Iterator[FoundDate]:
    names, patterns = _named(language)
    for pattern in patterns:
        for match in pattern.finditer(folded):
            place = match.start("month")
            written_small = len(folded) == len(unified) and unified[place].islower()
            if not (match["month"] in _CAPITAL_ONLY and written_small):
                yield from _dated(match, names[match["month"]], match["day"], match["year"])
    if _SIGNED.search(folded):
        iso, ambiguous = _NUMERIC
        for match in iso.finditer(folded):
            yield from _dated(match, int(match["month"]), match["day"], match["year"])
        for match in ambiguous.finditer(folded):
            one, two = int(match["one"]), int(match["two"])
            # 3/4/2021: the month first only in English, unless it cannot be one.
            month, day = (one, two) if two > 12 or (language == "en" and one <= 12) else (two, one)
            yield from _dated(match, month, str(day), match["year"])
    if not folded.isascii():
        for number, pattern in enumerate(_EAST_ASIAN):
            for match in pattern.finditer(folded):
                yield from _dated(match, int(match["month"]), match["day"], None if number else match["year"])


def _dated(match: re.Match[str], month: int, day: str | None, year: str | None) -> Iterator[FoundDate]:
    """The date of a match; none when there is no such month or day."""
    if 1 <= month <= 12 and (day or year) and (not day or 1 <= int(day) <= 31):
        date = Date(int(year) if year else None, month, int(day) if day else None)
        yield FoundDate(date, match.start(), match.end())


@cache
def _named(language: LanguageCode) -> tuple[dict[str, int], tuple[re.Pattern[str], ...]]:
    """Numbers of the months by name; patterns for the day first, for the month first, and for no day."""
    names = {
        fold(name): number
        for known in ("en", language)
        for number, forms in enumerate(LANGUAGES[known].months, start=1)
        for name in forms
    }
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    month = rf"(?P<month>{alternatives})(?!\w)\.?"
    return names, (
        re.compile(rf"(?<![\w.,/]){_DAY}(?:st|nd|rd|th|er|\.|º)?{_GAP}{_LINK}{month}(?:,?{_GAP}{_LINK}{_YEAR})?"),
        re.compile(rf"(?<!\w){month}{_GAP}{_DAY}(?:st|nd|rd|th)?(?![\w%]|[.,][0-9])(?:,?{_GAP}{_YEAR})?"),
        re.compile(rf"(?<!\w){month}(?P<day>),?{_GAP}{_LINK}{_YEAR}"),
    )
