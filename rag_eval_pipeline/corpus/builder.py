"""Building a corpus: planned documents in, PDFs and the rows of the manifest out.

What has not changed is left alone: nothing is requested, rendered or written for it, and no browser is started. A
document that cannot be had becomes a row that says why, and never stops the others.
"""

import asyncio
import functools
import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from rag_eval_pipeline.corpus.bodies import Body, local_body
from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError, FileName, PlannedDocument
from rag_eval_pipeline.corpus.egress import EgressPolicy
from rag_eval_pipeline.corpus.executable import find_browser
from rag_eval_pipeline.corpus.fetching import fetcher
from rag_eval_pipeline.corpus.folder import CorpusFolder
from rag_eval_pipeline.corpus.guard import Guard
from rag_eval_pipeline.corpus.naming import NAME_FLAGS
from rag_eval_pipeline.corpus.pdf import count_pages
from rag_eval_pipeline.corpus.pool import browser_pool
from rag_eval_pipeline.corpus.rendering import Rendered, render, renderer_fingerprint
from rag_eval_pipeline.corpus.serving import resources_unchanged

PAGES_A_CORE = 2  # open at once: a page waits for the disk and the network about half of its time

Progress = Callable[[int, int], None]
Fingerprint = Callable[[], str]


def build_corpus(
    planned: Sequence[PlannedDocument],
    corpus_dir: Path,
    previous: Sequence[CorpusDocument],
    policy: EgressPolicy,
    *,
    progress: Progress | None = None,
) -> list[CorpusDocument]:
    """Brings a corpus folder in line with a plan.

    Args:
        planned: Documents with their names; file names must be distinct.
        corpus_dir: Made when missing. Files in it that no document of the plan owns are removed.
        previous: The manifest of the last build; rows whose file is gone or altered count as changed.
        policy: What may be fetched.
        progress: Told how many documents of how many are done.

    Returns:
        One row a file name, in the order of the plan and of each document's names.

    Raises:
        InputError: `corpus_is_link`, `foreign_folder`.
        ServiceError: The browser cannot be used.
    """
    names = [name.name for document in planned for name in document.names]
    if len(set(names)) != len(names):
        raise ValueError("a file name is planned twice")
    # Asked for when the first page is looked at: a corpus of ready PDFs needs no browser.
    fingerprint = functools.cache(lambda: renderer_fingerprint(find_browser()))
    rows: dict[int, list[CorpusDocument]] = {}
    known = defaultdict(list)
    for row in previous:
        known[row.key].append(row)
    with CorpusFolder(corpus_dir) as folder:
        for index, document in enumerate(planned):
            kept = _unchanged(document, known[document.key], folder, fingerprint)
            if kept is not None:
                rows[index] = kept
        changed = [index for index in range(len(planned)) if index not in rows]
        if progress is not None:
            progress(len(rows), len(planned))
        if changed:
            work = [(index, planned[index]) for index in changed]
            asyncio.run(_build(work, rows, folder, _Means(policy, fingerprint), progress))
        folder.remove_all_but(row.file_name for done in rows.values() for row in done if row.origin != "missing")
    return [row for index in range(len(planned)) for row in rows[index]]


async def _build(
    changed: list[tuple[int, PlannedDocument]],
    rows: dict[int, list[CorpusDocument]],
    folder: CorpusFolder,
    means: "_Means",
    progress: Progress | None,
) -> None:
    total = len(rows) + len(changed)
    waiting = iter(changed)

    async def work() -> None:
        for index, document in waiting:
            start = time.perf_counter()
            try:
                row, pdf = await means.make(document)
            except DocumentError as error:
                row = _missing(document, error)
            else:
                folder.publish([name.name for name in document.names], pdf)
            rows[index] = _named(replace(row, seconds=time.perf_counter() - start), document.names)
            if progress is not None:
                progress(len(rows), total)

    async with means:
        workers = [asyncio.create_task(work()) for _ in range(PAGES_A_CORE * (os.cpu_count() or 1))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


class _Means:
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
            return replace(row, pages=count_pages(body.data)), body.data
        printed = await self._render(body)
        row = replace(
            row,
            flags=printed.flags,
            origin="rendered",
            pdf_sha256=hashlib.sha256(printed.pdf).hexdigest(),
            renderer=self._fingerprint(),
            pages=count_pages(printed.pdf),
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


def _unchanged(
    document: PlannedDocument, known: Sequence[CorpusDocument], folder: CorpusFolder, fingerprint: Fingerprint
) -> list[CorpusDocument] | None:
    """The rows of a document for which nothing is to be done but to give its file all its names."""
    row = next((r for r in known if r.pdf_sha256 is not None and folder.digest(r.file_name) == r.pdf_sha256), None)
    if row is None or not _same_body(document, row, fingerprint):
        return None
    for name in document.names:
        if folder.digest(name.name) != row.pdf_sha256:
            folder.add_name(row.file_name, name.name)
    flags = tuple(flag for flag in row.flags if flag not in NAME_FLAGS)
    return _named(replace(row, flags=flags), document.names)


def _same_body(document: PlannedDocument, row: CorpusDocument, fingerprint: Fingerprint) -> bool:
    if document.body == "url":
        return row.final_url is not None  # what was fetched stays until someone asks for it anew
    try:
        body = local_body(document)
    except DocumentError:
        return False
    if hashlib.sha256(body.data).hexdigest() != row.body_sha256:
        return False
    if row.origin == "kept":
        return True
    return (
        row.renderer == fingerprint()
        and row.shown_url == body.url
        and (body.folder is None or resources_unchanged(body.folder, row.resources))
    )


def _missing(document: PlannedDocument, error: DocumentError) -> CorpusDocument:
    return CorpusDocument(
        key=document.key,
        file_name="",
        url=None,
        final_url=None,
        flags=(),
        origin="missing",
        body_sha256=None,
        pdf_sha256=None,
        renderer=None,
        pages=0,
        error_code=error.code,
        error=error.message,
    )


def _named(row: CorpusDocument, names: Sequence[FileName]) -> list[CorpusDocument]:
    """The row under each name of its document."""
    return [replace(row, file_name=name.name, url=name.url, flags=(*name.flags, *row.flags)) for name in names]
