"""Atomic files, digests and temporary folders.

Readers see a file's old content or the new, never a part: temp file, fsync, rename, fsync of the folder. A file that is
replaced keeps its mode, and a link to it stays; a new one gets the mode that the umask leaves, because a RAG server
under another user has to read the corpus. Errors of the file system name the target.
"""

import contextlib
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

TEMP_PREFIX = ".tmp-"  # names do not derive from the target: a stem of 255 bytes leaves no room for a suffix


class _TargetFile(io.FileIO):
    """A temp file whose errors name its target."""

    def __init__(self, path: Path, target: Path) -> None:
        with errors_about(target):
            super().__init__(path, "xb")
        self._target = target

    def write(self, data: Any) -> Any:
        with errors_about(self._target):
            return super().write(data)


@contextlib.contextmanager
def errors_about(target: Path) -> Iterator[None]:
    """Make errors of the file system name the target: a write names no file, and the temp file's name says nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(target)
        raise


def temp_path(folder: Path) -> Path:
    """Return an unused path in a folder, for a file that will be renamed."""
    return folder / f"{TEMP_PREFIX}{secrets.token_hex(8)}"


def _discard(temp: Path) -> None:
    """Remove a temp file if there is one; what fails here is not why it is removed."""
    with contextlib.suppress(OSError):
        temp.unlink()


def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Go through a folder as `os.walk`, which silently leaves out what it cannot list; here that is an error.

    What has gone meanwhile is left out.
    """
    return os.walk(folder, onerror=_raise_unless_gone)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def fsync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with errors_about(folder):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def publishing(target: Path, *, temp_folder: Path | None = None, waits_for_disk: bool = True) -> Iterator[BinaryIO]:
    """Yield a file that is published as `target` if the block succeeds and removed if it fails.

    The temp file is in `temp_folder`, of the same filesystem, or beside the target, which may then be a link.

    Args:
        waits_for_disk: Without it, the file may be old, empty or a part after a power cut, until `sync_files`.
    """
    target = Path(os.path.realpath(target)) if temp_folder is None and target.is_symlink() else target
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = temp_folder or target.parent
    with errors_about(target):
        folder.mkdir(parents=True, exist_ok=True)
    temp = temp_path(folder)
    raw = _TargetFile(temp, target)
    try:
        with io.BufferedWriter(raw) as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            if waits_for_disk:
                with errors_about(target):
                    os.fsync(file.fileno())
        with errors_about(target):
            os.replace(temp, target)
    except BaseException:
        _discard(temp)
        raise
    if waits_for_disk:
        fsync_folder(target.parent)


def sync_files(paths: Sequence[Path]) -> None:
    """Make files and their names durable that were published without waiting for the disk."""
    for path in paths:
        with errors_about(path), path.open("rb") as file:
            os.fsync(file.fileno())
    for folder in {path.parent for path in paths}:
        fsync_folder(folder)


def publish(temp: Path, target: Path) -> None:
    """Publish a finished file of the same filesystem by moving it; its mode stays."""
    with errors_about(target):
        with temp.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temp, target)
    fsync_folder(target.parent)


def atomic_write(target: Path, data: bytes, *, temp_folder: Path | None = None) -> None:
    """Publish bytes under a path."""
    with publishing(target, temp_folder=temp_folder) as file:
        file.write(data)


def replace_file(target: Path, data: bytes) -> None:
    """Publish bytes under a path without waiting for the disk; after a power cut the file may be old, empty or a part.

    For what is checked when it is read, or written again soon.
    """
    temp = temp_path(target.parent)
    try:
        try:
            temp.write_bytes(data)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            temp.write_bytes(data)
        os.replace(temp, target)
    except OSError as error:
        _discard(temp)
        error.filename = str(target)
        raise


def atomic_write_all(files: Sequence[tuple[Path, bytes]], *, temp_folder: Path) -> None:
    """Publish several files of one existing folder, each whole or not at all.

    All files are written before the first fsync, and the folder is synced once: half the time of single writes.
    """
    with errors_about(temp_folder.parent):
        temp_folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        written: list[tuple[BinaryIO, Path, Path]] = []
        for target, data in files:
            temp = temp_path(temp_folder)
            raw = _TargetFile(temp, target)
            stack.callback(_discard, temp)
            file: BinaryIO = stack.enter_context(io.BufferedWriter(raw))
            file.write(data)
            file.flush()
            written.append((file, temp, target))
        for file, _, target in written:
            with errors_about(target):
                os.fsync(file.fileno())
        for _, temp, target in written:
            with errors_about(target):
                os.replace(temp, target)
    for folder in {target.parent for target, _ in files}:
        fsync_folder(folder)


def atomic_write_json(target: Path, value: Any) -> None:
    """Publish a value as readable JSON; a NaN or an infinity is a ValueError."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write(target, text.encode() + b"\n")


# (path, size, mtime) -> sha256, for the life of the process: a sensor asks every 30 seconds. A file rewritten to the
# same size within one clock tick is not noticed; the next conversion, in its own process, notices it.
_known: dict[tuple[str, int, int], str] = {}


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file in hex; read again only if size or modification time changed."""
    status = path.stat()
    key = (str(path), status.st_size, status.st_mtime_ns)
    if key not in _known:
        _known[key] = sha256_of(path)
    return _known[key]


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file in hex, read now."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def remove_leftover(path: Path) -> None:
    """Remove a temporary file or folder left by a killed process; it may have gone meanwhile."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class ScratchFolder:
    """A new folder among the machine's temporary files, removed with its last reference or with the process."""

    def __init__(self, purpose: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"rag-eval-{purpose}-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
