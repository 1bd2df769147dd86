"""Text of the corpus, page by page: the text that the offsets of spans and citations refer to.

A document's text is the texts of its pages, as pdfium extracts them, joined by one form feed.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_metadata, read_rows, write_rows
from rag_eval_pipeline.corpus.text.pdf import cached_texts, read_texts
from rag_eval_pipeline.errors import DocumentError

logger = logging.getLogger(__name__)

PAGE_BREAK = "\f"
EXTRACTOR_KEY = "extractor"

_REVISION = 3  # raise it when the same PDF gives another text
_SCHEMA = pa.schema(
    [
        ("file_name", pa.string()),
        ("page", pa.int32()),
        ("start", pa.int64()),
        ("text", pa.large_string()),
        ("pdf_sha256", pa.string()),
        ("text_sha256", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page (1-based); `start` is its offset in the document's text, in code points."""

    file_name: str
    page: int
    start: int
    text: str
    pdf_sha256: str = ""


def extractor() -> str:
    """Return what decides the text of a PDF; kept in the metadata of `pages.parquet`."""
    return f"pypdfium2 {version('pypdfium2')}, revision {_REVISION}"


def corpus_pages(documents: Sequence[CorpusDocument], corpus_dir: Path, known: Iterable[Page] = ()) -> list[Page]:
    """Return the pages of every file of a corpus, in the order of the manifest.

    A file that can no longer be read has no pages, and the reason is logged. Files of `known` pages, extracted earlier
    by the same `extractor`, are not opened.
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
    cached = cached_texts(sha256)
    if cached is not None:
        return cached
    try:
        if path.is_symlink():  # the corpus folder holds no links of its own
            raise DocumentError("file_missing", "a link in place of the file")
        return read_texts(path)
    except DocumentError as error:
        logger.warning("%s has no text: %s", path.name, error)
        return []


def document_text(pages: Iterable[Page]) -> str:
    """Return the text of a document from its pages in order."""
    return PAGE_BREAK.join(page.text for page in pages)


def pages_by_document(pages: Iterable[Page]) -> dict[str, list[Page]]:
    """Group consecutive pages by file name, in their order."""
    return {name: list(group) for name, group in groupby(pages, lambda page: page.file_name)}


def write_pages(path: Path, pages: Sequence[Page], metadata: Mapping[str, str] | None = None) -> None:
    """Publish `pages.parquet`: each row has the SHA-256 of its document's text, and the file's footer its extractor."""
    rows = []
    for own in pages_by_document(pages).values():
        text_sha256 = hashlib.sha256(document_text(own).encode()).hexdigest()
        rows += [asdict(page) | {"text_sha256": text_sha256} for page in own]
    write_rows(path, rows, _SCHEMA, {**(metadata or {}), EXTRACTOR_KEY: extractor()})


def read_pages(path: Path) -> list[Page]:
    """Return the pages of a corpus; none when there is no file."""
    return [Page(**{name: row[name] for name in Page.__slots__}) for row in read_rows(path)]


def reusable_pages(path: Path) -> list[Page]:
    """Return the pages of an earlier extraction if this version would extract the same text, else none."""
    return read_pages(path) if read_metadata(path).get(EXTRACTOR_KEY) == extractor() else []
