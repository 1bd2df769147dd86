"""Publishing a file: readers see the old content or the new, never a part, whatever kills the writer.

Temp file beside the target, fsync, rename, fsync of the folder. `mkstemp` makes files 0600 and rename keeps that, so
the mode is set by the umask first: a RAG server under another user has to read the corpus.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

TEMP_PREFIX = ".tmp-"  # names never derive from the target: a stem of 255 bytes leaves no room for a suffix


def _file_mode() -> int:
    mask = os.umask(0)  # the only way to read it; workers that write are single-threaded when they publish
    os.umask(mask)
    return 0o666 & ~mask


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
    descriptor, temp = tempfile.mkstemp(prefix=TEMP_PREFIX, dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), _file_mode())
            os.fsync(file.fileno())
        os.replace(temp, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp)
        raise
    fsync_folder(target.parent)


def publish(temp: Path, target: Path) -> None:
    """Publishes a finished file that lies on the same filesystem by moving it."""
    with temp.open("rb") as file:
        os.fchmod(file.fileno(), _file_mode())
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
        written: list[tuple[BinaryIO, str, Path]] = []
        for target, data in files:
            descriptor, temp = tempfile.mkstemp(prefix=TEMP_PREFIX, dir=temp_folder)
            stack.callback(Path(temp).unlink, missing_ok=True)
            file: BinaryIO = stack.enter_context(os.fdopen(descriptor, "wb"))
            file.write(data)
            file.flush()
            written.append((file, temp, target))
        for file, _, _ in written:
            os.fchmod(file.fileno(), _file_mode())
            os.fsync(file.fileno())
        for _, temp, target in written:
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
