"""The order in which a line is read, from the order in which it is drawn: right-to-left words among others.

A line is drawn from left to right, whatever its direction. What is read the other way stands in it backwards, but for
the numbers and foreign words inside. The way back is not unique: two orders can look the same. The cases that are
decided here by convention are a number beside a foreign word, which is taken to belong to it, and the direction of a
line where nothing but its letters tells it.

Source: Unicode Standard Annex 9, rules W1-W7, N0-N2 and L2.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")

_BRACKETS = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_CODES = {"L": "L", "R": "R", "AL": "R", "EN": "N", "AN": "A", "CS": "C", "ES": "E", "ET": "T"}
_NEUTRAL = " "
# A separator stands between digits; a sign of a currency or per cent on either side. Behind an Arabic letter, neither a
# hyphen nor a sign in front belongs to the number (W2, W4, W5).
_NUMBER = "T*N(?:N|[CE](?=N))*T*|A(?:A|C(?=A))*"
_ARABIC_NUMBER = "[NA](?:[NA]|C(?=[NA]))*T*"
_LEFT_TO_RIGHT = re.compile("[^R]+")
_RIGHT_TO_LEFT = re.compile("R(?:[^L]*R)?")


class Cluster(NamedTuple):
    """Characters that are drawn as one, in the order in which they are read.

    Args:
        text: One character or a ligature, or a letter with its marks.
        source: Number of what drew it; clusters of one source are of one direction.
        is_reversed: Whether the one who drew it said that it stands backwards; False where that is not known.
    """

    text: str
    source: int
    is_reversed: bool


def leaning(text: str) -> float:
    """How many letters of a text are read from the right for one that is read from the left."""
    counts = Counter(map(unicodedata.bidirectional, text))
    return (counts["R"] + counts["AL"] + 1) / (counts["L"] + 1)


def reading_order(line: Sequence[Cluster], leaning: float) -> list[int]:
    """The order in which a line is read.

    Args:
        line: From left to right.
        leaning: Of the page: a line of two scripts is more likely to have the page's direction.

    Returns:
        Each index of the line once.
    """
    codes = "".join(map(_code, line))
    if "R" not in codes:
        return list(range(len(line)))
    if _is_right_to_left(line, codes, leaning):
        return _from_right(line, codes)
    order: list[int] = []
    end = 0
    for span in _RIGHT_TO_LEFT.finditer(codes):
        order += range(end, span.start())
        order += [span.start() + at for at in _from_right(line[span.start() : span.end()], span[0])]
        end = span.end()
    return [*order, *range(end, len(line))]


def mirrored(text: str) -> str:
    """A text with each bracket turned."""
    return text.translate(_BRACKETS)


def matched_brackets(text: str) -> str:
    """A text that is read from left to right, with its brackets turned to face each other where some do not."""
    brackets = [at for at, char in enumerate(text) if char != mirrored(char)]
    if len(brackets) % 2 or not _outward(text):
        return text
    chars = list(text)
    for number, at in enumerate(brackets):
        chars[at] = max(chars[at], mirrored(chars[at])) if number % 2 else min(chars[at], mirrored(chars[at]))
    return "".join(chars)


def _outward(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char in "([{<«") - (char in ")]}>»")
        if depth < 0:
            return True
    return depth > 0


def _code(cluster: Cluster) -> str:
    """`R`, `L`, `N` for digits, `C`, `E`, `T` for what may be a part of numbers; a blank for what has no direction."""
    return "R" if cluster.is_reversed else _CODES.get(unicodedata.bidirectional(cluster.text[0]), _NEUTRAL)


def _from_right(line: Sequence[Cluster], codes: str) -> list[int]:
    order = list(range(len(line)))
    for start, end in _left_to_right_spans(line, codes):
        order[start:end] = reversed(order[start:end])
    return order[::-1]


def _left_to_right_spans(line: Sequence[Cluster], codes: str) -> list[tuple[int, int]]:
    """Where foreign words and numbers stand in a line that is read from the right."""
    is_arabic = any(unicodedata.bidirectional(cluster.text[0]) == "AL" for cluster in line)
    part = re.compile(f"L|{_ARABIC_NUMBER if is_arabic else _NUMBER}")
    spans: list[tuple[int, int]] = []
    for stretch in _LEFT_TO_RIGHT.finditer(codes):
        words: list[tuple[int, int]] = []
        for match in part.finditer(codes, *stretch.span()):
            if words and _is_together(line, codes, words[-1], match.span()):
                words[-1] = words[-1][0], match.end()
            else:
                words.append(match.span())
        spans += [_with_brackets(line, span, stretch.span()) for span in words]
    return spans


def _is_together(line: Sequence[Cluster], codes: str, left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether two neighbours, each a foreign letter or a number, are of one foreign word or phrase."""
    between = range(left[1], right[0])
    if "L" not in codes[left[0] : left[1]] + codes[right[0] : right[1]]:
        return False
    for start, end in (left, right):
        if "L" in codes[start:end]:
            continue
        if "A" in codes[start:end]:
            return False
        # Who draws a number in one go would draw the phrase in one, too.
        sources = {line[at].source for at in range(start, end)}
        if len(sources) < end - start and any(line[at].source not in sources for at in between):
            return False
    return True


def _with_brackets(line: Sequence[Cluster], span: tuple[int, int], within: tuple[int, int]) -> tuple[int, int]:
    """With the bracket at one end whose other half is inside."""

    def is_bracket(at: int) -> bool:
        return line[at].text != mirrored(line[at].text)

    start, end = span
    if sum(map(is_bracket, range(start, end))) % 2:
        if end < within[1] and is_bracket(end):
            return start, end + 1
        if start > within[0] and is_bracket(start - 1):
            return start - 1, end
    return span


def _is_right_to_left(line: Sequence[Cluster], codes: str, leaning: float) -> bool:
    """Whether the line as a whole is read from the right: by the blanks between two directions, else by its letters.

    Such a blank has the direction of the line, so that it was drawn with the words of that direction.
    """
    votes = 0
    for at, cluster in enumerate(line):
        if cluster.text.isspace():
            beside = [other for other in (at - 1, at + 1) if 0 <= other < len(line)]
            if cluster.is_reversed:
                votes += any(codes[other] == "L" for other in beside)
            elif any(codes[other] == "R" for other in beside):
                votes -= any(line[other].source == cluster.source for other in beside)
    return votes > 0 if votes else codes.count("R") * leaning**2 >= codes.count("L")
