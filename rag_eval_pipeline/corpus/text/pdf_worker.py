"""The child process in which PDFs are opened and their text is taken: one after another, each with limits of its own.

Run as `python -m rag_eval_pipeline.corpus.text.pdf_worker LIMITS` by `pdf_reader`. A request is a line of JSON on
standard input, `{"path": ...}` or `{"size": n}` with that many bytes behind it; the answer is a line of JSON on
standard output, `{"texts": [...]}` or `{"code": ..., "message": ...}`. What takes too much ends the process, and with
it the document.
"""

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pdf import open_pdf
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


_PAGE_BREAK = "\f"


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
            answer: dict[str, object] = {"texts": page_texts(source, limits)}
        except DocumentError as error:
            answer = {"code": error.code, "message": error.message}
        except MemoryError:
            message = f"the PDF needs more than {limits.memory_bytes >> 20:,} MB to be read"
            answer = {"code": "pdf_bomb", "message": message}
        answers.write(json.dumps(answer).encode() + b"\n")
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
                text = layer.get_text_range()
                layer.close()
                page.close()
            except pypdfium2.PdfiumError as error:
                raise DocumentError("pdf_damaged", f"page {number + 1} of the PDF cannot be read: {error}") from error
            characters += len(text)
            if characters > limits.characters:
                raise DocumentError("pdf_bomb", f"the PDF has more than {limits.characters:,} characters")
            # U+FFFE is pdfium's sign for a hyphen at the end of a line; one character for one, so that offsets hold.
            texts.append(text.replace("\r\n", "\n").replace("\ufffe", "-").replace(_PAGE_BREAK, "\n"))
    return texts


if __name__ == "__main__":
    main(PdfLimits(*json.loads(sys.argv[1])))
