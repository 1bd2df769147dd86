"""The child process that decodes a sheet of an Excel workbook from standard input into an Arrow file of texts.

`xlsx` runs it as `python -m rag_eval_pipeline.sources.xlsx_cells JOB_FOLDER` and kills it at the deadline.
"""

import datetime
import html
import io
import math
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
from openpyxl import load_workbook
from openpyxl.utils import get_column_letter
from openpyxl.utils.cell import range_boundaries

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.sources.compression import WORKBOOK
from rag_eval_pipeline.sources.decoder import STANDARD_INPUT, RefusedError, run_worker, write_rows

ROW_NUMBER = "row"
BATCH_ROWS = 4_096
LINKED_CELLS = 10_000  # of one link; a whole column may be linked
_HOURS = re.compile("[hs]", re.IGNORECASE)  # in the format of a time of day
HEADER_ROWS = 50  # among which the header is looked for

_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')  # of a number format: texts, escapes, padding, colours
_UNIT = re.compile(r'"[^"]*[^\W\d_][^"]*"|"[^"]*[€$£¥]|\[\$[^\]-]|^[^\[]*[€$£¥]')
_LEADING_ZEROS = re.compile(r"0{2,}")
_MERGED = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=\"([A-Z0-9:]+)\"")
_FORMULA = re.compile(rb"<(?:\w+:)?f[\s/>]")
_HIDDEN_ROW = re.compile(rb"<(?:\w+:)?row\s(?=[^>]*\bhidden=\"(?:1|true)\")[^>]*\br=\"(\d+)\"")
_LINK = re.compile(rb"<(?:\w+:)?hyperlink\s[^>]*>")
_ATTRIBUTE = re.compile(rb"([\w:]+)=\"([^\"]*)\"")
_LINK_FORMULA = re.compile(r'=\s*HYPERLINK\(\s*"([^"]+)"', re.IGNORECASE)
_NO_DOCUMENT = ("#", "[", "mailto:", "tel:")  # what begins the addresses of cells, people and the like
_STRICT = {  # what "Strict Open XML" calls the namespaces that openpyxl knows
    b"http://purl.oclc.org/ooxml/spreadsheetml/main": b"http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": (
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    ),
}
_EMPTY_FILL = re.compile(rb"<((?:\w+:)?)fill\s*/>")  # of several exporters; openpyxl refuses the workbook for it
_ESCAPE = re.compile(rb"_x(000[Dd])_\n|_x([0-9A-Fa-f]{4})_")


class Row(NamedTuple):
    """A row of a sheet with its 1-based number; empty cells at its end are left out."""

    number: int
    cells: list[str | None]


class Sheet(NamedTuple):
    """The rows of a sheet that have cells, places of cells without a value by the reason, and merged ranges.

    Args:
        links: (place, row) of a cell -> the address that it links to.
        hidden: Numbers of the rows that a person does not see.
    """

    title: str
    rows: list[Row]
    faults: Mapping[str, Sequence[str]]
    merged: Sequence[tuple[int, int, int, int]]
    links: Mapping[tuple[int, int], str]
    hidden: Sequence[int]


