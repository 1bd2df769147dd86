"""Put the characters of right-to-left lines, and of letters with marks, into reading order.

pdfium sorts what it finds on a page by position, which tears such lines apart and reverses their words. Chromium draws
line by line, each from left to right, and marks words that are backwards (`ReversedChars`) and the text of glyphs
(`ActualText`): ISO 32000-2, 14.8.2.5.3 and 14.9.4. Lines are therefore read again in the order of the content stream.

Two orders can be drawn alike. By convention, a number beside a foreign word belongs to that word, and a line whose
direction only its letters show has that of most of them. Source: Unicode Standard Annex 9, W1-W7, N0-N2 and L2.
It is one file because each step reads the glyphs and marks of the step before it.
"""

import codecs
import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import groupby
from statistics import mode
from typing import Any, NamedTuple

import pypdfium2.raw as raw

LINE_END = -1
SPACE = -2

# Letters that are drawn together with marks: Hebrew to Myanmar, Hangul's parts, Khmer to Vedic, Javanese and others;
# and marks on any letter.
_CLUSTERED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0590-\u109f\u1100-\u11ff\u135d-\u135f\u1700-\u18af\u1900-\u1cff\u1dc0-\u1dff"
    "\ua66f-\ua67d\ua800-\uabff\ufb1d-\ufdff\ufe20-\ufe2f\ufe70-\ufefc\U00010800-\U00011fff\U0001e000-\U0001efff]"
)
_SPACE_FROM = 0.6  # font sizes; glyphs without a space in between are closer than that, even around a thin "1"
_SPACE_AFTER_CLUSTER_FROM = 0.3  # font sizes, where pdfium has a space; inside words it puts one into gaps up to 0.29
_NO_OBJECT = -1

_REVERSED = "ReversedChars"
_SAME_LINE = 0.5  # of the larger font size; a larger vertical distance is another line, and a raised number has 0.4
_ALIGNED = 0.1  # the same for words that are not close to each other
_CELL_FROM = 3.0  # font sizes; a wider gap separates cells, because justified lines have no such gaps
_BACK = 0.3  # font sizes by which a mark may begin before the letter that was drawn before it
_FORM_DEPTH_MAX = 8  # forms nested in forms; real documents nest lines of text less deeply

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")

_BRACKETS = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_CODES = {"L": "L", "R": "R", "AL": "R", "EN": "N", "AN": "A", "CS": "C", "ES": "E", "ET": "T"}
_NEUTRAL = " "
# A separator is between digits, and a currency or percent sign on either side. After an Arabic letter, neither a hyphen
# nor a sign before the number belongs to it (W2, W4, W5).
_NUMBER = "T*N(?:N|[CE](?=N))*T*|A(?:A|C(?=A))*"
_ARABIC_NUMBER = "[NA](?:[NA]|C(?=[NA]))*T*"
_LEFT_TO_RIGHT = re.compile("[^R]+")
_RIGHT_TO_LEFT = re.compile("R(?:[^L]*R)?")


class Characters(NamedTuple):
    """The characters of a page, and the index of each in pdfium's list (`LINE_END` or `SPACE` if it is not in it)."""

    text: str
    places: list[int]


class Cluster(NamedTuple):
    """A character, a ligature, or a letter with its marks, drawn as one glyph; the text is in reading order."""

    text: str
    source: int  # number of the text object that drew it; all of one source have one direction
    is_reversed: bool  # the content stream marks it as backwards


class _Glyph(NamedTuple):
    cluster: Cluster
    places: list[int]


_SPACE_GLYPH = _Glyph(Cluster(" ", _NO_OBJECT, False), [SPACE])


class Drawn(NamedTuple):
    """What one text operator draws: a glyph, or several in a row. Lengths are in points."""

    number: int  # of the text object, in the order of the content stream
    x: float  # where the pen begins, from the left
    baseline: float  # from the bottom
    size: float  # of the font
    left: float  # of the ink
    right: float  # equal to `left` for a space
    reversed_by: int  # identity of the mark `ReversedChars`; 0 for none
    stands_for: int  # identity of the mark with the glyph's text; 0 for none
    text: str

    @property
    def is_blank(self) -> bool:
        """Whether it leaves no ink."""
        return self.right <= self.left


