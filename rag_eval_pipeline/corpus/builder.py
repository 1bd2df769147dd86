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
from dataclasses import replace
from pathlib import Path

from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError, FileName, PlannedDocument
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.bodies import local_body
from rag_eval_pipeline.corpus.folder import CorpusFolder
from rag_eval_pipeline.corpus.naming import NAME_FLAGS
from rag_eval_pipeline.corpus.press import Fingerprint, Press
from rag_eval_pipeline.corpus.rendering.executable import find_browser
from rag_eval_pipeline.corpus.rendering.pages import renderer_fingerprint
from rag_eval_pipeline.corpus.rendering.serving import resources_unchanged

PAGES_A_CORE = 2  # open at once: a page waits for the disk and the network about half of its time

Progress = Callable[[int, int], None]
Keep = Callable[[Sequence[CorpusDocument]], None]


def build_corpus(
    planned: Sequence[PlannedDocument],
    corpus_dir: Path,
    previous: Sequence[CorpusDocument],
    policy: EgressPolicy,
    *,
    progress: Progress | None = None,
    keep: Keep = lambda rows: None,
) -> list[CorpusDocument]:
    """Brings a corpus folder in line with a plan.

    Args:
        planned: Documents with their names; file names must be distinct.
        corpus_dir: Made when missing. Files in it that no document of the plan owns are removed.
        previous: The manifest of the last build; rows whose file is gone or altered count as changed.
        policy: What may be fetched.
        progress: Told how many documents of how many are done.
        keep: Given the rows of each document whose files have just come into the corpus. What a killed build kept is
            added to `previous` of the next one, which then makes only the rest.

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
            try:
                asyncio.run(_build(work, rows, folder, Press(policy, fingerprint), progress, keep))
            except _Interrupted as interrupted:
                raise interrupted.error from None
        folder.remove_all_but(row.file_name for done in rows.values() for row in done if row.origin != "missing")
    return [row for index in range(len(planned)) for row in rows[index]]


class _Interrupted(Exception):
    """Carries what asyncio lets break out of the loop at once, leaving no time to end the browser in good order."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def _build(
    changed: list[tuple[int, PlannedDocument]],
    rows: dict[int, list[CorpusDocument]],
    folder: CorpusFolder,
    press: Press,
    progress: Progress | None,
    keep: Keep,
) -> None:
    total = len(rows) + len(changed)
    waiting = iter(changed)

    async def work() -> None:
        for index, document in waiting:
            start = time.perf_counter()
            try:
                row, pdf = await press.make(document)
            except DocumentError as error:
                row = _missing(document, error)
            else:
                folder.publish([name.name for name in document.names], pdf)
            rows[index] = _named(replace(row, seconds=time.perf_counter() - start), document.names)
            if row.origin != "missing":
                keep(rows[index])
            if progress is not None:
                try:
                    progress(len(rows), total)
                except (KeyboardInterrupt, SystemExit) as error:
                    raise _Interrupted(error) from error

    async with press:
        workers = [asyncio.create_task(work()) for _ in range(PAGES_A_CORE * (os.cpu_count() or 1))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


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
