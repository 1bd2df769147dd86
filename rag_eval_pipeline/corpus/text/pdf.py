"""PDF files as bytes: their magic, their pages, and the dates that a printed one must not carry."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.documents import DocumentError

NO_TEXT = "pdf_no_text"  # a flag and no error: a system that reads images may answer from a scanned document

_MAGIC = b"%PDF-"
_MAGIC_WITHIN_BYTES = 1024  # readers accept that much in front of it, and servers do send it
_DATES = re.compile(rb"/(?:CreationDate|ModDate) ?\(D:\d{14}")
_EPOCH = b"19700101000000"
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD
_END_MARKS = (b"startxref", b"%%EOF")
_END_WITHIN_BYTES = 8192  # readers look through 1 kB; some servers add their own lines


def is_pdf(data: bytes) -> bool:
    """Whether bytes are a PDF by their magic."""
    return _MAGIC in data[:_MAGIC_WITHIN_BYTES]


def fix_dates(data: bytes) -> bytes:
    """A printed PDF with 1970 for its dates: equal pages give equal bytes. The length stays, so offsets stay right."""
    return _DATES.sub(lambda match: match[0][: -len(_EPOCH)] + _EPOCH, data)


@contextmanager
def open_pdf(data: bytes | Path) -> Iterator[Any]:
    """A `pypdfium2.PdfDocument` with at least one page; pdfium bears no threads, and may be brought to its knees.

    For PDFs of other people's making there is `pdf_reader`, which does this in a process of its own.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR or "password" in str(error).lower():
            raise DocumentError("pdf_encrypted", "the PDF wants a password") from error
        raise DocumentError("pdf_damaged", f"the PDF cannot be opened: {error}") from error
    try:
        if len(document) == 0:
            raise DocumentError("pdf_damaged", "the PDF has no page")
        # pdfium rebuilds a table that is lost with the end of the file, and then shows the pages that are left.
        if not pypdfium2.raw.FPDF_DocumentHasValidCrossReferenceTable(document) and _is_cut(data):
            raise DocumentError("pdf_damaged", "the PDF is cut short: it has no end mark")
        yield document
    finally:
        document.close()


class PdfFacts(NamedTuple):
    """What is in a PDF.

    Args:
        pages: Number of sheets.
        flags: `pdf_no_text` when none of them has a character that could be found or cited.
    """

    pages: int
    flags: tuple[str, ...]


def pdf_facts(data: bytes) -> PdfFacts:
    """What is in a PDF whose text can be had: a document that would fail later is refused here.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
    """
    from rag_eval_pipeline.corpus.text.pdf_reader import read_texts

    texts = read_texts(data)
    return PdfFacts(len(texts), () if any(text.strip() for text in texts) else (NO_TEXT,))


def _is_cut(data: bytes | Path) -> bool:
    if isinstance(data, Path):
        with data.open("rb") as file:
            file.seek(max(0, data.stat().st_size - _END_WITHIN_BYTES))
            data = file.read()
    return not any(mark in data[-_END_WITHIN_BYTES:] for mark in _END_MARKS)
