"""Read CSV and TSV: every cell is text, and every record that has a cell is a row or a rejected row.

Numbers, `NA` and `None` stay the texts they are; `="007"` and links, which Excel writes as formulas, are what it shows.
A record of the wrong width is a rejected row, and so is a last line that was cut inside quotes. A quote that swallowed
several lines is an error of the file, whose rows cannot be counted.
"""

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.sources.batches import LONE_SURROGATE, UTF8, DecodedBatch, InputFile, RejectedRow, RowError
from rag_eval_pipeline.sources.format_detection import Layout, sniff_layout

NO_QUOTES, BACKSLASH = "none", "backslash"
_BACKSLASH = re.compile(r'\\(["\\]?)')
_QUOTED = r'"((?:[^"]|"")*)"'
_FORMULA = re.compile(rf"=(?:{_QUOTED}|HYPERLINK\(\s*{_QUOTED}\s*(?:[,;].*)?\))", re.IGNORECASE | re.DOTALL)
_SHORTENED = r"^\d\.\d+E\+1\d$"  # as Excel shows, and saves, numbers of more than eleven digits
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
    layout = _layout(file)
    above = layout.lines_above if not file.spec.columns or file.spec.header or not layout.title else 0
    for _ in range(above):
        text.readline()
    quote = file.spec.quote or '"'
    if quote == NO_QUOTES:
        reader = csv.reader(text, delimiter=layout.delimiter, quoting=csv.QUOTE_NONE, strict=True)
    elif quote == BACKSLASH:  # before a quote or a backslash; any other is text, as in C:\new
        escaped = (_BACKSLASH.sub(lambda match: match[0] if match[1] else r"\\", line) for line in text)
        reader = csv.reader(escaped, delimiter=layout.delimiter, escapechar="\\", strict=True)
    else:
        reader = csv.reader(text, delimiter=layout.delimiter, quotechar=quote, strict=True)
    notes = _Notes()
    names: list[str] | None = None
    header: list[str] = []
    if file.spec.columns and file.spec.header is None:
        names = header_names(file.spec.columns, file, 1)
    number = 0  # of the last row
    columns: list[list[str]] = [[] for _ in names or ()]  # lists of records would keep the garbage collector busy
    numbers: list[int] = []
    lines: list[int] = []
    rejected: list[RejectedRow] = []
    while True:
        line = 1 + above + reader.line_num
        try:
            record = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            _refuse_lost_rows(error, file, line, above + reader.line_num, has_header=names is not None)
            number += 1
            fault = RowError("bad_quoting", None, _quotes_doubled(file))
            if _is_open(error):
                fault = RowError("truncated", None, "a closing quote before the end of the file")
            fault.found = str(error)
            rejected.append(fault.at(file.name, number, line))
            continue
        if not "".join(record).strip():  # rows of separators alone, as spreadsheets write empty ones
            continue
        record[0] = record[0].removeprefix("\ufeff")  # files that were appended to another keep their mark
        if names is None:
            names, header = header_names(file.spec.columns or record, file, line), record
            columns = [[] for _ in names]
            if layout.title:
                notes.add(f"the header is line {line}, below {layout.title[:60]!r}")
            continue
        number += 1
        try:
            _check_cells(record, names)
            if record == header:
                raise RowError("repeated_header", None, "a row; the header is repeated here", record)
            if reader.line_num + above > line:
                _refuse_swallowed_rows(record, file, f"{file.shown}, line {line} to {above + reader.line_num}")
        except RowError as fault:
            rejected.append(fault.at(file.name, number, line))
        else:
            for cells, value in zip(columns, record, strict=True):
                cells.append(value)
            numbers.append(number)
            lines.append(line)
        if len(numbers) + len(rejected) >= BATCH_ROWS:
            yield _batch(names, columns, numbers, lines, rejected, notes)
            columns, numbers, lines, rejected = [[] for _ in names], [], [], []
    if names is not None:
        yield _batch(names, columns, numbers, lines, rejected, notes)


def _refuse_lost_rows(error: csv.Error, file: InputFile, start: int, end: int, *, has_header: bool) -> None:
    """Raise if a quote that was open at the end of its line may have swallowed any number of rows."""
    place = f"{file.shown}, line {start}"
    if end > start and _may_have_no_quotes(file):
        raise _quotes_as_text(f"{place} to {end}", str(error))
    if _is_open(error) and (end > start or not has_header):
        hint = "Close it, or double a quote inside a cell."
        raise InputError("unclosed_quote", place, "a closing quote before the end of the file", hint=hint)
    if end > start:
        raise InputError("bad_quoting", f"{place} to {end}", _quotes_doubled(file), found=str(error))
    if not has_header:
        raise InputError("bad_quoting", place, "a header", found=str(error))


