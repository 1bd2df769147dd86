"""Images of pages: spans as marks on their pages, small PNG files, and a contact sheet of first pages."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.corpus.text.pdf import DrawnPage, draw_page
from rag_eval_pipeline.errors import DocumentError

Role = Literal["gold", "nearest", "cited", "retrieved"]

SHEET_LIMIT = 10  # documents: a sheet has at most 150 kB, and the UI requests those of the last runs all at once

_COLOURS = 256
_COLUMNS = 5
_WIDTH, _HEIGHT = 100, 141  # pixels of a page: A4
_MARGIN = 8  # pixels around each page
_FONT_SIZE = 10
_NAME_LINES = 2
_LEADING = 11
_FRAME = (217, 217, 217)
_INK = (51, 51, 51)


class Mark(NamedTuple):
    """Characters `[start, end)` of a page's text, in code points; `rank` is of a retrieved passage."""

    start: int
    end: int
    role: Role
    rank: int = 0


def marks_by_page(pages: Sequence[Page], start: int, end: int, role: Role, rank: int = 0) -> dict[int, list[Mark]]:
    """Divide the span `[start, end)` of a document's text into marks by 1-based page; empty if it is outside."""
    marks = {}
    for page in pages:
        first, last = max(0, start - page.start), min(len(page.text), end - page.start)
        if first < last:
            marks[page.page] = [Mark(first, last, role, rank)]
    return marks


def encode_png(page: DrawnPage) -> bytes:
    """Return a page as PNG of 256 colours."""
    return _png(_image(page))


def contact_sheet(paths: Sequence[Path]) -> bytes:
    """Return the first pages of the first `SHEET_LIMIT` documents as PNG, with their file names below.

    A document that cannot be drawn is a grey box with the error code.
    """
    shown = paths[:SHEET_LIMIT]
    step_x, step_y = _WIDTH + 2 * _MARGIN, _HEIGHT + _NAME_LINES * _LEADING + 2 * _MARGIN
    sheet = Image.new("RGB", (_COLUMNS * step_x, -(-len(shown) // _COLUMNS) * step_y), "white")
    canvas = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_FONT_SIZE)
    for number, path in enumerate(shown):
        left, top = _MARGIN + number % _COLUMNS * step_x, _MARGIN + number // _COLUMNS * step_y
        try:
            page = draw_page(path, 1, width=_WIDTH)
        except (DocumentError, OSError) as error:
            code = error.code if isinstance(error, DocumentError) else "file_missing"
            canvas.rectangle((left, top, left + _WIDTH - 1, top + _HEIGHT - 1), fill=_FRAME)
            canvas.text((left + 4, top + _HEIGHT / 2), code, fill=_INK, font=font)
        else:
            thumb = _image(page).crop((0, 0, page.width, min(page.height, _HEIGHT)))
            canvas.rectangle((left - 1, top - 1, left + thumb.width, top + thumb.height), fill=_FRAME)
            sheet.paste(thumb, (left, top))
        letters = int(_WIDTH / font.getlength("n"))
        for line, text in enumerate(_label_lines(path.name, letters)):
            canvas.text((left, top + _HEIGHT + line * _LEADING), text, fill=_INK, font=font)
    return _png(sheet)


def _label_lines(name: str, letters: int) -> list[str]:
    """Wrap a name; a long one loses its middle, because names differ at both ends."""
    name = name.encode("cp1252", "replace").decode("cp1252")  # the font has no other glyphs
    if len(name) > letters * _NAME_LINES:
        name = f"{name[: letters - 1]}…{name[-letters:]}"
    return [name[at : at + letters] for at in range(0, len(name), letters)]


def _image(page: DrawnPage) -> Image.Image:
    return Image.frombytes("RGB", (page.width, page.height), page.pixels)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    # Level 9, which is what `optimize` means, takes four times as long for 3 % smaller files.
    image.quantize(_COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        file, "PNG", compress_level=6
    )
    return file.getvalue()
