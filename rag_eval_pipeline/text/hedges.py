"""What the words beside a number or a name make of it: `not 42`, `at least 42`, `42 or 43`, `Leeds rather than York`.

A denial reaches from its word to the end of the clause or to the next denial. "Not only", "not until" and "no more
than" deny nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

Hedge = Literal["", "denial", "alternative", "list", "bracket", "above", "below", "before", "after", "about"]

LOOSE: tuple[Literal["alternative", "list", "bracket"], ...] = ("alternative", "list", "bracket")
"""Hedges of a number that stands beside others."""

_DENIAL = re.compile(
    r"\bnot\b(?! (?:only|just|merely|until|least|without)\b| (?:more|less|fewer|later|earlier) than\b)"
    r"|\bno\b(?! (?:more|less|fewer|later|earlier) than\b|\.? ?[0-9])"
    r"|n't\b|\b(?:never|none|nobody|nothing|neither|nor|cannot|(?<!not )without|rather than|instead of)\b"
)
_CLAUSE_END = re.compile(
    r"[.!?](?=\s|$)|[,:](?![0-9])|[;()\n]|\b(?:but|and|although|though|while|whereas|because|until|unless|except)\b"
)


# What stands before or after a number; the first row that matches counts. `before` and `after` are for dates only.
_BESIDE: tuple[tuple[Hedge, re.Pattern[str]], ...] = (
    ("below", re.compile(
        r"(?:\b(?<!no )(?<!not )(?:less|fewer|lower|smaller|shorter) than|\b(?:no|not) (?:more|longer|higher) than"
        r"|\b(?:under|below|at most|up to|maximum of)|<=?|≤) ?$"
    )),
    ("above", re.compile(
        r"(?:\b(?<!no )(?<!not )(?:more|greater|higher|larger|longer) than|\b(?:no|not) (?:less|fewer) than"
        r"|\b(?:over|above|at least|exceed(?:s|ed|ing)?|minimum of)|(?<![-=\w\"/])>=?|≥) ?$"
    )),
    ("before", re.compile(r"\b(?:before|prior to|earlier than) $")),
    ("after", re.compile(r"\b(?:after|later than) $")),
    ("about", re.compile(r"(?:~|\b(?:about|approximately|approx\.?|around|roughly|circa|ca\.|nearly|almost)) ?$")),
)  # fmt: skip
_BEHIND: tuple[tuple[Hedge, re.Pattern[str]], ...] = (
    ("below", re.compile(r" ?(?:\w+ )?or (?:less|fewer|under|below|lower)\b| ?at (?:the )?most\b")),
    ("above", re.compile(r"\+| ?(?:\w+ )?or (?:more|over|above|higher|greater)\b| ?at (?:the )?least\b")),
)
_REACH = 24  # characters on either side of a number
_LISTED = 3  # numbers in a row from which they are a list
_BETWEEN_LISTED = re.compile(r"(?:[,;]|\n[-*+]?|,? ?\b(?:and|or)\b)\s*")
_BETWEEN_TWO = re.compile(r"(?: [a-z]+)? or (?:(?:in|by|on|from|the) )?")


class Denials:
    """Where a lower-case text denies what it says."""

    def __init__(self, text: str) -> None:
        cues = list(_DENIAL.finditer(text))
        self._starts = [cue.end() for cue in cues]
        self._ends = []
        for number, cue in enumerate(cues):
            limit = cues[number + 1].start() if number + 1 < len(cues) else len(text)
            end = _CLAUSE_END.search(text, cue.end(), limit)
            self._ends.append(end.start() if end else limit)

    def cover(self, place: int) -> bool:
        """Whether what is written at an offset is denied."""
        number = bisect_right(self._starts, place) - 1
        return number >= 0 and place < self._ends[number]


def find_hedges(text: str, places: Sequence[tuple[int, int, bool]]) -> list[Hedge]:
    """Return the hedge of each number of a lower-case text.

    Args:
        places: Half-open offsets of the numbers, and whether each is a year or date.
    """
    denials = Denials(text)
    listed, alternative = _beside_others(text, sorted(place[:2] for place in places))
    found: list[Hedge] = []
    for start, end, is_date in places:
        if denials.cover(start):
            found.append("denial")
        elif start in listed:
            found.append("list")
        elif text[start - 1 : start] == "[" and text[end : end + 1] == "]":  # in 1950 [1800]
            found.append("bracket")
        else:
            before, after = text[max(start - _REACH, 0) : start], text[end : end + _REACH]
            rows = _BESIDE if is_date else (row for row in _BESIDE if row[0] not in ("before", "after"))
            beside: list[Hedge] = [name for name, row in rows if row.search(before)]
            beside += [name for name, row in _BEHIND if row.match(after)]
            found.append(beside[0] if beside else "alternative" if start in alternative else "")
    return found


def _beside_others(text: str, places: Sequence[tuple[int, int]]) -> tuple[set[int], set[int]]:
    """Return where numbers begin that are items of a list, and those with an `or` between them."""
    listed: set[int] = set()
    alternative: set[int] = set()
    length = 1
    for number in range(1, len(places)):
        gap = text[places[number - 1][1] : places[number][0]]
        length = length + 1 if _BETWEEN_LISTED.fullmatch(gap) else 1
        if length >= _LISTED:
            listed.update(start for start, _ in places[number - _LISTED + 1 : number + 1])
        if _BETWEEN_TWO.fullmatch(gap):
            alternative |= {places[number - 1][0], places[number][0]}
    return listed, alternative
