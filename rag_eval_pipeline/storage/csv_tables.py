"""CSV tables of the formats: strict, UTF-8, with a header; types, delimiters and missing cells are never guessed.

Cells hold lists and objects as JSON. An empty cell means that nothing is there; an empty text, and a text that begins
with a quotation mark, are written as JSON.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.storage.json_files import decode_utf8, parse_json, read_bytes

CSV = (".csv",)


class CsvRow(NamedTuple):
    """A record: its 1-based number without the header, and its text by column."""

    number: int
    cells: dict[str, str]


class CsvTable(NamedTuple):
    """A file's header and records."""

    columns: tuple[str, ...]
    rows: list[CsvRow]


def read_csv_table(path: Path) -> CsvTable:
    """Return the records of a CSV file without its empty lines."""
    text = decode_utf8(read_bytes(path), path)
    csv.field_size_limit(sys.maxsize)  # one cell may hold a document; the default is 128 kB
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        numbered = [(number, record) for number, record in enumerate(reader) if record]  # empty lines count as rows
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        raise InputError("bad_csv", place, "CSV", found=str(error), hint="Check the quotes.") from None
    if not numbered:
        raise InputError("bad_csv", path, "a header row", hint="Name the columns in the first line.")
    first, header = numbered[0]
    columns = tuple(header)
    if len(set(columns)) < len(columns):
        repeated = next(name for number, name in enumerate(columns) if name in columns[:number])
        raise InputError("bad_csv", path, "each column once", found=repeated)
    rows = []
    for number, record in numbered[1:]:
        number -= first
        if len(record) != len(columns):
            raise InputError(
                "bad_csv", path, f"{counted(len(columns), 'cell')}, as the header has", row=number, found=len(record),
                hint="Quote cells that hold commas or line breaks.",
            )  # fmt: skip
        rows.append(CsvRow(number, dict(zip(columns, record, strict=True))))
    return CsvTable(columns, rows)


def csv_bytes(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> bytes:
    """Return records as CSV in UTF-8 with the line ends of RFC 4180; columns that a row lacks are empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def json_cell(value: Any) -> str:
    """Return a value as a compact JSON cell."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def text_of_cell(cell: str) -> str | None:
    """Return the text of a cell; None for an empty one."""
    if cell.startswith('"'):
        try:
            value = json.loads(cell)
        except ValueError:
            return cell  # a question that quotes: "Ulysses" was written by whom?
        return value if isinstance(value, str) else cell
    return cell or None


def value_of_cell(cell: str, path: Path, row: int, column: str) -> Any:
    """Return the value of a JSON cell."""
    try:
        return parse_json(cell.encode(), path)
    except InputError as error:
        expected = error.expected if error.expected != "JSON" else 'a JSON value such as ["a.pdf"]'
        raise InputError("bad_json", path, expected, row=row, field=column, found=cell) from None
