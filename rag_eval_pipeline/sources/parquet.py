"""Read parquet and Arrow files in a child process with limited memory and a deadline.

A file may be damaged, or made to exhaust memory: 1 MB of zstandard can hold 2 GB. So even small files are decoded in
a child, into an Arrow file, from which the rows are read batch by batch.

The sizes that a footer states are not trusted: 403 MB were seen under a footer that claimed 42,798 bytes. So few rows
are decoded at a time, fewer if they turn out to be large, and an eighth of them again if memory did not suffice.

Hugging Face's `datasets` says in the schema what a column means: media are left out, because no question is made of
them, and a column of class numbers gets a second one with the names of the classes.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from rag_eval_pipeline.sources.arrow_types import JSON_TEXT
from rag_eval_pipeline.sources.batches import DecodedBatch, InputFile
from rag_eval_pipeline.sources.decoder import (
    STANDARD_INPUT,
    TARGET_BYTES,
    Decoder,
    refuse_repeated,
    run_decoder,
    run_worker,
    write_rows,
)
from rag_eval_pipeline.storage.atomic_files import ScratchFolder

_WORKER = "rag_eval_pipeline.sources.parquet"  # this module is run in the child
_PARQUET = Decoder(_WORKER, "a parquet file", "bad_parquet")
_ARROW = Decoder(_WORKER, "an Arrow file", "bad_arrow")

FIRST_ROWS = 256  # decoded at a time at first: as fast as 4,096 rows of 1 kB, and little enough for larger ones
MAX_BYTES = 4 * TARGET_BYTES  # of rows decoded at a time, before fewer are taken
BUFFER_BYTES = 4 << 20  # of the file, for each column; by default it is the whole row group
SQL_DIGITS = 38  # of DuckDB's longest decimal
MEDIA = frozenset({"Image", "Audio", "Video", "Pdf", "Nifti"})  # types of `datasets` that hold a file's bytes
STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
NAME_SUFFIX = "_name"  # of the column with the names of classes


def read_parquet(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a parquet file with its types; dictionaries and extension types become the types of their values."""
    yield from _read(_PARQUET, handle, file)