def _quotes_doubled(file: InputFile) -> str:
    is_escaped = file.spec.quote is None and b'\\"' in file.sample
    remedy = ", or `quote: backslash` beside `path` where a backslash escapes them" if is_escaped else ""
    return f"quotes around whole cells, doubled inside{remedy}"


def _refuse_swallowed_rows(record: Sequence[str], file: InputFile, place: str) -> None:
    """Raise if a cell of several lines has tabs in a file of tabs: its quotes are texts, and it is several rows."""
    swallowed = next((cell for cell in record if "\n" in cell and "\t" in cell), None)
    if swallowed is not None and _may_have_no_quotes(file):
        raise _quotes_as_text(place, swallowed)


def _may_have_no_quotes(file: InputFile) -> bool:
    return file.spec.quote is None and _layout(file).delimiter == "\t"


def _quotes_as_text(place: str, found: str) -> InputError:
    hint = "State `quote: none` in benchmark.yaml if quotes are texts here, or `quote: '\"'` if they are not."
    return InputError("quotes_as_text", place, "cells of one line, or without tabs", found=found, hint=hint)


class _Notes:
    """What is said once about a file, whatever the number of its batches."""

    def __init__(self) -> None:
        self._new: list[str] = []
        self._known: set[str] = set()

    def add(self, note: str, kind: str | None = None) -> None:
        """Note something, unless there is a note of its kind."""
        if (kind or note) not in self._known:
            self._known.add(kind or note)
            self._new.append(note)

    def taken(self) -> list[str]:
        """Return the notes since the last call."""
        new, self._new = self._new, []
        return new


def _batch(
    names: Sequence[str], columns: list[list[str]], numbers: list[int], lines: list[int], rejected: list[RejectedRow],
    notes: _Notes,
) -> DecodedBatch:  # fmt: skip
    arrays = [
        _shown_by_excel(name, pa.array(cells, pa.string()), notes) for name, cells in zip(names, columns, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
    return DecodedBatch(batch, numbers, lines, rejected, dict.fromkeys(names, "text"), notes.taken())


def _shown_by_excel(name: str, cells: pa.StringArray, notes: _Notes) -> pa.StringArray:
    """Return cells as Excel shows its two formulas that are texts: `="007"` and `=HYPERLINK("https://...","name")`."""
    if (shortened := pc.index(pc.match_substring_regex(cells, _SHORTENED), True).as_py()) >= 0:
        found = cells[shortened].as_py()
        notes.add(f"column {name} has {found}, of which Excel has cut digits: format it as text and export again", name)
    if not pc.any(pc.starts_with(cells, "=")).as_py():
        return cells
    shown = [
        (match[1] or match[2] or "").replace('""', '"') if (match := _FORMULA.fullmatch(cell)) else cell
        for cell in cells.to_pylist()
    ]
    if shown != cells.to_pylist():
        notes.add('cells such as ="007" and =HYPERLINK("https://...") are read as the text or the address in them')
    return pa.array(shown, pa.string())


def _is_open(error: csv.Error) -> bool:
    """Return whether the file ended inside quotes."""
    return "unexpected end of data" in str(error)


def _layout(file: InputFile) -> Layout:
    text = io.TextIOWrapper(io.BytesIO(file.sample), encoding=file.encoding, errors="surrogateescape", newline="")
    try:
        found = sniff_layout(text.read())
    except UnicodeDecodeError:  # the sample ends inside a character of UTF-16
        found = sniff_layout(file.sample[: len(file.sample) & ~3].decode(file.encoding, "replace"))
    stated = file.spec.delimiter or ("\t" if file.spec.format == "tsv" else found.delimiter)
    return found if stated == found.delimiter else Layout(stated)


def header_names(record: Sequence[str], file: InputFile, line: int) -> list[str]:
    """Return the column names; an empty one is called by its position, since SQL cannot name it."""
    names = [name or f"column_{position}" for position, name in enumerate(record, start=1)]
    place = f"{file.shown}, line {line}"
    seen: set[str] = set()
    for name in names:
        if LONE_SURROGATE.search(name):
            hint = "Save the file as UTF-8, or state `encoding` in benchmark.yaml."
            raise InputError("bad_encoding", place, f"{file.encoding} text", found=name, hint=hint)
        if name.casefold() in seen:
            expected = "column names that differ in more than case"
            hint = "Rename one of them, or state `columns` and `header: replace` in benchmark.yaml."
            raise InputError("duplicate_column", place, expected, field=name, found=list(record), hint=hint)
        seen.add(name.casefold())
    return names


def _check_cells(record: Sequence[str], names: Sequence[str]) -> None:
    if len(record) != len(names):
        raise RowError("row_width", None, counted(len(names), "cell"), record)
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
