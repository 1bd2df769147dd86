"""Build a corpus: planned documents in, PDFs and the rows of the manifest out.

Unchanged documents cost no request, no rendering and no write. A document that is not available becomes a row with the
reason.
"""

import asyncio
import functools
import hashlib
import logging
import os
import shutil
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from rag_eval_pipeline.corpus.document_renderer import (
    TIMED_OUT,
    WORDS_SHARE_MIN,
    DocumentRenderer,
    Fingerprint,
    with_failed_check,
)
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument, local_body
from rag_eval_pipeline.corpus.naming import NAME_FLAGS
from rag_eval_pipeline.corpus.rendering.browser import find_browser
from rag_eval_pipeline.corpus.rendering.page_loading import resources_unchanged
from rag_eval_pipeline.corpus.rendering.render import PrintedWords, renderer_fingerprint
from rag_eval_pipeline.errors import MACHINE_ERRORS, DocumentError, InputError, ServiceError
from rag_eval_pipeline.storage.atomic_files import atomic_write, atomic_write_all, fsync_folder
from rag_eval_pipeline.web.egress import EgressPolicy

logger = logging.getLogger(__name__)

PAGES_PER_CORE = 2  # open at once, because a page waits for the disk and the network about half of its time
TEXTS_PER_BATCH = 8  # published together, as waiting for the disk takes half the time of a short text

Progress = Callable[[int, int], None]
Keep = Callable[[Sequence[CorpusDocument]], None]
Recheck = Literal["report", "update"]


def build_corpus(
    planned: Sequence[PlannedDocument],
    corpus_dir: Path,
    previous: Sequence[CorpusDocument],
    policy: EgressPolicy,
    *,
    progress: Progress | None = None,
    keep: Keep = lambda rows: None,
    recheck: Recheck | None = None,
    error_pages: bool = False,
    min_page_words: float = WORDS_SHARE_MIN,
    shard: str | None = None,
) -> list[CorpusDocument]:
    """Bring a corpus folder in line with a plan.

    Args:
        planned: Documents with distinct file names.
        corpus_dir: Files in it that no document of the plan owns are removed, unless it is a shard's.
        previous: The manifest of the last build.
        keep: Called with the rows of each published document. After a killed build, add them to `previous`.
        recheck: Fetch known pages again. A changed page replaces its document (`update`) or is reported (`report`).
        error_pages: Whether fetched pages that only say not found, log in, consent or wait are documents.
        min_page_words: Least share of a page's words that its PDF must have.
        shard: Name of a part of a plan that is built while other processes build others.

    Returns:
        One row per file name, in the order of the plan.

    Raises:
        InputError: `corpus_is_link`, `foreign_folder`.
        ServiceError: The browser cannot be used.
    """
    names = [name.name for document in planned for name in document.names]
    if len(set(names)) != len(names):
        raise ValueError("a file name is planned twice")
    # Computed only when the first page is examined: a corpus of finished PDFs needs no browser.
    fingerprint = functools.cache(lambda: renderer_fingerprint(find_browser()))
    rows: dict[int, list[CorpusDocument]] = {}
    known = defaultdict(list)
    for row in previous:
        known[row.key].append(row)
    with CorpusFolder(corpus_dir, shard=shard) as folder:
        for index, document in enumerate(planned):
            kept = _unchanged(document, known[document.key], folder, fingerprint)
            if kept and PrintedWords(kept[0].words_seen, kept[0].words_printed).is_enough(min_page_words):
                rows[index] = kept
        accepted: dict[int, list[CorpusDocument]] = {}
        if recheck is not None:
            accepted = {index: rows.pop(index) for index in [*rows] if planned[index].body == "url"}
        changed = [index for index in range(len(planned)) if index not in rows]
        if progress is not None:
            progress(len(rows), len(planned))
        if changed:
            tasks = [_Task(index, planned[index], next(iter(accepted.get(index, [])), None)) for index in changed]
            renderer = DocumentRenderer(
                policy,
                fingerprint,
                update=recheck == "update",
                error_pages=error_pages,
                min_page_words=min_page_words,
                known_timeouts=_known_timeouts(previous, fingerprint) if recheck is None else frozenset(),
            )
            try:
                asyncio.run(_build(tasks, rows, folder, renderer, progress, keep))
            except _Interrupted as interrupted:
                raise interrupted.args[0] from None
        if shard is None:
            folder.remove_all_but(row.file_name for done in rows.values() for row in done if row.origin != "missing")
    return [row for index in range(len(planned)) for row in rows[index]]


