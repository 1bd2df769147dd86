"""The renderer alone: URLs and files to PDFs in any folder, named as in a corpus.

Unlike a corpus, the folder may hold whatever it likes: nothing in it is removed, and nothing is replaced unless asked
for. A manifest, where one is named, remembers which document has which name, and what need not be fetched again.
"""

import contextlib
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_eval_pipeline.corpus.builder import Progress, build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.egress.policy import EgressPolicy
from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest
from rag_eval_pipeline.corpus.naming import NameIdentity, NameRequest, assign_names, document_key, pins
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import TEMP_PREFIX, fsync_folder

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(source: str) -> bool:
    """Whether a source is meant as a URL; anything without a scheme is a path."""
    return _SCHEME.match(source) is not None


def plan_documents(sources: Sequence[str], pinned: Mapping[NameIdentity, str] | None = None) -> list[PlannedDocument]:
    """Documents with their file names: URLs that differ in their fragment only are one, under two names.

    Args:
        sources: URLs and paths; one that stands twice is one.
        pinned: Names of an earlier manifest.
    """
    distinct = list(dict.fromkeys(source if is_url(source) else os.path.normpath(source) for source in sources))
    requests = [
        NameRequest(document_key(source), url=source) if is_url(source) else NameRequest(source, name=Path(source).name)
        for source in distinct
    ]
    names: dict[tuple[str, bool], dict[str, FileName]] = defaultdict(dict)
    first: dict[tuple[str, bool], str] = {}
    for source, request, name in zip(distinct, requests, assign_names(requests, pinned), strict=True):
        document = request.key, request.url is not None
        names[document].setdefault(name.name, name)
        first.setdefault(document, source)
    return [
        PlannedDocument(key, tuple(own.values()), "url", url=first[key, True])
        if fetched
        else PlannedDocument(key, tuple(own.values()), "file", path=Path(key).absolute())
        for (key, fetched), own in names.items()
    ]


def render_documents(
    sources: Sequence[str],
    out: Path,
    policy: EgressPolicy,
    *,
    manifest: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[CorpusDocument]:
    """Renders URLs and files; each PDF appears in the folder, whole, as soon as it is made.

    Args:
        sources: URLs, and paths of HTML, text, Markdown and PDF files.
        out: Made when missing.
        policy: What may be fetched.
        manifest: As `documents.parquet`; read when it is there, and written even when the rendering is broken off.
            Documents in it keep their names, are made again only when they have changed or their file has, and a page
            that was fetched counts as unchanged. Rows of documents that are not among the sources stay.
        overwrite: Render all anew, and let the PDFs take the place of what has their names.
        progress: Told how many documents of how many are done.

    Returns:
        One row a file name, in the order of the sources.

    Raises:
        InputError: `file_exists` before anything is fetched.
        ServiceError: The browser cannot be used.
    """
    previous = read_manifest(manifest) if manifest is not None else []
    planned = plan_documents(sources, pins(previous))
    out.mkdir(parents=True, exist_ok=True)
    if not overwrite:
        _require_free(out, planned, owned={row.file_name for row in previous})
    made: list[CorpusDocument] = []
    try:
        with tempfile.TemporaryDirectory(prefix=TEMP_PREFIX, dir=out) as temp:
            staging = Path(temp) / "made"
            staging.mkdir()
            known = [] if overwrite else _lend(previous, out, staging)

            def keep(rows: Sequence[CorpusDocument]) -> None:
                _move(rows, staging, out)
                made.extend(rows)

            made = build_corpus(planned, staging, known, policy, progress=progress, keep=keep)
            _move([row for row in made if row.origin != "missing"], staging, out)
    finally:
        if manifest is not None:
            write_manifest(manifest, _merged(previous, made))
    return made


def _require_free(out: Path, planned: Sequence[PlannedDocument], owned: set[str]) -> None:
    """Without a manifest nobody knows whether a file is this document or another one of the same name."""
    for document in planned:
        for name in document.names:
            if name.name not in owned and os.path.lexists(out / name.name):
                raise InputError(
                    "file_exists",
                    out / name.name,
                    f"no file of this name yet, which is that of {name.url or document.key}",
                    hint="--overwrite replaces it; with --manifest FILE from the first time on, names are told apart.",
                )


def _lend(previous: Sequence[CorpusDocument], out: Path, staging: Path) -> list[CorpusDocument]:
    """Shows the build the files that are there, so that it need not make them again."""
    for row in previous:
        with contextlib.suppress(OSError):  # gone, or a disk without hard links: then it is made anew
            os.link(out / row.file_name, staging / row.file_name, follow_symlinks=False)
    return list(previous)


def _move(rows: Sequence[CorpusDocument], staging: Path, out: Path) -> None:
    for row in rows:
        with contextlib.suppress(FileNotFoundError):  # moved as soon as it was made
            os.replace(staging / row.file_name, out / row.file_name)
    fsync_folder(out)


def _merged(previous: Sequence[CorpusDocument], made: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """All rows, the newer ones in place of the older; that a document could not be had anew does not undo its file."""
    rows = {row.file_name: row for row in previous}
    for row in made:
        if row.origin != "missing" or row.file_name not in rows:
            rows[row.file_name] = row
    return list(rows.values())
