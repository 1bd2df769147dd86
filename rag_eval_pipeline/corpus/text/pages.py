"""Text of the corpus, page by page: the text that spans and citations are offsets into.

One call of pdfium a page gives *the* text of that page, and everything else slices it. A document's text is its pages
joined by one form feed.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError
from rag_eval_pipeline.corpus.manifest import read_metadata, read_rows, write_rows
from rag_eval_pipeline.corpus.text.pdf_reader import read_texts, remembered_texts

logger = logging.getLogger(__name__)

PAGE_BREAK = "\f"
EXTRACTOR_KEY = "extractor"

_REVISION = 3  # of this module: raised when the same PDF would give another text


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one sheet.

    Args:
        file_name: Basename in the corpus folder.
        page: 1-based.
        start: Offset of the page's first character in the document's text, in code points.
        text: As extracted.
        pdf_sha256: Of the file it was extracted from.
    """

    file_name: str
    page: int
    start: int
    text: str
    pdf_sha256: str = ""


def extractor() -> str:
    """Names what decides the text of a PDF; kept in the metadata of `pages.parquet`."""
    return f"pypdfium2 {version('pypdfium2')}, revision {_REVISION}"


def extract_pages(path: Path) -> list[str]:
    """The text of each page of a PDF, read in a process of its own.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
    """
    return read_texts(path)


def corpus_pages(documents: Sequence[CorpusDocument], corpus_dir: Path, known: Iterable[Page] = ()) -> list[Page]:
    """The pages of every file of a corpus, in the order of the manifest.

    Args:
        documents: The manifest; missing documents have no page.
        corpus_dir: Where the files lie.
        known: Pages of an earlier extraction by the same `extractor`; files that have not changed are not opened.

    Returns:
        The pages. A file of the corpus that can no longer be read has none, and the log says why: it must not take the
        others with it.
    """
    texts = {own[0].pdf_sha256: [page.text for page in own] for own in pages_by_document(known).values()}
    pages = []
    for document in documents:
        if document.pdf_sha256 is None:
            continue
        if document.pdf_sha256 not in texts:
            texts[document.pdf_sha256] = _texts(document.pdf_sha256, corpus_dir / document.file_name)
        start = 0
        for number, text in enumerate(texts[document.pdf_sha256], 1):
            pages.append(Page(document.file_name, number, start, text, document.pdf_sha256))
            start += len(text) + len(PAGE_BREAK)
    return pages


def _texts(sha256: str, path: Path) -> list[str]:
    known = remembered_texts(sha256)
    if known is not None:
        return known
    try:
        if path.is_symlink():  # the corpus folder holds none of its own
            raise DocumentError("file_missing", "a link stands in the place of the file")
        return extract_pages(path)
    except DocumentError as error:
        logger.warning("%s has no text: %s", path.name, error)
        return []


def document_text(pages: Iterable[Page]) -> str:
    """The text of a document from its pages in order."""
    return PAGE_BREAK.join(page.text for page in pages)


def pages_by_document(pages: Iterable[Page]) -> dict[str, list[Page]]:
    """The pages of each file name, both in the order in which they stand."""
    return {name: list(group) for name, group in groupby(pages, lambda page: page.file_name)}


def write_pages(path: Path, pages: Sequence[Page], metadata: Mapping[str, str] | None = None) -> None:
    """Publishes `pages.parquet`; each row carries the SHA-256 of its document's whole text, and the file its extractor.

    Args:
        path: The file.
        pages: From `corpus_pages`.
        metadata: Further key/value pairs for the file's footer.
    """
    import pyarrow as pa

    schema = pa.schema(
        [
            ("file_name", pa.string()),
            ("page", pa.int32()),
            ("start", pa.int64()),
            ("text", pa.large_string()),
            ("pdf_sha256", pa.string()),
            ("text_sha256", pa.string()),
        ]
    )
    rows = []
    for name, own in pages_by_document(pages).items():
        text_sha256 = hashlib.sha256(document_text(own).encode()).hexdigest()
        rows += [(name, page.page, page.start, page.text, page.pdf_sha256, text_sha256) for page in own]
    records = [dict(zip(schema.names, row, strict=True)) for row in rows]
    write_rows(path, records, schema, {**(metadata or {}), EXTRACTOR_KEY: extractor()})


def read_pages(path: Path) -> list[Page]:
    """The pages of a corpus; none when there is no file.

    Raises:
        InputError: `bad_manifest`.
    """
    return [
        Page(row["file_name"], row["page"], row["start"], row["text"], row["pdf_sha256"]) for row in read_rows(path)
    ]


def reusable_pages(path: Path) -> list[Page]:
    """The pages of an earlier extraction, when this version would extract the same; else none.

    Raises:
        InputError: `bad_manifest`.
    """
    return read_pages(path) if read_metadata(path).get(EXTRACTOR_KEY) == extractor() else []
