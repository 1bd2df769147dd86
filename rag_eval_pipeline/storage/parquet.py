"""Read small parquet files as rows, and keep Arrow's memory in bounds."""

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return all rows of a file in order; errors as `read_table`."""
    rows: list[dict[str, Any]] = read_table(path).to_pylist()
    return rows


def read_table(path: Path) -> pa.Table:
    """Return a file's table; a damaged file is a `pyarrow.ArrowException`, an OSError is the machine's."""
    # A handle and not a path: pyarrow takes a path for a URI when it looks like one, and loses what follows a `#`.
    # `pq.read_table` would import pyarrow.dataset, which takes 0.27 s.
    with raise_damage(), path.open("rb") as handle, pq.ParquetFile(handle) as file:
        return file.read()


@contextmanager
def raise_damage() -> Iterator[None]:
    """Raise `pyarrow.ArrowInvalid` for damage that Arrow reports as an OSError without an error number."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise pa.ArrowInvalid(str(error)) from error
        raise


@functools.cache
def limit_allocators() -> None:
    """Make Arrow and glibc return freed memory to the system, for the rest of the process.

    A million rows pass through a few megabytes at a time. Arrow's own pool and one glibc arena a thread kept 198 MB at
    the peak; the system pool and two arenas keep 88 MB.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    # C libraries other than glibc have no such arenas, and no such function.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