class Word(NamedTuple):
    """The objects under one mark, in the order of the content stream, or a single object without a mark."""

    objects: tuple[Drawn, ...]
    is_reversed: bool
    x: float
    left: float
    right: float
    baseline: float
    size: float


def may_need_fix(text: str) -> bool:
    """Whether a text has letters that pdfium may put in the wrong order or repeat."""
    return _CLUSTERED.search(text) is not None


def fix_order(layer: Any, given: Characters) -> Characters:
    """Return the characters of a `pypdfium2.PdfTextPage`, given in pdfium's order, in reading order.

    Spaces, line ends and brackets are set again. Lines keep pdfium's order where the content stream marks neither
    backwards words nor the text of glyphs.
    """
    if not may_need_fix(given.text):
        return given
    objects = TextObjects(layer.page, layer)
    says_reversed = any(drawn.reversed_by for drawn in objects.drawn)
    says_text = any(drawn.stands_for for drawn in objects.drawn)
    if not says_reversed and not says_text:
        return given

    def is_wanted(line: str) -> bool:
        return says_reversed if RIGHT_TO_LEFT.search(line) else says_text and may_need_fix(line)

    owners = _owners(objects, given)
    line_of, texts = _reordered_lines(layer, drawn_lines(objects.drawn), given, owners, is_wanted)
    lines: list[Characters] = []
    pending: dict[int, Characters] = {}  # pdfium's order is unreliable even from line to line
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


def _owners(objects: "TextObjects", given: Characters) -> list[int]:
    """Return the text object of each character, and `_NO_OBJECT` for spaces and line ends."""
    owners: list[int] = []
    last = _NO_OBJECT
    for char, place in zip(given.text, given.places, strict=True):
        owner = objects.number(place) if place >= 0 else None
        if owner is None and not char.isspace():
            owner = last  # a hyphen that pdfium has substituted
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


def _reordered_lines(
    layer: Any,
    lines: Sequence[Sequence[Word]],
    given: Characters,
    owners: Sequence[int],
    is_wanted: Callable[[str], bool],
) -> tuple[dict[int, int], dict[int, dict[int, Characters]]]:
    """Return for each text object on a reordered line the first of the lines that pdfium has mixed up with its own.

    Also returns for each such first line all of these lines by number.
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
            foreign.add(min(together))  # a line with rotated text is left as it is
    read = {first(line) for line in wanted} - {first(line) for line in foreign}
    chars: dict[int, list[int]] = {}
    for at, owner in enumerate(owners):
        chars.setdefault(owner, []).append(at)
    page = rtl_ratio(given.text)
    spaced = _spaced_pairs(given, owners)
    texts: dict[int, dict[int, Characters]] = {}
    for number, words_of_line in enumerate(lines):
        if first(number) in read:
            words = [(word, list(_glyphs(layer, word, chars, given))) for word in words_of_line]
            characters = _read_line(words, page, spaced)
            if characters.text:
                texts.setdefault(first(number), {})[number] = characters
    return {owner: first(line) for owner, line in own.items() if first(line) in read}, texts


def _glyphs(layer: Any, word: Word, chars: Mapping[int, list[int]], given: Characters) -> Iterator[_Glyph]:
    """Yield a word's glyphs from left to right."""
    for _, group in groupby(word.objects, lambda drawn: drawn.stands_for or -drawn.number - 1):
        objects = list(group)
        at = [index for drawn in objects for index in chars.get(drawn.number, ())]
        number = objects[0].number
        if not at:
            if objects[0].is_blank and not objects[0].stands_for:
                yield _Glyph(Cluster(" ", number, word.is_reversed), [SPACE])
        elif objects[0].text:
            text, at = _in_order_of(objects[0].text, at, given.text)
            yield _Glyph(Cluster(text, number, word.is_reversed), [given.places[index] for index in at])
        else:
            for same in _by_place(layer, at, given):
                text = _unreversed("".join(given.text[index] for index in same))
                yield _Glyph(Cluster(text, number, word.is_reversed), [given.places[index] for index in same])