def decode(folder: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the stated sheet, or the first that has cells; or return the names of the sheets that can be read."""
    with open(STANDARD_INPUT, "rb") as raw:
        _refuse_bomb(raw)
        file = _readable(raw)
        workbook = load_workbook(file, read_only=True, data_only=True)
        if job.get("names_only"):
            return {"names": [sheet.title for sheet in _candidates(workbook, None)]}
        sheets = (_read_sheet(file, sheet) for sheet in _candidates(workbook, job["sheet"]))
        found = next((sheet for sheet in sheets if sheet.rows), None)
        others = [sheet.title for sheet in workbook.worksheets if found is None or sheet.title != found.title]
    if found is None:
        raise RefusedError(expected="rows", found="an empty sheet", code="empty_source")
    filled = _fill_merged(found.rows, found.merged)
    header = _header(found.rows, job["header_row"])
    body = [row for row in found.rows if row.number > header.number]
    linked = _add_links(header, body, found.links)
    columns = zip_longest(*(row.cells for row in [header, *body]), fillvalue=None)
    places = [place for place, cells in enumerate(columns) if any(cells)]
    names = [header.cells[place] if place < len(header.cells) else None for place in places]
    _write(folder, body, places, job["max_bytes"])
    notes = []
    if others and job["sheet"] is None:
        listed = ", ".join(map(repr, others[:10]))
        notes.append(f"the sheet {found.title!r} is read, not {listed}; `sheet` in benchmark.yaml chooses another")
    if job["header_row"] is None and header is not found.rows[0]:
        title = next(cell for cell in found.rows[0].cells if cell is not None)
        notes.append(f"the header is row {header.number}, below {title[:60]!r}; `header_row` chooses another row")
    notes += [_count_note(what, cells) for what, cells in found.faults.items()]
    if linked:
        notes.append(f"addresses of links are in the columns {', '.join(map(repr, linked))}")
    if hidden := [number for number in found.hidden if number in {row.number for row in body}]:
        notes.append(
            f"{counted(len(hidden), 'hidden row is', 'hidden rows are')} read like the others; the "
            f"first is row {hidden[0]}"
        )
    if filled:
        notes.append(_count_note("merged over several rows; each of these rows has the value", filled))
    return {"header": [name or "" for name in names], "header_row": header.number, "notes": notes}


def _refuse_bomb(file: Any) -> None:
    size = file.seek(0, 2)
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
    if unpacked > WORKBOOK.allowed(size):
        raise RefusedError(
            f"at most {WORKBOOK.ratio:g} bytes for each byte of the workbook, and {WORKBOOK.max_bytes:,} bytes",
            f"{unpacked:,} from {size:,}",
            code="archive_bomb",
        )


def _readable(file: BinaryIO) -> BinaryIO:
    """Return a workbook as openpyxl reads it right: in the namespaces that it knows, without escapes in its texts."""
    with zipfile.ZipFile(file) as archive:
        if all(_mended(name, part := archive.read(name)) == part for name in archive.namelist()):
            return file
        copied = io.BytesIO()
        with zipfile.ZipFile(copied, "w") as copy:
            for name in archive.namelist():
                copy.writestr(name, _mended(name, archive.read(name)))
    return copied


def _mended(name: str, part: bytes) -> bytes:
    if not name.endswith((".xml", ".rels")):
        return part
    for strict, known in _STRICT.items():
        part = part.replace(strict, known)
    if name == "xl/styles.xml":
        return _EMPTY_FILL.sub(rb"<\1fill><\1patternFill/></\1fill>", part)
    return _unescaped(part) if name == "xl/sharedStrings.xml" or name.startswith("xl/worksheets/") else part


def _unescaped(part: bytes) -> bytes:
    """Return texts without the escapes of characters: `_x000D_` is a line break, `_x005F_` an underscore."""

    def character(match: re.Match[bytes]) -> bytes:
        number = int(match[1] or match[2], 16)
        if number == 13:
            return b"\n"
        return match[0] if number < 32 and number not in (9, 10) else f"&#{number};".encode()

    return _ESCAPE.sub(character, part)


def _add_links(header: Row, body: Sequence[Row], links: Mapping[tuple[int, int], str]) -> list[str]:
    """Give each column with links a further column of their addresses, and return the names of these."""
    added = []
    numbers = {row.number for row in body}
    width = max([len(header.cells), *(len(row.cells) for row in body)])
    for place in sorted({place for place, number in links if number in numbers}):
        name = (header.cells[place] if place < len(header.cells) else None) or get_column_letter(place + 1)
        name = f"{name} link"
        while name in header.cells:
            name += "_"
        for row in (header, *body):
            address = name if row is header else links.get((place, row.number))
            row.cells.extend([None] * (width - len(row.cells)))
            row.cells.append(address)
        width += 1
        added.append(name)
    return added


def _candidates(workbook: Any, stated: str | None) -> list[Any]:
    """Return the stated sheet, or all that a person can see."""
    if stated is None:
        visible = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
        return visible or list(workbook.worksheets)
    found = [sheet for sheet in workbook.worksheets if sheet.title == stated]
    if not found:
        names = [sheet.title for sheet in workbook.worksheets]
        raise RefusedError(
            f"one of the sheets {', '.join(map(repr, names))}", stated, code="missing_sheet", field="sheet"
        )
    return found


def _read_sheet(file: Any, sheet: Any) -> Sheet:
    """Return a sheet of a workbook that was opened read-only; formulas are looked up where their values are missing."""
    with zipfile.ZipFile(file) as archive:
        raw = archive.read(sheet._worksheet_path)
        links = _links(archive, sheet._worksheet_path, raw)
    hidden = [int(number) for number in _HIDDEN_ROW.findall(raw)]
    merged = [range_boundaries(found.decode()) for found in _MERGED.findall(raw)]
    has_formulas = _FORMULA.search(raw) is not None
    del raw
    sheet.reset_dimensions()  # stated ones can be wrong, and cells beyond them would be lost
    formulas: Iterator[Any] = iter(())
    if has_formulas:
        other = load_workbook(file, read_only=True)[sheet.title]
        other.reset_dimensions()
        formulas = other.iter_rows()
    rows: list[Row] = []
    faults: dict[str, list[str]] = {}
    for number, (cells, written) in enumerate(zip_longest(sheet.iter_rows(), formulas, fillvalue=()), start=1):
        texts = []
        for place, cell in enumerate(cells):
            value = cell.value
            if cell.data_type == "e":
                faults.setdefault(f"with the error {value}, read as empty", []).append(_place(place, number))
                value = None
            elif value is None and place < len(written) and written[place].data_type == "f":
                what = "with a formula whose value is not stored, read as empty (open and save the workbook in Excel)"
                faults.setdefault(what, []).append(_place(place, number))
            elif value == datetime.time() and not _HOURS.search(cell.number_format or ""):
                faults.setdefault("with 0 as a date, read as empty", []).append(_place(place, number))
                value = None
            elif isinstance(value, int | float) and _UNIT.search(cell.number_format or ""):
                what = "shown with a currency or unit, and read as bare numbers"
                faults.setdefault(what, []).append(_place(place, number))
            formula = written[place].value if place < len(written) else None
            link = _LINK_FORMULA.match(formula) if isinstance(formula, str) else None
            if link is not None and not link[1].lower().startswith(_NO_DOCUMENT):
                links[place, number] = link[1]
            texts.append(cell_text(value, cell))
        while texts and texts[-1] is None:
            texts.pop()
        if texts:
            rows.append(Row(number, texts))
    return Sheet(sheet.title, rows, faults, merged, links, hidden)


def _links(archive: zipfile.ZipFile, path: str, raw: bytes) -> dict[tuple[int, int], str]:
    """Return the web addresses that cells of a sheet link to."""
    folder, _, name = path.rpartition("/")
    try:
        relations = archive.read(f"{folder}/_rels/{name}.rels")
    except KeyError:
        return {}
    targets = {}
    for tag in re.findall(rb"<(?:\w+:)?Relationship\s[^>]*>", relations):
        facts = dict(_ATTRIBUTE.findall(tag))
        targets[facts.get(b"Id")] = html.unescape(facts.get(b"Target", b"").decode("utf-8", "replace"))
    found: dict[tuple[int, int], str] = {}
    for tag in _LINK.findall(raw):
        facts = {key.rpartition(b":")[2]: value for key, value in _ATTRIBUTE.findall(tag)}
        target = targets.get(facts.get(b"id"), "")
        if target and not target.lower().startswith(_NO_DOCUMENT):
            left, top, right, bottom = range_boundaries(facts[b"ref"].decode())
            cells = ((column - 1, row) for row in range(top, bottom + 1) for column in range(left, right + 1))
            found |= dict.fromkeys(islice(cells, LINKED_CELLS), target)
    return found


def cell_text(value: Any, cell: Any) -> str | None:
    """Return the text of a cell's value; None if it has none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return _number_text(value, cell.number_format or "")
    if isinstance(value, datetime.datetime):
        is_day = value.time() == datetime.time() and not _HOURS.search(cell.number_format or "")
        return value.date().isoformat() if is_day else value.isoformat(timespec="seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return str(value)


def _number_text(value: float, number_format: str) -> str:
    if not math.isfinite(value):
        return str(value)
    if "%" in (shown := _NOT_SHOWN.sub("", number_format)):
        return _percent_text(value, shown)
    if value == int(value) and abs(value) < 1e15:
        text = str(int(value))
        return text.zfill(len(number_format)) if _LEADING_ZEROS.fullmatch(number_format) else text
    return f"{value:.15g}"  # the digits that Excel keeps: 0.1 + 0.2 is 0.3


def _percent_text(value: float, number_format: str) -> str:
    """Return a share as its format shows it, with digits that are not optional, and half rounded up as Excel does."""
    sections = number_format.split(";")
    section = sections[1] if value < 0 and len(sections) > 1 and "%" in sections[1] else sections[0]
    digits = re.search(r"\.([0#?]+)", section)
    places = digits[1] if digits else ""
    share = (Decimal(repr(value)) * 100).quantize(Decimal(1).scaleb(-len(places)), ROUND_HALF_UP)
    text = f"{share:f}"
    optional = len(places) - len(places.rstrip("#?"))
    while optional and text.endswith("0"):
        text, optional = text[:-1], optional - 1
    text = text.rstrip(".") if "." in text else text
    return f"{text.removeprefix('-') if share == 0 else text}%"


def _fill_merged(rows: list[Row], merged: Sequence[tuple[int, int, int, int]]) -> list[str]:
    """Give each row of a merged cell its value, and return the places of the cells; a merged title is one row."""
    by_number = {row.number: row for row in rows}
    filled = []
    for first_column, first_row, _, last_row in merged:
        top = by_number.get(first_row)
        if last_row == first_row or top is None or len(top.cells) < first_column:
            continue
        value = top.cells[first_column - 1]
        for number in range(first_row + 1, last_row + 1):
            row = by_number.get(number)  # a row without any other cell stays no row
            if row is not None and value is not None:
                row.cells.extend([None] * (first_column - len(row.cells)))
                row.cells[first_column - 1] = value
        if value is not None:
            filled.append(_place(first_column - 1, first_row))
    return filled


def _header(rows: Sequence[Row], stated: int | None) -> Row:
    """Return the stated row, or the first that is no title: one with more than half the cells of the fullest row.

    Row 0 is stated for a sheet without a header, and is empty.
    """
    if stated == 0:
        return Row(0, [])
    if stated is not None:
        found = [row for row in rows if row.number == stated]
        if not found:
            raise RefusedError("a row with column names", f"row {stated} is empty", code="missing_header")
        return found[0]
    counts = [sum(cell is not None for cell in row.cells) for row in rows[:HEADER_ROWS]]
    return next(row for row, count in zip(rows, counts, strict=False) if 2 * count > max(counts))


def _write(folder: Path, rows: Sequence[Row], places: Sequence[int], max_bytes: int) -> None:
    fields = [pa.field(ROW_NUMBER, pa.int64()), *(pa.field(f"c{place}", pa.string()) for place in places)]
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, max(len(rows), 1), BATCH_ROWS):
            part = rows[start : start + BATCH_ROWS]
            columns = [[row.cells[place] if place < len(row.cells) else None for row in part] for place in places]
            arrays = [pa.array([row.number for row in part], pa.int64())]
            yield pa.RecordBatch.from_arrays([*arrays, *(pa.array(c, pa.string()) for c in columns)], schema=schema)

    write_rows(folder, schema, batches(), max_bytes)


def _count_note(what: str, cells: Sequence[str]) -> str:
    return f"{counted(len(cells), 'cell')} {what}; the first is {cells[0]}"


def _place(column: int, row: int) -> str:
    return f"{get_column_letter(column + 1)}{row}"


if __name__ == "__main__":
    # On a damaged workbook, openpyxl, zipfile, zlib and the XML parser raise errors of any type.
    run_worker(Path(sys.argv[1]), decode, "a whole Excel workbook", (Exception,))
