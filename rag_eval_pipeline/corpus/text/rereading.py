"""Lines of right-to-left letters, and of letters with marks, read again in the order of the content stream.

The characters are pdfium's own, as many as they were, but for what it gets wrong: it mirrors brackets that it should
not, gives some letters with marks twice, and puts blanks between letters and vowel signs. Blanks and line ends are set
anew.
"""

import ctypes
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.text.drawn_lines import CELL_FROM, TextObjects, Word, drawn_lines
from rag_eval_pipeline.corpus.text.reading_order import (
    RIGHT_TO_LEFT,
    Cluster,
    leaning,
    matched_brackets,
    mirrored,
    reading_order,
)

LINE_END = -1
BLANK = -2

# Letters that are drawn together with marks: Hebrew to Myanmar, Hangul's parts, Khmer to Vedic, Javanese and others;
# and marks on any letter.
_CLUSTERED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0590-\u109f\u1100-\u11ff\u135d-\u135f\u1700-\u18af\u1900-\u1cff\u1dc0-\u1dff"
    "\ua66f-\ua67d\ua800-\uabff\ufb1d-\ufdff\ufe20-\ufe2f\ufe70-\ufefc\U00010800-\U00011fff\U0001e000-\U0001efff]"
)
_BLANK_FROM = 0.6  # sizes; glyphs without a blank in between do not stand further apart, even around a thin "1"
_BLANK_AFTER_CLUSTER_FROM = 0.3  # the same where pdfium has one; inside words it puts them into gaps up to 0.29
_NO_OBJECT = -1


class Characters(NamedTuple):
    """The characters of a page.

    Args:
        text: One code point each.
        places: Index of each in pdfium's list; `LINE_END` or `BLANK` for what is not in it.
    """

    text: str
    places: list[int]


class _Glyph(NamedTuple):
    cluster: Cluster
    places: list[int]


_SPACE = _Glyph(Cluster(" ", _NO_OBJECT, False), [BLANK])


def is_reread(text: str) -> bool:
    """Whether a text has letters whose order or number pdfium may get wrong."""
    return _CLUSTERED.search(text) is not None


def reread(layer: Any, given: Characters) -> Characters:
    """The characters of a page in the order in which they are read.

    Args:
        layer: A `pypdfium2.PdfTextPage`.
        given: In pdfium's order. Lines keep it where the page's maker does not say what stands backwards, or which
            text glyphs stand for: there is nothing better to go by.
    """
    if not is_reread(given.text):
        return given
    objects = TextObjects(layer.page, layer)
    says_reversed = any(drawn.reversed_by for drawn in objects.drawn)
    says_text = any(drawn.stands_for for drawn in objects.drawn)
    if not says_reversed and not says_text:
        return given

    def is_wanted(line: str) -> bool:
        return says_reversed if RIGHT_TO_LEFT.search(line) else says_text and is_reread(line)

    owners = _owners(objects, given)
    line_of, texts = _reread_lines(layer, drawn_lines(objects.drawn), given, owners, is_wanted)
    lines: list[Characters] = []
    pending: dict[int, Characters] = {}  # pdfium's order is not to be relied on even from line to line
    for start, end in _line_spans(given):
        line = next((line_of[owner] for owner in owners[start:end] if owner in line_of), None)
        if line is not None:
            pending |= texts.pop(line, {})
        else:
            lines += [pending[number] for number in sorted(pending)]
            pending = {}
            lines.append(Characters(given.text[start:end], given.places[start:end]))
    lines += [pending[number] for number in sorted(pending)]
    places = [place for line in lines for place in (*line.places, LINE_END)]
    return Characters("\n".join(line.text for line in lines), places[:-1])


def _owners(objects: TextObjects, given: Characters) -> list[int]:
    """For each character its text object, and for blanks and line ends `_NO_OBJECT`."""
    owners: list[int] = []
    last = _NO_OBJECT
    for char, place in zip(given.text, given.places, strict=True):
        owner = objects.number(place) if place >= 0 else None
        if owner is None and not char.isspace():
            owner = last  # a hyphen that pdfium has put in the place of one
        owners.append(_NO_OBJECT if owner is None else owner)
        last = last if owner is None else owner
    return owners


