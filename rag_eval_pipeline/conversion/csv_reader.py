"""CSV and TSV: every cell is text, every record is accounted for.

Numbers, `NA` and `None` stay the text they are. A record of another width is an unread row; a quote that swallowed
lines is an error of the file, because then nobody can say how many rows it has.
"""

import csv
import io
import sys
from collections.abc import Sequence
from typing import BinaryIO

from rag_eval_pipeline.conversion.decoded import LONE_SURROGATE, BadRow, Rows, SourceFile, UnreadRow
from rag_eval_pipeline.conversion.detect import SAMPLE_BYTES, sniff_delimiter
from rag_eval_pipeline.errors import InputError

MAX_CELL = 10_000_000  # characters; a longer cell is a file that lost a quote, not a question


def read_csv(handle: BinaryIO, file: SourceFile) -> Rows:
    """CSV or TSV with a header; every cell is text.

    Raises:
        InputError: `unclosed_quote`, `bad_quoting` over several lines, `duplicate_column`, `bad_encoding`.
    """
    csv.field_size_limit(sys.maxsize)  # a cell that is too long is one bad row, not the end of the file
    text = io.TextIOWrapper(handle, encoding=file.encoding, errors="surrogateescape", newline="")
    try:
        return _csv_rows(text, file)
    except UnicodeDecodeError as error:
        raise InputError(
            "bad_encoding", file.shown, f"{file.encoding} text", found=error.object[error.start : error.start + 8]
        ) from None
    finally:
        text.detach()


def _csv_rows(text: io.TextIOWrapper, file: SourceFile) -> Rows:
    delimiter = file.spec.delimiter
    if delimiter is None:
        delimiter = "\t" if file.spec.format == "tsv" else sniff_delimiter(text.read(SAMPLE_BYTES))
        text.seek(0)
    rows = Rows()
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    names: list[str] | None = None
    cells: list[list[str]] = []
    number = 0
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            _refuse_swallowed_rows(error, file, line, reader.line_num)
            if names is None:
                raise InputError("bad_quoting", f"{file.shown}, line {line}", "a header", found=str(error)) from None
            number += 1
            rows.unread.append(
                UnreadRow(
                    file.name, number, line, "bad_quoting", "quotes around whole cells, doubled inside", str(error)
                )
            )
            continue
        if not record:
            continue
        if names is None:
            names = _header(record, file, line)
            cells = [[] for _ in names]
            continue
        number += 1
        try:
            _check_cells(record, names)
        except BadRow as bad:
            rows.unread.append(UnreadRow(file.name, number, line, bad.code, bad.expected, bad.found, bad.field))
            continue
        for values, value in zip(cells, record, strict=True):
            values.append(value)
        rows.numbers.append(number)
        rows.lines.append(line)
    rows.columns = dict(zip(names or (), cells, strict=True))
    return rows


def _refuse_swallowed_rows(error: csv.Error, file: SourceFile, start: int, end: int) -> None:
    """A quote open at the end of its line may have swallowed any number of rows: then nothing can be counted."""
    place = f"{file.shown}, line {start}"
    if "unexpected end of data" in str(error):
        raise InputError(
            "unclosed_quote",
            place,
            "a closing quote before the end of the file",
            hint="Close it, or double a quote inside a cell.",
        )
    if end > start:
        raise InputError(
            "bad_quoting", f"{place} to {end}", "quotes around whole cells, doubled inside", found=str(error)
        )


def _header(record: Sequence[str], file: SourceFile, line: int) -> list[str]:
    """Column names as they are; a nameless one is called by its place, since SQL has no word for it."""
    names = [name or f"column_{position}" for position, name in enumerate(record, start=1)]
    seen: set[str] = set()
    for name in names:
        if LONE_SURROGATE.search(name):
            raise InputError(
                "bad_encoding",
                f"{file.shown}, line {line}",
                f"{file.encoding} text",
                found=name,
                hint="State `encoding` in benchmark.yaml.",
            )
        if name.casefold() in seen:
            raise InputError(
                "duplicate_column",
                f"{file.shown}, line {line}",
                "column names that differ in more than case",
                field=name,
                found=list(record),
            )
        seen.add(name.casefold())
    return names


def _check_cells(record: Sequence[str], names: Sequence[str]) -> None:
    if len(record) != len(names):
        raise BadRow("row_width", f"{len(names)} cells", record)
    for name, value in zip(names, record, strict=True):
        if len(value) > MAX_CELL:
            raise BadRow("cell_too_long", f"at most {MAX_CELL} characters", value, name)
        if "\x00" in value:
            raise BadRow("nul_character", "text without NUL", value, name)
        if not value.isascii() and (wrong := LONE_SURROGATE.search(value)):
            raise BadRow("bad_encoding", f"UTF-8 or the stated encoding at character {wrong.start()}", value, name)
