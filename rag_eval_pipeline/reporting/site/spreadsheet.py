"""CSV for spreadsheets: no cell of text is ever a formula.

Only for people: a machine reads the results files, where texts stand as they are.
Source: OWASP, CSV Injection.
"""

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence

from rag_eval_pipeline.reporting.site.inert import inert

Cell = str | int | float | None

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def safe_cell(cell: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula: an apostrophe before such a text; numbers as they are."""
    if not isinstance(cell, str):
        return cell
    shown = inert(cell)
    # Programs trim what looks empty before they look for a sign, and take the full-width signs of Asian keyboards too.
    start = unicodedata.normalize("NFKC", cell).lstrip(" \u00a0\u200b\ufeff\"'")
    # The first line is not enough: pasted text is split at line ends.
    lines = [start, *(line.lstrip() for line in start.splitlines())]
    is_formula = cell.startswith(_FORMULA) or any(line.startswith(_FORMULA) for line in lines)
    return "'" + shown if is_formula else shown


def spreadsheet(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """A CSV file with a byte order mark, by which Excel knows UTF-8."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return b"\xef\xbb\xbf" + text.getvalue().encode()
