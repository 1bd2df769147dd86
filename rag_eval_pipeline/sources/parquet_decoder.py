"""The child process in which a parquet file is decoded: batches of bounded size into an Arrow file, nothing else.

Run as `python -m rag_eval_pipeline.sources.parquet_decoder JOB_FOLDER` by `parquet_reader`, which also kills it at its
deadline. The file is its standard input; `job.json` holds the limits. It leaves `rows.arrow` and `result.json`.

What a footer says of sizes is not believed: 44,732 bytes were seen to become 403 MB under a footer that claimed 42,798.
Few rows are decoded at a time, and fewer where they turn out to be large; those that need more memory than there is are
decoded again, one eighth of them at a time.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # noqa: TID253  # the process exists to decode with it
import pyarrow.ipc  # noqa: TID253
import pyarrow.parquet as pq  # noqa: TID253

from rag_eval_pipeline.sources.kinds import JSON_TEXT
from rag_eval_pipeline.storage.confinement import confine

STANDARD_INPUT = "/dev/stdin"
TARGET_BYTES = 2 << 20  # of a batch in the Arrow file
TARGET_ROWS = 4_096
# Rows decoded at a time, at first. Of 1 kB, 256 at a time take as long as 4,096 (1.9 us each, measured); of 5 MB, they
# do not fit into memory, and 32 do.
FIRST_ROWS = 256
MAX_BYTES = 4 * TARGET_BYTES  # of rows decoded at a time, before fewer are taken
BUFFER_BYTES = 4 << 20  # of the file that is held for a column; else all of its row group would be
SQL_DIGITS = 38  # of DuckDB's longest decimal


class TooLarge(Exception):
    """More came out than is allowed."""


class Unwritable(Exception):
    """The disk's fault, not the file's."""


def main(folder: Path) -> None:
    """Decodes standard input and leaves what came of it."""
    job = json.loads((folder / "job.json").read_text())
    # One thread: the memory of a batch must not depend on the number of processors.
    pa.set_cpu_count(1)
    confine(memory_bytes=job["memory_bytes"], file_bytes=2 * job["max_bytes"] + TARGET_BYTES)
    result: dict[str, Any] = {}
    try:
        _decode(folder / "rows.arrow", job["max_bytes"])
    except TooLarge as error:
        result = {"expected": f"at most {job['max_bytes']:,} decoded bytes", "found": str(error)}
    except MemoryError:
        result = {"expected": f"rows that are decoded within {job['memory_bytes'] >> 20:,} MB", "found": "larger ones"}
    except Unwritable as error:
        result = {"errno": getattr(error.__cause__, "errno", None), "message": str(error.__cause__)}
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        result = {"expected": "a whole parquet file", "found": (str(error).splitlines() or [type(error).__name__])[0]}
    (folder / "result.json").write_text(json.dumps(result))


def _decode(path: Path, max_bytes: int) -> None:
    parquet = pq.ParquetFile(STANDARD_INPUT, buffer_size=BUFFER_BYTES, page_checksum_verification=True)
    stated = parquet.schema_arrow
    schema = pa.schema(map(_plain_field, stated))
    size = 0
    try:
        writer = pa.ipc.new_file(str(path), schema)
    except OSError as error:
        raise Unwritable from error
    for batch in _gathered(_batches(parquet, schema)):
        size += batch.nbytes
        if size > max_bytes:
            raise TooLarge(f"{size:,}")
        try:
            writer.write_batch(batch)
        except OSError as error:
            raise Unwritable from error
    try:
        writer.close()
    except OSError as error:
        raise Unwritable from error


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of the target's size, of larger rows in batches of one row."""
    waiting: list[pa.RecordBatch] = []
    rows, size = 0, 0
    for batch in batches:
        for part in _parts(batch):
            part_bytes = part.nbytes
            if waiting and (rows + part.num_rows > TARGET_ROWS or size + part_bytes > TARGET_BYTES):
                yield pa.concat_batches(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(part)
            rows, size = rows + part.num_rows, size + part_bytes
    if waiting:
        yield pa.concat_batches(waiting)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that fit the target, as far as its rows do."""
    if batch.num_rows > 1 and batch.nbytes > TARGET_BYTES:
        half = batch.num_rows // 2
        yield from _parts(batch.slice(0, half))
        yield from _parts(batch.slice(half))
    else:
        yield batch


def _batches(parquet: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All rows in order, checked and plain."""
    rows = FIRST_ROWS
    for group in range(parquet.num_row_groups):
        done = 0
        while True:
            try:
                for stated in _rest(parquet, group, rows, done):
                    stated.validate(full=True)
                    batch = _plain(stated, schema)  # one value of a dictionary may stand in every row
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


def _rest(parquet: pq.ParquetFile, group: int, rows: int, done: int) -> Iterator[pa.RecordBatch]:
    """A row group in batches of some rows, without those that are done."""
    seen = 0
    for batch in parquet.iter_batches(rows, row_groups=[group], use_threads=False):
        first = max(0, done - seen)
        seen += batch.num_rows
        if first < batch.num_rows:
            yield batch.slice(first)


def plain_type(stated: pa.DataType) -> pa.DataType:
    """The type that SQL knows: without dictionaries and extensions, half floats as floats, long decimals as text."""
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
    """The field with a type that SQL knows; parquet's own JSON is marked, as that of JSON files is."""
    is_json = isinstance(stated.type, pa.JsonType)
    return pa.field(name or stated.name, plain_type(stated.type), metadata=JSON_TEXT if is_json else None)


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if not len(schema):  # a batch that has no columns must still know how many rows it has
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
