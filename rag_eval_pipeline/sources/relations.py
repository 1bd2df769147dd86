"""Read a benchmark's files as relations for SQL: typed, spooled to disk, and with every row accounted for.

Each format has one reader, chosen by the file's content; a new format is an entry in `READERS`. A relation's column
types are known once all its files were read. If a later batch needs a wider type than the batches before it (a text in
a column of numbers), all files are read a second time with the final types.
"""

import dataclasses
from array import array as machine_array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.formats.trec import checked_qrels, checked_topics
from rag_eval_pipeline.sources.archive import detect_container
from rag_eval_pipeline.sources.arrow_types import ColumnTypes, arrow_field, is_castable, merge_columns
from rag_eval_pipeline.sources.batches import DecodedBatch, InputFile, Reader, RejectedRow, batch_of_objects
from rag_eval_pipeline.sources.compression import open_decoded
from rag_eval_pipeline.sources.csv import read_csv
from rag_eval_pipeline.sources.format_detection import (
    BINARY,
    SAMPLE_BYTES,
    detect_encoding,
    detect_format,
    is_one_document,
    is_zip,
    looks_like_utf16,
    refuse_git_lfs_pointer,
    zip_format,
)
from rag_eval_pipeline.sources.jsonl import read_json, read_json_value, read_jsonl, read_yaml_rows
from rag_eval_pipeline.sources.parquet import read_arrow, read_parquet
from rag_eval_pipeline.sources.source_files import SourceFile, SourceFiles, shard_notes
from rag_eval_pipeline.sources.source_spec import Format, SourceSpec, shown_path
from rag_eval_pipeline.sources.xlsx import read_xlsx
from rag_eval_pipeline.sources.xml import read_xml
from rag_eval_pipeline.storage.arrow import read_batches
from rag_eval_pipeline.storage.atomic_files import ScratchFolder
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK
from rag_eval_pipeline.workspace import BenchmarkPaths

SOURCE_FILE = "source_file"
SOURCE_ROW = "source_row"
TREC_BATCH_ROWS = 20_000

Read = Callable[[str, ColumnTypes | None], Iterator[DecodedBatch]]
"""Decodes a file, given its name and the types that its columns must get."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of some files, in an Arrow file that is deleted with this object."""

    folder: ScratchFolder
    path: Path
    schema: pa.Schema
    files: tuple[str, ...]  # the names of the files, in order
    rejected: tuple[RejectedRow, ...] = ()  # rows that could not be decoded
    # The physical line of each row by file, 0 for rejected rows; no entry for files without lines.
    lines: "Mapping[str, machine_array[int]]" = field(default_factory=dict, repr=False)
    paths: Mapping[str, Path] = field(default_factory=dict, repr=False)  # the files by name
    notes: tuple[str, ...] = ()  # what was decided about the files, or left out of them

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, a few thousand at a time."""
        yield from read_batches(self.path)

    @property
    def all_notes(self) -> list[str]:
        """The notes, and how many rows could not be decoded."""
        notes = [f"{note}." for note in self.notes]
        if self.rejected:
            number, one = len(self.rejected), self.rejected[0]
            which = counted(number, "row could not be read: it", "rows could not be read; the first")
            notes.append(f"{which} is {one.file}, row {one.row}: expected {one.expected} [{one.code}].")
        return notes

    @property
    def table(self) -> pa.Table:
        """All rows, in memory."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def line(self, file: str | None, row: int | None) -> int | None:
        """Return the 1-based physical line of a row; None in files without lines."""
        known = self.lines.get(file or "")
        return known[row - 1] or None if known and row is not None and 0 < row <= len(known) else None


