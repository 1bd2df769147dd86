"""The child process in which `pdf.PdfReader` has PDFs read and drawn, each with its own limits.

A request is a line of JSON on standard input: `{"path": ...}`, or `{"size": n}` followed by n bytes; `"draw": [page,
width, ranges, has_pixels]` asks for an image, or for its size and boxes only. The answer is a line of JSON on standard
output: `{"texts": [...]}`, `{"code": ..., "message": ...}`, or `{"width": ..., "height": ..., "boxes": [...],
"size": n}` followed by n bytes of pixels.
"""

import ctypes
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pypdfium2
import pypdfium2.raw as raw

from rag_eval_pipeline.corpus.text.pdf import Box, PdfLimits
from rag_eval_pipeline.corpus.text.rtl import LINE_END, Characters, fix_order, may_need_fix
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.storage.process import set_cpu_limit, set_limits

HEIGHT_MAX = 16_000  # pixels of an image: twelve sheets 900 wide; a longer page is drawn at a smaller scale

_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_END_MARKS = (b"startxref", b"%%EOF")
_END_WITHIN_BYTES = 8192  # readers search the last 1 kB; some servers append lines of their own
_PAGE_BREAK = "\f"  # joins pages, so no page may contain it
_HYPHEN = "\ufffe"  # pdfium's character for a hyphen at the end of a line
_SAME_LINE = 0.5  # of the smaller box's height: boxes that overlap by less are on two lines
_GAP_MAX = 2.0  # box heights; characters further apart are in two columns of a table


def main(limits: PdfLimits) -> None:
    """Answer requests until the parent closes standard input."""
    # Anything that a library prints must not end up between two answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    set_limits(memory_bytes=limits.memory_bytes, file_bytes=0)
    requests = sys.stdin.buffer
    while line := requests.readline():
        request = json.loads(line)
        set_cpu_limit(limits.cpu_s)
        answer: dict[str, Any]
        pixels = b""
        try:
            source = Path(request["path"]) if "path" in request else requests.read(request["size"])
            if "draw" in request:
                answer, pixels = _draw(source, *request["draw"])
            else:
                answer = {"texts": _page_texts(source, limits)}
        except DocumentError as error:
            answer = {"code": error.code, "message": error.message}
        except MemoryError:
            message = f"the PDF needs more than {limits.memory_bytes >> 20:,} MB to be read"
            answer = {"code": "pdf_bomb", "message": message}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.write(pixels)
        answers.flush()


def _page_texts(source: bytes | Path, limits: PdfLimits) -> list[str]:
    texts: list[str] = []
    characters = 0
    with _open_pdf(source) as document:
        if len(document) > limits.pages:
            raise DocumentError("pdf_bomb", f"the PDF has {len(document):,} pages, and {limits.pages:,} are allowed")
        for number in range(len(document)):
            try:
                page = _whole_page(document, number)
                layer = page.get_textpage()
                text = layer_text(layer)
                layer.close()
                page.close()
            except pypdfium2.PdfiumError as error:
                raise DocumentError("pdf_damaged", f"page {number + 1} of the PDF cannot be read: {error}") from error
            characters += len(text)
            if characters > limits.characters:
                raise DocumentError("pdf_bomb", f"the PDF has more than {limits.characters:,} characters")
            texts.append(text)
    return texts


def _whole_page(document: Any, number: int) -> Any:
    """Return a page with the values of its form fields and its written remarks as parts of its content."""
    page = document[number]
    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if kind in (raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT):
            raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
            page.close()
            return document[number]
    return page


def _draw(
    source: bytes | Path, number: int, width: int, ranges: list[tuple[int, int]], has_pixels: bool
) -> tuple[dict[str, Any], bytes]:
    with _open_pdf(source) as document:
        if not 1 <= number <= len(document):
            message = f"the PDF has {len(document):,} pages, and page {number} is asked for"
            raise DocumentError("no_such_page", message)
        try:
            page = _whole_page(document, number - 1)
            across, down = (max(1.0, side) for side in page.get_size())
            # Slightly less than the width, because pdfium rounds the number of pixels up.
            scale = min((width - 0.01) / across, (HEIGHT_MAX - 0.01) / down)
            size = math.ceil(page.get_width() * scale), math.ceil(page.get_height() * scale)
            boxes = _line_boxes(page, page.get_textpage(), ranges, size) if ranges else []
            bitmap = page.render(scale=scale, rev_byteorder=True) if has_pixels else None
        except pypdfium2.PdfiumError as error:
            raise DocumentError("pdf_damaged", f"page {number} of the PDF cannot be drawn: {error}") from error
        pixels = b""
        if bitmap is not None:
            rows = bytes(bitmap.buffer)
            starts = range(0, bitmap.height * bitmap.stride, bitmap.stride)
            pixels = b"".join(rows[start : start + bitmap.width * 3] for start in starts)
        return {"width": size[0], "height": size[1], "boxes": boxes, "size": len(pixels)}, pixels