def _in_order_of(actual: str, at: Sequence[int], text: str) -> tuple[str, list[int]]:
    """Put characters into the order of their glyph's actual text, if they are the same; pdfium may repeat some."""
    left = list(at)
    order = []
    for char in actual:
        found = next((index for index in left if text[index] in (char, mirrored(char))), None)
        if found is None:
            break
        left.remove(found)
        order.append(found)
    if len(order) == len(actual) and all(text[index] in actual for index in left):
        return actual, order
    return "".join(text[index] for index in at), list(at)


def _by_place(layer: Any, at: Sequence[int], given: Characters) -> Iterator[list[int]]:
    """Yield the characters of one object from left to right, grouped by glyph."""
    if len(at) == 1:
        yield list(at)
        return
    x, y = ctypes.c_double(), ctypes.c_double()
    pens = []
    for index in at:
        raw.FPDFText_GetCharOrigin(layer, given.places[index], x, y)
        pens.append((round(x.value, 3), index))
    for _, group in groupby(sorted(pens), lambda pen: pen[0]):
        yield [index for _, index in group]


def _unreversed(text: str) -> str:
    """Return the characters of one glyph in reading order; pdfium reverses those of some ligatures."""
    reverse = text[::-1]
    return reverse if len(text) > 1 and text not in _ligatures() and reverse in _ligatures() else text


@cache
def _ligatures() -> frozenset[str]:
    """Return the texts of Unicode's presentation forms, and that of the Allah ligature without its first letter."""
    forms = (*range(0xFB50, 0xFE00), *range(0xFE70, 0xFEFD))
    return frozenset({"لله", *(unicodedata.normalize("NFKC", chr(form)) for form in forms)})


def _spaced_pairs(given: Characters, owners: Sequence[int]) -> set[tuple[int, int]]:
    """Return the pairs of text objects between which pdfium has a space."""
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


def _read_line(
    words: Sequence[tuple[Word, list[_Glyph]]], page_ratio: float, spaced: Set[tuple[int, int]]
) -> Characters:
    """Return a line: its cells in the order of the content stream, each in reading order."""
    from_right = any(
        glyph.cluster.is_reversed or RIGHT_TO_LEFT.search(glyph.cluster.text) for _, glyphs in words for glyph in glyphs
    )
    cells: list[tuple[int, list[_Glyph]]] = []
    before: Word | None = None
    for word, glyphs in words:
        gap = 0.0 if before is None else word.left - before.right
        if before is None or gap > _CELL_FROM * word.size:
            cells.append((word.objects[0].number, []))
        elif gap > _SPACE_FROM * word.size or (not from_right and _is_apart(before, word, spaced)):
            cells[-1][1].append(_SPACE_GLYPH)
        cells[-1][1].extend(glyphs)
        if before is None or word.right > before.right:
            before = word
    read = [_collapse_spaces(cell) for _, cell in sorted(cells, key=lambda cell: cell[0])]
    if from_right:
        read = [_read_cell(cell, page_ratio) for cell in read]
    glyphs = _collapse_spaces([glyph for cell in read for glyph in (*cell, _SPACE_GLYPH)])
    return Characters(
        "".join(glyph.cluster.text for glyph in glyphs), [place for glyph in glyphs for place in glyph.places]
    )


def _is_apart(before: Word, word: Word, spaced: Set[tuple[int, int]]) -> bool:
    """Whether pdfium's space between two words is real; after a glyph with actual text it often is not."""
    if not any((left.number, right.number) in spaced for left in before.objects for right in word.objects):
        return False
    return not before.objects[0].stands_for or word.left - before.right > _SPACE_AFTER_CLUSTER_FROM * word.size


def _read_cell(glyphs: Sequence[_Glyph], page_ratio: float) -> list[_Glyph]:
    ordered = [glyphs[at] for at in reading_order([glyph.cluster for glyph in glyphs], page_ratio)]
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


