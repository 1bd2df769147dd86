"""A benchmark's local files as relations for SQL, with every row accounted for.

Readers are chosen by content, one a format; a new format is an entry in `READERS`. Nothing outside the benchmark's
folder is read, and nothing through a link.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rag_eval_pipeline.conversion.csv_reader import read_csv
from rag_eval_pipeline.conversion.decoded import Rows, SourceFile, UnreadRow
from rag_eval_pipeline.conversion.detect import SAMPLE_BYTES, Format, detect_encoding, detect_format, looks_like_utf16
from rag_eval_pipeline.conversion.json_reader import read_json, read_jsonl
from rag_eval_pipeline.conversion.parquet_reader import read_parquet
from rag_eval_pipeline.conversion.spec import SourceSpec, shown_path
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import BenchmarkPaths

if TYPE_CHECKING:
    import pyarrow as pa

_GLOB = re.compile(r"[*?\[]")

# Compressed files and archives will be opened before a reader sees them.
READERS: dict[Format, Callable[[BinaryIO, SourceFile], Rows]] = {
    "csv": read_csv,
    "tsv": read_csv,
    "jsonl": read_jsonl,
    "json": read_json,
    "parquet": read_parquet,
}


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation for SQL, and what its files would not give.

    Args:
        table: Arrow table.
        files: Names of the files it was read from, in order.
        unread: Rows that could not be decoded.
        decoded: Rows by file, for their lines.
    """

    table: "pa.Table"
    files: tuple[str, ...]
    unread: tuple[UnreadRow, ...] = ()
    decoded: Mapping[str, Rows] = field(default_factory=dict, repr=False)

    def line(self, file: str | None, row: int | None) -> int | None:
        """1-based physical line of a row; None in files without lines."""
        rows = self.decoded.get(file or "")
        if rows is None or row is None or not rows.lines:
            return None
        place = bisect_left(rows.numbers, row)
        return rows.lines[place] if place < len(rows.numbers) and rows.numbers[place] == row else None


def read_relation(paths: BenchmarkPaths, spec: SourceSpec, *, origin: bool = False) -> Relation:
    """All files of a source as one relation, in stated order, globs by name.

    Args:
        paths: Of the benchmark.
        spec: What to read.
        origin: Adds source_file and source_row. Tables have none, so that a join with `source` leaves them unambiguous.

    Raises:
        InputError: `missing_file`, `path_outside`, `unsupported_format`, `empty_source`, `mixed_types` and the readers'
            own codes.
    """
    import pyarrow as pa

    from rag_eval_pipeline.conversion import relations

    if spec.files is not None:
        names = matching_files(paths, spec.files)
        listing = pa.table({"file": names, "name": [Path(name).name for name in names]})
        return Relation(relations.with_rows(listing, names, [1] * len(names)) if origin else listing, tuple(names))
    files = dict.fromkeys(name for path in spec.path for name in matching_files(paths, path))
    decoded = {name: _read_file(_source_file(paths, spec, name)) for name in files}
    plain = {name: rows for name, rows in decoded.items() if rows.table is None}
    parts = [({name: rows}, rows.table) for name, rows in decoded.items() if rows.table is not None]
    if plain:
        parts.append((plain, relations.table(_joined(plain))))
    tables = []
    for of_files, table in parts:
        names = [name for name, rows in of_files.items() for _ in rows.numbers]
        numbers = [number for rows in of_files.values() for number in rows.numbers]
        tables.append(relations.with_rows(table, names, numbers) if origin else table)
    try:
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        shown = shown_path(paths, ", ".join(files))
        found = str(error).splitlines()[0]
        raise InputError("mixed_types", shown, "files whose columns agree in type", found=found) from None
    unread = tuple(bad for rows in decoded.values() for bad in rows.unread)
    return Relation(whole, tuple(decoded), unread, decoded)


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


def _source_file(paths: BenchmarkPaths, spec: SourceSpec, name: str) -> SourceFile:
    return SourceFile(local_file(paths, name), name, shown_path(paths, name), spec)


def _read_file(file: SourceFile) -> Rows:
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
        rows = READERS[kind](handle, SourceFile(file.path, file.name, file.shown, file.spec, encoding))
    if not rows.columns and rows.table is None and not rows.unread:
        raise InputError("empty_source", file.shown, "rows", found="none")
    return rows


def _joined(decoded: Mapping[str, Rows]) -> dict[str, list[Any]]:
    """Columns of several files' rows: what a file lacks is None in its rows."""
    names = list(dict.fromkeys(name for rows in decoded.values() for name in rows.columns))
    return {
        name: [value for rows in decoded.values() for value in rows.columns.get(name, [None] * len(rows.numbers))]
        for name in names
    }
