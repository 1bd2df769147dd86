"""Numbers, text from data, script data and spreadsheet cells as pages show them."""

import csv
import io
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import msgspec

from rag_eval_pipeline import errors
from rag_eval_pipeline.formats.citation_marks import find_citations
from rag_eval_pipeline.monitoring.verdict_records import format_points

DASH = "–"


def number(value: float | None, digits: int = 3) -> str:
    """Format a number; a dash without a value, like all functions here."""
    return DASH if value is None else f"{value:,.{digits}f}".replace("-", "−")


def milliseconds(value: float | None) -> str:
    """`0.42 ms`, `12 ms`, `1.34 s`."""
    if value is None:
        return DASH
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"


def milliseconds_range(limits: Sequence[float], between: str = "–") -> str:
    """`12–15 ms`, `900 ms–1.34 s`: the unit once if both have it."""
    low, high = map(milliseconds, limits)
    return f"{low.removesuffix(high[high.index(' ') :])}{between}{high}"


def dollars(value: float | None) -> str:
    """`$0.0012`, `$1.34`: four digits below a cent."""
    return DASH if value is None else f"${value:,.{4 if 0 < value < 0.01 else 2}f}"


def count(value: float | None) -> str:
    """`12,345`."""
    return DASH if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """`97.5 %`, `100 %`: never rounded up, neither to all nor to a limit."""
    return DASH if share is None else f"{math.floor(round(1000 * share, 6)) / 10:g} %"


def points(change: float | None) -> str:
    """`+3.1`, `−0.5`: a change of a share in points."""
    return DASH if change is None else format_points(change)


def p_value(value: float | None) -> str:
    """`0.012`, `<0.001`."""
    return "<0.001" if value is not None and value < 0.001 else number(value)


_SUBSTITUTE: Final = 0x2426  # the sign for "substituted"
_BIDI = (
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)  # overrides, embeddings and isolates: they reorder what follows
_SHOWN = (
    {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}  # ESC, which begins ANSI codes, is one
    | {0x7F: 0x2421}
    | dict.fromkeys((*range(0x80, 0xA0), *_BIDI), _SUBSTITUTE)
)


def replace_control_chars(text: str) -> str:
    """Replace control and direction characters by visible signs; the length stays."""
    return text if text.isprintable() else text.translate(_SHOWN)  # what is printable is none of these: a fast check


def shortened(text: str, length: int) -> str:
    """Return at most `length` code points, with an ellipsis if the text was cut."""
    return replace_control_chars(errors.shortened(text, length))


def without_places(text: str) -> str:
    """Return an answer with `[1]`, `[2]`, ... for its citations, as cells show it."""
    markers = find_citations(text)
    if not markers:
        return text
    parts, position = [], 0
    for number, marker in enumerate(markers, 1):
        parts += [text[position : marker.start], f"[{number}]"]
        position = marker.end
    return "".join([*parts, text[position:]])


def script_json(value: Any) -> bytes:
    """Encode JSON so that nothing in it can end a script or begin a tag.

    `<`, `>` and `&` occur in JSON only inside strings, so they can be escaped in the text as a whole.
    """
    text: bytes = msgspec.json.encode(value)
    for plain, escaped in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        text = text.replace(plain, escaped)
    # Line ends for JavaScript before 2019, not for JSON.
    return text.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")


def data_script(name: str, value: Any) -> bytes:
    """Return a script that passes a value to its page; a page opened from a file can load nothing else."""
    return b"ragEval.receive(" + script_json(name) + b"," + script_json(value) + b");\n"


Cell = str | int | float | None

ROWS_AT_ONCE = 500  # of a spreadsheet
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def safe_cell(cell: Cell) -> Cell:
    """Put an apostrophe before text that a spreadsheet could take for a formula; numbers stay."""
    if not isinstance(cell, str) or (cell[:1].isalnum() and cell.isascii() and cell.isprintable()):
        return cell
    shown = replace_control_chars(cell)
    # Programs trim what looks empty before they look for a sign, and take the full-width signs of Asian keyboards too.
    start = unicodedata.normalize("NFKC", cell).lstrip(" \u00a0\u200b\ufeff\"'")
    # The first line is not enough: pasted text is split at line ends.
    lines = [start, *(line.lstrip() for line in start.splitlines())]
    is_formula = cell.startswith(_FORMULA) or any(line.startswith(_FORMULA) for line in lines)
    return "'" + shown if is_formula else shown


def spreadsheet(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[bytes]:
    """Yield the lines of a CSV file with a byte order mark, by which Excel recognises UTF-8."""
    text = io.StringIO("\ufeff", newline="")
    text.seek(1)
    writer = csv.writer(text, lineterminator="\r\n")
    cells = ([safe_cell(cell) for cell in row] for row in chain([header], rows))
    while part := list(islice(cells, ROWS_AT_ONCE)):
        writer.writerows(part)
        yield text.getvalue().encode()
        text.seek(text.truncate(0))