def _collapse_spaces(glyphs: Sequence[_Glyph]) -> list[_Glyph]:
    """Drop spaces at the ends and collapse runs of them."""
    kept: list[_Glyph] = []
    for glyph in (*glyphs, _SPACE_GLYPH):
        if not glyph.cluster.text.isspace() or (kept and not kept[-1].cluster.text.isspace()):
            kept.append(glyph)
    return kept[:-1]


def _word(objects: Sequence[Drawn]) -> Word:
    first = objects[0]
    if len(objects) == 1:
        return Word((first,), first.reversed_by != 0, first.x, first.left, first.right, first.baseline, first.size)
    return Word(
        tuple(objects),
        first.reversed_by != 0,
        min(drawn.x for drawn in objects),
        min(drawn.left for drawn in objects),
        max(drawn.right for drawn in objects),
        mode(round(drawn.baseline, 1) for drawn in objects),  # marks, and letters of a sloping script, are above it
        max(drawn.size for drawn in objects),
    )


def drawn_lines(objects: Sequence[Drawn]) -> list[list[Word]]:
    """Group objects into lines of words, lines in the order of the content stream and words from left to right."""
    lines: list[list[Word]] = []
    baseline = size = 0.0
    for _, group in groupby(objects, lambda drawn: drawn.reversed_by or drawn.stands_for or -drawn.number - 1):
        word = _word(list(group))
        if not lines or abs(word.baseline - baseline) > _baseline_tolerance(lines[-1][-1], word) * max(size, word.size):
            lines.append([])
            size = 0.0
        lines[-1].append(word)
        if word.size > size:
            baseline, size = word.baseline, word.size
    return [_from_left(line) for line in lines]


def _baseline_tolerance(before: Word, word: Word) -> float:
    """How many font sizes two words' baselines may differ on one line; cells that are far apart must be aligned."""
    size = max(before.size, word.size)
    return _SAME_LINE if -_BACK * size < word.x - before.right < _CELL_FROM * size else _ALIGNED


def _from_left(line: Sequence[Word]) -> list[Word]:
    """Sort stretches that were drawn from left to right by position: cells of a table may come from right to left."""
    stretches = [[line[0]]]
    for before, word in zip(line, line[1:], strict=False):
        if word.x < before.x - _BACK * max(before.size, word.size):
            stretches.append([])
        stretches[-1].append(word)
    return [word for stretch in sorted(stretches, key=lambda words: words[0].x) for word in stretch]


class TextObjects:
    """The text objects of a `pypdfium2.PdfPage` that are not rotated."""

    def __init__(self, page: Any, layer: Any) -> None:
        self._layer = layer
        self._numbers: dict[int, int] = {}
        self.drawn: list[Drawn] = []
        marks = _Marks()
        for pointer, a, b, e, f in _walk(page):
            number = self._numbers[_identity(pointer)] = len(self._numbers)
            if a > 0 and abs(b) < 0.01 * a:
                self.drawn.append(_described(pointer, number, a, e, f, marks))

    def number(self, index: int) -> int | None:
        """Return the text object of a character in pdfium's list; None for one that pdfium inserted."""
        pointer = raw.FPDFText_GetTextObject(self._layer, index)
        return self._numbers.get(_identity(pointer)) if pointer else None


def _described(pointer: Any, number: int, scale: float, x: float, baseline: float, marks: "_Marks") -> Drawn:
    left, bottom, right, top, size = (ctypes.c_float() for _ in range(5))
    raw.FPDFTextObj_GetFontSize(pointer, size)
    raw.FPDFPageObj_GetBounds(pointer, left, bottom, right, top)
    reversed_by = stands_for = 0
    text = ""
    for at in range(raw.FPDFPageObj_CountMarks(pointer)):
        mark = raw.FPDFPageObj_GetMark(pointer, at)
        is_reversed, actual = marks.read(mark)
        if is_reversed:
            reversed_by = _identity(mark)
        elif actual:
            stands_for, text = _identity(mark), actual
    return Drawn(number, x, baseline, abs(size.value * scale), left.value, right.value, reversed_by, stands_for, text)


