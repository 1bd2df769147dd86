"""A benchmark's local files as relations for SQL, with every row accounted for.

Readers are chosen by content, one a format; a new format is an entry in `READERS`. Nothing outside the benchmark's
folder is read, and nothing through a link.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.csv_reader import read_csv
from rag_eval_pipeline.conversion.decoded import Piece, Reader, SourceFile
from rag_eval_pipeline.conversion.detect import SAMPLE_BYTES, Format, detect_encoding, detect_format, looks_like_utf16
from rag_eval_pipeline.conversion.json_lines import read_jsonl
from rag_eval_pipeline.conversion.json_reader import read_json
from rag_eval_pipeline.conversion.parquet_reader import read_parquet
from rag_eval_pipeline.conversion.spec import SourceSpec, shown_path
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    from rag_eval_pipeline.conversion.kinds import Kind
    from rag_eval_pipeline.conversion.relations import Relation

_GLOB = re.compile(r"[*?\[]")

# Compressed files and archives will be opened before a reader sees them.
READERS: dict[Format, Reader] = {
    "csv": read_csv,
    "tsv": read_csv,
    "jsonl": read_jsonl,
    "json": read_json,
    "parquet": read_parquet,
}


def read_relation(paths: BenchmarkPaths, spec: SourceSpec, *, origin: bool = False) -> "Relation":
    """All files of a source as one relation, in stated order, globs by name.

    Args:
        paths: Of the benchmark.
        spec: What to read.
        origin: Adds source_file and source_row. Tables have none, so that a join with `source` leaves them unambiguous.

    Raises:
        InputError: `missing_file`, `path_outside`, `unsupported_format`, `empty_source`, `mixed_types` and the readers'
            own codes.
    """
    from rag_eval_pipeline.conversion.relations import relation

    if spec.files is not None:
        listed = matching_files(paths, spec.files)
        return relation(listed, lambda name, kinds: iter([_listing(name)]), spec.files, origin=origin)
    files = list(dict.fromkeys(name for path in spec.path for name in matching_files(paths, path)))

    def read(name: str, kinds: "Mapping[str, Kind] | None") -> Iterator[Piece]:
        has_rows = False
        for piece in _pieces(SourceFile(local_file(paths, name), name, shown_path(paths, name), spec, kinds=kinds)):
            has_rows = has_rows or bool(piece.unread or piece.batch.num_columns)
            yield piece
        if not has_rows:
            raise InputError("empty_source", shown_path(paths, name), "rows", found="none")

    return relation(files, read, shown_path(paths, ", ".join(files)), origin=origin)


def matching_files(paths: BenchmarkPaths, pattern: str) -> list[str]:
    """Regular files of the benchmark's folder that a path or a glob names, sorted by name.

    Raises:
        InputError: `missing_file`; `path_outside` for links, which could lead anywhere.
    """
    if (paths.source / pattern).exists() or not _GLOB.search(pattern):
        found = [paths.source / pattern]
    else:
        found = [path for path in paths.source.glob(pattern) if path.is_symlink() or path.is_file()]
    names = sorted(path.relative_to(paths.source).as_posix() for path in found)
    for name in names:
        local_file(paths, name)
    if not names:
        raise InputError(
            "missing_file", shown_path(paths, pattern), "at least one file", hint="Check the glob in benchmark.yaml."
        )
    return names


def local_file(paths: BenchmarkPaths, name: str) -> Path:
    """Absolute path of a regular file of the benchmark's folder.

    Raises:
        InputError: `missing_file`, `path_outside`.
    """
    shown = shown_path(paths, name)
    inside = Path(name)
    if inside.is_absolute() or ".." in inside.parts or "\x00" in name:
        raise InputError("path_outside", shown, "a file inside the benchmark's folder", found=name)
    path = paths.source
    for part in inside.parts:
        path = path / part
        if path.is_symlink():
            raise InputError(
                "path_outside", shown, "a file, not a link", found=part, hint="Copy the file into the folder."
            )
    if not path.is_file():
        raise InputError("missing_file", shown, "a file", hint="Check `path` in benchmark.yaml.")
    return path


def _listing(name: str) -> Piece:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"file": [name], "name": [Path(name).name]})
    return Piece(batch, (1,))


def _pieces(file: SourceFile) -> Iterator[Piece]:
    """A file's rows by the reader for what it holds."""
    with file.path.open("rb") as handle:
        sample = handle.read(SAMPLE_BYTES)
        handle.seek(0)
        encoding = detect_encoding(sample, file.spec.encoding)
        whole = len(sample) < SAMPLE_BYTES
        kind = file.spec.format or (
            "json"
            if file.spec.root is not None
            else detect_format(sample, file.path.name, file.shown, encoding=encoding, whole=whole)
        )
        if kind != "parquet" and encoding == "utf-8" and looks_like_utf16(sample):
            raise InputError(
                "bad_encoding",
                file.shown,
                "UTF-8",
                found=sample[:16],
                hint="State `encoding`, such as utf-16-le, in benchmark.yaml.",
            )
        yield from READERS[kind](handle, dataclasses.replace(file, encoding=encoding))
