"""The lines of a PDF page as its content stream draws them, with what the stream says about each word.

pdfium sorts what it finds by place, and so tears lines apart whose letters have raised marks, turns words whose
letters come with their text, and gives that text twice where the next letter begins before the mark. Chromium draws
line by line, each from left to right, and says which words stand in it backwards (`ReversedChars`) and which text its
glyphs stand for (`ActualText`): ISO 32000-2, 14.8.2.5.3 and 14.9.4.
"""

import codecs
import ctypes
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import mode
from typing import Any, NamedTuple

_REVERSED = "ReversedChars"
_SAME_LINE = 0.5  # of the larger size: further up or down than that is another line; a raised number is 0.4
_ALIGNED = 0.1  # the same for what does not stand close
CELL_FROM = 3.0  # sizes; what stands further apart is two cells: justified lines have no such blanks
_BACK = 0.3  # sizes; a mark may begin that far in front of the letter that is drawn before it
_FORMS_DEEP = 8  # forms in forms; nobody draws lines of text deeper


class Drawn(NamedTuple):
    """What one operator draws: a glyph, or several in a row.

    Args:
        number: Of the text object, in the order of the content stream.
        x: Where the pen begins, in points from the left.
        baseline: In points from below.
        size: Of the font, in points.
        left: Of the ink.
        right: Of the ink; that of a blank has no width.
        reversed_by: Identity of the mark that says that glyphs stand backwards; 0 for none.
        stands_for: Identity of the mark with the text of the glyph; 0 for none.
        text: That text.
    """

    number: int
    x: float
    baseline: float
    size: float
    left: float
    right: float
    reversed_by: int
    stands_for: int
    text: str

    @property
    def is_blank(self) -> bool:
        """Whether nothing is to be seen of it."""
        return self.right <= self.left


class Word(NamedTuple):
    """What one mark says is backwards or stands for one text, else a single object.

    Args:
        objects: In the order of the content stream.
        is_reversed: Whether it stands backwards.
        x: Where its first glyph begins.
        left: Of its ink.
        right: Of its ink.
        baseline: Of most of its glyphs: marks, and letters of a hand that slopes, stand above it.
        size: Of its largest glyph.
    """

    objects: tuple[Drawn, ...]
    is_reversed: bool
    x: float
    left: float
    right: float
    baseline: float
    size: float


def word_of(objects: Sequence[Drawn]) -> Word:
    """The word that these objects draw."""
    first = objects[0]
    if len(objects) == 1:
        return Word((first,), first.reversed_by != 0, first.x, first.left, first.right, first.baseline, first.size)
    return Word(
        tuple(objects),
        first.reversed_by != 0,
        min(drawn.x for drawn in objects),
        min(drawn.left for drawn in objects),
        max(drawn.right for drawn in objects),
        mode(round(drawn.baseline, 1) for drawn in objects),
        max(drawn.size for drawn in objects),
    )


def drawn_lines(objects: Sequence[Drawn]) -> list[list[Word]]:
    """Words line by line, in the order of the content stream; those of a line from left to right.

    What stands beside each other is one line only when it is also drawn one after the other: columns are apart.
    """
    lines: list[list[Word]] = []
    baseline = size = 0.0
    for _, group in groupby(objects, lambda drawn: drawn.reversed_by or drawn.stands_for or -drawn.number - 1):
        word = word_of(list(group))
        if not lines or abs(word.baseline - baseline) > _leeway(lines[-1][-1], word) * max(size, word.size):
            lines.append([])
            size = 0.0
        lines[-1].append(word)
        if word.size > size:
            baseline, size = word.baseline, word.size
    return [_from_left(line) for line in lines]


def _leeway(before: Word, word: Word) -> float:
    """How many sizes two words of a line may stand above each other: cells of a table that nearly do are two lines."""
    size = max(before.size, word.size)
    return _SAME_LINE if -_BACK * size < word.x - before.right < CELL_FROM * size else _ALIGNED


def _from_left(line: Sequence[Word]) -> list[Word]:
    """Stretches that were drawn from left to right, sorted by place: cells of a table may come from right to left."""
    stretches = [[line[0]]]
    for before, word in zip(line, line[1:], strict=False):
        if word.x < before.x - _BACK * max(before.size, word.size):
            stretches.append([])
        stretches[-1].append(word)
    return [word for stretch in sorted(stretches, key=lambda words: words[0].x) for word in stretch]


class TextObjects:
    """The text objects of a page that stand upright.

    Args:
        page: A `pypdfium2.PdfPage`.
        layer: Its text.
    """

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
        """The text object of a character in pdfium's list; None for one that pdfium has put in."""
        import pypdfium2

        pointer = pypdfium2.raw.FPDFText_GetTextObject(self._layer, index)
        return self._numbers.get(_identity(pointer)) if pointer else None


def _described(pointer: Any, number: int, scale: float, x: float, baseline: float, marks: "_Marks") -> Drawn:
    import pypdfium2

    raw = pypdfium2.raw
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
    """Text objects with the first row and the last of their matrices, those in forms in the form's place."""
    import pypdfium2

    raw = pypdfium2.raw

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
            elif depth < _FORMS_DEEP:
                inner = raw.FPDFFormObj_CountObjects(pointer)
                yield from visit(inner, raw.FPDFFormObj_GetObject, pointer, matrix, depth + 1)

    upright = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    yield from visit(raw.FPDFPage_CountObjects(page), raw.FPDFPage_GetObject, page, upright, 0)


class _Marks:
    """Marks of a page, each read once."""

    def __init__(self) -> None:
        import pypdfium2

        self._raw = pypdfium2.raw
        self._buffer = ctypes.create_string_buffer(256)
        self._wide = ctypes.cast(self._buffer, ctypes.POINTER(self._raw.FPDF_WCHAR))
        self._octets = ctypes.cast(self._buffer, ctypes.POINTER(ctypes.c_ubyte))
        self._size = ctypes.c_ulong()
        self._known: dict[int, tuple[bool, str]] = {}

    def read(self, mark: Any) -> tuple[bool, str]:
        """Whether a mark says that glyphs stand backwards, and the text that it says they stand for, if any."""
        identity = _identity(mark)
        if identity not in self._known:
            text = self._actual_text(mark)
            self._known[identity] = not text and self._name(mark) == _REVERSED, text
        return self._known[identity]

    def _actual_text(self, mark: Any) -> str:
        """Nothing where it is longer than a word."""
        # As bytes: the function for strings takes them for UTF-8, which they never are.
        found = self._raw.FPDFPageObjMark_GetParamBlobValue(
            mark, b"ActualText", self._octets, len(self._buffer), self._size
        )
        if not found or self._size.value > len(self._buffer):
            return ""
        value = self._buffer.raw[: self._size.value]
        if value.startswith(codecs.BOM_UTF16_BE):
            return value[2:].decode("utf-16-be", errors="replace")
        return value.decode("latin-1")

    def _name(self, mark: Any) -> str:
        if not self._raw.FPDFPageObjMark_GetName(mark, self._wide, len(self._buffer), self._size):
            return ""
        return self._buffer.raw[: min(self._size.value, len(self._buffer))].decode("utf-16-le", "replace").rstrip("\0")
