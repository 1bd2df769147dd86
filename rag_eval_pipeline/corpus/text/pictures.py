"""Pictures of pages: with gold and cited spans marked, as PNG or as SVG, and first pages on a contact sheet.

Gold is filled and cited is framed, so that each is seen where both are, without colours too. The colours are those of
Okabe and Ito, which people tell apart whatever their colour vision.
Source: Okabe, Ito: Color Universal Design, https://jfly.uni-koeln.de/color.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from rag_eval_pipeline.corpus.text.contact_sheet import contact_sheet
from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.corpus.text.pdf_layer import Box
from rag_eval_pipeline.corpus.text.pdf_reader import DrawnPage, draw_page
from rag_eval_pipeline.corpus.text.png import Pixels, png

__all__ = ["Mark", "Role", "contact_sheet", "marks_by_page", "page_marks_svg", "page_picture"]

Role = Literal["gold", "cited", "both"]

GOLD_COLOUR = (230, 159, 0)  # orange
CITED_COLOUR = (0, 114, 178)  # blue
GOLD_OPACITY = 0.4
WIDTH_MAX = 4000  # pixels

_FRAME = 2  # width of a frame in pixels
_UNDERLINE = 4  # its lower side is thicker: a frame around a line is taken for a link's


class Mark(NamedTuple):
    """Characters to be marked.

    Args:
        start: In the page's text as `pages.parquet` has it, code points.
        end: Exclusive.
        role: What they are.
    """

    start: int
    end: int
    role: Role


def marks_by_page(pages: Sequence[Page], start: int, end: int, role: Role) -> dict[int, list[Mark]]:
    """A span of a document as marks of the pages on which it stands.

    Args:
        pages: Of the document.
        start: In the document's text, code points.
        end: Exclusive.
        role: What the span is.

    Returns:
        By 1-based page; none for a span outside the document.
    """
    marks = {}
    for page in pages:
        first, last = max(0, start - page.start), min(len(page.text), end - page.start)
        if first < last:
            marks[page.page] = [Mark(first, last, role)]
    return marks


def page_picture(pdf: Path, page: int, marks: Sequence[Mark], *, width: int = 900) -> bytes:
    """A page with its marks as PNG.

    Args:
        pdf: The document.
        page: 1-based.
        marks: Of this page.
        width: Of the picture in pixels; a page very much longer than wide gets fewer.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`, `no_such_page`, `no_such_place`.
        OSError: There is no such file.
        ValueError: A width that is no number of pixels up to `WIDTH_MAX`.
    """
    drawn, gold, cited = _drawn(pdf, page, marks, width)
    plain = np.frombuffer(drawn.pixels, np.uint8).reshape(drawn.height, drawn.width, 3)
    pixels = plain.copy()
    filled = np.zeros(pixels.shape[:2], bool)
    for left, top, right, bottom in map(_whole, gold):
        filled[top:bottom, left:right] = True
    # Multiplied like a highlighter's ink: what is black stays black, and two coats are as one.
    ink = 1 - GOLD_OPACITY * (1 - np.array(GOLD_COLOUR) / 255)
    pixels[filled] = (pixels[filled] * ink).astype(np.uint8)
    for box in cited:
        _frame(pixels, plain, box)
    return png(pixels)


def page_marks_svg(pdf: Path, page: int, marks: Sequence[Mark], *, width: int = 900, with_page: bool = True) -> str:
    """A page's marks as SVG, to be put into HTML as it is: nothing of it comes from the document but numbers.

    Args:
        pdf: The document.
        page: 1-based.
        marks: Of this page.
        width: Of the picture in pixels, as `page_picture` has it.
        with_page: With the page itself below the marks, as PNG inside; else the marks alone, to be laid over it.

    Raises:
        DocumentError: As `page_picture`.
        OSError: There is no such file.
        ValueError: A width that is no number of pixels up to `WIDTH_MAX`.
    """
    drawn, gold, cited = _drawn(pdf, page, marks, width)
    parts = []
    if with_page:
        pixels = np.frombuffer(drawn.pixels, np.uint8).reshape(drawn.height, drawn.width, 3)
        data = base64.b64encode(png(pixels)).decode()
        parts.append(f'<image width="{drawn.width}" height="{drawn.height}" href="data:image/png;base64,{data}"/>')
    ink = f'fill="rgb{GOLD_COLOUR}" fill-opacity="{GOLD_OPACITY}" style="mix-blend-mode:multiply"'
    parts += [f'<rect class="gold" {_sides(box)} {ink}/>' for box in gold]
    stroke = f'stroke="rgb{CITED_COLOUR}" stroke-width="{_FRAME}"'
    for box in cited:
        line = f'x1="{box.left:g}" x2="{box.right:g}" y1="{box.bottom:g}" y2="{box.bottom:g}"'
        parts.append(f'<rect class="cited" {_sides(box)} fill="none" {stroke}/>')
        parts.append(f'<line class="cited" {line} stroke="rgb{CITED_COLOUR}" stroke-width="{_UNDERLINE}"/>')
    size = f'width="{drawn.width}" height="{drawn.height}" viewBox="0 0 {drawn.width} {drawn.height}"'
    title = f"<title>page {page}: gold filled, cited framed</title>"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}{"".join(parts)}</svg>'


def _drawn(pdf: Path, page: int, marks: Sequence[Mark], width: int) -> tuple[DrawnPage, list[Box], list[Box]]:
    """The page, and the boxes of what is gold and of what is cited."""
    if not 1 <= width <= WIDTH_MAX:
        raise ValueError(f"expected a width of 1 to {WIDTH_MAX} pixels, found {width}")
    drawn = draw_page(pdf, page, width=width, ranges=[(mark.start, mark.end) for mark in marks])
    boxes = list(zip(marks, drawn.boxes, strict=True))
    gold = [box for mark, lines in boxes if mark.role != "cited" for box in lines]
    return drawn, gold, [_around(box) for mark, lines in boxes if mark.role != "gold" for box in lines]


def _around(box: Box) -> Box:
    """Room for a frame, which would stand on the first and the last letter."""
    return Box(box.left - _FRAME, box.top - _FRAME, box.right + _FRAME, box.bottom + _FRAME)


def _whole(box: Box) -> tuple[int, int, int, int]:
    left, top, right, bottom = (max(0, round(side)) for side in box)
    return left, top, max(right, left + 1), max(bottom, top + 1)


def _frame(pixels: Pixels, plain: Pixels, box: Box) -> None:
    left, top, right, bottom = _whole(box)
    for rows, columns in (
        (slice(top, top + _FRAME), slice(left, right)),
        (slice(max(top, bottom - _UNDERLINE), bottom), slice(left, right)),
        (slice(top, bottom), slice(left, left + _FRAME)),
        (slice(top, bottom), slice(max(left, right - _FRAME), right)),
    ):
        pixels[rows, columns] = np.minimum(plain[rows, columns], CITED_COLOUR)  # letters below it stay black


def _sides(box: Box) -> str:
    width, height = box.right - box.left, box.bottom - box.top
    return f'x="{box.left:g}" y="{box.top:g}" width="{width:g}" height="{height:g}"'
