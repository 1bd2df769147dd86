"""CSV and TSV: every cell is text, every record is accounted for.

Numbers, `NA` and `None` stay the text they are. A record of another width is an unread row, and so is a last line that
opens a quote and was cut before it is closed. A quote that swallowed lines is an error of the file, because then nobody
can say how many rows it has.

Where every quote of a block stands at the edge of a cell or is doubled, Arrow's parser and Python's agree, and Arrow's
is taken: it needs 1.0 to 2.0 us for a row of 1 kB, with 1.2 us to look at the quotes, and Python's 6.5 us and as much
again for columns. A block that Arrow refuses is read by Python's, which says what is wrong with which row.
"""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.csv_blocks import Irregular, regular_blocks
from rag_eval_pipeline.sources.decoded import LONE_SURROGATE, BadRow, Piece, SourceFile, UnreadRow
from rag_eval_pipeline.sources.detect import SAMPLE_BYTES, sniff_delimiter

if TYPE_CHECKING:
    from rag_eval_pipeline.sources.csv_blocks import Block

MAX_CELL = 10_000_000  # characters; a longer cell is a file that lost a quote, not a question
PIECE_ROWS = 5_000
_UTF8 = frozenset({"utf-8", "utf-8-sig", "ascii"})


def read_csv(handle: BinaryIO, file: SourceFile) -> Iterator[Piece]:
    """The file's rows; every cell is text.

    Raises:
        InputError: `unclosed_quote`, `bad_quoting` over several lines, `duplicate_column`, `bad_encoding`.
    """
    csv.field_size_limit(sys.maxsize)  # a cell that is too long is one bad row, not the end of the file
    start = _Start(handle)
    table = _Table(file, _delimiter(start.peek(SAMPLE_BYTES), file), file.spec.quote or '"')
    if file.encoding not in _UTF8:
        yield from table.records(start)
        return
    try:
        for block in regular_blocks(start, table.delimiter, table.quote):
            if table.names is None or (piece := table.parsed(block)) is None:
                yield from table.records(io.BytesIO(block.data))
            else:
                yield piece
    except Irregular as rest:
        yield from table.records(_Start(start, rest.data))


