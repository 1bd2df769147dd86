"""Parquet: columns with their own types, nested ones included."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from rag_eval_pipeline.conversion.decoded import Rows, SourceFile
from rag_eval_pipeline.errors import InputError

MAX_DECODED_BYTES = 8 << 30  # whatever the footer claims: 44 kB were seen to become 403 MB


def read_parquet(handle: BinaryIO, file: SourceFile) -> Rows:
    """A parquet file with its own types, nested ones included.

    Raises:
        InputError: `bad_parquet`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = list(_batches(pq.ParquetFile(handle), file))
        table = pa.Table.from_batches(batches) if batches else pq.read_schema(file.path).empty_table()
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError("bad_parquet", file.shown, "a whole parquet file", found=str(error).splitlines()[0]) from None
    seen: set[str] = set()
    for name in table.column_names:
        if name.casefold() in seen:
            raise InputError("duplicate_column", file.shown, "column names that differ in more than case", field=name)
        seen.add(name.casefold())
    return Rows(numbers=list(range(1, table.num_rows + 1)), table=table)


def _batches(parquet: Any, file: SourceFile) -> Iterator[Any]:
    size = 0
    for batch in parquet.iter_batches():
        size += batch.nbytes
        if size > MAX_DECODED_BYTES:
            raise InputError("bad_parquet", file.shown, f"at most {MAX_DECODED_BYTES} decoded bytes", found=size)
        yield batch
