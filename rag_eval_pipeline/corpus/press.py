"""One planned document to one PDF: fetched or read, kept or printed."""

import asyncio
import functools
import hashlib
from collections.abc import Callable, Mapping, Set
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError, PlannedDocument
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.bodies import Body, local_body
from rag_eval_pipeline.corpus.fetching.fetcher import fetcher
from rag_eval_pipeline.corpus.fetching.walls import page_facts, wall
from rag_eval_pipeline.corpus.rechecking import of_version, recheck
from rag_eval_pipeline.corpus.rendering.pages import Rendered, render
from rag_eval_pipeline.corpus.rendering.pool import browser_pool
from rag_eval_pipeline.corpus.rendering.printed_words import WORDS_MIN, PrintedWords
from rag_eval_pipeline.corpus.text.pdf import pdf_facts

Fingerprint = Callable[[], str]

HANGS = "render_timeout"
WORDS_SHARE_MIN = 0.3  # of a page's words; a PDF with fewer is no copy of the page


class Press:
    """What it takes to make a PDF from a planned document: the guard, and behind it a fetcher and a browser.

    Args:
        policy: What may be fetched.
        fingerprint: Of the renderer.
        update: Whether a page that has changed takes the place of its document.
        error_pages: Whether fetched pages that only say not found, log in, consent or wait are documents.
        min_page_words: Least share of a page's words that its PDF must have.
        hanging: SHA-256 of bodies that are known to hang while they are printed; they are not tried.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        fingerprint: Fingerprint,
        *,
        update: bool = False,
        error_pages: bool = False,
        min_page_words: float = WORDS_SHARE_MIN,
        hanging: Set[str] = frozenset(),
    ) -> None:
        self._policy = policy
        self.fingerprint = fingerprint
        self._update = update
        self._error_pages = error_pages
        self._min_page_words = min_page_words
        self._hanging = hanging

    async def __aenter__(self) -> None:
        async with AsyncExitStack() as stack:
            guard = await stack.enter_async_context(Guard(self._policy))
            self._fetcher = await stack.enter_async_context(fetcher(guard))
            self._pool = await stack.enter_async_context(browser_pool(guard))
            self._stack = stack.pop_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def make(self, document: PlannedDocument) -> tuple[CorpusDocument, bytes]:
        """A row, without file name, and the PDF.

        Raises:
            DocumentError: The document cannot be had.
        """
        if document.body != "url":
            return await self._printed(document, local_body(document))
        fetched = await self._fetcher.fetch(_url(document))
        assert fetched.body is not None
        row, pdf = await self._printed(document, fetched.body)
        return of_version(row, fetched.version), pdf

    async def look_again(
        self, document: PlannedDocument, known: CorpusDocument, file: Path
    ) -> tuple[CorpusDocument, bytes | None]:
        """What became of a page since its document was accepted; see `recheck`.

        Args:
            document: With a URL.
            known: Its row.
            file: Its PDF.

        Returns:
            The row, and the PDF when it is a new one.
        """
        printed = functools.partial(self._printed, document)
        return await recheck(self._fetcher, printed, _url(document), known, file, update=self._update)

    async def _printed(self, document: PlannedDocument, body: Body) -> tuple[CorpusDocument, bytes]:
        sha256 = hashlib.sha256(body.data).hexdigest()
        row = CorpusDocument(
            key=document.key,
            file_name="",
            url=None,
            final_url=body.final_url,
            flags=(),
            origin="kept",
            body_sha256=sha256,
            pdf_sha256=sha256,
            renderer=None,
            pages=0,
        )
        if body.kind == "pdf":
            facts = await asyncio.to_thread(pdf_facts, body.data)
            return replace(row, pages=facts.pages, flags=(*body.flags, *facts.flags)), body.data
        if sha256 in self._hanging:
            raise DocumentError(
                HANGS, f"{body.url}: the page hung while it was printed, and has not changed since", sha256
            )
        try:
            printed = await self._render(document, body)
        except DocumentError as error:
            raise DocumentError(error.code, error.message, sha256 if error.code == HANGS else None) from error
        words = printed.words or PrintedWords(0, 0)
        if words.seen >= WORDS_MIN and words.share < self._min_page_words:
            raise DocumentError(
                "page_words_lost",
                f"{body.url}: {words.printed:,} of the page's {words.seen:,} words are in its PDF "
                f"({words.share:.0%}), and `min_page_words` is {self._min_page_words:.0%}",
            )
        facts = await asyncio.to_thread(pdf_facts, printed.pdf)
        row = replace(
            row,
            flags=(*printed.flags, *facts.flags),
            origin="rendered",
            pdf_sha256=hashlib.sha256(printed.pdf).hexdigest(),
            renderer=self.fingerprint(),
            pages=facts.pages,
            images_expected=printed.images_expected,
            images_drawn=printed.images_drawn,
            words_seen=words.seen,
            words_printed=words.printed,
            shown_url=None if body.final_url else body.url,
            resources=printed.resources,
        )
        return row, printed.pdf

    async def _render(self, document: PlannedDocument, body: Body) -> Rendered:
        fetched = body.final_url is not None
        if fetched and not self._policy.config.allow_no_sandbox and not (await self._pool.process()).sandboxed:
            raise DocumentError(
                "no_sandbox",
                "the browser's sandbox cannot be used here, and pages from URLs are rendered without it only where "
                "`allow_no_sandbox` is set in egress.config.yaml",
            )

        def judge(seen: Mapping[str, Any], shown: str) -> None:
            if fetched and body.kind == "html" and not self._error_pages:
                facts = page_facts(seen, url=_url(document), final_url=shown, body=body.data)
                if (found := wall(facts)) is not None:
                    raise DocumentError(found.code, f"{document.url}: {found.reason}")

        return await render(self._pool, body, load_limit_s=self._policy.config.page_load_limit_s, judge=judge)


def _url(document: PlannedDocument) -> str:
    if document.url is None:
        raise DocumentError("bad_url", "the document has neither a body nor a URL")
    return document.url