def _identity(pointer: Any) -> int:
    return ctypes.addressof(pointer.contents)


def _walk(page: Any) -> Iterator[tuple[Any, float, float, float, float]]:
    """Yield text objects, also those inside forms, with the first and the last row of their matrices."""

    def visit(count: int, get: Any, holder: Any, outer: tuple[float, ...], depth: int) -> Iterator[Any]:
        for at in range(count):
            pointer = get(holder, at)
            kind = raw.FPDFPageObj_GetType(pointer)
            if kind not in (raw.FPDF_PAGEOBJ_TEXT, raw.FPDF_PAGEOBJ_FORM):
                continue
            own = raw.FS_MATRIX()
            raw.FPDFPageObj_GetMatrix(pointer, own)
            a, b, c, d, e, f = outer
            matrix = (
                own.a * a + own.b * c,
                own.a * b + own.b * d,
                own.c * a + own.d * c,
                own.c * b + own.d * d,
                own.e * a + own.f * c + e,
                own.e * b + own.f * d + f,
            )
            if kind == raw.FPDF_PAGEOBJ_TEXT:
                yield pointer, matrix[0], matrix[1], matrix[4], matrix[5]
            elif depth < _FORM_DEPTH_MAX:
                inner = raw.FPDFFormObj_CountObjects(pointer)
                yield from visit(inner, raw.FPDFFormObj_GetObject, pointer, matrix, depth + 1)

    upright = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    yield from visit(raw.FPDFPage_CountObjects(page), raw.FPDFPage_GetObject, page, upright, 0)


class _Marks:
    """The content marks of a page, each read once."""

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(256)
        self._wide = ctypes.cast(self._buffer, ctypes.POINTER(raw.FPDF_WCHAR))
        self._octets = ctypes.cast(self._buffer, ctypes.POINTER(ctypes.c_ubyte))
        self._size = ctypes.c_ulong()
        self._known: dict[int, tuple[bool, str]] = {}

    def read(self, mark: Any) -> tuple[bool, str]:
        """Return whether a mark is `ReversedChars`, and its actual text, if any."""
        identity = _identity(mark)
        if identity not in self._known:
            text = self._actual_text(mark)
            name = ""
            if raw.FPDFPageObjMark_GetName(mark, self._wide, len(self._buffer), self._size):
                octets = self._buffer.raw[: min(self._size.value, len(self._buffer))]
                name = octets.decode("utf-16-le", "replace").rstrip("\0")
            self._known[identity] = not text and name == _REVERSED, text
        return self._known[identity]

    def _actual_text(self, mark: Any) -> str:
        """Return the mark's actual text; "" if it is longer than a word."""
        # Read as bytes, because the function for strings decodes UTF-8, which actual text never is.
        found = raw.FPDFPageObjMark_GetParamBlobValue(mark, b"ActualText", self._octets, len(self._buffer), self._size)
        if not found or self._size.value > len(self._buffer):
            return ""
        value = self._buffer.raw[: self._size.value]
        if value.startswith(codecs.BOM_UTF16_BE):
            return value[2:].decode("utf-16-be", errors="replace")
        return value.decode("latin-1")


def rtl_ratio(text: str) -> float:
    """Return the number of right-to-left letters per left-to-right letter."""
    counts = Counter(map(unicodedata.bidirectional, text))
    return (counts["R"] + counts["AL"] + 1) / (counts["L"] + 1)


def reading_order(line: Sequence[Cluster], page_ratio: float) -> list[int]:
    """Return the indices of a line's clusters, given from left to right, in reading order.

    A line of two scripts is likely to have the direction of the page, of which `page_ratio` is the `rtl_ratio`.
    """
    codes = "".join(map(_code, line))
    if "R" not in codes:
        return list(range(len(line)))
    if _is_right_to_left(line, codes, page_ratio):
        return _from_right(line, codes)
    order: list[int] = []
    end = 0
    for span in _RIGHT_TO_LEFT.finditer(codes):
        order += range(end, span.start())
        order += [span.start() + at for at in _from_right(line[span.start() : span.end()], span[0])]
        end = span.end()
    return [*order, *range(end, len(line))]


