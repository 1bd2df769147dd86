"""Read CSV and TSV: every cell is text, and every record is a row or a rejected row.

Numbers, `NA` and `None` stay the texts they are. A record of the wrong width is a rejected row, and so is a last line
that was cut inside quotes. A quote that swallowed several lines is an error of the file, whose rows cannot be counted.

Arrow parses the blocks in which all quotes enclose whole cells or are doubled, as in RFC 4180, because it is several
times faster; Python parses the others, and those that Arrow refuses, and names what is wrong with which row.
"""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.batches import LONE_SURROGATE, UTF8, DecodedBatch, InputFile, RejectedRow, RowError
from rag_eval_pipeline.sources.detect import sniff_delimiter
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK

BLOCK_BYTES = 1 << 20
MAX_BLOCK_BYTES = 64 << 20  # a longer record lost a quote
MAX_CELL = 10_000_000  # characters; a longer cell lost a quote
BATCH_ROWS = 5_000  # of Python's parser


def read_csv(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode a CSV or TSV file."""
    csv.field_size_limit(sys.maxsize)  # a cell that is too long is one rejected row, not the end of the file
    parser = _Parser(file)
    if file.encoding not in UTF8:
        yield from parser.parse_with_python(handle)
        return
    try:
        for block in _regular_blocks(handle, parser.delimiter, parser.quote):
            batch = parser.parse_with_arrow(block) if parser.names is not None else None
            if batch is not None:
                yield batch
            else:
                yield from parser.parse_with_python(io.BytesIO(block.data))
    except _IrregularQuotes as error:
        yield from parser.parse_with_python(io.BufferedReader(_Continued(error.data, handle)))


class _Block(NamedTuple):
    """Whole records."""

    data: bytes
    record_lines: Any  # for each record, the number of lines of the block before it
    line_count: int


class _IrregularQuotes(Exception):
    """From here on, the ends of records cannot be found by quotes; `data` was read and not yielded."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data


def _regular_blocks(handle: BinaryIO, delimiter: str, quote: str) -> Iterator[_Block]:
    """Yield a UTF-8 file in blocks, as long as all quotes enclose whole cells or are doubled.

    Raises:
        _IrregularQuotes: At the first block where they do not.
    """
    rest = handle.read(3).removeprefix(BYTE_ORDER_MARK)
    if not (delimiter.isascii() and quote.isascii()):
        raise _IrregularQuotes(rest)
    while chunk := handle.read(BLOCK_BYTES):
        rest += chunk
        block = _first_block(rest, delimiter, quote)
        if block is not None:
            rest = rest[len(block.data) :]
            yield block
        elif len(rest) > MAX_BLOCK_BYTES:
            raise _IrregularQuotes(rest)
    if rest:
        block = _first_block(rest + b"\n", delimiter, quote)
        if block is None or len(block.data) <= len(rest):
            raise _IrregularQuotes(rest)
        yield block


def _first_block(data: bytes, delimiter: str, quote: str) -> _Block | None:
    """Return the whole records at the start of some bytes; None if there are none.

    A record ends at a line feed with an even number of quotes before it, if the quotes are regular.
    """
    characters = np.frombuffer(data, np.uint8)
    feeds = np.flatnonzero(characters == ord("\n"))
    quotes = np.flatnonzero(characters == ord(quote))
    before = np.searchsorted(quotes, feeds)
    ends = feeds[before % 2 == 0]
    if not len(ends):
        return None
    size = int(ends[-1]) + 1
    # Lines may also end at CR alone; a CR that is the last byte may still be followed by its line feed.
    if data.count(b"\r", 0, size) != data.count(b"\r\n", 0, size):
        raise _IrregularQuotes(data)
    quotes = quotes[: int(before[before % 2 == 0][-1])]
    opening, closing = quotes[0::2], quotes[1::2]
    is_edge = np.zeros(256, bool)
    is_edge[[ord(delimiter), ord("\n")]] = True
    # A closing quote right before an opening one is a doubled quote inside a cell.
    doubled = np.zeros(len(opening), bool)
    if len(opening) > 1:
        doubled[1:] = opening[1:] == closing[:-1] + 1
    previous = np.where(opening == 0, ord("\n"), characters[np.maximum(opening - 1, 0)])
    following = characters[closing + 1]
    opens = is_edge[previous] | doubled
    closes = is_edge[following] | (following == ord("\r")) | np.append(doubled[1:], False)[: len(closing)]
    if not (opens.all() and closes.all()):
        raise _IrregularQuotes(data)
    starts = np.concatenate(([0], ends[:-1] + 1))
    return _Block(data[:size], np.searchsorted(feeds, starts), int(np.searchsorted(feeds, size)))


class _Continued(io.RawIOBase):
    """Some bytes that were read already, followed by the rest of the file."""

    def __init__(self, head: bytes, handle: BinaryIO) -> None:
        self._head, self._handle = io.BytesIO(head), handle

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer has no len
        data = self._head.read(len(buffer)) or self._handle.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Parser:
    """Parses consecutive parts of a file; keeps its column names and the numbers of rows and lines that were read."""

    def __init__(self, file: InputFile) -> None:
        self.delimiter = file.spec.delimiter or ("\t" if file.spec.format == "tsv" else _sniffed_delimiter(file))
        self.quote = file.spec.quote or '"'
        self.names: list[str] | None = None
        if file.spec.columns and file.spec.header is None:
            self.names = header_names(file.spec.columns, file, 1)
        self._file = file
        self._number = 0  # of the last row
        self._line = 1  # of the next record

    def parse_with_arrow(self, block: _Block) -> DecodedBatch | None:
        """Return the rows of a block; None if Python's parser has to find what is wrong with them."""
        if b"\x00" in block.data or len(block.data) > MAX_CELL:
            return None
        names = self.names or []
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(block.data),
                pa.csv.ReadOptions(column_names=names, block_size=len(block.data) + 1),
                pa.csv.ParseOptions(delimiter=self.delimiter, quote_char=self.quote, newlines_in_values=True),
                pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
            )
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != len(block.record_lines):
            return None  # there are blank lines, which are no rows
        numbers = range(self._number + 1, self._number + 1 + table.num_rows)
        lines = block.record_lines + self._line
        self._number += table.num_rows
        self._line += block.line_count
        [rows] = table.combine_chunks().to_batches()
        return DecodedBatch(rows, numbers, lines, types=dict.fromkeys(names, "text"))

    def parse_with_python(self, handle: BinaryIO) -> Iterator[DecodedBatch]:
        """Yield the rows of the file's next part."""
        text = io.TextIOWrapper(handle, encoding=self._file.encoding, errors="surrogateescape", newline="")
        try:
            yield from self._records(text)
        except UnicodeDecodeError as error:
            found = error.object[error.start : error.start + 8]
            expected = f"{self._file.encoding} text"
            raise InputError("bad_encoding", self._file.shown, expected, found=found) from None

    def _records(self, text: io.TextIOWrapper) -> Iterator[DecodedBatch]:
        first = self._line
        reader = csv.reader(text, delimiter=self.delimiter, quotechar=self.quote, strict=True)
        rows: list[list[str]] = []
        numbers: list[int] = []
        lines: list[int] = []
        rejected: list[RejectedRow] = []
        while True:
            self._line = line = first + reader.line_num
            try:
                record = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self._refuse_lost_rows(error, line, first - 1 + reader.line_num)
                self._number += 1
                fault = RowError("bad_quoting", "quotes around whole cells, doubled inside")
                if _is_open(error):
                    fault = RowError("truncated", "a closing quote before the end of the file")
                fault.found = str(error)
                rejected.append(fault.at(self._file.name, self._number, line))
                continue
            if not record:
                continue
            if self.names is None:
                self.names = header_names(self._file.spec.columns or record, self._file, line)
                continue
            self._number += 1
            try:
                _check_cells(record, self.names)
            except RowError as fault:
                rejected.append(fault.at(self._file.name, self._number, line))
            else:
                rows.append(record)
                numbers.append(self._number)
                lines.append(line)
            if len(rows) + len(rejected) >= BATCH_ROWS:
                yield _batch(self.names, rows, numbers, lines, rejected)
                rows, numbers, lines, rejected = [], [], [], []
        if self.names is not None:
            yield _batch(self.names, rows, numbers, lines, rejected)

    def _refuse_lost_rows(self, error: csv.Error, start: int, end: int) -> None:
        """Raise if a quote that was open at the end of its line may have swallowed any number of rows."""
        place = f"{self._file.shown}, line {start}"
        if _is_open(error) and (end > start or self.names is None):
            hint = "Close it, or double a quote inside a cell."
            raise InputError("unclosed_quote", place, "a closing quote before the end of the file", hint=hint)
        if end > start:
            expected = "quotes around whole cells, doubled inside"
            raise InputError("bad_quoting", f"{place} to {end}", expected, found=str(error))
        if self.names is None:
            raise InputError("bad_quoting", place, "a header", found=str(error))


def _batch(
    names: Sequence[str], rows: list[list[str]], numbers: list[int], lines: list[int], rejected: list[RejectedRow]
) -> DecodedBatch:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
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
        raise RowError("row_width", f"{len(names)} cells", record)
    for name, value in zip(names, record, strict=True):
        if len(value) > MAX_CELL:
            raise RowError("cell_too_long", f"at most {MAX_CELL} characters", value, name)
        if "\x00" in value:
            raise RowError("nul_character", "text without NUL", value, name)
        if not value.isascii() and (wrong := LONE_SURROGATE.search(value)):
            raise RowError("bad_encoding", f"UTF-8 or the stated encoding at character {wrong.start()}", value, name)