def read_arrow(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode an Arrow file (Feather, too) or stream, as parquet is."""
    yield from _read(_ARROW, handle, file)


def _read(decoder: Decoder, handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    folder, number = ScratchFolder("parquet"), 1
    result = run_decoder(decoder, handle, folder.path, file.shown, {})
    with pa.OSFile(str(folder.path / "rows.arrow")) as rows, pa.ipc.open_file(rows) as reader:
        refuse_repeated(reader.schema.names, file.shown)
        # The first batch is empty, so that a file without rows has its columns all the same.
        yield DecodedBatch(pa.RecordBatch.from_pylist([], schema=reader.schema), (), notes=result["notes"])
        for batch in map(reader.get_batch, range(reader.num_record_batches)):
            yield DecodedBatch(batch, range(number, number + batch.num_rows))
            number += batch.num_rows


class Columns(NamedTuple):
    """The columns of a file that are read: their places in it, the classes of some, and the schema of the rows."""

    kept: list[int]
    classes: dict[str, list[str]]
    schema: pa.Schema
    notes: list[str]


def decode(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Decode standard input, whatever it is by its first bytes."""
    with open(STANDARD_INPUT, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"PAR1"):
        parquet = pq.ParquetFile(STANDARD_INPUT, buffer_size=BUFFER_BYTES, page_checksum_verification=True)
        columns = _columns(parquet.schema_arrow)
        batches = _batches(parquet, columns)
    else:
        rows = pa.OSFile(STANDARD_INPUT)
        if magic != b"ARROW1":
            _check_end(rows)
        reader = pa.ipc.open_file(rows) if magic == b"ARROW1" else pa.ipc.open_stream(rows)
        columns = _columns(reader.schema)
        batches = _arrow_batches(reader, columns)
    write_rows(folder, columns.schema, batches, job["max_bytes"])
    return {"notes": columns.notes}


def _check_end(stream: Any) -> None:
    """Refuse a stream without its end mark: one that was cut between two batches looks whole otherwise."""
    stream.seek(max(0, stream.size() - len(STREAM_END)))
    if stream.read(len(STREAM_END)) != STREAM_END:
        raise ValueError("the end mark of the stream is missing: was it cut short?")
    stream.seek(0)


def _columns(stated: pa.Schema) -> Columns:
    """Return what is read of a file, by its schema and by what `datasets` has noted in it."""
    try:
        features = json.loads((stated.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        features = {}
    features = features if isinstance(features, dict) else {}
    kinds = {name: kind for name, feature in features.items() if (kind := _media_kind(feature)) is not None}
    left_out = [name for name in stated.names if name in kinds]
    classes = {
        name: feature["names"]
        for name, feature in features.items()
        if isinstance(feature, dict)
        and feature.get("_type") == "ClassLabel"
        and isinstance(feature.get("names"), list)
        and all(isinstance(one, str) for one in feature["names"])
        and stated.names.count(name) == 1
        and pa.types.is_integer(stated.field(name).type)
        and f"{name}{NAME_SUFFIX}" not in stated.names
    }
    fields = [_plain_field(field) for field in stated if field.name not in left_out]
    fields += [pa.field(f"{name}{NAME_SUFFIX}", pa.string()) for name in classes]
    notes = [f"column {name!r} is left out: {kinds[name]}" for name in left_out]
    kept = [place for place, name in enumerate(stated.names) if name not in left_out]
    return Columns(kept, classes, pa.schema(fields), notes)


def _media_kind(feature: object) -> str | None:
    """Return the type of a feature that holds files, or a list of them; None for others."""
    if isinstance(feature, list) and feature:
        feature = feature[0]
    if not isinstance(feature, dict):
        return None
    kind = feature.get("_type")
    if kind in {"Sequence", "LargeList", "List"} and isinstance(feature.get("feature"), dict):
        return _media_kind(feature["feature"])
    return kind if isinstance(kind, str) and kind in MEDIA else None


def _arrow_batches(reader: Any, columns: Columns) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.RecordBatchFileReader):
        stated = map(reader.get_batch, range(reader.num_record_batches))
    else:
        stated = iter(reader)
    for batch in stated:
        batch.validate(full=True)
        for start in range(0, batch.num_rows, FIRST_ROWS):
            yield _plain(batch.slice(start, FIRST_ROWS), columns)


def _batches(parquet: pq.ParquetFile, columns: Columns) -> Iterator[pa.RecordBatch]:
    rows = FIRST_ROWS
    names = [parquet.schema_arrow.names[place] for place in columns.kept]
    chosen = names if len(names) < len(parquet.schema_arrow.names) else None  # None: all
    for group in range(parquet.num_row_groups):
        done = 0
        while True:
            try:
                for stated in _remaining(parquet, group, rows, done, chosen):
                    stated.validate(full=True)
                    batch = _plain(stated, columns)  # may be far larger: a dictionary holds each value once
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


def _remaining(
    parquet: pq.ParquetFile, group: int, rows: int, done: int, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield a row group in batches, without its first `done` rows."""
    seen = 0
    for batch in parquet.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
        first = max(0, done - seen)
        seen += batch.num_rows
        if first < batch.num_rows:
            yield batch.slice(first)


def plain_type(stated: pa.DataType) -> pa.DataType:
    """Return a type that SQL knows and that other files have, too.

    There are no dictionaries, extensions, large or viewed texts; half floats are floats, long decimals are text.
    """
    if pa.types.is_large_string(stated) or pa.types.is_string_view(stated):
        return pa.string()
    if pa.types.is_large_binary(stated) or pa.types.is_binary_view(stated):
        return pa.binary()
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


def _plain(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Return a batch with plain types, without media and with the names of classes."""
    if batch.num_columns > len(columns.kept):
        batch = batch.select(columns.kept)
    schema = columns.schema
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if not len(schema):  # rebuilding a batch without columns would lose its number of rows
        return batch
    arrays = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=False)
    ]
    for name, names in columns.classes.items():
        numbers = batch.column(name).cast(pa.int64())
        is_known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
        arrays.append(pa.array(names, pa.string()).take(pc.if_else(is_known, numbers, None)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


if __name__ == "__main__":
    run_worker(
        Path(sys.argv[1]),
        decode,
        "a whole parquet or Arrow file",
        (pa.ArrowException, OSError, UnicodeDecodeError, ValueError),
    )
