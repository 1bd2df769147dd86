"""Parquet: columns with their own types, nested ones included."""

from collections.abc import Iterator
from typing import BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import Piece, SourceFile

MAX_DECODED_BYTES = 8 << 30  # whatever the footer claims: 44 kB were seen to become 403 MB
BATCH_ROWS = 4_096
MAX_BATCH_BYTES = 1 << 30  # of so many rows; 250 kB a row are no questions


def read_parquet(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """A parquet file with its own types, nested ones included.

    Raises:
        InputError: `bad_parquet`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, number = 0, 1
    try:
        parquet = pq.ParquetFile(handle)
        # A file without rows has columns all the same.
        yield Piece(pa.RecordBatch.from_pylist([], schema=parquet.schema_arrow), ())
        for batch in parquet.iter_batches(BATCH_ROWS):
            size += batch.nbytes
            if batch.nbytes > MAX_BATCH_BYTES or size > MAX_DECODED_BYTES:
                raise InputError("bad_parquet", file.shown, f"at most {MAX_DECODED_BYTES} decoded bytes", found=size)
            batch.validate(full=True)
            yield Piece(batch, range(number, number + batch.num_rows))
            number += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError("bad_parquet", file.shown, "a whole parquet file", found=str(error).splitlines()[0]) from None
