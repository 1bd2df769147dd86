"""Locks between processes: a conversion holds a benchmark alone, evaluations share it.

`flock` on a file beside the data is released by the kernel when its holder dies, so there are no stale locks. The file
names the exclusive holder, for the message of those who wait.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.atomic_files import TEMP_PREFIX, errors_about

WAIT_SECONDS = 600.0  # longer than a conversion of a few hundred pages
POLL_SECONDS = 0.2
working_run: ContextVar[str | None] = ContextVar("working_run", default=None)  # id of the run that a lock is taken for


@contextlib.contextmanager
def locked(path: Path, *, holder: str, exclusive: bool, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold a lock for a block.

    Args:
        path: Created, and never removed, because two holders could then lock two files.
        holder: Named in the messages of others (`convert frames, process 412`).

    Raises:
        ServiceError: `locked`, naming the holder, after the wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        _acquire(descriptor, path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, wait_seconds)
        if exclusive:
            with errors_about(path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder.encode(), 0)
        try:
            yield
        finally:
            if exclusive:  # the message of a later waiter must not name a process that is gone
                with contextlib.suppress(OSError):  # the work is done
                    os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def temporary_folder(
    parent: Path, purpose: str, *, rescue: Callable[[Path], None] = lambda folder: None
) -> Iterator[Path]:
    """Yield a new folder, removed at the end, in a place that belongs to a user; killed processes' are removed first.

    Args:
        purpose: A part of the name: only folders of the same purpose are removed.
        rescue: Called with each folder before it is removed.
    """
    prefix = f"{TEMP_PREFIX}{purpose}-"
    for left in [path for path in parent.iterdir() if path.name.startswith(prefix)]:
        with (
            contextlib.suppress(ServiceError),  # a living process holds its own
            locked(left / ".lock", holder=f"process {os.getpid()}", exclusive=True, wait_seconds=0),
        ):
            rescue(left)
            shutil.rmtree(left, ignore_errors=True)
    folder = parent / f"{prefix}{secrets.token_hex(8)}"
    with errors_about(parent):
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".lock", holder=f"process {os.getpid()}", exclusive=True))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            yield folder
        finally:
            rescue(folder)
            shutil.rmtree(folder, ignore_errors=True)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _acquire(descriptor: int, path: Path, kind: int, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 200, 0).decode(errors="backslashreplace") or "an evaluation or a shard"
                raise ServiceError(
                    "locked", f"{path.parent.name} is in use by {holder}", hint="Wait for it, or end that process."
                ) from None
            time.sleep(POLL_SECONDS)
        else:
            return
