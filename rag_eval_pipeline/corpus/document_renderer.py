"""Turn one planned document into one PDF: fetched or read, kept or printed, or checked again.

An accepted document stays until somebody accepts another version. A page whose text has changed is drift; its bytes do
not count, because many servers send another nonce or date with each response.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from rag_eval_pipeline.corpus.documents import NO_TEXT, CorpusDocument, Drift, PlannedDocument, local_body
from rag_eval_pipeline.corpus.rendering.browser import browser_pool
from rag_eval_pipeline.corpus.rendering.render import Rendered, render
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.block_pages import detect_block_page, page_facts
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.fetcher import Version, fetcher

Fingerprint = Callable[[], str]

TIMED_OUT = "render_timeout"
WORDS_SHARE_MIN = 0.3  # of a page's words; a PDF with fewer is no copy of the page

_GONE = {"http_404", "http_410", "soft_404"}


class DocumentRenderer:
    """Makes PDFs from planned documents: an egress proxy, and behind it a fetcher and a browser.

    Args:
        update: Whether a changed page replaces its document.
        known_timeouts: SHA-256 of bodies that are known to hang while they are printed; they are not tried.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        fingerprint: Fingerprint,
        *,
        update: bool = False,
        error_pages: bool = False,
        min_page_words: float = WORDS_SHARE_MIN,
        known_timeouts: Set[str] = frozenset(),
    ) -> None:
        self._policy = policy
        self.fingerprint = fingerprint
        self._update = update
        self._error_pages = error_pages
        self._min_page_words = min_page_words
        self._known_timeouts = known_timeouts

    async def __aenter__(self) -> None:
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(EgressProxy(self._policy))
            self._fetcher = await stack.enter_async_context(fetcher(proxy))
            self._pool = await stack.enter_async_context(browser_pool(proxy))
            self._stack = stack.pop_all()

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    async def make(self, document: PlannedDocument) -> tuple[CorpusDocument, bytes]:
        """Return a manifest row, without file name, and the PDF.

        Raises:
            DocumentError: The document is not available.
        """
        if document.body != "url":
            return await self._make_pdf(document, local_body(document))
        fetched = await self._fetcher.fetch(_url(document))
        assert fetched.body is not None
        row, pdf = await self._make_pdf(document, fetched.body)
        return _with_version(row, fetched.version), pdf

    async def recheck(
        self, document: PlannedDocument, known: CorpusDocument, file: Path
    ) -> tuple[CorpusDocument, bytes | None]:
        """Fetch a page again; return its row, and the PDF if a new one replaces the accepted one, `file`."""
        url = _url(document)
        try:
            version = Version(urldefrag(known.final_url or "").url, known.etag, known.last_modified)
            fetched = await self._fetcher.fetch(url, version)
            if fetched.body is None or hashlib.sha256(fetched.body.data).hexdigest() == known.body_sha256:
                return _with_version(_with_drift(known), fetched.version), None
            row, pdf = await self._make_pdf(document, fetched.body)
        except DocumentError as error:
            return with_failed_check(known, error), None
        if await asyncio.to_thread(_same_text, pdf, file):
            # The next check names this version, and need not print it again to find the same text.
            return _with_version(_with_drift(known), fetched.version), None
        if self._update:
            return _with_version(row, fetched.version), pdf
        reason = f"{url} has changed: sha256 {known.body_sha256} was accepted, {row.body_sha256} is there now"
        return replace(_with_drift(known, "changed", reason), drift_sha256=row.body_sha256), None

    async def _make_pdf(self, document: PlannedDocument, body: Body) -> tuple[CorpusDocument, bytes]:
        sha256 = hashlib.sha256(body.data).hexdigest()
        row = CorpusDocument(document.key, "", None, body.final_url, (), "kept", sha256, sha256, None, 0)
        if body.kind == "pdf":
            texts = await asyncio.to_thread(read_texts, body.data)
            return replace(row, pages=len(texts), flags=(*body.flags, *text_flags(texts))), body.data
        if sha256 in self._known_timeouts:
            raise DocumentError(
                TIMED_OUT, f"{body.url}: the page hung while it was printed, and has not changed since", sha256
            )
        try:
            rendered = await self._render(document, body)
        except DocumentError as error:
            raise DocumentError(error.code, error.message, sha256 if error.code == TIMED_OUT else None) from error
        words = rendered.words
        if not words.is_enough(self._min_page_words):
            raise DocumentError(
                "page_words_lost",
                f"{body.url}: {words.printed:,} of the page's {words.seen:,} words are in its PDF "
                f"({words.share:.0%}), and `min_page_words` is {self._min_page_words:.0%}",
            )
        row = replace(
            row,
            flags=(*rendered.flags, *text_flags(rendered.texts)),
            origin="rendered",
            pdf_sha256=hashlib.sha256(rendered.pdf).hexdigest(),
            renderer=self.fingerprint(),
            pages=len(rendered.texts),
            images_expected=rendered.images_expected,
            images_drawn=rendered.images_drawn,
            words_seen=words.seen,
            words_printed=words.printed,
            shown_url=None if body.final_url else body.url,
            resources=rendered.resources,
        )
        return row, rendered.pdf

    async def _render(self, document: PlannedDocument, body: Body) -> Rendered:
        is_fetched = body.final_url is not None
        config = self._policy.config
        if is_fetched and not config.allow_no_sandbox and not (await self._pool.process()).sandboxed:
            raise DocumentError(
                "no_sandbox",
                "the browser's sandbox cannot be used here, and pages from URLs are rendered without it only where "
                "`allow_no_sandbox` is set in egress.config.yaml",
            )

        def refuse_block_page(measured: Mapping[str, Any], shown_url: str) -> None:
            if is_fetched and body.kind == "html" and not self._error_pages:
                facts = page_facts(measured, url=_url(document), final_url=shown_url, body=body.data)
                if (found := detect_block_page(facts)) is not None:
                    raise DocumentError(found.code, f"{document.url}: {found.reason}")

        return await render(self._pool, body, load_limit_s=config.page_load_limit_s, check_page=refuse_block_page)


def with_failed_check(known: CorpusDocument, error: DocumentError) -> CorpusDocument:
    """Return the accepted row of a page that is gone or could not be checked."""
    return _with_drift(known, "gone" if error.code in _GONE else "unchecked", str(error))


def _with_version(row: CorpusDocument, version: Version) -> CorpusDocument:
    # A "not modified" response need not repeat them.
    return replace(row, etag=version.etag or row.etag, last_modified=version.last_modified or row.last_modified)


def _with_drift(known: CorpusDocument, drift: Drift | None = None, reason: str | None = None) -> CorpusDocument:
    return replace(known, drift=drift, drift_sha256=None, drift_reason=reason)


def text_flags(texts: Sequence[str]) -> tuple[str, ...]:
    """Return `pdf_no_text` if no page has a character that could be found or cited."""
    return () if any(text.strip() for text in texts) else (NO_TEXT,)


def _same_text(pdf: bytes, file: Path) -> bool:
    try:
        return read_texts(pdf) == read_texts(file)
    except (DocumentError, OSError):
        return False


def _url(document: PlannedDocument) -> str:
    if document.url is None:
        raise DocumentError("bad_url", "the document has neither a body nor a URL")
    return document.url
