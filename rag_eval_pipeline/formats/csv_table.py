"""CSV as rows of text: strict, UTF-8, with a header; neither types nor delimiters nor missing cells are guessed.

Lists and objects stand in cells as JSON. A text stands as it is, but an empty one, and one that begins with a quotation
mark, stand as JSON texts, so that an empty cell always means that nothing is there.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.json_text import checked_json
from rag_eval_pipeline.formats.model import read_bytes


class CsvRow(NamedTuple):
    """A record.

    Args:
        number: 1-based, without the header.
        cells: Text by column; empty where the cell is.
    """

    number: int
    cells: dict[str, str]


class CsvTable(NamedTuple):
    """A file's header and records."""

    columns: tuple[str, ...]
    rows: list[CsvRow]


def read_csv_table(path: Path) -> CsvTable:
    """The records of a CSV file; empty lines are none.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_encoding`, `bad_csv`: no header, a column twice, a record of
            another width, quotes that do not close.
    """
    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = raw[error.start : error.start + 8]
        raise InputError("bad_encoding", path, f"UTF-8 at byte {error.start}", found=found) from None
    csv.field_size_limit(sys.maxsize)  # a document may stand in one cell; the default is 128 kB
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        records = [record for record in reader if record]
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        raise InputError("bad_csv", place, "CSV", found=str(error), hint="Check the quotes.") from None
    if not records:
        raise InputError("bad_csv", path, "a header row", hint="Name the columns in the first line.")
    columns = tuple(records[0])
    if len(set(columns)) < len(columns):
        twice = next(name for number, name in enumerate(columns) if name in columns[:number])
        raise InputError("bad_csv", path, "each column once", found=twice)
    rows = []
    for number, record in enumerate(records[1:], start=1):
        if len(record) != len(columns):
            raise InputError(
                "bad_csv", path, f"{len(columns)} cells, as the header has", row=number, found=len(record),
                hint="Quote cells that hold commas or line breaks.",
            )  # fmt: skip
        rows.append(CsvRow(number, dict(zip(columns, record, strict=True))))
    return CsvTable(columns, rows)


def csv_bytes(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> bytes:
    """Records as CSV in UTF-8 with lines ending as RFC 4180 has them; columns that a row lacks are empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def text_cell(text: str | None) -> str:
    """A text, or none, as a cell."""
    if text is None:
        return ""
    return json_cell(text) if text == "" or text.startswith('"') else text


def cell_text(cell: str) -> str | None:
    """The text of a cell; None for an empty one."""
    if cell == "":
        return None
    if cell.startswith('"'):
        try:
            value = json.loads(cell)
        except ValueError:
            return cell  # a question that quotes: "Ulysses" was written by whom?
        return value if isinstance(value, str) else cell
    return cell


def json_cell(value: Any) -> str:
    """A value as a compact JSON cell."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def cell_json(cell: str, path: Path, row: int, column: str) -> Any:
    """The value of a JSON cell.

    Raises:
        InputError: `bad_json`, with row and column.
    """
    try:
        return json.loads(checked_json(cell.encode(), path))
    except InputError as error:
        expected = error.expected if error.expected != "JSON" else 'a JSON value such as ["a.pdf"]'
        raise InputError("bad_json", path, expected, row=row, field=column, found=cell) from None
