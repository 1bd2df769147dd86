"""Publishing a file: readers see the old content or the new, never a part, whatever kills the writer.

Temp file beside the target, fsync, rename, fsync of the folder. The temp file is made with the mode that the umask
leaves, which rename keeps: a RAG server under another user has to read the corpus. (`mkstemp` makes files 0600, and the
umask can only be read by setting it, for all threads.) Errors of the file system name the target.
"""

import contextlib
import io
import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

TEMP_PREFIX = ".tmp-"  # names never derive from the target: a stem of 255 bytes leaves no room for a suffix


class _TargetFile(io.FileIO):
    """A new file that stands for another until it is published; its errors name that one."""

    def __init__(self, path: Path, target: Path) -> None:
        with _errors_about(target):
            super().__init__(path, "xb")
        self._target = target

    def write(self, data: Any) -> Any:
        with _errors_about(self._target):
            return super().write(data)


@contextlib.contextmanager
def _errors_about(target: Path) -> Iterator[None]:
    """Has errors of the file system name the target: writing names no file, and the temp file's name says nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(target)
        raise


def temp_path(folder: Path) -> Path:
    """Return a path in a folder that nothing has, for what is to be renamed."""
    return folder / f"{TEMP_PREFIX}{secrets.token_hex(8)}"


def fsync_folder(folder: Path) -> None:
    """Makes renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def publishing(target: Path, *, temp_folder: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, published under `target` when the block ends well and removed when it does not.

    Args:
        target: The final path; its folder is made when missing.
        temp_folder: Where the temp file lies; on the same filesystem. The target's own folder unless given.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = temp_folder or target.parent
    folder.mkdir(parents=True, exist_ok=True)
    temp = temp_path(folder)
    raw = _TargetFile(temp, target)
    try:
        with io.BufferedWriter(raw) as file:
            yield file
            file.flush()
            with _errors_about(target):
                os.fsync(file.fileno())
        with _errors_about(target):
            os.replace(temp, target)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    fsync_folder(target.parent)


def publish(temp: Path, target: Path) -> None:
    """Publishes a finished file that lies on the same filesystem by moving it; its mode stays."""
    with _errors_about(target):
        with temp.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temp, target)
    fsync_folder(target.parent)


def atomic_write(target: Path, data: bytes, *, temp_folder: Path | None = None) -> None:
    """Publishes bytes under a path."""
    with publishing(target, temp_folder=temp_folder) as file:
        file.write(data)


def atomic_write_all(files: Sequence[tuple[Path, bytes]], *, temp_folder: Path) -> None:
    """Publishes several files of one folder, each whole or not at all.

    The disk is given all of them before the first is waited for, and the folder is waited for once: half the time of
    `atomic_write` one after the other.

    Args:
        files: Final paths, all in one folder, which exists, and the bytes.
        temp_folder: Where the temp files lie; on the same filesystem.
    """
    temp_folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        written: list[tuple[BinaryIO, Path, Path]] = []
        for target, data in files:
            temp = temp_path(temp_folder)
            raw = _TargetFile(temp, target)
            stack.callback(temp.unlink, missing_ok=True)
            file: BinaryIO = stack.enter_context(io.BufferedWriter(raw))
            file.write(data)
            file.flush()
            written.append((file, temp, target))
        for file, _, target in written:
            with _errors_about(target):
                os.fsync(file.fileno())
        for _, temp, target in written:
            with _errors_about(target):
                os.replace(temp, target)
    for folder in {target.parent for target, _ in files}:
        fsync_folder(folder)


def atomic_write_json(target: Path, value: Any) -> None:
    """Publishes a value as readable JSON: two spaces, UTF-8, one newline at the end; NaN is refused.

    Raises:
        ValueError: A NaN or an infinity, which JSON cannot carry.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write(target, text.encode() + b"\n")