@contextmanager
def _open_pdf(data: bytes | Path) -> Iterator[pypdfium2.PdfDocument]:
    """Open a PDF with at least one page."""
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR or "password" in str(error).lower():
            raise DocumentError("pdf_encrypted", "the PDF needs a password") from error
        raise DocumentError("pdf_damaged", f"the PDF cannot be opened: {error}") from error
    try:
        if len(document) == 0:
            raise DocumentError("pdf_damaged", "the PDF has no page")
        # pdfium rebuilds a table that was lost with the end of the file, and then shows only the remaining pages.
        if not raw.FPDF_DocumentHasValidCrossReferenceTable(document) and _is_cut(data):
            raise DocumentError("pdf_damaged", "the PDF is cut short: it has no end mark")
        yield document
    finally:
        document.close()


def _is_cut(data: bytes | Path) -> bool:
    if isinstance(data, Path):
        with data.open("rb") as file:
            file.seek(max(0, data.stat().st_size - _END_WITHIN_BYTES))
            data = file.read()
    return not any(mark in data[-_END_WITHIN_BYTES:] for mark in _END_MARKS)


def layer_text(layer: Any) -> str:
    """Return the text of a `pypdfium2.PdfTextPage`; only line ends take another number of characters in pdfium."""
    text = _pdfium_text(layer)
    return _characters(layer, text).text if may_need_fix(text) else text


def _pdfium_text(layer: Any) -> str:
    text: str = layer.get_text_range()
    return text.replace("\r\n", "\n").replace(_HYPHEN, "-").replace(_PAGE_BREAK, "\n")


def _characters(layer: Any, text: str) -> Characters:
    return fix_order(layer, Characters(text, list(_char_indices(layer))))


def _char_indices(layer: Any) -> Iterator[int]:
    """For each character of the text, yield its index in pdfium's list of characters, or `LINE_END`.

    The list holds characters that the text leaves out, and the text has line ends that the list has not:
    https://crbug.com/pdfium/2079. Both count in UTF-16 units, and Python's text in code points.
    """
    unit = 0
    text = layer.get_text_range(errors="surrogatepass")
    for at, char in enumerate(text):
        is_half = 0xD800 <= ord(char) <= 0xDFFF  # a lone surrogate, which `_pdfium_text` leaves out
        if char == "\n":
            yield LINE_END
        elif not is_half and text[at : at + 2] != "\r\n":
            yield raw.FPDFText_GetCharIndexFromTextIndex(layer, unit)
        unit += 2 if ord(char) > 0xFFFF else 1


def _line_boxes(page: Any, layer: Any, ranges: Sequence[tuple[int, int]], size: tuple[int, int]) -> list[list[Box]]:
    places = _characters(layer, _pdfium_text(layer)).places
    found = []
    for start, end in ranges:
        if not 0 <= start < end <= len(places):
            message = f"the page has {len(places):,} characters, and [{start}, {end}) is asked for"
            raise DocumentError("no_such_place", message)
        lines = (
            list(group) for is_end, group in groupby(places[start:end], lambda index: index == LINE_END) if not is_end
        )
        found.append([box for line in lines for box in _joined_boxes(page, layer, line, size)])
    return found


def _joined_boxes(page: Any, layer: Any, line: Sequence[int], size: tuple[int, int]) -> list[Box]:
    joined: list[Box] = []
    for index in line:
        box = _box(page, layer, index, size)
        if box and joined and _continues(joined[-1], box):
            last = joined.pop()
            box = Box(*map(min, last[:2], box[:2]), *map(max, last[2:], box[2:]))
        if box:
            joined.append(box)
    return joined


def _box(page: Any, layer: Any, index: int, size: tuple[int, int]) -> Box | None:
    """Return the box of a character; None for one without a place, such as a space that pdfium inserted."""
    rect = raw.FS_RECTF()
    if not raw.FPDFText_GetLooseCharBox(layer, index, rect) or rect.right <= rect.left or rect.top == rect.bottom:
        return None
    x, y = ctypes.c_int(), ctypes.c_int()
    corners = []
    for point in ((rect.left, rect.top), (rect.right, rect.bottom)):
        # This handles crop boxes and rotated pages. It returns whole numbers, so eighths of a pixel are requested.
        raw.FPDF_PageToDevice(page, 0, 0, size[0] * 8, size[1] * 8, 0, *point, x, y)
        corners.append((x.value / 8, y.value / 8))
    (left, right), (top, bottom) = (sorted(values) for values in zip(*corners, strict=True))
    return Box(left, top, right, bottom)


def _continues(line: Box, box: Box) -> bool:
    """Whether a character is beside a line, or below it where text runs down the page."""
    beside = (
        _overlap(line.top, line.bottom, box.top, box.bottom),
        _overlap(line.left, line.right, box.left, box.right),
    )
    sizes = min(line.bottom - line.top, box.bottom - box.top), min(line.right - line.left, box.right - box.left)
    return any(
        shared > _SAME_LINE * size and -gap < _GAP_MAX * size
        for (shared, gap), size in zip((beside, beside[::-1]), sizes, strict=True)
    )


def _overlap(start: float, end: float, other_start: float, other_end: float) -> float:
    """Length of the intersection of two intervals; negative for a gap."""
    return min(end, other_end) - max(start, other_start)


if __name__ == "__main__":
    main(PdfLimits(*json.loads(sys.argv[1])))