class _Start(io.RawIOBase):
    """A file whose first bytes were read already."""

    def __init__(self, handle: "BinaryIO | _Start", head: bytes = b"") -> None:
        self._handle, self._head = handle, head

    def peek(self, size: int) -> bytes:
        """The first bytes, which stay to be read."""
        self._head += self._handle.read(size - len(self._head))
        return self._head

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        head, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        return head if len(head) == size else head + self._handle.read(-1 if size < 0 else size - len(head))

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's WriteableBuffer has no len
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Table:
    """What has been learnt of a file: its columns, and how many rows and lines were passed."""

    def __init__(self, file: SourceFile, delimiter: str, quote: str) -> None:
        self.delimiter, self.quote = delimiter, quote
        self.names: list[str] | None = None
        if file.spec.columns and file.spec.header is None:
            self.names = _header(file.spec.columns, file, 1)
        self._file = file
        self._number = 0  # of the last row
        self._line = 1  # of the next record

    def parsed(self, block: "Block") -> Piece | None:
        """A block by Arrow's parser; None when a person would have to be told more than it tells."""
        import pyarrow as pa
        import pyarrow.csv as pc

        names = self.names or []
        if b"\x00" in block.data or len(block.data) > MAX_CELL:
            return None
        text = {name: pa.string() for name in names}
        try:
            table = pc.read_csv(
                pa.BufferReader(block.data),
                pc.ReadOptions(column_names=names, block_size=len(block.data) + 1),
                pc.ParseOptions(delimiter=self.delimiter, quote_char=self.quote, newlines_in_values=True),
                pc.ConvertOptions(column_types=text, strings_can_be_null=False),
            )
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if table.num_rows != len(block.lines):
            return None  # blank lines, which are no rows
        numbers = range(self._number + 1, self._number + 1 + table.num_rows)
        lines = block.lines + self._line
        self._number += table.num_rows
        self._line += block.line_count
        [batch] = table.combine_chunks().to_batches()
        return Piece(batch, numbers, lines, kinds=dict.fromkeys(names, "text"))

    def records(self, handle: BinaryIO | _Start) -> Iterator[Piece]:
        """Records by Python's parser, from wherever the last ones ended."""
        binary: Any = io.BufferedReader(handle) if isinstance(handle, _Start) else handle
        text = io.TextIOWrapper(binary, encoding=self._file.encoding, errors="surrogateescape", newline="")
        try:
            yield from self._records(text)
        except UnicodeDecodeError as error:
            raise InputError(
                "bad_encoding",
                self._file.shown,
                f"{self._file.encoding} text",
                found=error.object[error.start : error.start + 8],
            ) from None

    def _records(self, text: "io.TextIOWrapper[Any]") -> Iterator[Piece]:
        first = self._line
        reader = csv.reader(text, delimiter=self.delimiter, quotechar=self.quote, strict=True)
        rows: list[list[str]] = []
        numbers: list[int] = []
        lines: list[int] = []
        unread: list[UnreadRow] = []
        while True:
            self._line = line = first + reader.line_num
            try:
                record = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self._refuse_swallowed_rows(error, line, first - 1 + reader.line_num)
                self._number += 1
                bad = BadRow("bad_quoting", "quotes around whole cells, doubled inside", None)
                if _is_open(error):
                    bad = BadRow("truncated", "a closing quote before the end of the file", None)
                bad.found = str(error)
                unread.append(bad.unread(self._file.name, self._number, line))
                continue
            if not record:
                continue
            if self.names is None:
                self.names = _header(self._file.spec.columns or record, self._file, line)
                continue
            self._number += 1
            try:
                _check_cells(record, self.names)
            except BadRow as bad:
                unread.append(bad.unread(self._file.name, self._number, line))
            else:
                rows.append(record)
                numbers.append(self._number)
                lines.append(line)
            if len(rows) + len(unread) >= PIECE_ROWS:
                yield self._piece(rows, numbers, lines, unread)
                rows, numbers, lines, unread = [], [], [], []
        if self.names is not None:
            yield self._piece(rows, numbers, lines, unread)

    def _piece(self, rows: list[list[str]], numbers: list[int], lines: list[int], unread: list[UnreadRow]) -> Piece:
        import pyarrow as pa

        names = self.names or []
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        arrays = [pa.array(cells, pa.string()) for cells in columns]
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        return Piece(batch, numbers, lines, unread, dict.fromkeys(names, "text"))

    def _refuse_swallowed_rows(self, error: csv.Error, start: int, end: int) -> None:
        """A quote open at the end of its line may have swallowed any number of rows: then nothing can be counted."""
        place = f"{self._file.shown}, line {start}"
        if _is_open(error) and (end > start or self.names is None):
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
        if self.names is None:
            raise InputError("bad_quoting", place, "a header", found=str(error))


def _is_open(error: csv.Error) -> bool:
    """Whether the file ended inside quotes."""
    return "unexpected end of data" in str(error)


def _delimiter(sample: bytes, file: SourceFile) -> str:
    if file.spec.delimiter is not None:
        return file.spec.delimiter
    if file.spec.format == "tsv":
        return "\t"
    text = io.TextIOWrapper(io.BytesIO(sample), encoding=file.encoding, errors="surrogateescape", newline="")
    try:
        return sniff_delimiter(text.read())
    except UnicodeDecodeError:  # UTF-16 that the sample cuts in the middle of a character
        return sniff_delimiter(sample[: len(sample) & ~3].decode(file.encoding, "replace"))


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
                hint="State `columns` and `header: replace` in benchmark.yaml.",
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
