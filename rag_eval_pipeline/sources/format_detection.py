"""Detect a file's encoding, format and delimiter by its content; its name decides only where the content cannot."""

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.archive import list_zip
from rag_eval_pipeline.web.content_types import GIT_LFS_POINTER

Format = Literal["csv", "tsv", "jsonl", "json", "yaml", "xlsx", "xml", "parquet", "arrow"]
BINARY = frozenset({"xlsx", "parquet", "arrow"})

SAMPLE_BYTES = 65_536
DELIMITERS = (",", "\t", ";", "|")  # of two that fit equally well, the first
SNIFFED_ROWS = 20

_BYTE_ORDER_MARKS = (  # UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EXPORT = "Save its table of questions as CSV, JSONL or parquet."
_IMAGE = "Questions have to be a table: write them into a CSV or an Excel workbook."
_OTHER_KINDS: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"\x1f\x8b"), "gzip", "Decompress it."),
    (re.compile(rb"BZh"), "bzip2", "Decompress it."),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", "Decompress it."),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstandard", "Decompress it."),
    (re.compile(rb"PK\x03\x04"), "a zip archive", "Unpack it."),
    (
        re.compile(rb"%PDF-"),
        "a PDF",
        "Questions have to be a table, such as a CSV; a document of the corpus belongs under `tables`, "
        'as `{files: "docs/*.pdf"}`.',
    ),
    (re.compile(rb"SQLite format 3"), "an SQLite database", "Export a table: sqlite3 -csv -header FILE 'SELECT ...'."),
    (
        re.compile(rb"\xd0\xcf\x11\xe0"),
        "an old Office file (.xls, .doc, .ppt), or one with a password",
        "Save it as .xlsx, without a password.",
    ),
    (
        re.compile(rb"\x80[\x02-\x05]"),
        "a Python pickle",
        "Loading one can run any code. Save the data as parquet or JSONL.",
    ),
    (re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|II\*\x00|MM\x00\*", re.DOTALL), "an image", _IMAGE),
    (re.compile(rb"\x93NUMPY"), "a numpy array", _EXPORT),
    (re.compile(rb"FEA1"), "a Feather file of version 1", "Save it as parquet."),
    (re.compile(rb"ORC(?=.{,64}[\x00-\x08])", re.DOTALL), "an ORC file", "Save it as parquet."),
    (re.compile(rb"Obj\x01"), "an Avro file", "Save it as parquet."),
    (re.compile(rb"\x89HDF"), "an HDF5 file", _EXPORT),
    (re.compile(rb"\{\\rtf"), "an RTF document", "Save its table of questions as CSV or .xlsx."),
)
_HTML = re.compile(r"\s*(<\?xml[^>]*>\s*)?(<!doctype html|<html)", re.IGNORECASE)
_SEP_LINE = re.compile(r"\ufeff?sep=(.)\r?\n", re.IGNORECASE)
_ZIP = re.compile(rb"PK(?:\x03\x04|\x05\x06|\x07\x08)")
_ARROW = re.compile(rb"ARROW1|\xff{4}[^\xff]{4}")  # a file, or a stream, which begins with the size of its schema


def detect_encoding(sample: bytes, stated: str | None = None) -> str:
    """Return the codec of the byte order mark, else the stated one, else UTF-8."""
    for mark, name in _BYTE_ORDER_MARKS:
        if sample.startswith(mark):
            return name
    return stated or "utf-8"


