"""The child process in which PDFs are opened, read and drawn: one after another, each with limits of its own.

Run as `python -m rag_eval_pipeline.corpus.text.pdf_worker LIMITS` by `pdf_reader`. A request is a line of JSON on
standard input, `{"path": ...}` or `{"size": n}` with that many bytes behind it; where a picture is wanted, it holds
`"draw": [page, width, ranges]`, too. The answer is a line of JSON on standard output, `{"texts": [...]}`,
`{"code": ..., "message": ...}`, or `{"width": ..., "height": ..., "boxes": [...], "size": n}` with so many bytes of
pixels behind it. What takes too much ends the process, and with it the document.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pdf import open_pdf
from rag_eval_pipeline.corpus.text.pdf_layer import layer_text, line_boxes
from rag_eval_pipeline.storage.confinement import allow_cpu, confine


class PdfLimits(NamedTuple):
    """What reading one PDF may cost. Eight filings of 332 pages take 1 s, 12 MB and 0.9 million characters.

    Args:
        memory_bytes: Beyond the interpreter's own.
        cpu_s: Seconds of computing.
        deadline_s: Seconds by the clock, for what waits without computing; the parent sees to it.
        pages: Sixty times a long annual report.
        characters: Of the whole text.
    """

    memory_bytes: int = 1 << 30
    cpu_s: float = 60.0
    deadline_s: float = 120.0
    pages: int = 20_000
    characters: int = 50_000_000


HEIGHT_MAX = 16_000  # pixels of a picture: twelve sheets 900 wide; a page still longer is drawn smaller


def main(limits: PdfLimits) -> None:
    """Answers until the parent has no more to ask."""
    import pypdfium2  # noqa: F401  # loaded before address space is counted

    # What a library prints must not stand between two answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    confine(memory_bytes=limits.memory_bytes, file_bytes=0)
    requests = sys.stdin.buffer
    while line := requests.readline():
        request = json.loads(line)
        allow_cpu(limits.cpu_s)
        try:
            source = Path(request["path"]) if "path" in request else requests.read(request["size"])
            if "draw" in request:
                answer, pixels = draw(source, *request["draw"])
            else:
                answer, pixels = {"texts": page_texts(source, limits)}, b""
        except DocumentError as error:
            answer, pixels = {"code": error.code, "message": error.message}, b""
        except MemoryError:
            message = f"the PDF needs more than {limits.memory_bytes >> 20:,} MB to be read"
            answer, pixels = {"code": "pdf_bomb", "message": message}, b""
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.write(pixels)
        answers.flush()


def page_texts(source: bytes | Path, limits: PdfLimits) -> list[str]:
    """The text of each page.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
    """
    import pypdfium2

    texts: list[str] = []
    characters = 0
    with open_pdf(source) as document:
        if len(document) > limits.pages:
            raise DocumentError("pdf_bomb", f"the PDF has {len(document):,} pages, and {limits.pages:,} are allowed")
        for number in range(len(document)):
            try:
                page = document[number]
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


def draw(source: bytes | Path, number: int, width: int, ranges: list[tuple[int, int]]) -> tuple[dict[str, Any], bytes]:
    """A page as pixels of three bytes, row by row, with the boxes of the lines that ranges of its text stand on.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `no_such_page`, `no_such_place`.
    """
    import pypdfium2

    with open_pdf(source) as document:
        if not 1 <= number <= len(document):
            message = f"the PDF has {len(document):,} pages, and page {number} is asked for"
            raise DocumentError("no_such_page", message)
        try:
            page = document[number - 1]
            across, down = (max(1.0, side) for side in page.get_size())
            # A trifle less than the width, because the number of pixels is rounded up.
            scale = min((width - 0.01) / across, (HEIGHT_MAX - 0.01) / down)
            bitmap = page.render(scale=scale, rev_byteorder=True)
            boxes = line_boxes(page, page.get_textpage(), ranges, (bitmap.width, bitmap.height)) if ranges else []
        except pypdfium2.PdfiumError as error:
            raise DocumentError("pdf_damaged", f"page {number} of the PDF cannot be drawn: {error}") from error
        rows = memoryview(bitmap.buffer).cast("B")
        row = bitmap.width * 3
        if bitmap.stride != row:
            rows = memoryview(b"".join(rows[at : at + row] for at in range(0, len(rows), bitmap.stride)))
        pixels = bytes(rows[: bitmap.height * row])
        return {"width": bitmap.width, "height": bitmap.height, "boxes": boxes, "size": len(pixels)}, pixels


if __name__ == "__main__":
    main(PdfLimits(*json.loads(sys.argv[1])))