def _line_spans(given: Characters) -> Iterator[tuple[int, int]]:
    start = 0
    for at, (char, place) in enumerate(zip(given.text, given.places, strict=True)):
        if char == "\n" and place == LINE_END:
            yield start, at
            start = at + 1
    yield start, len(given.places)


def _reread_lines(
    layer: Any,
    lines: Sequence[Sequence[Word]],
    given: Characters,
    owners: Sequence[int],
    is_wanted: Callable[[str], bool],
) -> tuple[dict[int, int], dict[int, dict[int, Characters]]]:
    """What stands in the place of pdfium's lines.

    Returns:
        For each text object of lines that were read again the first of the lines that pdfium has mixed up with its own;
        and for each such line all of them by their numbers.
    """
    own = {drawn.number: number for number, line in enumerate(lines) for word in line for drawn in word.objects}
    mixed = list(range(len(lines)))

    def first(line: int) -> int:
        while mixed[line] != line:
            line = mixed[line]
        return line

    wanted, foreign = set(), set()
    for start, end in _line_spans(given):
        found = [(owner, char) for owner, char in zip(owners[start:end], given.text[start:end], strict=True)]
        together = {first(own[owner]) for owner, _ in found if owner in own}
        for line in together:
            mixed[line] = min(together)
        if together and is_wanted(given.text[start:end]):
            wanted.add(min(together))
        if together and any(owner not in own and owner != _NO_OBJECT for owner, _ in found):
            foreign.add(min(together))  # text that does not stand upright is left where it is
    read = {first(line) for line in wanted} - {first(line) for line in foreign}
    chars: dict[int, list[int]] = {}
    for at, owner in enumerate(owners):
        chars.setdefault(owner, []).append(at)
    page = leaning(given.text)
    blanks = _blanks(given, owners)
    texts: dict[int, dict[int, Characters]] = {}
    for number, words_of_line in enumerate(lines):
        if first(number) in read:
            words = [(word, list(_glyphs(layer, word, chars, given))) for word in words_of_line]
            characters = _read_line(words, page, blanks)
            if characters.text:
                texts.setdefault(first(number), {})[number] = characters
    return {owner: first(line) for owner, line in own.items() if first(line) in read}, texts


def _glyphs(layer: Any, word: Word, chars: Mapping[int, list[int]], given: Characters) -> Iterator[_Glyph]:
    """A word's glyphs from left to right."""
    for _, group in groupby(word.objects, lambda drawn: drawn.stands_for or -drawn.number - 1):
        objects = list(group)
        at = [index for drawn in objects for index in chars.get(drawn.number, ())]
        number = objects[0].number
        if not at:
            if objects[0].is_blank and not objects[0].stands_for:
                yield _Glyph(Cluster(" ", number, word.is_reversed), [BLANK])
        elif objects[0].text:
            text, at = _as_said(objects[0].text, at, given.text)
            yield _Glyph(Cluster(text, number, word.is_reversed), [given.places[index] for index in at])
        else:
            for same in _by_place(layer, at, given):
                text = _unturned("".join(given.text[index] for index in same))
                yield _Glyph(Cluster(text, number, word.is_reversed), [given.places[index] for index in same])


def _as_said(said: str, at: Sequence[int], text: str) -> tuple[str, list[int]]:
    """Characters in the order of the text that their glyph stands for, when they are the same.

    Where another word is drawn over a letter and its mark, pdfium gives their text twice.
    """
    left = list(at)
    order = []
    for char in said:
        found = next((index for index in left if text[index] in (char, mirrored(char))), None)
        if found is None:
            break
        left.remove(found)
        order.append(found)
    if len(order) == len(said) and all(text[index] in said for index in left):
        return said, order
    return "".join(text[index] for index in at), list(at)


def _by_place(layer: Any, at: Sequence[int], given: Characters) -> Iterator[list[int]]:
    """Characters of one object from left to right, those of one glyph together."""
    import pypdfium2

    if len(at) == 1:
        yield list(at)
        return
    x, y = ctypes.c_double(), ctypes.c_double()
    pens = []
    for index in at:
        pypdfium2.raw.FPDFText_GetCharOrigin(layer, given.places[index], x, y)
        pens.append((round(x.value, 3), index))
    for _, group in groupby(sorted(pens), lambda pen: pen[0]):
        yield [index for _, index in group]