def looks_like_utf16(sample: bytes) -> bool:
    """Return whether every other byte is mostly NUL: UTF-16 without a mark, of which no line is UTF-8."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    return 10 * max(even, odd) > 3 * len(sample) and min(even, odd) * 10 < max(even, odd)


def detect_format(sample: bytes, name: str, shown: str, *, encoding: str, whole: bool) -> Format:
    """Return the format of a file by its first bytes; `name` decides between formats with equal content.

    `whole` is whether the sample is the whole file.
    """
    if sample.startswith(b"PAR1"):
        return "parquet"
    if _ARROW.match(sample):
        return "arrow"
    for magic, kind, hint in _OTHER_KINDS:
        if magic.match(sample):
            raise _unsupported(shown, kind, hint)
    text = _decoded(sample, encoding)
    if not text.strip():
        raise InputError("empty_source", shown, "rows", found="an empty file")
    suffix = name.rpartition(".")[2].lower()
    if text.startswith(("%YAML", "---\n", "---\r\n")) or (suffix in {"yaml", "yml"} and text.lstrip()[0] not in "{["):
        return "yaml"
    if _HTML.match(text):
        raise _unsupported(shown, "an HTML page", "Was it a log-in page?")
    start = text.lstrip()[:1]
    if text.lstrip().startswith("<?xml") or (suffix == "xml" and start not in "{["):
        return "xml"
    if start == "{" or (start == "[" and (suffix not in {"csv", "tsv"} or _is_json(text.lstrip().split("\n", 1)[0]))):
        return _json_layout(text, start, suffix, whole=whole)
    return "tsv" if sniff_layout(text).delimiter == "\t" else "csv"


def zip_format(path: Path, shown: str) -> Format | None:
    """Return the format of a zip file that is a workbook; None if it is an archive of other files.

    Raises:
        InputError: `unsupported_format`, if it is another document of an office program.
    """
    names, mimetype = list_zip(path, shown)
    if "xl/workbook.xml" in names:
        return "xlsx"
    word, slides = "word/document.xml" in names, "ppt/presentation.xml" in names
    kind = None
    if word or slides:
        kind = "a Word document (.docx)" if word else "a PowerPoint presentation (.pptx)"
    elif "xl/workbook.bin" in names:
        raise _unsupported(shown, "a binary Excel workbook (.xlsb)", "Save it as .xlsx.")
    elif mimetype.startswith("application/vnd.oasis.opendocument.spreadsheet"):
        raise _unsupported(shown, "an OpenDocument spreadsheet (.ods)", "Save it as .xlsx or CSV.")
    elif mimetype.startswith("application/"):
        kind = "an EPUB book" if "epub" in mimetype else "an OpenDocument document (.odt, .odp)"
    elif any(name.endswith(".iwa") for name in names):
        raise _unsupported(shown, "a document of Numbers, Pages or Keynote", "Export it as .xlsx or CSV.")
    if kind is not None:
        hint = "Save its table of questions as .xlsx or CSV; save a document of the corpus as PDF."
        raise _unsupported(shown, kind, hint)
    return None


def is_zip(path: Path) -> bool:
    """Return whether a file is a zip archive, or a document that is stored as one."""
    with path.open("rb") as file:
        return _ZIP.match(file.read(4)) is not None


def refuse_git_lfs_pointer(sample: bytes, shown: str) -> None:
    """Refuse a Git LFS pointer, whatever format is stated for it."""
    if sample.startswith(GIT_LFS_POINTER):
        raise _unsupported(shown, "a Git LFS pointer", "Fetch the file itself: git lfs pull.")


def is_one_document(sample: bytes, encoding: str, *, whole: bool) -> bool:
    """Return whether a text is one JSON value over several lines, none of which is a value by itself."""
    lines = [line for line in _decoded(sample, encoding).split("\n") if line.strip()]
    lines = lines if whole else lines[:-1]
    return len(lines) > 1 and not any(map(_is_json, lines[:SNIFFED_ROWS])) and _spans_several_lines("\n".join(lines))


def _unsupported(shown: str, found: str, hint: str) -> InputError:
    return InputError(
        "unsupported_format", shown, "CSV, TSV, JSONL, JSON, YAML, Excel, XML, parquet or Arrow", found=found, hint=hint
    )


class Layout(NamedTuple):
    """How a CSV is laid out: its delimiter, and what stands above its header.

    Args:
        lines_above: Physical lines that are no table: `sep=;`, remarks that begin with `#`, titles in one cell.
        title: The first of them that is not `sep=`; empty if there is none.
    """

    delimiter: str
    lines_above: int = 0
    title: str = ""


def sniff_layout(text: str) -> Layout:
    """Return the layout in which most rows have the width of the header; a comma for a single column."""
    if stated := _SEP_LINE.match(text):  # Excel's own way to state the delimiter
        return Layout(stated[1], 1)
    best, best_score = Layout(","), (0.0, 1)
    for delimiter in DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        records: list[tuple[int, list[str]]] = []  # with the number of lines before each
        try:
            before = 0
            while len(records) <= SNIFFED_ROWS and (cells := next(reader, None)) is not None:
                if any(cells):
                    records.append((before, cells))
                before = reader.line_num
        except csv.Error:
            continue
        # The last record of a sample may be cut.
        records = records[:-1] if len(records) > 2 else records
        above = _records_above(records)
        widths = [len(cells) for _, cells in records[above:]]
        if not widths or widths[0] == 1:
            continue
        score = (widths.count(widths[0]) / len(widths), widths[0])
        if score > best_score:
            title = " ".join(filter(None, records[0][1])) if above else ""
            best, best_score = Layout(delimiter, records[above][0] if above else 0, title), score
    return best


def _records_above(records: Sequence[tuple[int, list[str]]]) -> int:
    """Return how many records stand above the header: remarks, and titles.

    Of three cells or more, a title fills one, or half as many as most records do.
    """
    if not records:
        return 0
    width, _ = max(Counter(len(cells) for _, cells in records).items(), key=lambda item: (item[1], item[0]))
    counts = [sum(map(bool, cells)) for _, cells in records]
    usual = sorted(counts)[len(counts) // 2]
    for number, ((_, cells), count) in enumerate(zip(records, counts, strict=True)):
        is_remark = cells[0].startswith("#") and len(cells) != width
        if not is_remark and not (max(counts) > 2 and (count == 1 or 2 * count <= usual)):
            return number
    return 0


def _decoded(sample: bytes, encoding: str) -> str:
    """Decode the sample without a character cut at its end; wrong bytes become lone surrogates."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    try:
        return decoder.decode(sample)
    except UnicodeDecodeError:
        return sample.decode("latin-1")


