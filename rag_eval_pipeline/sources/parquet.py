"""Read parquet and Arrow files in a child process with limited memory and a deadline.

A file may be damaged, or made to exhaust memory: 1 MB of zstandard can hold 2 GB. So even small files are decoded in
a child, into an Arrow file, from which the rows are read batch by batch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from rag_eval_pipeline.sources.batches import DecodedBatch, InputFile
from rag_eval_pipeline.sources.decoder import Decoder, refuse_repeated, run_decoder
from rag_eval_pipeline.storage.atomic_files import ScratchFolder

_WORKER = "rag_eval_pipeline.sources.parquet_worker"
_PARQUET = Decoder(_WORKER, "a parquet file", "bad_parquet")
_ARROW = Decoder(_WORKER, "an Arrow file", "bad_arrow")


def read_parquet(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a parquet file with its types; dictionaries and extension types become the types of their values."""
    yield from _read(_PARQUET, handle, file)


def read_arrow(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode an Arrow file (Feather, too) or stream, as parquet is."""
    yield from _read(_ARROW, handle, file)


def _read(decoder: Decoder, handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    folder = ScratchFolder("parquet")
    result = run_decoder(decoder, handle, folder.path, file.shown, {})
    yield from _batches(folder.path / "rows.arrow", file.shown, result["notes"])


def _batches(path: Path, shown: str, notes: list[str]) -> Iterator[DecodedBatch]:
    """Read the decoded rows without mapping the file, which would count as memory of this process."""
    number = 1
    with pa.OSFile(str(path)) as rows, pa.ipc.open_file(rows) as reader:
        refuse_repeated(reader.schema.names, shown)
        # The first batch is empty, so that a file without rows has its columns all the same.
        yield DecodedBatch(pa.RecordBatch.from_pylist([], schema=reader.schema), (), notes=notes)
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            yield DecodedBatch(batch, range(number, number + batch.num_rows))
            number += batch.num_rows