def _unturned(text: str) -> str:
    """The characters of one glyph as they are read; pdfium turns those of some ligatures."""
    turned = text[::-1]
    return turned if len(text) > 1 and text not in _ligatures() and turned in _ligatures() else text


@cache
def _ligatures() -> frozenset[str]:
    """What ligatures stand for: those of Unicode's presentation forms, and that of God's name without its first."""
    forms = (*range(0xFB50, 0xFE00), *range(0xFE70, 0xFEFD))
    return frozenset({"لله", *(unicodedata.normalize("NFKC", chr(form)) for form in forms)})


def _blanks(given: Characters, owners: Sequence[int]) -> set[tuple[int, int]]:
    """The pairs of text objects between which pdfium has a blank."""
    found = set()
    last = _NO_OBJECT
    for at, owner in enumerate(owners):
        if owner != _NO_OBJECT:
            if last != _NO_OBJECT and owners[at - 1] == _NO_OBJECT:
                found.add((last, owner))
            last = owner
        elif given.text[at] != " ":
            last = _NO_OBJECT
    return found


def _read_line(words: Sequence[tuple[Word, list[_Glyph]]], leaning: float, blanks: Set[tuple[int, int]]) -> Characters:
    """A line: its cells in the order of the content stream, each in the order in which it is read."""
    from_right = any(
        glyph.cluster.is_reversed or RIGHT_TO_LEFT.search(glyph.cluster.text) for _, glyphs in words for glyph in glyphs
    )
    cells: list[tuple[int, list[_Glyph]]] = []
    before: Word | None = None
    for word, glyphs in words:
        gap = 0.0 if before is None else word.left - before.right
        if before is None or gap > CELL_FROM * word.size:
            cells.append((word.objects[0].number, []))
        elif gap > _BLANK_FROM * word.size or (not from_right and _is_apart(before, word, blanks)):
            cells[-1][1].append(_SPACE)
        cells[-1][1].extend(glyphs)
        if before is None or word.right > before.right:
            before = word
    read = [_single_blanks(cell) for _, cell in sorted(cells, key=lambda cell: cell[0])]
    if from_right:
        read = [_read_cell(cell, leaning) for cell in read]
    glyphs = _single_blanks([glyph for cell in read for glyph in (*cell, _SPACE)])
    return Characters(
        "".join(glyph.cluster.text for glyph in glyphs), [place for glyph in glyphs for place in glyph.places]
    )


def _is_apart(before: Word, word: Word, blanks: Set[tuple[int, int]]) -> bool:
    """Whether pdfium's blank between two words is one: where text stands for glyphs, it often is not."""
    if not any((left.number, right.number) in blanks for left in before.objects for right in word.objects):
        return False
    return not before.objects[0].stands_for or word.left - before.right > _BLANK_AFTER_CLUSTER_FROM * word.size


def _read_cell(glyphs: Sequence[_Glyph], leaning: float) -> list[_Glyph]:
    ordered = [glyphs[at] for at in reading_order([glyph.cluster for glyph in glyphs], leaning)]
    read: list[_Glyph] = []
    for is_forward, group in groupby(ordered, lambda glyph: not glyph.cluster.is_reversed):
        run = list(group)
        if is_forward:
            text = matched_brackets("".join(glyph.cluster.text for glyph in run))
            for glyph in run:
                own, text = text[: len(glyph.cluster.text)], text[len(glyph.cluster.text) :]
                read.append(glyph._replace(cluster=glyph.cluster._replace(text=own)))
        else:
            read += run
    return read


def _single_blanks(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """Without blanks at the ends, and with one in the place of several."""
    kept: list[_Glyph] = []
    for glyph in (*glyphs, _SPACE):
        if not glyph.cluster.text.isspace() or (kept and not kept[-1].cluster.text.isspace()):
            kept.append(glyph)
    return kept[:-1]
