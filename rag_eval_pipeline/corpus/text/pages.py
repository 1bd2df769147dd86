"""Text of the corpus, page by page: the text that the offsets of spans and citations refer to.

A document's text is the texts of its pages, as pdfium extracts them, joined by one form feed.
"""

import functools
import hashlib
import logging
from collections.abc import Iterable, Iterator, Set
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import bad_manifest, iterate_rows, read_metadata, write_rows
from rag_eval_pipeline.corpus.text.pdf import cached_texts, read_texts
from rag_eval_pipeline.errors import DocumentError

logger = logging.getLogger(__name__)

PAGE_BREAK = "\f"
EXTRACTOR_KEY = "extractor"
ROW_GROUP_CHARACTERS = 32_000_000

_REVISION = 4  # raise it when the same PDF gives another text
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


@functools.cache
def extractor() -> str:
    """Return what decides the text of a PDF; kept in the metadata of `pages.parquet`."""
    return f"pypdfium2 {version('pypdfium2')}, revision {_REVISION}"


def corpus_pages(documents: Iterable[CorpusDocument], corpus_dir: Path, known: Iterable[Page] = ()) -> Iterator[Page]:
    """Yield the pages of every file of a corpus, in the order of the manifest.

    A file that can no longer be read has no pages, and the reason is logged. Files of `known` pages, extracted earlier
    by the same `extractor`, are not opened.
    """
    earlier = {own[0].pdf_sha256: [page.text for page in own] for own in _documents(known)}
    last: tuple[str, list[str]] = "", []  # of a document with several names, which are neighbours
    for document in documents:
        sha256 = document.pdf_sha256
        if sha256 is None:
            continue
        if sha256 in earlier:
            last = sha256, earlier[sha256]
        elif sha256 != last[0]:
            last = sha256, _texts(sha256, corpus_dir / document.file_name)
        start = 0
        for number, text in enumerate(last[1], 1):
            yield Page(document.file_name, number, start, text, sha256)
            start += len(text) + len(PAGE_BREAK)


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
    return {own[0].file_name: own for own in _documents(pages)}


def _documents(pages: Iterable[Page]) -> Iterator[list[Page]]:
    return (list(group) for _, group in groupby(pages, lambda page: page.file_name))


def write_pages(path: Path, pages: Iterable[Page]) -> None:
    """Publish `pages.parquet`: each row has the SHA-256 of its document's text, and the file's footer its extractor.

    The pages are written as they come, in row groups of 32 million characters; equal pages give equal bytes.
    """
    write_rows(
        path, _rows(pages), _SCHEMA, metadata={EXTRACTOR_KEY: extractor()},
        size=lambda row: len(row["text"]), row_group_size=ROW_GROUP_CHARACTERS,
    )  # fmt: skip


def _rows(pages: Iterable[Page]) -> Iterator[dict[str, Any]]:
    for own in _documents(pages):
        text_sha256 = hashlib.sha256(document_text(own).encode()).hexdigest()
        yield from (asdict(page) | {"text_sha256": text_sha256} for page in own)


def iterate_pages(path: Path, pdf_sha256s: Set[str] | None = None) -> Iterator[Page]:
    """Yield the pages of a corpus, or of some PDFs; none when there is no file."""
    try:
        for row in iterate_rows(path):
            if pdf_sha256s is None or row["pdf_sha256"] in pdf_sha256s:
                yield Page(**{name: row[name] for name in Page.__slots__})
    except KeyError as error:
        raise bad_manifest(path, error) from error


def read_pages(path: Path) -> list[Page]:
    """Return the pages of a corpus; none when there is no file."""
    return list(iterate_pages(path))


def is_reusable(path: Path) -> bool:
    """Whether the pages of an earlier extraction are those that this version would extract."""
    return read_metadata(path).get(EXTRACTOR_KEY) == extractor()


def reusable_pages(path: Path, pdf_sha256s: Set[str] | None = None) -> list[Page]:
    """Return the pages of an earlier extraction, or of some PDFs, if this version would extract the same, else none."""
    return list(iterate_pages(path, pdf_sha256s)) if is_reusable(path) else []
