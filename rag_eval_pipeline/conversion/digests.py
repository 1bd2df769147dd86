"""Digests of a benchmark's local files, cheap enough for a sensor that asks every 30 seconds."""

import contextlib
import hashlib
import os
from pathlib import Path

from rag_eval_pipeline.workspace import BenchmarkPaths

# (path, size, mtime) -> sha256, for the life of the process. A file rewritten to the same size within one clock tick is
# not seen; the next conversion, in its own process, sees it.
_known: dict[tuple[str, int, int], str] = {}


def file_sha256(path: Path) -> str:
    """sha256 of a file, in hex; read again only when size or modification time changed."""
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _known:
        _known[key] = sha256_of(path)
    return _known[key]


def sha256_of(path: Path) -> str:
    """sha256 of a file, in hex, read now."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


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
