"""Digests of a benchmark's local files, cheap enough for a sensor that asks every 30 seconds."""

import contextlib
import hashlib
import os
from pathlib import Path

from rag_eval_pipeline.storage.digests import file_sha256
from rag_eval_pipeline.workspace import BenchmarkPaths


def source_digest(paths: BenchmarkPaths) -> str:
    """sha256 over the path and content of every regular file in the benchmark's folder; no spec is read, no SQL is run.

    All of them count, because rows may name any of them as a document's body, and only the SQL could tell which.
    Symbolic links are left out: nothing is read through them.
    """
    digest = hashlib.sha256()
    for relative in sorted(local_files(paths.source)):
        with contextlib.suppress(FileNotFoundError):  # an editor's temporary file, gone since it was listed
            line = f"{relative}\0{file_sha256(paths.source / relative)}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def local_files(folder: Path) -> list[str]:
    """Paths of the regular files below a folder, relative to it; links are neither listed nor followed."""
    found = []
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(parent, name))]
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, folder))
    return found
