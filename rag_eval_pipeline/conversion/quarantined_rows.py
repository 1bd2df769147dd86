"""Quarantined rows written out for a person to mend: `rag-eval mend`.

Each gets a line of `mended.jsonl` with what it reads as now; lines that are there already are left as they are.
"""

import functools
import io
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_pipeline.conversion.quarantine_file import read_quarantine
from rag_eval_pipeline.conversion.records import QuarantineRecord
from rag_eval_pipeline.conversion.spec import read_spec
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import open_decoded
from rag_eval_pipeline.sources.detect import SAMPLE_BYTES, detect_encoding, detect_format
from rag_eval_pipeline.sources.mended_rows import Read, exact_kinds, values_of
from rag_eval_pipeline.sources.mends import MENDED, RowPlace, read_mends
from rag_eval_pipeline.sources.origins import OriginFile, Origins
from rag_eval_pipeline.sources.reading import file_reader
from rag_eval_pipeline.sources.source_spec import SourceSpec, shown_path
from rag_eval_pipeline.storage.atomic import atomic_write
from rag_eval_pipeline.storage.digests import file_sha256
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import BenchmarkPaths

STAGE = "validation"  # rows that `where` drops are no fault; a missing document is not in the row
MAX_UNDECODED = 100_000  # characters of a row that could not be decoded; they are only for looking at


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """What was written out.

    Args:
        path: `mended.jsonl`.
        count: New lines in it.
        undecoded: Of them, lines whose values have to be filled in before they are applied.
        waiting: Quarantined rows that had a line already.
        notes: Quarantined rows that cannot be mended there, and why.
    """

    path: Path
    count: int
    undecoded: int
    waiting: int
    notes: tuple[str, ...]


def write_for_mending(paths: BenchmarkPaths, *, origins: Origins | None = None) -> WrittenRows:
    """Appends a line for each quarantined row that has none yet; the file appears whole or not at all.

    Args:
        paths: Of a benchmark whose questions were converted.
        origins: Where its files are; its folder and its cache, without the network, unless given.

    Raises:
        InputError: `missing_file`, `bad_quarantine`, `stale_quarantine`, and faults of the spec or a file.
        ServiceError: `locked`.
    """
    if not paths.quarantine.is_file():
        hint = f"Run: rag-eval convert {paths.name}"
        raise InputError("missing_file", f"data/datasets/{paths.name}/{paths.quarantine.name}", "a file", hint=hint)
    with locked(paths.lock, holder=f"mending of {paths.name}, process {os.getpid()}", exclusive=True):
        return _written(paths, origins or Origins(paths, paths.cache))


def _written(paths: BenchmarkPaths, origins: Origins) -> WrittenRows:
    source = read_spec(paths).source
    files = {} if source.files is not None else {file.name: file for file in origins.data_files(source)}
    stated = read_mends(paths, {name: file.path for name, file in files.items()}).stated
    wanted, notes = _wanted(paths, files)
    lines: list[bytes] = []
    waiting = undecoded = 0
    for name, records in wanted.items():
        sha256 = file_sha256(files[name].path)
        missing = {row: record for row, record in records.items() if RowPlace(name, sha256, row) not in stated}
        waiting += len(records) - len(missing)
        if not missing:
            continue
        for record, found in _rows(paths, source, files[name], missing):
            try:
                lines.append(_line(record, found))
            except (TypeError, ValueError) as error:
                notes.append(f"{record.message(paths.name)} Its values have no JSON ({error}); mend the file itself.")
            else:
                undecoded += "undecoded" in found
    target = paths.source / MENDED
    if lines:
        before = target.read_bytes() if target.is_file() else b""
        between = b"\n" if before and not before.endswith(b"\n") else b""
        atomic_write(target, before + between + b"\n".join(lines) + b"\n")
    return WrittenRows(target, len(lines), undecoded, waiting, tuple(notes))


def _wanted(
    paths: BenchmarkPaths, files: Mapping[str, OriginFile]
) -> tuple[dict[str, dict[int, QuarantineRecord]], list[str]]:
    """The first record of each row that can be mended, by file and row, and what cannot be."""
    wanted: dict[str, dict[int, QuarantineRecord]] = defaultdict(dict)
    notes = []
    for record in read_quarantine(paths.quarantine):
        if record.stage != STAGE:
            continue
        if record.file is None or record.row is None:
            notes.append(
                f"{record.message(paths.name)} The query does not say which row it is; let it return source_row."
            )
        elif record.file not in files or file_sha256(files[record.file].path) != record.sha256:
            raise InputError(
                "stale_quarantine",
                shown_path(paths, record.file),
                "the file that the quarantined rows were read from",
                row=record.row,
                hint=f"It has changed since. Run: rag-eval convert {paths.name}",
            )
        else:
            wanted[record.file].setdefault(record.row, record)
    return wanted, notes


