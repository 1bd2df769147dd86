"""The child process that decodes a parquet file from standard input into an Arrow file with batches of limited size.

`parquet` runs it as `python -m rag_eval_pipeline.sources.parquet_worker JOB_FOLDER` and kills it at the deadline.
`job.json` holds the limits; the worker writes `rows.arrow` and `result.json`.

The sizes that a footer states are not trusted: 403 MB were seen under a footer that claimed 42,798 bytes. So few rows
are decoded at a time, fewer if they turn out to be large, and an eighth of them again if memory did not suffice.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from rag_eval_pipeline.sources.arrow_types import JSON_TEXT
from rag_eval_pipeline.storage.process import set_limits

STANDARD_INPUT = "/dev/stdin"
TARGET_BYTES = 2 << 20  # of a batch in the Arrow file
TARGET_ROWS = 4_096
FIRST_ROWS = 256  # decoded at a time at first: as fast as 4,096 rows of 1 kB, and little enough for larger ones
MAX_BYTES = 4 * TARGET_BYTES  # of rows decoded at a time, before fewer are taken
BUFFER_BYTES = 4 << 20  # of the file, for each column; by default it is the whole row group
SQL_DIGITS = 38  # of DuckDB's longest decimal


class TooLargeError(Exception):
    """The decoded rows exceed the limit."""


class WriteError(Exception):
    """The rows could not be written; the cause is an error of the disk and not of the file."""


def main(folder: Path) -> None:
    """Decode standard input and write the result."""
    job = json.loads((folder / "job.json").read_text())
    pa.set_cpu_count(1)  # the memory that a batch needs must not depend on the number of processors
    set_limits(memory_bytes=job["memory_bytes"], file_bytes=2 * job["max_bytes"] + TARGET_BYTES)
    result: dict[str, Any] = {}
    try:
        _decode(folder / "rows.arrow", job["max_bytes"])
    except TooLargeError as error:
        result = {"expected": f"at most {job['max_bytes']:,} decoded bytes", "found": str(error)}
    except MemoryError:
        result = {"expected": f"rows that are decoded within {job['memory_bytes'] >> 20:,} MB", "found": "larger ones"}
    except WriteError as error:
        result = {"errno": getattr(error.__cause__, "errno", None), "message": str(error.__cause__)}
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        result = {"expected": "a whole parquet file", "found": (str(error).splitlines() or [type(error).__name__])[0]}
    (folder / "result.json").write_text(json.dumps(result))


def _decode(path: Path, max_bytes: int) -> None:
    parquet = pq.ParquetFile(STANDARD_INPUT, buffer_size=BUFFER_BYTES, page_checksum_verification=True)
    schema = pa.schema(map(_plain_field, parquet.schema_arrow))
    batches = _gathered(_batches(parquet, schema))
    size = 0
    try:
        writer = pa.ipc.new_file(str(path), schema)
    except OSError as error:
        raise WriteError from error
    for batch in batches:
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


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def _batches(parquet: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield all rows in order, validated and with plain types."""
    rows = FIRST_ROWS
    for group in range(parquet.num_row_groups):
        done = 0
        while True:
            try:
                for stated in _remaining(parquet, group, rows, done):
                    stated.validate(full=True)
                    batch = _plain(stated, schema)  # may be far larger: a dictionary holds each value once
                    yield batch
                    done += batch.num_rows
                    if batch.nbytes > MAX_BYTES and rows > 1:
                        rows = min(rows - 1, max(1, TARGET_BYTES * batch.num_rows // batch.nbytes))
                        break
                else:
                    break
            except MemoryError:
                if rows == 1:
                    raise
                rows = max(1, rows // 8)


def _remaining(parquet: pq.ParquetFile, group: int, rows: int, done: int) -> Iterator[pa.RecordBatch]:
    """Yield a row group in batches, without its first `done` rows."""
    seen = 0
    for batch in parquet.iter_batches(rows, row_groups=[group], use_threads=False):
        first = max(0, done - seen)
        seen += batch.num_rows
        if first < batch.num_rows:
            yield batch.slice(first)


def plain_type(stated: pa.DataType) -> pa.DataType:
    """Return a type that SQL knows: no dictionaries or extensions, half floats as floats, long decimals as text."""
    if pa.types.is_float16(stated):
        return pa.float32()
    if pa.types.is_decimal(stated):
        return pa.decimal128(stated.precision, stated.scale) if stated.precision <= SQL_DIGITS else pa.string()
    if isinstance(stated, pa.BaseExtensionType):
        return plain_type(stated.storage_type)
    if pa.types.is_dictionary(stated) or pa.types.is_run_end_encoded(stated):
        return plain_type(stated.value_type)
    if pa.types.is_map(stated):
        return pa.map_(plain_type(stated.key_type), plain_type(stated.item_type))
    if pa.types.is_struct(stated):
        return pa.struct(map(_plain_field, stated.fields))
    if pa.types.is_fixed_size_list(stated):
        return pa.list_(_plain_field(stated.value_field, "item"), stated.list_size)
    if pa.types.is_large_list(stated):
        return pa.large_list(_plain_field(stated.value_field, "item"))
    if pa.types.is_list(stated):
        return pa.list_(_plain_field(stated.value_field, "item"))
    return stated


def _plain_field(stated: pa.Field, name: str | None = None) -> pa.Field:
    """Return the field with a plain type; parquet's JSON type is marked like JSON text of other files."""
    is_json = isinstance(stated.type, pa.JsonType)
    return pa.field(name or stated.name, plain_type(stated.type), metadata=JSON_TEXT if is_json else None)


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if not len(schema):  # rebuilding a batch without columns would lose its number of rows
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
