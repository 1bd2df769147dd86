"""Read and write parquet files as rows, at once or as a stream, and keep Arrow's memory in bounds."""

import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.storage import arrow

if arrow.is_own_process:
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own takes 4 MB at its first use
arrow.skip_pandas()

# malloc.h: parameter and value
_MALLOC_OPTIONS = {
    -8: 2,  # M_ARENA_MAX
    -3: 16 << 20,  # M_MMAP_THRESHOLD: a block's columns need not be mapped anew, page by page, for each block
    -1: 32 << 20,  # M_TRIM_THRESHOLD
}
_BATCH_ROWS = 1024
_ROW_GROUP_ROWS = 1 << 20  # as `pq.write_table`


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    """Open a file to read from; damage is a `pyarrow.ArrowException`, an OSError is the machine's.

    Args:
        options: Of `pyarrow.parquet.ParquetFile`.
    """
    with path.open("rb") as file:
        file.read(1)  # errors of Python have a number and the file's name, and a disk's are no damage
    # Arrow reads by a file of its own: a thread of Arrow that lets go of one of Python's aborts the process if Python
    # is just ending. Not by the path, which pyarrow takes for a URI when it looks like one.
    with raise_damage(), pa.OSFile(os.fsencode(path)) as opened, pq.ParquetFile(opened, **options) as parquet:
        yield parquet


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return all rows of a file in order; errors as `read_table`."""
    return list(iterate_rows(path))


def read_table(path: Path) -> pa.Table:
    """Return a file's table; errors as `open_parquet`."""
    # `pq.read_table` would import pyarrow.dataset, which takes 0.27 s.
    with open_parquet(path) as file:
        return file.read()


def iterate_rows(
    path: Path, rows: range | None = None, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield rows in order, or those at consecutive positions, a thousand at a time; errors as `read_rows`."""
    with open_parquet(path) as file:
        wanted = range(file.metadata.num_rows) if rows is None else rows
        at = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
            if at >= wanted.stop:
                return
            first, last = max(wanted.start - at, 0), min(wanted.stop - at, len(batch))
            if first < last:
                yield from batch.slice(first, last - first).to_pylist()
            at += len(batch)


def count_rows(path: Path) -> int:
    """Return the number of rows of a file."""
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


def write_rows(
    file: BinaryIO,
    rows: Iterable[dict[str, Any]],
    schema: pa.Schema,
    *,
    size: Callable[[dict[str, Any]], int] | None = None,
    row_group_size: int = 0,
) -> None:
    """Write rows as they come; equal rows give equal bytes, and up to one row group those of `pq.write_table`.

    Args:
        size: Of a row; a row group ends with the row that brings it to `row_group_size`, or after 1,048,576 rows.
    """
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _row_groups(rows, schema, size, row_group_size):
            writer.write_table(pa.Table.from_batches(group, schema=schema).combine_chunks(), _ROW_GROUP_ROWS)


def _row_groups(
    rows: Iterable[dict[str, Any]], schema: pa.Schema, size: Callable[[dict[str, Any]], int] | None, limit: int
) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    waiting: list[dict[str, Any]] = []  # as dicts rows take several times as much memory
    count = weight = groups = 0
    for row in rows:
        waiting.append(row)
        count += 1
        weight += 0 if size is None else size(row)
        is_full = count == _ROW_GROUP_ROWS or (size is not None and weight >= limit)
        if is_full or len(waiting) == _BATCH_ROWS:
            group.append(pa.RecordBatch.from_pylist(waiting, schema=schema))
            waiting = []
        if is_full:
            yield group
            group, count, weight, groups = [], 0, 0, groups + 1
    if waiting:
        group.append(pa.RecordBatch.from_pylist(waiting, schema=schema))
    if group or not groups:
        yield group


@contextmanager
def raise_damage() -> Iterator[None]:
    """Raise `pyarrow.ArrowInvalid` for damage that Arrow reports as an OSError without an error number, or as text."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(str(error)) from error
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
        for option, value in _MALLOC_OPTIONS.items():
            mallopt(option, value)


def return_memory() -> None:
    """Return what was freed to the system, after a step that needed much; glibc keeps it otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