def _json_layout(text: str, start: str, suffix: str, *, whole: bool) -> Format:
    lines = [line for line in text.split("\n") if line.strip()]
    if not whole and len(lines) > 1:
        lines = lines[:-1]
    if len(lines) == 1 and whole:
        return "jsonl" if suffix in {"jsonl", "ndjson", "jsonlines"} and start == "{" else "json"
    if len(lines) == 1:  # the first line is longer than the sample
        return "json" if start == "[" or suffix == "json" else "jsonl"
    if start == "[":
        return "jsonl" if all(_is_json(line) for line in lines[:SNIFFED_ROWS]) else "json"
    if whole and _is_json(text):
        return "json"
    complete = sum(map(_is_json, lines[:SNIFFED_ROWS]))
    if complete == 0:
        return "jsonl" if suffix in {"jsonl", "ndjson", "jsonlines"} and not _spans_several_lines(text) else "json"
    return "jsonl" if 2 * complete >= len(lines[:SNIFFED_ROWS]) or _is_json(lines[0]) else "json"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _spans_several_lines(text: str) -> bool:
    """Return whether a JSON value begins on the first line, as in `{` or `{"data": [`, and continues after it."""
    lines = text.lstrip().split("\n", 2)
    try:
        json.loads(text.lstrip())
    except json.JSONDecodeError as error:
        return error.pos > len("\n".join(lines[:2]).rstrip()) or error.pos >= len(text.strip())
    except (ValueError, RecursionError):
        return True
    return True