def read_relation(
    paths: BenchmarkPaths, spec: SourceSpec, *, source_columns: bool = False, files: SourceFiles | None = None
) -> Relation:
    """Read all files of a source as one relation, in stated order; files of a glob are ordered by name.

    Of several sheets, each is a file of its own in messages and `source_file`: `q.xlsx (Legal)`.
    A broken XML file among others is a rejected row. Tables lack the `source_columns`, so that these are unambiguous in
    a join with `source`. Without `files`, the files are looked up in the benchmark's folder, without network access.
    """
    files = files or SourceFiles(paths)
    found = {
        f"{file.name} ({sheet})" if len(spec.sheet) > 1 else file.name: (file, sheet)
        for file in (files.data_files if spec.files is None else files.listed_files)(spec)
        for sheet in spec.sheet or (None,)
    }

    def read(name: str, types: ColumnTypes | None) -> Iterator[DecodedBatch]:
        if spec.files is not None:
            yield DecodedBatch(pa.RecordBatch.from_pydict({"file": [name], "name": [Path(name).name]}), (1,))
            return
        origin, sheet = found[name]
        own = spec if sheet is None else spec.model_copy(update={"sheet": (sheet,)})
        file = InputFile(origin.path, name, shown_path(paths, name), own, types=types)
        try:
            yield from _decode(origin, file)
        except InputError as error:
            broken.add(name)
            if error.code != "bad_xml" or len(broken) == len(found):
                raise
            rejected = RejectedRow(name, 1, None, error.code, error.expected, error.found)
            yield DecodedBatch(pa.RecordBatch.from_pylist([]), (), rejected=[rejected], types={})

    broken: set[str] = set()
    shown = spec.files or ", ".join(shown_path(paths, name) for name in found)
    paths_by_name = {name: file.path for name, (file, _) in found.items()}
    relation = spool_relation(paths_by_name, read, shown, source_columns=source_columns)
    return dataclasses.replace(relation, notes=(*files.notes, *shard_notes(relation.files), *relation.notes))


def read_file(path: Path) -> Relation:
    """Read a file that is no source of a benchmark, such as recorded answers, with the `source_columns`."""
    file = SourceFile(path.name, path, detect_container(path, str(path)).compression)
    spec = SourceSpec(path=(path.name,))

    def read(name: str, types: ColumnTypes | None) -> Iterator[DecodedBatch]:
        return _decode(file, InputFile(path, name, str(path), spec, types=types))

    return spool_relation({path.name: path}, read, str(path), source_columns=True)


def spool_relation(paths: Mapping[str, Path], read: Read, shown: str, *, source_columns: bool) -> Relation:
    """Write the rows of some files, given by name and in order, to an Arrow file; `shown` names them in messages."""
    folder = ScratchFolder("source")
    types = _ColumnInference(shown)
    relation = _spool(folder, paths, read, types, source_columns)
    if relation is None:
        types.given = types.columns
        relation = _spool(folder, paths, read, types, source_columns)
    assert relation is not None, "final types do not change"
    return relation


class _ColumnInference:
    def __init__(self, shown: str) -> None:
        self.given: ColumnTypes | None = None
        self.columns: ColumnTypes = {}
        self.shown = shown
        self._stated: pa.Schema | None = None  # of files that state their types

    def add(self, batch: DecodedBatch) -> None:
        """Widen the types to those of a batch."""
        if batch.types is not None:
            self.columns = merge_columns(self.columns, batch.types)
        elif self._stated is None or not batch.rows.schema.equals(self._stated):
            self._stated = self._unified(self._stated, batch.rows.schema)

    def schema(self) -> pa.Schema:
        """Return the schema so far."""
        inferred = pa.schema([arrow_field(name, json_type) for name, json_type in self.columns.items()])
        return inferred if self._stated is None else self._unified(self._stated, inferred)

    def fits(self, batch: DecodedBatch, schema: pa.Schema, columns: ColumnTypes) -> bool:
        """Return whether rows written with this schema and columns, and those of a batch, have the types so far."""
        return bool(self.schema().equals(schema)) and all(
            is_castable(json_type, self.columns[name])
            for written in (columns, batch.types or {})
            for name, json_type in written.items()
        )

    def _unified(self, one: pa.Schema | None, other: pa.Schema) -> pa.Schema:
        try:
            schemas = [schema.remove_metadata() for schema in (one, other) if schema is not None]
            return pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            found = str(error).splitlines()[0]
            raise InputError("mixed_types", self.shown, "files whose columns agree in type", found=found) from None