class CorpusFolder:
    """A corpus folder during a build, which contains nothing but whole documents.

    A RAG server ingests every file in the folder, so temp files are beside it, and links are not followed.
    """

    def __init__(self, path: Path, *, shard: str | None = None) -> None:
        self.path = path
        # No benchmark has a ~ in its name.
        self._temp = path.parent / (f".tmp-{path.name}" if shard is None else f".tmp-{path.name}~{shard}")
        self._digests: dict[str, str | None] = {}

    def __enter__(self) -> "CorpusFolder":
        if self.path.is_symlink():
            raise InputError(
                "corpus_is_link", self.path, "a folder", found=os.readlink(self.path), hint="Remove the link."
            )
        self.path.mkdir(parents=True, exist_ok=True)
        for entry in os.scandir(self.path):
            if entry.is_dir(follow_symlinks=False):
                raise InputError(
                    "foreign_folder", entry.path, "nothing but documents in a corpus folder", hint="Move it elsewhere."
                )
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._temp, ignore_errors=True)

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 of a document; None when there is no regular file of that name."""
        if name not in self._digests:
            self._digests[name] = _file_digest(self._file(name))
        return self._digests[name]

    def publish_all(self, documents: Sequence[tuple[Sequence[str], bytes]]) -> None:
        """Write documents, each under its names, which are hard links where the disk supports them."""
        files = [(self._file(names[0]), data) for names, data in documents]
        atomic_write_all(files, temp_folder=self._temp)
        for names, data in documents:
            self._digests[names[0]] = hashlib.sha256(data).hexdigest()
            for name in names[1:]:
                self.add_name(names[0], name)

    def add_name(self, existing: str, name: str) -> None:
        """Give an existing document one more name."""
        self._temp.mkdir(parents=True, exist_ok=True)
        second = self._temp / "link"
        second.unlink(missing_ok=True)
        try:
            os.link(self._file(existing), second, follow_symlinks=False)
        except OSError:  # no hard links on this disk
            atomic_write(self._file(name), self._file(existing).read_bytes(), temp_folder=self._temp)
        else:
            os.replace(second, self._file(name))
            second.unlink(missing_ok=True)  # rename keeps the source if both are already the same file
            fsync_folder(self.path)
        self._digests[name] = self.digest(existing)

    def remove_all_but(self, names: Iterable[str]) -> list[str]:
        """Remove files that no document owns, links included; return their names, sorted."""
        owned = set(names)
        foreign = sorted(entry.name for entry in os.scandir(self.path) if entry.name not in owned)
        for name in foreign:
            (self.path / name).unlink()
        if foreign:
            fsync_folder(self.path)
        return foreign

    def _file(self, name: str) -> Path:
        if "/" in name or "\0" in name or name in {"", ".", ".."}:
            raise ValueError(f"{name!r} is not one path component")
        return self.path / name


def _file_digest(path: Path) -> str | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        if error.errno in MACHINE_ERRORS:
            raise
        return None


class _Interrupted(Exception):
    """Carries an exception that would end the event loop at once, before the browser is closed."""


class _Task(NamedTuple):
    """A document to be made, or to be checked if it has an accepted version."""

    position: int
    document: PlannedDocument
    accepted: CorpusDocument | None


async def _build(
    tasks: list[_Task],
    rows: dict[int, list[CorpusDocument]],
    folder: CorpusFolder,
    renderer: DocumentRenderer,
    progress: Progress | None,
    keep: Keep,
) -> None:
    total = len(rows) + len(tasks)
    waiting = _batches(tasks)

    async def work() -> None:
        for batch in waiting:
            made = [await _run_task(task, renderer, folder) for task in batch]
            files = [([row.file_name for row in done], pdf) for done, pdf in made if pdf is not None]
            if files:
                folder.publish_all(files)
            for task, (done, _) in zip(batch, made, strict=True):
                rows[task.position] = done
                if done[0].origin != "missing":
                    keep(done)
                if progress is not None:
                    try:
                        progress(len(rows), total)
                    except (KeyboardInterrupt, SystemExit) as error:
                        raise _Interrupted(error) from error

    async with renderer:
        workers = [asyncio.create_task(work()) for _ in range(PAGES_PER_CORE * (os.cpu_count() or 1))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


def _batches(tasks: Sequence[_Task]) -> Iterator[list[_Task]]:
    """Yield tasks one by one, and short texts together; each text is still printed on its own."""
    texts = [task for task in tasks if task.document.body == "text"]
    yield from ([task] for task in tasks if task.document.body != "text")
    yield from (texts[at : at + TEXTS_PER_BATCH] for at in range(0, len(texts), TEXTS_PER_BATCH))


async def _run_task(
    task: _Task, renderer: DocumentRenderer, folder: CorpusFolder
) -> tuple[list[CorpusDocument], bytes | None]:
    """Return a document's rows, one per name, and its PDF unless there is none or the one on disk stays."""
    document, accepted = task.document, task.accepted and _unnamed(task.accepted)
    start = time.perf_counter()
    pdf: bytes | None = None
    try:
        if accepted is not None:
            row, pdf = await renderer.recheck(document, accepted, folder.path / accepted.file_name)
        else:
            row, pdf = await renderer.make(document)
    except DocumentError as error:
        row = _missing(document, error, renderer.fingerprint)
    except (InputError, ServiceError):
        raise  # a setting or the browser concerns every document
    except Exception as error:
        if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
            raise  # every further document would fail with it; the next run continues
        logger.exception("%s could not be made into a document", document.key)
        message = " ".join(f"{document.url or document.key}: {type(error).__name__}: {error}".split())[:500]
        fault = DocumentError("internal_error", message)
        row = with_failed_check(accepted, fault) if accepted else _missing(document, fault, renderer.fingerprint)
    return _named(replace(row, seconds=time.perf_counter() - start), document.names), pdf


