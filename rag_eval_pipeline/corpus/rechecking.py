"""Looking again at a page whose document was accepted on an earlier night.

The document is what the questions were written for, so it stays until somebody accepts another: a changed page is
drift, which is reported with both hashes. Pages that are sent with another nonce or date each time are no drift: what
counts is what the PDF says.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urldefrag

from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError, Drift
from rag_eval_pipeline.corpus.fetching.bodies import Body
from rag_eval_pipeline.corpus.fetching.fetcher import Fetcher, Version
from rag_eval_pipeline.corpus.text.pdf_reader import read_texts, remembered_texts

Printed = Callable[[Body], Awaitable[tuple[CorpusDocument, bytes]]]

GONE = {"http_404", "http_410", "soft_404"}


async def recheck(
    fetcher: Fetcher, printed: Printed, url: str, known: CorpusDocument, file: Path, *, update: bool
) -> tuple[CorpusDocument, bytes | None]:
    """The row as it is tonight, and the PDF when a new one takes the old one's place.

    Args:
        fetcher: Asks whether there is another version than the known one.
        printed: Makes a row and a PDF of a body.
        url: Of the document.
        known: Its row, with what is known of its page.
        file: Its PDF.
        update: Whether a changed page is accepted at once.
    """
    try:
        version = Version(urldefrag(known.final_url or "").url, known.etag, known.last_modified)
        fetched = await fetcher.fetch(url, version)
        if fetched.body is None or _sha256(fetched.body.data) == known.body_sha256:
            return of_version(_as_accepted(known), fetched.version), None
        row, pdf = await printed(fetched.body)
    except DocumentError as error:
        return unchecked(known, error), None
    if await asyncio.to_thread(_same_text, row, pdf, file):
        # The next night asks for this version, and need not print it again to find out that it says the same.
        return of_version(_as_accepted(known), fetched.version), None
    if update:
        return of_version(row, fetched.version), pdf
    reason = f"{url} has changed: sha256 {known.body_sha256} was accepted, {row.body_sha256} is there now"
    return replace(_as_accepted(known, drift="changed", reason=reason), drift_sha256=row.body_sha256), None


def of_version(row: CorpusDocument, version: Version) -> CorpusDocument:
    """The row with the version that its server named."""
    # "Not modified" need not say it again.
    return replace(row, etag=version.etag or row.etag, last_modified=version.last_modified or row.last_modified)


def unchecked(known: CorpusDocument, error: DocumentError) -> CorpusDocument:
    """The accepted row, which stays although its page is gone or could not be looked at."""
    return _as_accepted(known, drift="gone" if error.code in GONE else "unchecked", reason=str(error))


def _as_accepted(known: CorpusDocument, *, drift: Drift | None = None, reason: str | None = None) -> CorpusDocument:
    return replace(known, drift=drift, drift_sha256=None, drift_reason=reason)


def _same_text(row: CorpusDocument, pdf: bytes, file: Path) -> bool:
    if row.pdf_sha256 is None:
        return False
    texts = remembered_texts(row.pdf_sha256)
    try:
        return (read_texts(pdf) if texts is None else texts) == read_texts(file)
    except (DocumentError, OSError):
        return False


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
