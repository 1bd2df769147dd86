"""The text layer of a PDF page: its text as all offsets count it, and where its characters stand on the sheet."""

import ctypes
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.rereading import LINE_END, Characters, is_reread, reread

_PAGE_BREAK = "\f"  # joins pages, so that none may hold it

_HYPHEN = "\ufffe"  # pdfium's sign for a hyphen at the end of a line
_SAME_LINE = 0.5  # of the smaller box's height: less overlap than that is another line
_GAP_MAX = 2.0  # heights of a box; what stands further apart are two columns of a table


class Box(NamedTuple):
    """A rectangle on a page's picture, in pixels from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


def layer_text(layer: Any) -> str:
    """The text of a `pypdfium2.PdfTextPage`; one character stands for one, so that offsets hold, but for line ends."""
    text = _pdfium_text(layer)
    return _characters(layer, text).text if is_reread(text) else text


def line_boxes(page: Any, layer: Any, ranges: Sequence[tuple[int, int]], size: tuple[int, int]) -> list[list[Box]]:
    """For each range of characters of `layer_text`, a box for each line that it stands on.

    Args:
        page: A `pypdfium2.PdfPage`.
        layer: Its text.
        ranges: Half-open, in code points.
        size: Width and height of the page's picture.

    Raises:
        DocumentError: `no_such_place`.
    """
    places = _characters(layer, _pdfium_text(layer)).places
    found = []
    for start, end in ranges:
        if not 0 <= start < end <= len(places):
            message = f"the page has {len(places):,} characters, and [{start}, {end}) is asked for"
            raise DocumentError("no_such_place", message)
        lines = (
            list(group) for is_end, group in groupby(places[start:end], lambda index: index == LINE_END) if not is_end
        )
        found.append([box for line in lines for box in _joined(page, layer, line, size)])
    return found


def _pdfium_text(layer: Any) -> str:
    text: str = layer.get_text_range()
    return text.replace("\r\n", "\n").replace(_HYPHEN, "-").replace(_PAGE_BREAK, "\n")


def _characters(layer: Any, text: str) -> Characters:
    return reread(layer, Characters(text, list(_char_indices(layer))))


def _char_indices(layer: Any) -> Iterator[int]:
    """For each character of pdfium's text its index in pdfium's list of characters; `LINE_END` for line ends.

    The list holds characters that the text leaves out, and the text line ends that the list has not:
    https://crbug.com/pdfium/2079. Both count in units of UTF-16, and the text of Python in code points.
    """
    import pypdfium2

    unit = 0
    text = layer.get_text_range(errors="surrogatepass")
    for at, char in enumerate(text):
        is_half = 0xD800 <= ord(char) <= 0xDFFF  # half a pair on its own, which `layer_text` ignores
        if char == "\n":
            yield LINE_END
        elif not is_half and text[at : at + 2] != "\r\n":
            yield pypdfium2.raw.FPDFText_GetCharIndexFromTextIndex(layer, unit)
        unit += 2 if ord(char) > 0xFFFF else 1


def _box(page: Any, layer: Any, index: int, size: tuple[int, int]) -> Box | None:
    """Where a character stands; None for those that have no place, such as blanks that pdfium has put in."""
    import pypdfium2

    raw = pypdfium2.raw
    rect = raw.FS_RECTF()
    if not raw.FPDFText_GetLooseCharBox(layer, index, rect) or rect.right <= rect.left or rect.top == rect.bottom:
        return None
    x, y = ctypes.c_int(), ctypes.c_int()
    corners = []
    for point in ((rect.left, rect.top), (rect.right, rect.bottom)):
        # It knows of crop boxes and turned pages; in eighths of a pixel, because it gives whole numbers.
        raw.FPDF_PageToDevice(page, 0, 0, size[0] * 8, size[1] * 8, 0, *point, x, y)
        corners.append((x.value / 8, y.value / 8))
    (left, right), (top, bottom) = (sorted(values) for values in zip(*corners, strict=True))
    return Box(left, top, right, bottom)


def _joined(page: Any, layer: Any, line: Sequence[int], size: tuple[int, int]) -> list[Box]:
    """Boxes of a line's characters joined where they stand beside each other."""
    joined: list[Box] = []
    for index in line:
        box = _box(page, layer, index, size)
        if box and joined and _continues(joined[-1], box):
            last = joined.pop()
            box = Box(*map(min, last[:2], box[:2]), *map(max, last[2:], box[2:]))
        if box:
            joined.append(box)
    return joined


def _continues(line: Box, box: Box) -> bool:
    """Whether a character stands beside a line, or below it where text runs down the page."""
    beside = _shared(line.top, line.bottom, box.top, box.bottom), _shared(line.left, line.right, box.left, box.right)
    below = beside[::-1]
    sizes = min(line.bottom - line.top, box.bottom - box.top), min(line.right - line.left, box.right - box.left)
    return any(
        shared > _SAME_LINE * size and -gap < _GAP_MAX * size
        for (shared, gap), size in zip((beside, below), sizes, strict=True)
    )


def _shared(start: float, end: float, other_start: float, other_end: float) -> float:
    """What two stretches share; less than nothing is the gap between them."""
    return min(end, other_end) - max(start, other_start)
