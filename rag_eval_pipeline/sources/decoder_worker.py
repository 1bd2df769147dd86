"""The child's side of `decoder`: limits, the result, and an Arrow file with batches of limited size."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from rag_eval_pipeline.storage import arrow
from rag_eval_pipeline.storage.process import set_limits

STANDARD_INPUT = "/dev/stdin"
TARGET_BYTES = 2 << 20  # of a batch in the Arrow file
TARGET_ROWS = 4_096

Decode = Callable[[Path, Mapping[str, Any]], dict[str, Any]]
"""Decodes standard input into a folder by a job, and returns what is to be said besides the rows."""


class TooLargeError(Exception):
    """The decoded rows exceed the limit."""


class WriteError(Exception):
    """The rows could not be written; the cause is an error of the disk and not of the file."""


class RefusedError(Exception):
    """The file cannot be used; `facts` are those of an `InputError`."""

    def __init__(self, expected: str, found: object, **facts: str) -> None:
        super().__init__(expected)
        self.facts: dict[str, Any] = {"expected": expected, "found": found, **facts}


def run_worker(folder: Path, decode: Decode, whole: str, damages: tuple[type[Exception], ...]) -> None:
    """Decode standard input and write the result.

    Args:
        whole: What is expected of a file that raises one of `damages`.
    """
    arrow.is_own_process = True
    arrow.skip_pandas()
    job = json.loads((folder / "job.json").read_text())
    pa.set_cpu_count(1)  # the memory that a batch needs must not depend on the number of processors
    set_limits(memory_bytes=job["memory_bytes"], file_bytes=2 * job["max_bytes"] + TARGET_BYTES)
    result: dict[str, Any]
    try:
        result = decode(folder, job)
    except RefusedError as error:
        result = error.facts
    except TooLargeError as error:
        result = {"expected": f"at most {job['max_bytes']:,} decoded bytes", "found": str(error)}
    except MemoryError:
        result = {"expected": f"rows that are decoded within {job['memory_bytes'] >> 20:,} MB", "found": "larger ones"}
    except WriteError as error:
        result = {"errno": getattr(error.__cause__, "errno", None), "message": str(error.__cause__)}
    except damages as error:
        result = {"expected": whole, "found": (str(error).splitlines() or [type(error).__name__])[0]}
    (folder / "result.json").write_text(json.dumps(result))


def write_rows(folder: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], max_bytes: int) -> None:
    """Write `rows.arrow`; an error of the disk is a `WriteError`, and more than `max_bytes` a `TooLargeError`."""
    size = 0
    try:
        writer = pa.ipc.new_file(str(folder / "rows.arrow"), schema)
    except OSError as error:
        raise WriteError from error
    for batch in gathered(batches):
        size += batch.nbytes
        if size > max_bytes:
            raise TooLargeError(f"{size:,}")
        try:
            writer.write_batch(batch)
        except OSError as error:
            raise WriteError from error
    try:
        writer.close()
    except OSError as error:
        raise WriteError from error


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of the target's size; a larger row is a batch by itself."""
    waiting: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        for part in _halved(batch):
            part_bytes = part.nbytes
            if waiting and (rows + part.num_rows > TARGET_ROWS or size + part_bytes > TARGET_BYTES):
                yield pa.concat_batches(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(part)
            rows, size = rows + part.num_rows, size + part_bytes
    if waiting:
        yield pa.concat_batches(waiting)


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that fit the target, as far as its rows do."""
    if batch.num_rows > 1 and batch.nbytes > TARGET_BYTES:
        half = batch.num_rows // 2
        yield from _halved(batch.slice(0, half))
        yield from _halved(batch.slice(half))
    else:
        yield batch
