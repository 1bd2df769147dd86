"""Locks between processes: a conversion holds a benchmark alone, evaluations share it.

`flock` on a file beside the data: released by the kernel when its holder dies, so no stale lock needs a hand. The file
names the last exclusive holder for the message of those who wait.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from rag_eval_pipeline.errors import ServiceError

WAIT_SECONDS = 600.0  # a conversion of a few hundred pages; longer waits are somebody's mistake
POLL_SECONDS = 0.2


@contextlib.contextmanager
def locked(path: Path, *, holder: str, exclusive: bool, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Holds a lock for a block.

    Args:
        path: The lock file; made when missing, never removed (removing it would let two holders lock two files).
        holder: Who holds it, for others' messages (`convert frames, process 412`).
        exclusive: Alone, or with others that share.
        wait_seconds: How long to wait for a busy lock.

    Raises:
        ServiceError: `locked`, naming the holder, when the wait is over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        _acquire(descriptor, path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, wait_seconds)
        if exclusive:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode(), 0)
        try:
            yield
        finally:
            if exclusive:  # who waits for sharing holders must not be sent to a process that is gone
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, kind: int, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 200, 0).decode(errors="backslashreplace") or "an evaluation"
                raise ServiceError(
                    "locked", f"{path.parent.name} is in use by {holder}", hint="Wait for it, or end that process."
                ) from None
            time.sleep(POLL_SECONDS)
        else:
            return
