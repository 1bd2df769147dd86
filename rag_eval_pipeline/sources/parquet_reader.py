"""Parquet: columns with their own types, nested ones included, decoded in a child process.

A file may be damaged or made to hurt: what decodes it has little memory, a deadline, and no way to take the pipeline
with it. Small files are decoded so, too: 1 MB of zstandard can hold 2 GB. A child costs 0.15 s a file; a row of 1 kB
costs 2.5 us, where Arrow alone needs 1.5 (200,000 rows in two columns of text and one of numbers).
"""

import io
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import Piece, SourceFile
from rag_eval_pipeline.storage.confinement import environment, module_command
from rag_eval_pipeline.storage.scratch import ScratchFolder

MAX_DECODED_BYTES = 8 << 30  # on disk
MAX_RATIO = 200  # decoded bytes for each byte of the file, as of archives
RATIO_FLOOR_BYTES = 1 << 30  # decoded; below it, columns that repeat a value may have any ratio
MEMORY_BYTES = 2 << 30  # address space beyond the interpreter's own; rows of 5 MB in a page of 300 MB touched 0.9 GB
DEADLINE_S = 600.0

_DECODER = "rag_eval_pipeline.sources.parquet_decoder"


def read_parquet(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """A parquet file with its own types, nested ones included; dictionaries and extension types are what they hold.

    Raises:
        InputError: `bad_parquet`, `duplicate_column`.
        OSError: There is no room for the decoded rows.
    """
    folder = ScratchFolder("parquet")
    with _regular(handle, folder.path) as plain:
        size = plain.seek(0, io.SEEK_END)
        _decode(plain, folder.path, min(MAX_DECODED_BYTES, max(RATIO_FLOOR_BYTES, MAX_RATIO * size)), file.shown)
    yield from _pieces(folder.path / "rows.arrow", file.shown)


def _regular(handle: BinaryIO, folder: Path) -> BinaryIO:
    """The file itself, or a copy of what is no file of the operating system; either is the caller's to close."""
    try:
        return open(handle.fileno(), "rb", closefd=False)
    except OSError:
        path = folder / "data.parquet"
        with path.open("wb") as copy:
            shutil.copyfileobj(handle, copy)
        return path.open("rb")


def _decode(plain: BinaryIO, folder: Path, max_bytes: int, shown: str) -> None:
    """Leaves `rows.arrow` in the folder."""
    (folder / "job.json").write_text(json.dumps({"max_bytes": max_bytes, "memory_bytes": MEMORY_BYTES}))
    try:
        child = subprocess.run(
            module_command(_DECODER, str(folder)),
            cwd=folder,
            env={**environment(), "ARROW_DEFAULT_MEMORY_POOL": "system"},  # Arrow's own reserves space by the gigabyte
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


def _pieces(path: Path, shown: str) -> Iterator[Piece]:
    """The decoded rows, read batch by batch: a mapped file would count as this process's memory."""
    import pyarrow as pa

    number = 1
    with pa.OSFile(str(path)) as rows, pa.ipc.open_file(rows) as reader:
        if twice := [name for name, count in Counter(reader.schema.names).items() if count > 1]:
            raise InputError(
                "duplicate_column",
                shown,
                "column names that differ in more than case",
                field=twice[0],
                found=reader.schema.names,
            )
        # A file without rows has columns all the same.
        yield Piece(pa.RecordBatch.from_pylist([], schema=reader.schema), ())
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            yield Piece(batch, range(number, number + batch.num_rows))
            number += batch.num_rows
