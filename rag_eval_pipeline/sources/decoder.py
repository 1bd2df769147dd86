"""Decode binary files in a child process with limited memory and a deadline, into Arrow files of batches.

The child reads the file from standard input, `job.json` from its folder, and writes `rows.arrow` and `result.json`: the
error if there was one, and remarks on what it read. `run_decoder` is the parent's side, `run_worker` the child's.
"""

import io
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import DECODED
from rag_eval_pipeline.storage import arrow
from rag_eval_pipeline.storage.process import run_module, set_limits

MEMORY_BYTES = 2 << 30  # address space beyond the interpreter's
DEADLINE_S = 600.0
STANDARD_INPUT = "/dev/stdin"
TARGET_BYTES = 2 << 20  # of a batch in the Arrow file
TARGET_ROWS = 4_096

Decode = Callable[[Path, Mapping[str, Any]], dict[str, Any]]
"""Decodes standard input into a folder by a job, and returns what is to be said besides the rows."""


class Decoder(NamedTuple):
    """A worker module, what it decodes (`a parquet file`), and the code of its errors."""

    module: str
    what: str
    code: str


def run_decoder(decoder: Decoder, handle: BinaryIO, folder: Path, shown: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Decode a file into `rows.arrow` and return the rest of the result.

    Args:
        job: What the worker needs to know besides its limits.

    Raises:
        InputError: The decoder's code, for a damaged file and one that exceeds a limit; or the code that it states;
            `missing_package`.
    """
    with _on_disk(handle, folder) as plain:
        size = plain.seek(0, io.SEEK_END)
        limits = {"max_bytes": DECODED.allowed(size), "memory_bytes": MEMORY_BYTES}
        (folder / "job.json").write_text(json.dumps({**job, **limits}))
        try:
            # Arrow's default memory pool reserves address space by the gigabyte.
            pool = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
            child = run_module(decoder.module, folder, deadline_s=DEADLINE_S, stdin=plain, environment=pool)
        except subprocess.TimeoutExpired:
            expected = f"{decoder.what} that is decoded within {DEADLINE_S:g} s"
            raise InputError(decoder.code, shown, expected) from None
    if child.out_of_memory:
        expected = f"{decoder.what} that is decoded within {MEMORY_BYTES >> 20:,} MB"
        raise InputError(decoder.code, shown, expected, found=child.last_line)
    if missing := re.fullmatch(r"ModuleNotFoundError: No module named '([\w.]+)'", child.last_line):
        todo = f"Install it: {sys.executable} -m pip install {missing[1].partition('.')[0]}"
        raise InputError("missing_package", shown, f"the package {missing[1]}, which reads {decoder.what}", hint=todo)
    if child.code:
        raise RuntimeError(f"the decoder of {decoder.what} ended with exit code {child.code}: {child.last_line}")
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    if "message" in result:
        raise OSError(result["errno"] or 0, result["message"], str(folder))
    if "expected" in result:
        code, hint = result.get("code", decoder.code), result.get("hint")
        raise InputError(code, shown, result["expected"], field=result.get("field"), found=result["found"], hint=hint)
    return result


def decoded_batches(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield what `run_decoder` has decoded into a folder."""
    return arrow.read_batches(folder / "rows.arrow")


def refuse_repeated(names: list[str], shown: str) -> None:
    """Refuse columns of equal names, which SQL could not tell apart."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        expected = "column names that differ in more than case"
        raise InputError("duplicate_column", shown, expected, field=repeated[0], found=names)


def _on_disk(handle: BinaryIO, folder: Path) -> BinaryIO:
    """Return the file, or a copy if it is not a file of the operating system; the caller closes it."""
    try:
        return open(handle.fileno(), "rb", closefd=False)
    except OSError:
        path = folder / "data"
        with path.open("wb") as copy:
            shutil.copyfileobj(handle, copy)
        return path.open("rb")


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
