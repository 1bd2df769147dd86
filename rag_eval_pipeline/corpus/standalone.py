"""Render URLs and files to PDFs in any folder, named as in a corpus.

Unlike a corpus, the folder may contain other files: nothing is removed, or replaced without `overwrite`.
"""

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rag_eval_pipeline.corpus.builder import Progress, build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest
from rag_eval_pipeline.corpus.naming import NameIdentity, NameRequest, assign_names, document_key, pins
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic_files import fsync_folder
from rag_eval_pipeline.storage.lock import temporary_folder
from rag_eval_pipeline.web.egress import EgressPolicy

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(source: str) -> bool:
    """Whether a source is a URL; anything without a scheme is a path."""
    return _SCHEME.match(source) is not None


def plan_documents(sources: Sequence[str], pinned: Mapping[NameIdentity, str] | None = None) -> list[PlannedDocument]:
    """Return the documents with their file names; equivalent URLs are one document."""
    requests = [
        NameRequest(document_key(source), url=source)
        if is_url(source)
        else NameRequest(os.path.normpath(source), name=Path(source).name)
        for source in sources
    ]
    names: dict[tuple[str, bool], dict[str, FileName]] = defaultdict(dict)
    for request, name in zip(requests, assign_names(requests, pinned), strict=True):
        names[request.key, request.url is not None].setdefault(name.name, name)
    return [
        PlannedDocument(key, tuple(own.values()), "url", url=next(iter(own.values())).url)
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
    """Render URLs and files; each PDF appears in the folder, whole, as soon as it is made.

    Args:
        manifest: As `documents.parquet`; read if it exists, and written even if the rendering is interrupted.
            Documents in it keep their names and are made again only if they or their file have changed; a page that
            was fetched counts as unchanged. Rows of documents that are not among the sources stay.
        overwrite: Render all sources again, and replace files that have their names.

    Returns:
        One row per file name, in the order of the sources.

    Raises:
        InputError: `file_exists` before anything is fetched.
    """
    previous = read_manifest(manifest) if manifest is not None else []
    planned = plan_documents(sources, pins(previous))
    out.mkdir(parents=True, exist_ok=True)
    if not overwrite:
        _require_free(out, planned, owned={row.file_name for row in previous})
    made: list[CorpusDocument] = []
    try:
        with temporary_folder(out, "render") as temp:
            staging = temp / "made"
            staging.mkdir()
            known = [] if overwrite else previous
            for row in known:
                with contextlib.suppress(OSError):  # gone, or no hard links on this disk: it is made again
                    os.link(out / row.file_name, staging / row.file_name, follow_symlinks=False)

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
    for document in planned:
        for name in document.names:
            if name.name not in owned and os.path.lexists(out / name.name):
                raise InputError(
                    "file_exists",
                    out / name.name,
                    f"no file with the name of {name.url or document.key}",
                    hint="--overwrite replaces it; with --manifest FILE from the first time on, names are told apart.",
                )


def _move(rows: Sequence[CorpusDocument], staging: Path, out: Path) -> None:
    for row in rows:
        with contextlib.suppress(FileNotFoundError):  # moved as soon as it was made
            os.replace(staging / row.file_name, out / row.file_name)
    fsync_folder(out)


def _merged(previous: Sequence[CorpusDocument], made: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Merge rows, newer ones first; a failed attempt does not replace the row of an existing file."""
    rows = {row.file_name: row for row in previous}
    for row in made:
        if row.origin != "missing" or row.file_name not in rows:
            rows[row.file_name] = row
    return list(rows.values())
