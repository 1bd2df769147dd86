"""Images of pages: spans as marks on their pages, small PNG files, and a contact sheet of first pages."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.corpus.text.pdf import DrawnPage, draw_page
from rag_eval_pipeline.errors import DocumentError

Role = Literal["gold", "cited"]

SIDE_MAX = 8000  # pixels of a contact sheet

_COLOURS = 256
_MARGIN = 8  # pixels around each page
_SHAPE = 2**0.5  # height by width of a cell: A4
_FONT_SIZE = 10
_NAME_LINES = 2
_LEADING = 11
_FRAME = (217, 217, 217)
_INK = (51, 51, 51)


class Mark(NamedTuple):
    """Characters `[start, end)` of a page's text, in code points, and whether they are gold or cited."""

    start: int
    end: int
    role: Role


def marks_by_page(pages: Sequence[Page], start: int, end: int, role: Role) -> dict[int, list[Mark]]:
    """Divide the span `[start, end)` of a document's text into marks by 1-based page; empty if it is outside."""
    marks = {}
    for page in pages:
        first, last = max(0, start - page.start), min(len(page.text), end - page.start)
        if first < last:
            marks[page.page] = [Mark(first, last, role)]
    return marks


def encode_png(page: DrawnPage) -> bytes:
    """Return a page as PNG of 256 colours."""
    return _png(_image(page))


def contact_sheet(
    pdfs: Sequence[tuple[str, Path]], *, columns: int = 5, thumb_width: int = 160, limit: int = 20
) -> bytes:
    """Return the first pages of the first `limit` documents as PNG of 256 colours, with their file names below.

    A document that cannot be drawn is a grey box with the error code. A page is `thumb_width` pixels wide.

    Raises:
        ValueError: No document, or a sheet of no size or of more than `SIDE_MAX` pixels.
    """
    shown = list(pdfs[:limit])
    if not shown or columns < 1 or thumb_width < 1:
        raise ValueError(f"expected documents, columns and a width, found {len(shown)}, {columns}, {thumb_width}")
    columns = min(columns, len(shown))
    thumb_height = round(thumb_width * _SHAPE)
    step_x, step_y = thumb_width + 2 * _MARGIN, thumb_height + _NAME_LINES * _LEADING + 2 * _MARGIN
    size = (columns * step_x, -(-len(shown) // columns) * step_y)
    if max(size) > SIDE_MAX:
        raise ValueError(f"expected a sheet of at most {SIDE_MAX} pixels each way, found {size[0]} x {size[1]}")
    sheet = Image.new("RGB", size, "white")
    canvas = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_FONT_SIZE)
    for number, (name, path) in enumerate(shown):
        left, top = _MARGIN + number % columns * step_x, _MARGIN + number // columns * step_y
        page = _first_page(path, thumb_width)
        if isinstance(page, DrawnPage):
            thumb = _image(page).crop((0, 0, page.width, min(page.height, thumb_height)))
            canvas.rectangle((left - 1, top - 1, left + thumb.width, top + thumb.height), fill=_FRAME)
            sheet.paste(thumb, (left, top))
        else:
            canvas.rectangle((left, top, left + thumb_width - 1, top + thumb_height - 1), fill=_FRAME)
            canvas.text((left + 4, top + thumb_height / 2), page, fill=_INK, font=font)
        for line, text in enumerate(_label_lines(name, thumb_width, font)):
            canvas.text((left, top + thumb_height + line * _LEADING), text, fill=_INK, font=font)
    return _png(sheet)


def _first_page(path: Path, width: int) -> DrawnPage | str:
    """Return the first page, or the error code of a document that cannot be drawn."""
    try:
        return draw_page(path, 1, width=width)
    except DocumentError as error:
        return error.code
    except OSError:
        return "file_missing"


def _label_lines(name: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> list[str]:
    """Wrap a name; a long one loses its middle, because names differ at both ends."""
    name = name.encode("cp1252", "replace").decode("cp1252")  # the font has no other glyphs
    letters = max(1, int(width / font.getlength("n")))
    room = max(3, letters * _NAME_LINES)
    if len(name) > room:
        name = f"{name[: room // 2 - 1]}…{name[len(name) - (room - room // 2) :]}"
    return [name[at : at + letters] for at in range(0, len(name), letters)]


def _image(page: DrawnPage) -> Image.Image:
    return Image.frombytes("RGB", (page.width, page.height), page.pixels)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        file, "PNG", optimize=True
    )
    return file.getvalue()