def _line(record: QuarantineRecord, found: Mapping[str, Any]) -> bytes:
    """A line of `mended.jsonl`.

    Raises:
        TypeError: A value that JSON does not have, such as bytes.
        ValueError: A float that JSON does not have.
    """
    was = record.code if record.field is None else f"{record.code}: {record.field}"
    line = {"file": record.file, "sha256": record.sha256, "row": record.row, **found, "was": was}
    return json.dumps(line, ensure_ascii=False, allow_nan=False, default=_text).encode()


def _text(value: object) -> str:
    if isinstance(value, bytes):
        raise TypeError("bytes")
    return str(value)  # times and decimals of parquet


def _rows(
    paths: BenchmarkPaths, source: SourceSpec, origin: OriginFile, wanted: Mapping[int, QuarantineRecord]
) -> Iterator[tuple[QuarantineRecord, dict[str, Any]]]:
    """Each wanted row, in order, with its `values`, and what stands in the file where it could not be decoded."""
    shown = shown_path(paths, origin.name)

    read = functools.partial(file_reader(paths, source, {origin.name: origin}), origin.name)
    decoded, ends, columns = _decoded(read, wanted)
    undecoded = {row: record for row, record in wanted.items() if row not in decoded}
    texts = _texts(origin, source, shown, undecoded, ends)
    for row, record in sorted(wanted.items()):
        if row in decoded:
            yield record, {"values": decoded[row]}
        else:
            blank = dict.fromkeys(columns or ["column"])
            yield record, {"values": blank, "undecoded": texts.get(row, record.excerpt or "")}


def _decoded(
    read: Read, wanted: Mapping[int, QuarantineRecord]
) -> tuple[dict[int, dict[str, Any]], dict[int, int], Sequence[str]]:
    """Values of wanted rows, the line on which the row after each one starts, and the file's columns."""
    exact = exact_kinds(read)
    found: dict[int, dict[str, Any]] = {}
    ends: dict[int, int] = {}
    columns: Sequence[str] = list(exact or ())
    for piece in read(exact):
        columns = columns or piece.batch.schema.names
        places = [place for place, number in enumerate(piece.numbers) if number in wanted]
        if places:
            batch = piece.batch.take(places)
            kept = {
                name: values_of(batch.column(name), exact[name] if exact is not None else None)
                for name in batch.schema.names
            }
            for position, place in enumerate(places):
                found[int(piece.numbers[place])] = {name: values[position] for name, values in kept.items()}
        starts = {row.row: row.line for row in piece.unread if row.line is not None}
        starts.update(zip(piece.numbers, map(int, piece.lines), strict=False))
        ends.update({row - 1: line for row, line in starts.items() if row - 1 in wanted})
    return found, ends, columns


def _texts(
    origin: OriginFile, source: SourceSpec, shown: str, rows: Mapping[int, QuarantineRecord], ends: Mapping[int, int]
) -> dict[int, str]:
    """What stands in the file's lines for each row, by row; none in files without lines."""
    starts = {record.line: row for row, record in rows.items() if record.line is not None}
    if not starts:
        return {}
    with open_decoded(origin.path, origin.compression, shown=shown) as handle:
        sample = handle.read(SAMPLE_BYTES)
    encoding = detect_encoding(sample, source.encoding)
    kind = source.format or detect_format(
        sample, Path(origin.name).name, shown, encoding=encoding, whole=len(sample) < SAMPLE_BYTES
    )
    is_table = kind in {"csv", "tsv"}  # records may have several lines, and lines may end at CR
    texts: dict[int, str] = {}
    with open_decoded(origin.path, origin.compression, shown=shown) as handle:
        lines = io.TextIOWrapper(handle, encoding, errors="backslashreplace", newline="" if is_table else "\n")
        row, end = None, 0
        for number, line in enumerate(lines, start=1):
            if row is not None and number >= end:
                row = None
            if number in starts:
                row = starts[number]
                end = ends.get(row, sys.maxsize) if is_table else number + 1
            if row is not None:
                texts[row] = (texts.get(row, "") + line)[:MAX_UNDECODED]
    return {row: text.strip("\r\n") for row, text in texts.items()}
