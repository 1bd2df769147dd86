"""One planned document to one PDF: fetched or read, kept or printed."""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType

from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError, PlannedDocument
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.bodies import Body, local_body
from rag_eval_pipeline.corpus.fetching.fetcher import fetcher
from rag_eval_pipeline.corpus.rendering.pages import Rendered, render
from rag_eval_pipeline.corpus.rendering.pool import browser_pool
from rag_eval_pipeline.corpus.text.pdf import count_pages

Fingerprint = Callable[[], str]


class Press:
    """What it takes to make a PDF from a planned document: the guard, and behind it a fetcher and a browser."""

    def __init__(self, policy: EgressPolicy, fingerprint: Fingerprint) -> None:
        self._policy = policy
        self._fingerprint = fingerprint

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
        if document.body == "url":
            if document.url is None:
                raise DocumentError("bad_url", "the document has neither a body nor a URL")
            body = await self._fetcher.fetch(document.url)
        else:
            body = local_body(document)
        row = CorpusDocument(
            key=document.key,
            file_name="",
            url=None,
            final_url=body.final_url,
            flags=(),
            origin="kept",
            body_sha256=hashlib.sha256(body.data).hexdigest(),
            pdf_sha256=hashlib.sha256(body.data).hexdigest(),
            renderer=None,
            pages=0,
        )
        if body.kind == "pdf":
            return replace(row, pages=await asyncio.to_thread(count_pages, body.data)), body.data
        printed = await self._render(body)
        row = replace(
            row,
            flags=printed.flags,
            origin="rendered",
            pdf_sha256=hashlib.sha256(printed.pdf).hexdigest(),
            renderer=self._fingerprint(),
            pages=await asyncio.to_thread(count_pages, printed.pdf),
            images_expected=printed.images_expected,
            images_drawn=printed.images_drawn,
            shown_url=None if body.final_url else body.url,
            resources=printed.resources,
        )
        return row, printed.pdf

    async def _render(self, body: Body) -> Rendered:
        fetched = body.final_url is not None
        if fetched and not self._policy.config.allow_no_sandbox and not (await self._pool.process()).sandboxed:
            raise DocumentError(
                "no_sandbox",
                "the browser's sandbox cannot be used here, and pages from URLs are rendered without it only where "
                "`allow_no_sandbox` is set in egress.config.yaml",
            )
        return await render(self._pool, body, load_limit_s=self._policy.config.page_load_limit_s)
