"""A benchmark's files as relations for SQL, with every row accounted for.

Readers are chosen by content, one a format; a new format is an entry in `READERS`. Nothing outside the benchmark's
folder and its cache is read, and nothing through a link.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import open_decoded
from rag_eval_pipeline.sources.csv_reader import read_csv
from rag_eval_pipeline.sources.decoded import Piece, Reader, SourceFile
from rag_eval_pipeline.sources.detect import (
    SAMPLE_BYTES,
    detect_encoding,
    detect_format,
    is_one_document,
    looks_like_utf16,
    refuse_stand_in,
)
from rag_eval_pipeline.sources.json_lines import read_jsonl
from rag_eval_pipeline.sources.json_reader import read_json
from rag_eval_pipeline.sources.origins import OriginFile, Origins
from rag_eval_pipeline.sources.parquet_reader import read_parquet
from rag_eval_pipeline.sources.source_spec import Format, SourceSpec, shown_path
from rag_eval_pipeline.sources.trec_reader import read_qrels, read_topics
from rag_eval_pipeline.storage.scratch import ScratchFolder
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    from rag_eval_pipeline.sources.kinds import Kind
    from rag_eval_pipeline.sources.mended_rows import MendedRows
    from rag_eval_pipeline.sources.relations import Relation
    from rag_eval_pipeline.sources.streamed import StreamedRelation

READERS: dict[Format, Reader] = {
    "csv": read_csv,
    "tsv": read_csv,
    "jsonl": read_jsonl,
    "json": read_json,
    "parquet": read_parquet,
    "trec_qrels": read_qrels,
    "trec_topics": read_topics,
}
SEEKING: frozenset[Format] = frozenset({"parquet", "trec_qrels", "trec_topics"})  # read by path or from the end


def read_relation(
    paths: BenchmarkPaths,
    spec: SourceSpec,
    *,
    origin: bool = False,
    origins: Origins | None = None,
    mends: "MendedRows | None" = None,
) -> "Relation":
    """All files of a source as one relation, in stated order, globs by name.

    Args:
        paths: Of the benchmark.
        spec: What to read.
        origin: Adds source_file and source_row. Tables have none, so that a join with `source` leaves them unambiguous.
        origins: Where the files are; the benchmark's folder, without the network, unless given.
        mends: Rows that read otherwise than they stand.

    Raises:
        InputError: `unsupported_format`, `empty_source`, `mixed_types`, those of `Origins` and the readers' own codes.
    """
    from rag_eval_pipeline.sources.relations import relation

    origins = origins or Origins(paths)
    if spec.files is not None:
        listed = {file.name: file.path for file in origins.listed_files(spec)}
        made = relation(list(listed), lambda name, kinds: iter([_listing(name)]), spec.files, origin=origin)
        return dataclasses.replace(made, paths=listed)
    files = {file.name: file for file in origins.data_files(spec)}
    shown = ", ".join(shown_path(paths, name) for name in files)
    made = relation(list(files), file_reader(paths, spec, files, mends), shown, origin=origin)
    return dataclasses.replace(made, paths={name: file.path for name, file in files.items()})


def stream_relation(
    paths: BenchmarkPaths,
    spec: SourceSpec,
    columns: Collection[str],
    origins: Origins,
    mends: "MendedRows | None" = None,
) -> "StreamedRelation | None":
    """The data files of a source as a relation that is read as often as it is asked, and never written.

    Args:
        paths: Of the benchmark.
        spec: What to read.
        columns: Names that the first rows must show; None is returned when they do not.
        origins: Where the files are.
        mends: Rows that read otherwise than they stand.

    Raises:
        InputError: As `read_relation`.
    """
    from rag_eval_pipeline.sources.streamed import StreamedRelation

    if spec.files is not None:
        return None
    files = {file.name: file for file in origins.data_files(spec)}
    shown = ", ".join(shown_path(paths, name) for name in files)
    places = {name: file.path for name, file in files.items()}
    made = StreamedRelation(list(files), file_reader(paths, spec, files, mends), shown, places)
    return made if set(columns) <= set(made.schema.names) else None


def file_reader(
    paths: BenchmarkPaths, spec: SourceSpec, files: Mapping[str, OriginFile], mends: "MendedRows | None" = None
) -> "Callable[[str, Mapping[str, Kind] | None], Iterator[Piece]]":
    """Reads a file's pieces, with what a person mended."""

    def read(name: str, kinds: "Mapping[str, Kind] | None") -> Iterator[Piece]:
        shown, has_rows = shown_path(paths, name), False

        def unmended(wanted: "Mapping[str, Kind] | None") -> Iterator[Piece]:
            return _pieces(files[name], SourceFile(files[name].path, name, shown, spec, kinds=wanted))

        for piece in unmended(kinds) if mends is None else mends.pieces(name, unmended, kinds):
            has_rows = has_rows or bool(piece.unread or piece.batch.num_columns)
            yield piece
        if not has_rows:
            raise InputError("empty_source", shown, "rows", found="none")

    return read


def _listing(name: str) -> Piece:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"file": [name], "name": [Path(name).name]})
    return Piece(batch, (1,))


def _pieces(origin: OriginFile, file: SourceFile) -> Iterator[Piece]:
    """A file's rows by the reader for what it holds."""
    with open_decoded(origin.path, origin.compression, shown=file.shown) as handle:
        sample = _sample(handle)
    refuse_stand_in(sample, file.shown)
    encoding = detect_encoding(sample, file.spec.encoding)
    kind = file.spec.format or _format(sample, encoding, file)
    if kind == "jsonl" and is_one_document(sample, encoding, whole=len(sample) < SAMPLE_BYTES):
        found, hint = "one JSON value over several lines", "State `format: json` in benchmark.yaml."
        raise InputError("bad_json", file.shown, "one JSON object a line", found=found, hint=hint)
    if kind != "parquet" and encoding == "utf-8" and looks_like_utf16(sample):
        raise InputError(
            "bad_encoding",
            file.shown,
            "UTF-8",
            found=sample[:16],
            hint="State `encoding`, such as utf-16-le, in benchmark.yaml.",
        )
    file = dataclasses.replace(file, encoding=encoding)
    with open_decoded(origin.path, origin.compression, shown=file.shown) as handle:
        if origin.compression is None or kind not in SEEKING:
            yield from READERS[kind](handle, file)
            return
        scratch = ScratchFolder("decoded")
        path = scratch.path / "data"
        with path.open("wb") as plain:
            while chunk := handle.read(1 << 20):
                plain.write(chunk)
        with path.open("rb") as plain:
            yield from READERS[kind](plain, dataclasses.replace(file, path=path))


def _sample(handle: BinaryIO) -> bytes:
    sample = b""
    while len(sample) < SAMPLE_BYTES and (more := handle.read(SAMPLE_BYTES - len(sample))):
        sample += more
    return sample


def _format(sample: bytes, encoding: str, file: SourceFile) -> Format:
    if file.spec.root is not None:
        return "json"
    name = Path(file.name).name
    for ending in (".gz", ".bz2", ".xz", ".zst"):
        name = name.removesuffix(ending)
    return detect_format(sample, name, file.shown, encoding=encoding, whole=len(sample) < SAMPLE_BYTES)