def mirrored(text: str) -> str:
    """Mirror each bracket of a text."""
    return text.translate(_BRACKETS)


def matched_brackets(text: str) -> str:
    """Turn the brackets of a left-to-right text to face each other where some do not."""
    brackets = [at for at, char in enumerate(text) if char != mirrored(char)]
    if len(brackets) % 2 or not _has_unmatched_bracket(text):
        return text
    chars = list(text)
    for number, at in enumerate(brackets):
        chars[at] = max(chars[at], mirrored(chars[at])) if number % 2 else min(chars[at], mirrored(chars[at]))
    return "".join(chars)


def _has_unmatched_bracket(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char in "([{<«") - (char in ")]}>»")
        if depth < 0:
            return True
    return depth > 0


def _code(cluster: Cluster) -> str:
    """Return `R`, `L`, `N` for digits, `C`, `E`, `T` for parts of numbers, and a space for neutral characters."""
    return "R" if cluster.is_reversed else _CODES.get(unicodedata.bidirectional(cluster.text[0]), _NEUTRAL)


def _from_right(line: Sequence[Cluster], codes: str) -> list[int]:
    order = list(range(len(line)))
    for start, end in _left_to_right_spans(line, codes):
        order[start:end] = reversed(order[start:end])
    return order[::-1]


def _left_to_right_spans(line: Sequence[Cluster], codes: str) -> list[tuple[int, int]]:
    is_arabic = any(unicodedata.bidirectional(cluster.text[0]) == "AL" for cluster in line)
    part = re.compile(f"L|{_ARABIC_NUMBER if is_arabic else _NUMBER}")
    spans: list[tuple[int, int]] = []
    for stretch in _LEFT_TO_RIGHT.finditer(codes):
        words: list[tuple[int, int]] = []
        for match in part.finditer(codes, *stretch.span()):
            if words and _belong_together(line, codes, words[-1], match.span()):
                words[-1] = words[-1][0], match.end()
            else:
                words.append(match.span())
        spans += [_with_brackets(line, span, stretch.span()) for span in words]
    return spans


def _belong_together(line: Sequence[Cluster], codes: str, left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether two neighbours, each a foreign letter or a number, are part of one foreign word or phrase."""
    between = range(left[1], right[0])
    if "L" not in codes[left[0] : left[1]] + codes[right[0] : right[1]]:
        return False
    for start, end in (left, right):
        if "L" in codes[start:end]:
            continue
        if "A" in codes[start:end]:
            return False
        # A program that draws a number in one operation would draw the whole phrase in one, too.
        sources = {line[at].source for at in range(start, end)}
        if len(sources) < end - start and any(line[at].source not in sources for at in between):
            return False
    return True


def _with_brackets(line: Sequence[Cluster], span: tuple[int, int], within: tuple[int, int]) -> tuple[int, int]:
    """Extend a span by the bracket at one end whose other half is inside."""

    def is_bracket(at: int) -> bool:
        return line[at].text != mirrored(line[at].text)

    start, end = span
    if sum(map(is_bracket, range(start, end))) % 2:
        if end < within[1] and is_bracket(end):
            return start, end + 1
        if start > within[0] and is_bracket(start - 1):
            return start - 1, end
    return span


def _is_right_to_left(line: Sequence[Cluster], codes: str, page_ratio: float) -> bool:
    votes = 0  # of spaces between two directions, which are drawn together with words of the line's direction
    for at, cluster in enumerate(line):
        if cluster.text.isspace():
            beside = [other for other in (at - 1, at + 1) if 0 <= other < len(line)]
            if cluster.is_reversed:
                votes += any(codes[other] == "L" for other in beside)
            elif any(codes[other] == "R" for other in beside):
                votes -= any(line[other].source == cluster.source for other in beside)
    return votes > 0 if votes else codes.count("R") * page_ratio**2 >= codes.count("L")
