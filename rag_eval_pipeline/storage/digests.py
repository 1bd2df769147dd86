"""SHA-256 digests of the files of a folder, kept from one run to the next.

A file that has the size, times and inode that it had when it was hashed is not read again. As in git's index, a file
that was changed shortly before it was hashed is not trusted: another change within the tick of the file system's clock
would leave the same times. "Shortly before" is counted by the file system's own clock, which may be a server's.
"""

import functools
import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.errors import MACHINE_ERRORS
from rag_eval_pipeline.storage.files import atomic_write

logger = logging.getLogger(__name__)

# FAT has the coarsest clock, two seconds; the times of its files are rounded down, as is the time now.
TICK_NS = 2_000_000_000


class HashedFile(NamedTuple):
    """A digest, and what the file was like when it was computed; the change time cannot be set back as `mtime` can."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    sha256: str


class FolderDigests:
    """The digests of one folder's files.

    Args:
        folder: The folder of the files.
        record: Where digests are kept between runs; without it they are kept in memory only.
        verify: Hash every file again.
        now_ns: Returns the time of the folder's file system.
    """

    def __init__(
        self,
        folder: Path,
        record: Path | None = None,
        *,
        verify: bool = False,
        now_ns: Callable[[Path], int] | None = None,
    ) -> None:
        self.folder = folder
        self._record = record
        self._recorded = {} if record is None else _read(record)
        self._trusted = {} if verify else self._recorded
        self._current: dict[str, HashedFile] = {}
        self._now_ns = functools.cache(now_ns or file_system_time_ns)

    def sha256(self, name: str) -> str | None:
        """Return the digest of a file; None when there is no regular file of that name."""
        path = self.folder / name
        try:
            before = os.stat(path, follow_symlinks=False)
            if not stat.S_ISREG(before.st_mode):
                return None
            known = self._trusted.get(name)
            if known is not None and known == _hashed(before, known.sha256):
                self._current[name] = known
                return known.sha256
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found = _hashed(os.fstat(file.fileno()), hashlib.file_digest(file, "sha256").hexdigest())
                is_steady = found == _hashed(os.fstat(file.fileno()), found.sha256)
        except OSError as error:
            if error.errno in MACHINE_ERRORS:
                raise
            return None
        if is_steady and self._record is not None and self._is_old(found):
            self._current[name] = found
        return found.sha256

    def _is_old(self, file: HashedFile) -> bool:
        return max(file.mtime_ns, file.ctime_ns) < self._now_ns(self.folder) - TICK_NS

    def save(self) -> None:
        """Record the digests of the files that were asked for and may be trusted, unless these are known already."""
        if self._record is not None and self._current != self._recorded:
            atomic_write(self._record, msgspec.json.encode(self._current, order="sorted") + b"\n")


def file_system_time_ns(folder: Path) -> int:
    """Return the time that a file gets which is made beside a folder now."""
    with tempfile.TemporaryFile(dir=folder.parent) as probe:
        return os.fstat(probe.fileno()).st_mtime_ns


def _hashed(status: os.stat_result, sha256: str) -> HashedFile:
    return HashedFile(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, sha256)


def _read(path: Path) -> dict[str, HashedFile]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, HashedFile])
    except FileNotFoundError:
        return {}
    except ValueError as error:
        logger.warning("%s is ignored, and the files are hashed again: %s", path, error)
        return {}