def _unchanged(
    document: PlannedDocument, known: Sequence[CorpusDocument], folder: CorpusFolder, fingerprint: Fingerprint
) -> list[CorpusDocument] | None:
    """Return the rows of an unchanged document, whose file is given all its names; None if it has to be made."""
    row = next((r for r in known if r.pdf_sha256 is not None and folder.digest(r.file_name) == r.pdf_sha256), None)
    if row is None or not _same_body(document, row, fingerprint):
        return None
    for name in document.names:
        if folder.digest(name.name) != row.pdf_sha256:
            folder.add_name(row.file_name, name.name)
    return _named(_unnamed(row), document.names)


def _same_body(document: PlannedDocument, row: CorpusDocument, fingerprint: Fingerprint) -> bool:
    if document.body == "url":
        return row.final_url is not None  # fetched documents stay until a recheck
    try:
        body = local_body(document)
    except Exception:  # it is reported when the document is made
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


def _known_timeouts(previous: Sequence[CorpusDocument], fingerprint: Fingerprint) -> frozenset[str]:
    """Return the bodies that hung in the same browser; trying them again would take minutes in each build."""
    rows = [row for row in previous if row.error_code == TIMED_OUT]
    return frozenset(row.body_sha256 for row in rows if row.body_sha256 and row.renderer == fingerprint())


def _missing(document: PlannedDocument, error: DocumentError, fingerprint: Fingerprint) -> CorpusDocument:
    renderer = None if error.body_sha256 is None else fingerprint()
    row = CorpusDocument(document.key, "", None, None, (), "missing", error.body_sha256, None, renderer, 0)
    return replace(row, error_code=error.code, error=error.message)


def _unnamed(row: CorpusDocument) -> CorpusDocument:
    """Drop the flags that belong to one of the document's names."""
    return replace(row, flags=tuple(flag for flag in row.flags if flag not in NAME_FLAGS))


def _named(row: CorpusDocument, names: Sequence[FileName]) -> list[CorpusDocument]:
    return [replace(row, file_name=name.name, url=name.url, flags=(*name.flags, *row.flags)) for name in names]
