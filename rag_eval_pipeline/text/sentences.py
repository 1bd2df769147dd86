"""Sentences, list items and table rows, by rules for several languages that run in linear time."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from rag_eval_pipeline.text.folding import FILLER, fold

Kind = Literal["sentence", "question", "heading", "row"]
_LEAD_IN_WORDS = 10  # a line of so few words that ends in a colon announces what follows

_CLOSERS = r"""["'”’»)\]*_]"""
# Runs begin where the character before is none of theirs: a run of a hundred thousand full stops is read once.
_END = re.compile(
    rf"(?<![.!?…])[.!?…]++{_CLOSERS}*+(?:[ \t]*+{FILLER}++{_CLOSERS}*+)*+(?:(?<={FILLER})[.,;]++)?(?=\s|$)"
    rf"|(?<![。！？।؟۔։])[。！？।؟۔։]++[”’」』）\"'*_)]*+(?:[ \t]*+{FILLER}++)*+"
)
_LEAD = re.compile(
    r"(?:[ \t>]++)?(?:#{1,6}[ \t]++)?"
    r"(?:(?:[-+•‣▪◦·–—]|\*(?=[ \t])|\(?[0-9]{1,3}[.)]|[a-z][.)]|\([a-z]\)|[A-Z]\))[ \t]++)?"
)
_HEADING = re.compile(r"[ \t]*+(?:#{1,6}[ \t]|(\*\*|__)(?:(?!\1).)*+\1:?[ \t]*+$)")
_ROW = re.compile(r"[ \t]*+\||[^|]*+\|[^|]*+\|")
_RULE = re.compile(r"[ \t|:=+-]*+$")
_FENCE = re.compile(r"[ \t]*+(?:```|~~~)")
_SAID = re.compile(r"[^\W_]")
_NEXT = re.compile(rf"[\s{FILLER}]*+[\"'“„«(\[*_]*+((?:\w|\S)?)\w*+")
_SINGLE = re.compile(r" [^\W\d_]\.")
_NAMED = re.compile(  # a single capital that is no initial
    r"(?:vitamin|hepatitis|plan|type|grade|class|appendix|table|option|group) .$", re.IGNORECASE
)
_ALWAYS = "。！？।؟۔։"
_OPENERS = "\"'“„«([*_"
_INDENTED = 24  # characters before a list number at most
_LONGEST_TITLE = 6  # letters
_LONGEST_ABBREVIATION = 16  # characters, dots included
_QUOTED = re.compile(r'"[^"\n]{1,300}"|[“„][^“”„\n]{1,300}[”“]|«[^«»\n]{1,300}»')
_COLON = re.compile(rf"[:：][\s*_{FILLER}]*+$")
_QUESTION = re.compile(rf"[?？؟][!?\s{FILLER}\"'”’»)\]*_]*+$")

# A full stop after these never ends a sentence.
_TITLES = frozenset(
    """
    adj al approx bzgl bzw ca cf chr col dr dra drs e.g eg eq eqs etal exc fig figs frau gen gov hon hr i.e ie inkl
    lt m.e mag messrs mlle mm mme mr mrs ms mt nr o.g p pp prof rep rev sec sen sr sra srta u.a viz vgl vol vols vs z.b
    z.t d.h s.o s.u m.in np tzn т.е т.д г св ул стр рис
    """.split()  # noqa: SIM905  # sixty quoted words would be sixty lines
)
# After these it does not before a number: Jan. 5, No. 7, St. 3.
_BEFORE_NUMBER = frozenset(
    """
    a.m abs art aug bd ch co corp dec feb inc jan jul jun ltd mar apr no nos nov num oct p.m para pt s sect sep sept st
    tab abb cap ed est kap núm n п
    """.split()  # noqa: SIM905  # as above
)
# Months after a day's number, folded: `am 3. Oktober`.
_MONTHS = frozenset(
    """
    januar jan februar feb marz mar april apr mai may juni june jun juli july jul august aug september sept sep oktober
    october okt oct november nov dezember december dez dec
    """.split()  # noqa: SIM905  # as above
)


class Piece(NamedTuple):
    """A sentence, list item, heading or table row: half-open code points of the text it was cut from."""

    start: int
    end: int
    kind: Kind


def pieces(masked: str) -> Iterator[Piece]:
    """Yield the pieces of a text that have a letter or digit, without bullets and blanks.

    Fillers in place of citations belong to the sentence before them.
    """
    start = 0
    lines = masked.split("\n")
    for number, line in enumerate(lines):
        if line and not line.isspace():
            yield from _line(line, start, lines[number + 1] if number + 1 < len(lines) else "")
        start += len(line) + 1


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the offset one past each sentence of a text whose line breaks mean nothing, without the end of the text."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for match in _END.finditer(text):
        place, end = match.span()
        if end < len(text) and _ends_here(text, place, end, quoted):
            yield end


def _line(line: str, offset: int, following: str) -> Iterator[Piece]:
    if _FENCE.match(line):
        return
    if "|" in line and _ROW.match(line):
        if _SAID.search(line):
            is_head = "-" in following and "|" in following and _RULE.match(following) is not None
            yield _trimmed(line, 0, len(line), offset, "heading" if is_head else "row")
        return
    begin = _LEAD.match(line).end()  # type: ignore[union-attr]  # it matches the empty text
    if _HEADING.match(line):
        if _SAID.search(line, begin):
            yield _trimmed(line, begin, len(line), offset, "heading")
        return
    searched = begin
    for end in (*sentence_ends(line), len(line)):
        if end > searched:
            if _SAID.search(line, searched, end):
                yield _trimmed(line, begin, end, offset, None)
                begin = end
            searched = end


def _trimmed(line: str, start: int, end: int, offset: int, kind: Kind | None) -> Piece:
    text = line[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    if kind is None:
        kind = "sentence"
        if text[-1] in "?？؟" or _QUESTION.search(text[-40:]):
            kind = "question"
        elif _COLON.search(text[-40:]) and text.count(" ") < _LEAD_IN_WORDS and not any(map(str.isdigit, text)):
            kind = "heading"
    return Piece(offset + start, offset + start + len(text), kind)


def _ends_here(text: str, place: int, end: int, quoted: list[tuple[int, int]]) -> bool:
    """Whether a sentence ends with the terminator at a place; `end` is one past it and what closes with it."""
    if text[place] in _ALWAYS:
        return True
    first = text[end + 1 : end + 2]
    if not first.isalnum():  # quotes, brackets, further blanks
        following = _NEXT.match(text, end)
        first = following[1] if following else ""
    if first.islower():
        return False
    for start, stop in quoted:
        if start < place and end < stop:
            return False
    if text[place] != "." or text.startswith("..", place):
        return True
    word = text[text.rfind(" ", max(place - _LONGEST_ABBREVIATION, 0), place) + 1 : place].lstrip(_OPENERS)
    # Most sentences end with a long word, which no list has.
    return (len(word) > _LONGEST_TITLE and "." not in word) or _ends_after(word, text, place, end, first)


def _ends_after(word: str, text: str, place: int, end: int, first: str) -> bool:
    """Whether a full stop after a short word ends a sentence; `first` is the next one's first character."""
    if word.isdigit():
        # `am 3. Oktober`; and the number of a list item.
        following = _NEXT.match(text, end)
        is_day = len(word) <= 2 and following is not None and fold(following[0].strip()) in _MONTHS
        return not (is_day or (len(word) <= 3 and place < _INDENTED and not text[: place - len(word)].strip()))
    found = word.casefold()
    if found in _TITLES:
        return False
    if len(word) == 1:
        is_spaced = first.isupper() and _SINGLE.match(text, end) is not None  # `z. B.`
        if is_spaced or (word.isupper() and first.isupper() and not _NAMED.search(text, max(place - 16, 0), place)):
            return False
    return not (found in _BEFORE_NUMBER and first.isdigit())
