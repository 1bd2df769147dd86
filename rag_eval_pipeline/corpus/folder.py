"""The corpus folder on disk: documents appear whole or not at all, and it contains nothing but documents.

A RAG server's ingestion takes every file in the folder, so temp files are beside it, and links are not followed.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.files import atomic_write, atomic_write_all, fsync_folder


class CorpusFolder:
    """One benchmark's corpus during a build.

    Args:
        path: Made when missing, with its parents.

    Raises:
        InputError: On entering: `corpus_is_link`, `foreign_folder`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temp = path.parent / f".tmp-{path.name}"
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._temp, ignore_errors=True)

    def digest(self, name: str) -> str | None:
        """Return the SHA-256 of a document; None when there is no regular file of that name."""
        if name not in self._digests:
            self._digests[name] = self._read_digest(name)
        return self._digests[name]

    def publish_all(self, documents: Sequence[tuple[Sequence[str], bytes]]) -> None:
        """Write documents, each under its names, which are hard links where the disk supports them.

        The disk is waited for once for all of them.
        """
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

    def _read_digest(self, name: str) -> str | None:
        try:
            descriptor = os.open(self._file(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
