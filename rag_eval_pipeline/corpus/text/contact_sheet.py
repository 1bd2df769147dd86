"""The first pages of a corpus on one picture, with their file names below.

Names and frames are drawn by pdfium from a PDF made here: it brings its own typeface, and no other library is needed.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pdf_reader import DrawnPage, draw_page
from rag_eval_pipeline.corpus.text.png import Pixels, small_png

SIDE_MAX = 8000  # pixels

_MARGIN = 8  # pixels around each page
_SHAPE = 2**0.5  # height by width of a cell: A4
_FONT = 9  # height of the letters in pixels
_LETTER = 0.6 * _FONT  # Helvetica's letters are not so wide on the whole
_NAME_LINES = 2
_LEADING = 11
_GREY = 0.85
_INK = "0.2 g"


class _Cell(NamedTuple):
    """Where a page stands, in pixels from the sheet's upper left corner."""

    left: int
    top: int
    width: int
    height: int


def contact_sheet(
    pdfs: Sequence[tuple[str, Path]], *, columns: int = 5, thumb_width: int = 160, limit: int = 20
) -> bytes:
    """First pages side by side as PNG of 256 colours; a document that cannot be drawn is a grey box with the code.

    Args:
        pdfs: File names and where the files are.
        columns: Pages side by side.
        thumb_width: Of a page, in pixels.
        limit: Pages on the sheet; of more documents the first are shown.

    Raises:
        ValueError: No document, or a sheet of no size or of more than `SIDE_MAX` pixels.
    """
    shown = list(pdfs[:limit])
    if not shown or columns < 1 or thumb_width < 1:
        raise ValueError(f"expected documents, columns and a width, found {len(shown)}, {columns}, {thumb_width}")
    columns = min(columns, len(shown))
    height = round(thumb_width * _SHAPE)
    step = (thumb_width + 2 * _MARGIN, height + _NAME_LINES * _LEADING + 2 * _MARGIN)
    size = (columns * step[0], -(-len(shown) // columns) * step[1])
    if max(size) > SIDE_MAX:
        raise ValueError(f"expected a sheet of at most {SIDE_MAX} pixels each way, found {size[0]} x {size[1]}")
    cells = [
        _Cell(_MARGIN + n % columns * step[0], _MARGIN + n // columns * step[1], thumb_width, height)
        for n in range(len(shown))
    ]
    drawn = [_first_page(path, thumb_width) for _, path in shown]
    labels = [
        line
        for (name, _), page, cell in zip(shown, drawn, cells, strict=True)
        for line in _labels(name, page, cell, size[1])
    ]
    sheet = _pixels(draw_page(_label_pdf(labels, size), 1, width=size[0])).copy()
    for page, cell in zip(drawn, cells, strict=True):
        if isinstance(page, DrawnPage):
            _paste(sheet, _pixels(page), cell)
    return small_png(sheet)


def _first_page(path: Path, width: int) -> DrawnPage | str:
    try:
        return draw_page(path, 1, width=width)
    except DocumentError as error:
        return error.code
    except OSError:
        return "file_missing"


def _pixels(page: DrawnPage) -> Pixels:
    return np.frombuffer(page.pixels, np.uint8).reshape(page.height, page.width, 3)


def _paste(sheet: Pixels, page: Pixels, cell: _Cell) -> None:
    """A page in its cell, cut where it is longer, with a thin frame."""
    page = page[: cell.height, : cell.width]
    bottom, right = cell.top + len(page), cell.left + page.shape[1]
    sheet[cell.top - 1 : bottom + 1, cell.left - 1 : right + 1] = round(_GREY * 255)
    sheet[cell.top : bottom, cell.left : right] = page


def _labels(name: str, page: DrawnPage | str, cell: _Cell, height: int) -> Iterator[str]:
    """The drawing of what stands in and below a cell; a PDF counts from the lower left corner."""
    bottom = height - cell.top - cell.height
    if isinstance(page, str):
        yield f"{_GREY} g {cell.left} {bottom} {cell.width} {cell.height} re f"
        yield _line(page[: int(cell.width / _LETTER)], cell.left + 4, bottom + cell.height / 2)
    for number, line in enumerate(_wrapped(name, int(cell.width / _LETTER)), 1):
        yield _line(line, cell.left, bottom - number * _LEADING)


def _wrapped(name: str, letters: int) -> list[str]:
    """A name in lines; a long one loses its middle, because names differ at both ends."""
    room = max(3, letters * _NAME_LINES)
    if len(name) > room:
        name = f"{name[: room // 2 - 1]}…{name[len(name) - (room - room // 2) :]}"
    return [name[at : at + max(1, letters)] for at in range(0, len(name), max(1, letters))]


def _line(text: str, x: float, y: float) -> str:
    # As digits, so that no name can end the text; what the typeface has not is a question mark.
    return f"BT {_INK} /F {_FONT} Tf {x:g} {y:g} Td <{text.encode('cp1252', 'replace').hex()}> Tj ET"


def _label_pdf(labels: Sequence[str], size: tuple[int, int]) -> bytes:
    """A PDF of one page; pdfium finds its objects without a table."""
    drawing = "\n".join(labels)
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    page = (
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {size[0]} {size[1]}]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>"
    )
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        page,
        f"<</Length {len(drawing)}>>stream\n{drawing}\nendstream",
        font,
    ]
    body = "".join(f"{number} 0 obj{text}endobj\n" for number, text in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer<</Size 6/Root 1 0 R>>\nstartxref\n0\n%%EOF\n".encode("ascii")
