"""Read CSV and TSV: every cell is text, and every record is a row or a rejected row.

Numbers, `NA` and `None` stay the texts they are. A record of the wrong width is a rejected row, and so is a last line
that was cut inside quotes. A quote that swallowed several lines is an error of the file, whose rows cannot be counted.
"""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.batches import LONE_SURROGATE, UTF8, DecodedBatch, InputFile, RejectedRow, RowError
from rag_eval_pipeline.sources.detect import sniff_delimiter

MAX_CELL = 10_000_000  # characters; a longer cell lost a quote
BATCH_ROWS = 5_000


def read_csv(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a CSV or TSV file."""
    csv.field_size_limit(sys.maxsize)  # a cell that is too long is one rejected row, not the end of the file
    encoding = "utf-8-sig" if file.encoding in UTF8 else file.encoding
    text = io.TextIOWrapper(handle, encoding=encoding, errors="surrogateescape", newline="")
    try:
        yield from _records(text, file)
    except UnicodeDecodeError as error:
        found = error.object[error.start : error.start + 8]
        raise InputError("bad_encoding", file.shown, f"{file.encoding} text", found=found) from None


def _records(text: io.TextIOWrapper, file: InputFile) -> Iterator[DecodedBatch]:
    delimiter = file.spec.delimiter or ("\t" if file.spec.format == "tsv" else _sniffed_delimiter(file))
    reader = csv.reader(text, delimiter=delimiter, quotechar=file.spec.quote or '"', strict=True)
    names: list[str] | None = None
    if file.spec.columns and file.spec.header is None:
        names = header_names(file.spec.columns, file, 1)
    number = 0  # of the last row
    columns: list[list[str]] = [[] for _ in names or ()]  # lists of records would keep the garbage collector busy
    numbers: list[int] = []
    lines: list[int] = []
    rejected: list[RejectedRow] = []
    while True:
        line = 1 + reader.line_num
        try:
            record = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            _refuse_lost_rows(error, file, line, reader.line_num, has_header=names is not None)
            number += 1
            fault = RowError("bad_quoting", None, "quotes around whole cells, doubled inside")
            if _is_open(error):
                fault = RowError("truncated", None, "a closing quote before the end of the file")
            fault.found = str(error)
            rejected.append(fault.at(file.name, number, line))
            continue
        if not record:
            continue
        if names is None:
            names = header_names(file.spec.columns or record, file, line)
            columns = [[] for _ in names]
            continue
        number += 1
        try:
            _check_cells(record, names)
        except RowError as fault:
            rejected.append(fault.at(file.name, number, line))
        else:
            for cells, value in zip(columns, record, strict=True):
                cells.append(value)
            numbers.append(number)
            lines.append(line)
        if len(numbers) + len(rejected) >= BATCH_ROWS:
            yield _batch(names, columns, numbers, lines, rejected)
            columns, numbers, lines, rejected = [[] for _ in names], [], [], []
    if names is not None:
        yield _batch(names, columns, numbers, lines, rejected)


def _refuse_lost_rows(error: csv.Error, file: InputFile, start: int, end: int, *, has_header: bool) -> None:
    """Raise if a quote that was open at the end of its line may have swallowed any number of rows."""
    place = f"{file.shown}, line {start}"
    if _is_open(error) and (end > start or not has_header):
        hint = "Close it, or double a quote inside a cell."
        raise InputError("unclosed_quote", place, "a closing quote before the end of the file", hint=hint)
    if end > start:
        expected = "quotes around whole cells, doubled inside"
        raise InputError("bad_quoting", f"{place} to {end}", expected, found=str(error))
    if not has_header:
        raise InputError("bad_quoting", place, "a header", found=str(error))


def _batch(
    names: Sequence[str], columns: list[list[str]], numbers: list[int], lines: list[int], rejected: list[RejectedRow]
) -> DecodedBatch:
    arrays = [pa.array(cells, pa.string()) for cells in columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
    return DecodedBatch(batch, numbers, lines, rejected, dict.fromkeys(names, "text"))


def _is_open(error: csv.Error) -> bool:
    """Return whether the file ended inside quotes."""
    return "unexpected end of data" in str(error)


def _sniffed_delimiter(file: InputFile) -> str:
    text = io.TextIOWrapper(io.BytesIO(file.sample), encoding=file.encoding, errors="surrogateescape", newline="")
    try:
        return sniff_delimiter(text.read())
    except UnicodeDecodeError:  # the sample ends inside a character of UTF-16
        return sniff_delimiter(file.sample[: len(file.sample) & ~3].decode(file.encoding, "replace"))


def header_names(record: Sequence[str], file: InputFile, line: int) -> list[str]:
    """Return the column names; an empty one is called by its position, since SQL cannot name it."""
    names = [name or f"column_{position}" for position, name in enumerate(record, start=1)]
    place = f"{file.shown}, line {line}"
    seen: set[str] = set()
    for name in names:
        if LONE_SURROGATE.search(name):
            hint = "State `encoding` in benchmark.yaml."
            raise InputError("bad_encoding", place, f"{file.encoding} text", found=name, hint=hint)
        if name.casefold() in seen:
            expected = "column names that differ in more than case"
            hint = "State `columns` and `header: replace` in benchmark.yaml."
            raise InputError("duplicate_column", place, expected, field=name, found=list(record), hint=hint)
        seen.add(name.casefold())
    return names


def _check_cells(record: Sequence[str], names: Sequence[str]) -> None:
    if len(record) != len(names):
        raise RowError("row_width", None, f"{len(names)} cells", record)
    for name, value in zip(names, record, strict=True):
        if len(value) > MAX_CELL:
            raise RowError("cell_too_long", name, f"at most {MAX_CELL} characters", value)
        if "\x00" in value:
            raise RowError("nul_character", name, "text without NUL", value)
        try:
            value.encode()  # twice as fast as a search for lone surrogates
        except UnicodeEncodeError as error:
            expected = f"UTF-8 or the stated encoding at character {error.start}"
            raise RowError("bad_encoding", name, expected, value) from None
