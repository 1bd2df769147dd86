"""Read parquet in a child process with limited memory and a deadline.

A file may be damaged, or made to exhaust memory: 1 MB of zstandard can hold 2 GB. So even small files are decoded in
a child, into an Arrow file, from which the rows are read batch by batch.
"""

import io
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.batches import DecodedBatch, InputFile
from rag_eval_pipeline.storage.files import ScratchFolder
from rag_eval_pipeline.storage.process import child_environment, module_command

MAX_DECODED_BYTES = 8 << 30  # on disk
MAX_RATIO = 200  # decoded bytes for each byte of the file, as of archives
RATIO_FLOOR_BYTES = 1 << 30  # decoded; below it, columns that repeat a value may have any ratio
MEMORY_BYTES = 2 << 30  # address space beyond the interpreter's
DEADLINE_S = 600.0

_WORKER = "rag_eval_pipeline.sources.parquet_worker"


def read_parquet(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a parquet file with its types; dictionaries and extension types become the types of their values."""
    folder = ScratchFolder("parquet")
    with _on_disk(handle, folder.path) as plain:
        size = plain.seek(0, io.SEEK_END)
        _decode(plain, folder.path, min(MAX_DECODED_BYTES, max(RATIO_FLOOR_BYTES, MAX_RATIO * size)), file.shown)
    yield from _batches(folder.path / "rows.arrow", file.shown)


def _on_disk(handle: BinaryIO, folder: Path) -> BinaryIO:
    """Return the file, or a copy if it is not a file of the operating system; the caller closes it."""
    try:
        return open(handle.fileno(), "rb", closefd=False)
    except OSError:
        path = folder / "data.parquet"
        with path.open("wb") as copy:
            shutil.copyfileobj(handle, copy)
        return path.open("rb")


def _decode(plain: BinaryIO, folder: Path, max_bytes: int, shown: str) -> None:
    """Run the worker, which writes `rows.arrow`."""
    (folder / "job.json").write_text(json.dumps({"max_bytes": max_bytes, "memory_bytes": MEMORY_BYTES}))
    try:
        child = subprocess.run(
            module_command(_WORKER, str(folder)),
            cwd=folder,
            # Arrow's default memory pool reserves address space by the gigabyte.
            env={**child_environment(), "ARROW_DEFAULT_MEMORY_POOL": "system"},
            stdin=plain,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError("bad_parquet", shown, f"a parquet file that is decoded within {DEADLINE_S:g} s") from None
    words = child.stderr.decode(errors="backslashreplace").strip().splitlines() or [""]
    if child.returncode < 0 or "MemoryError" in words[-1] or "bad_alloc" in words[-1]:
        expected = f"a parquet file that is decoded within {MEMORY_BYTES >> 20:,} MB"
        found = words[-1] or f"the decoder's end by signal {-child.returncode}"
        raise InputError("bad_parquet", shown, expected, found=found)
    if child.returncode:
        raise RuntimeError(f"the parquet decoder ended with exit code {child.returncode}: {words[-1]}")
    result = json.loads((folder / "result.json").read_text())
    if "message" in result:
        raise OSError(result["errno"] or 0, result["message"], str(folder))
    if result:
        raise InputError("bad_parquet", shown, result["expected"], found=result["found"])


def _batches(path: Path, shown: str) -> Iterator[DecodedBatch]:
    """Read the decoded rows without mapping the file, which would count as memory of this process."""
    number = 1
    with pa.OSFile(str(path)) as rows, pa.ipc.open_file(rows) as reader:
        names = reader.schema.names
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            expected = "column names that differ in more than case"
            raise InputError("duplicate_column", shown, expected, field=repeated[0], found=names)
        # The first batch is empty, so that a file without rows has its columns all the same.
        yield DecodedBatch(pa.RecordBatch.from_pylist([], schema=reader.schema), ())
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            yield DecodedBatch(batch, range(number, number + batch.num_rows))
            number += batch.num_rows