def _output_schema(schema: pa.Schema, source_columns: bool, shown: str) -> pa.Schema:
    """Return the schema under names that SQL can distinguish, with the source columns if they are wanted.

    A column of the source that is called `source_file` or `source_row` gets an underscore.
    """
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            expected = "columns that differ in more than case"
            raise InputError("duplicate_column", shown, expected, field=name, found=[other, name])
    fields = []
    for position, column in enumerate(schema, start=1):
        name = column.name or f"column_{position}"
        while source_columns and name.casefold() in {SOURCE_FILE, SOURCE_ROW, *(seen if name != column.name else ())}:
            name += "_"
        fields.append(column.with_name(name))
    if source_columns:
        fields += [pa.field(SOURCE_FILE, pa.string()), pa.field(SOURCE_ROW, pa.int64())]
    return pa.schema(fields)


def _spool(
    folder: ScratchFolder, paths: Mapping[str, Path], read: Read, types: _ColumnInference, source_columns: bool
) -> Relation | None:
    """Write all rows; None if a batch widened the types of rows written before, when the rest was only read."""
    path = folder.path / "rows.arrow"
    rejected: list[RejectedRow] = []
    lines: dict[str, machine_array[int]] = {}
    notes: dict[str, list[str]] = {}  # with the names of the files
    batches = ((name, batch) for name in paths for batch in read(name, types.given))
    first = next(batches, None)
    if first is not None:
        types.add(first[1])
    schema, columns = types.schema(), types.columns
    output = _output_schema(schema, source_columns, types.shown)
    fits = True
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, output) as writer:
        for name, batch in chain([first] if first is not None else [], batches):
            types.add(batch)
            rejected.extend(batch.rejected)
            _add_lines(lines, name, batch)
            for note in batch.notes:
                notes.setdefault(note, []).append(name)
            fits = fits and types.fits(batch, schema, columns)
            if fits and len(batch.numbers):
                writer.write_batch(_conform(name, batch, schema, output))
    if not fits:
        return None
    remarks = tuple(
        f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}: {note}" for note, files in notes.items()
    )
    return Relation(folder, path, output, tuple(paths), tuple(rejected), lines, paths, remarks)


