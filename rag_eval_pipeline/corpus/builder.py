"""Building a corpus: planned documents in, PDFs and the rows of the manifest out.

What has not changed is left alone: nothing is requested, rendered or written for it, and no browser is started. A
document that cannot be had becomes a row that says why, and never stops the others.
"""

import asyncio
import functools
import hashlib
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from rag_eval_pipeline.corpus.batches import batches
from rag_eval_pipeline.corpus.documents import CorpusDocument, DocumentError, FileName, PlannedDocument
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.fetching.bodies import local_body
from rag_eval_pipeline.corpus.folder import CorpusFolder
from rag_eval_pipeline.corpus.naming import NAME_FLAGS
from rag_eval_pipeline.corpus.press import HANGS, WORDS_SHARE_MIN, Fingerprint, Press
from rag_eval_pipeline.corpus.rechecking import unchecked
from rag_eval_pipeline.corpus.rendering.executable import find_browser
from rag_eval_pipeline.corpus.rendering.pages import renderer_fingerprint
from rag_eval_pipeline.corpus.rendering.printed_words import WORDS_MIN, PrintedWords
from rag_eval_pipeline.corpus.rendering.serving import resources_unchanged
from rag_eval_pipeline.errors import MACHINE_ERRORS, InputError, ServiceError

logger = logging.getLogger(__name__)

PAGES_A_CORE = 2  # open at once: a page waits for the disk and the network about half of its time

Progress = Callable[[int, int], None]
Keep = Callable[[Sequence[CorpusDocument]], None]
LookAgain = Literal["report", "update"]


def build_corpus(
    planned: Sequence[PlannedDocument],
    corpus_dir: Path,
    previous: Sequence[CorpusDocument],
    policy: EgressPolicy,
    *,
    progress: Progress | None = None,
    keep: Keep = lambda rows: None,
    look_again: LookAgain | None = None,
    error_pages: bool = False,
    min_page_words: float = WORDS_SHARE_MIN,
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
        look_again: Whether pages that were fetched on an earlier night are asked for once more, and whether a page that
            has changed then takes the place of its document (`update`) or is reported (`report`).
        error_pages: Whether fetched pages that only say not found, log in, consent or wait are documents.
        min_page_words: Least share of the words of an HTML or Markdown page that its PDF must have; a page that has
            fewer is `page_words_lost`.

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
            if kept is not None and (kept[0].words_seen < WORDS_MIN or _share(kept[0]) >= min_page_words):
                rows[index] = kept
        accepted: dict[int, list[CorpusDocument]] = {}
        if look_again is not None:
            accepted = {index: rows.pop(index) for index in [*rows] if planned[index].body == "url"}
        changed = [index for index in range(len(planned)) if index not in rows]
        if progress is not None:
            progress(len(rows), len(planned))
        if changed:
            work = [_Work(index, planned[index], accepted.get(index, [])) for index in changed]
            press = Press(
                policy,
                fingerprint,
                update=look_again == "update",
                error_pages=error_pages,
                min_page_words=min_page_words,
                hanging=_hanging(previous, fingerprint) if look_again is None else frozenset(),
            )
            try:
                asyncio.run(_build(work, rows, folder, press, progress, keep))
            except _Interrupted as interrupted:
                raise interrupted.error from None
        folder.remove_all_but(row.file_name for done in rows.values() for row in done if row.origin != "missing")
    return [row for index in range(len(planned)) for row in rows[index]]


class _Interrupted(Exception):
    """Carries what asyncio lets break out of the loop at once, leaving no time to end the browser in good order."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _Work(NamedTuple):
    """A document that something is to be done for; with the rows of the one that is accepted, if there is one."""

    place: int
    document: PlannedDocument
    accepted: list[CorpusDocument]


async def _build(
    changed: list[_Work],
    rows: dict[int, list[CorpusDocument]],
    folder: CorpusFolder,
    press: Press,
    progress: Progress | None,
    keep: Keep,
) -> None:
    total = len(rows) + len(changed)
    waiting = batches(changed, lambda piece: piece.document.body)

    async def work() -> None:
        for batch in waiting:
            made = [await _made(piece, press, folder) for piece in batch]
            files = [([row.file_name for row in done], pdf) for done, pdf in made if pdf is not None]
            if files:
                folder.publish_all(files)
            for piece, (done, _) in zip(batch, made, strict=True):
                rows[piece.place] = done
                if done[0].origin != "missing":
                    keep(done)
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


async def _made(piece: _Work, press: Press, folder: CorpusFolder) -> tuple[list[CorpusDocument], bytes | None]:
    """The rows of a document, one a name, and its PDF unless there is none or the one on disk stays."""
    _, document, accepted = piece
    start = time.perf_counter()
    pdf: bytes | None = None
    try:
        if accepted:
            file = folder.path / accepted[0].file_name
            row, pdf = await press.look_again(document, _unnamed(accepted[0]), file)
        else:
            row, pdf = await press.make(document)
    except DocumentError as error:
        row = _missing(document, error, press.fingerprint)
    except (InputError, ServiceError):
        raise  # a setting or the browser, which is every document's
    except Exception as error:
        if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
            raise  # every further document would meet it; the build continues when it is run again
        logger.exception("%s could not be made into a document", document.key)
        message = " ".join(f"{document.url or document.key}: {type(error).__name__}: {error}".split())[:500]
        fault = DocumentError("internal_error", message)
        row = unchecked(_unnamed(accepted[0]), fault) if accepted else _missing(document, fault, press.fingerprint)
    return _named(replace(row, seconds=time.perf_counter() - start), document.names), pdf


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
    return _named(_unnamed(row), document.names)


def _same_body(document: PlannedDocument, row: CorpusDocument, fingerprint: Fingerprint) -> bool:
    if document.body == "url":
        return row.final_url is not None  # what was fetched stays until someone asks for it anew
    try:
        body = local_body(document)
    except Exception:  # is said when the document is made
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


def _hanging(previous: Sequence[CorpusDocument], fingerprint: Fingerprint) -> frozenset[str]:
    """Bodies that hung in the same browser while they were printed: another try would take minutes, each night."""
    rows = [row for row in previous if row.error_code == HANGS and row.body_sha256 is not None]
    return frozenset(row.body_sha256 for row in rows if row.body_sha256 and row.renderer == fingerprint())


def _share(row: CorpusDocument) -> float:
    return PrintedWords(row.words_seen, row.words_printed).share


def _missing(document: PlannedDocument, error: DocumentError, fingerprint: Fingerprint) -> CorpusDocument:
    return CorpusDocument(
        key=document.key,
        file_name="",
        url=None,
        final_url=None,
        flags=(),
        origin="missing",
        body_sha256=error.body_sha256,
        pdf_sha256=None,
        renderer=None if error.body_sha256 is None else fingerprint(),
        pages=0,
        error_code=error.code,
        error=error.message,
    )


def _unnamed(row: CorpusDocument) -> CorpusDocument:
    """The row without what belongs to one of the document's names."""
    return replace(row, flags=tuple(flag for flag in row.flags if flag not in NAME_FLAGS))


def _named(row: CorpusDocument, names: Sequence[FileName]) -> list[CorpusDocument]:
    """The row under each name of its document."""
    return [replace(row, file_name=name.name, url=name.url, flags=(*name.flags, *row.flags)) for name in names]