def _conform(name: str, batch: DecodedBatch, schema: pa.Schema, output: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a file with the relation's columns; those that it lacks are null."""
    rows, count = batch.rows, len(batch.numbers)
    positions = {column: number for number, column in enumerate(rows.schema.names)}
    arrays = [
        rows.column(positions[column.name]).cast(column.type)
        if column.name in positions
        else pa.nulls(count, column.type)
        for column in schema
    ]
    if len(output) > len(schema):
        arrays += [pa.repeat(name, count), pa.array(_as_array(batch.numbers))]
    return pa.RecordBatch.from_arrays(arrays, schema=output)


def _as_array(numbers: Sequence[int]) -> Any:
    """Return numbers as an array of numpy; a range is not iterated."""
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else np.asarray(numbers, np.int64)


def _add_lines(lines: "dict[str, machine_array[int]]", name: str, batch: DecodedBatch) -> None:
    if len(batch.lines):
        known = lines.setdefault(name, machine_array("q"))
        first = batch.numbers[0]
        if batch.numbers[-1] - first + 1 == len(batch.numbers):
            known.extend([0] * (first - 1 - len(known)))
            known.frombytes(_as_array(batch.lines).tobytes())
        else:
            known.extend([0] * (batch.numbers[-1] - len(known)))
            for number, line in zip(batch.numbers, batch.lines, strict=True):
                known[number - 1] = line


def _decode(source: SourceFile, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a file with the reader of its format, and refuse it if it has no rows."""
    has_rows = False
    for batch in _decoded(source, file):
        has_rows = has_rows or bool(batch.rejected or batch.rows.num_columns)
        yield batch
    if not has_rows:
        raise InputError("empty_source", file.shown, "rows", found="none")


def _decoded(source: SourceFile, file: InputFile) -> Iterator[DecodedBatch]:
    with open_decoded(source.path, source.compression, shown=file.shown) as handle:
        sample = handle.read(SAMPLE_BYTES)
    is_whole = len(sample) < SAMPLE_BYTES
    refuse_git_lfs_pointer(sample, file.shown)
    encoding = detect_encoding(sample, file.spec.encoding)
    kind: Format
    if file.spec.format is not None:
        kind = file.spec.format
    elif source.compression is None and is_zip(source.path) and (packed := zip_format(source.path, file.shown)):
        kind = packed
    else:
        name = Path(source.name).name
        for suffix in (".gz", ".bz2", ".xz", ".zst"):
            name = name.removesuffix(suffix)
        kind = detect_format(sample, name, file.shown, encoding=encoding, whole=is_whole)
        if file.spec.root is not None and kind not in {"yaml", "xml"}:
            kind = "json"
    if kind == "jsonl" and is_one_document(sample, encoding, whole=is_whole):
        found, hint = "one JSON value over several lines", "State `format: json` in benchmark.yaml."
        raise InputError("bad_json", file.shown, "one JSON object a line", found=found, hint=hint)
    if kind not in BINARY and encoding == "utf-8" and looks_like_utf16(sample):
        hint = "State `encoding`, such as utf-16-le, in benchmark.yaml."
        raise InputError("bad_encoding", file.shown, "UTF-8", found=sample[:16], hint=hint)
    file = dataclasses.replace(file, encoding=encoding, sample=sample)
    with open_decoded(source.path, source.compression, shown=file.shown) as handle:
        if source.compression is None or kind not in READ_BY_PATH:
            yield from READERS[kind](handle, file)
            return
        scratch = ScratchFolder("decoded")
        path = scratch.path / "data"
        with path.open("wb") as plain:
            while chunk := handle.read(1 << 20):
                plain.write(chunk)
        with path.open("rb") as plain:
            yield from READERS[kind](plain, dataclasses.replace(file, path=path))


def _read_qrels(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    is_json = file.sample.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")
    judgements = _json_qrels(handle, file) if is_json else checked_qrels(file.path)
    return _trec_batches(file, judgements, ("query_id", "document_id", "relevance"))


def _json_qrels(handle: BinaryIO, file: InputFile) -> Iterator[tuple[str, str, int] | InputError]:
    """Yield the judgements of `{query: {document: grade}}`, as pytrec_eval and BEIR hold them."""
    for query, judged in read_json_value(handle, file).items():
        grades = judged if isinstance(judged, dict) else {"": judged}
        for document, grade in grades.items():
            if document and type(grade) is int:
                yield query, document, grade
            else:
                yield InputError("bad_number", file.shown, "a whole number for each document", field=query, found=grade)


def _read_topics(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    return _trec_batches(file, checked_topics(file.path), ("query_id", "title", "description", "narrative"))


def _trec_batches(file: InputFile, records: Iterable[Any], names: Sequence[str]) -> Iterator[DecodedBatch]:
    numbered = enumerate(records, start=1)
    while group := list(islice(numbered, TREC_BATCH_ROWS)):
        good = [(number, record) for number, record in group if not isinstance(record, InputError)]
        rejected = [
            RejectedRow(file.name, number, error.row, error.code, error.expected, error.found, error.field)
            for number, error in group
            if isinstance(error, InputError)
        ]
        rows = [dict(zip(names, record, strict=True)) for _, record in good]
        yield batch_of_objects(rows, [number for number, _ in good], (), rejected, file.types)


READERS: dict[Format, Reader] = {
    "csv": read_csv,
    "tsv": read_csv,
    "jsonl": read_jsonl,
    "json": read_json,
    "yaml": read_yaml_rows,
    "xlsx": read_xlsx,
    "xml": read_xml,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "trec_qrels": _read_qrels,
    "trec_topics": _read_topics,
}
READ_BY_PATH: frozenset[Format] = frozenset({"parquet", "trec_qrels", "trec_topics"})
