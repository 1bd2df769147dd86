"""The content of a file or folder: relations with their columns and sample values, and files that can be documents.

Files are decoded by the readers of the conversion, so a column has the name and type here that SQL will see. Nothing is
written, and symbolic links are not followed.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.columns import Column, are_keys, field_of, nested_columns
from rag_eval_pipeline.scaffold.encodings import read_text
from rag_eval_pipeline.scaffold.headers import QUESTION_MARKS, role_of
from rag_eval_pipeline.scaffold.source_tables import (
    EACH_MEMBER,
    SPLITS,
    WHOLE_FILE,
    XML,
    are_judgements,
    inner_lists,
    missing_samples,
    sheets,
    sources,
)
from rag_eval_pipeline.sources.archive import is_mac_metadata, list_zip
from rag_eval_pipeline.sources.arrow_types import is_json
from rag_eval_pipeline.text.folding import WHOLE_DOUBLE
from rag_eval_pipeline.workspace import BenchmarkPaths

SAMPLE_ROWS = 5_000  # rows whose values are read; types and uniqueness are determined from all rows
SAMPLE_BYTES = 100_000_000  # of the rows whose values are read, if rows are large, such as pages of HTML
MIN_SAMPLE_ROWS = 100
SNIFFED_BYTES = 16_384
MAX_NAMED = 3  # files of one kind in a sentence
MAX_KINDS = 10  # suffixes in a sentence
MAX_DATA_FILES = 60  # a folder with more data files than this is a folder of documents

DATA_SUFFIXES = frozenset(
    ".csv .tsv .tab .jsonl .ndjson .jsonlines .json .yaml .yml .xml .xlsx .xlsm .parquet .arrow .feather .eval".split()
)
COMPRESSION_SUFFIXES = frozenset({".gz", ".bz2", ".xz", ".zst"})
DOCUMENT_SUFFIXES = frozenset({".pdf", ".html", ".htm", ".xhtml", ".txt", ".md"})
OFFICE_SUFFIXES = frozenset(".doc .docx .odt .ppt .pptx .odp .rtf .epub .xls .xlsb .ods .numbers".split())
NOT_CONTENT = frozenset("authors changelog citation contributing copying licence license notice readme source".split())
ENVELOPES = frozenset("data dataset payload response result results".split())  # of what an interface returns
HIDDEN_COLUMNS = frozenset({"source_file", "source_row", "source_item"})  # SQL sees other columns of these names

_QRELS_LINE = re.compile(r"\S+[ \t]+\S+[ \t]+\S+[ \t]+-?\d+[ \t]*")
_JUDGED = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*-?\d+\s*[,}]')
_INTEGER = re.compile(r"-?\d+")
_TOPIC = re.compile(r"<top>.*?<num>", re.DOTALL | re.IGNORECASE)


class Origin(NamedTuple):
    """Where a relation comes from, as `source:` and `tables:` state it; exactly one of path, files and url is set."""

    path: str | tuple[str, ...] | None = None
    files: str | None = None
    url: str | None = None
    member: str | None = None
    root: str | None = None
    sheet: str | tuple[str, ...] | None = None
    format: str | None = None
    encoding: str | None = None  # of text that is not UTF-8
    quote: str | None = None  # none: quotes are text
    allow_nan: bool | None = None  # JSON with NaN
    columns: tuple[str, ...] | None = None  # of a file without a header

    def keys(self) -> dict[str, str | bool | tuple[str, ...]]:
        """Return the keys that are set, in the order in which they are written."""
        return {key: value for key, value in self._asdict().items() if value is not None}

    @property
    def shown(self) -> str:
        """The relation's name in a sentence."""
        place = _listed(self.path or self.files or self.url or "")
        part = _listed(self.root or self.sheet or self.member or "")
        return f"{place} ({part})" if part else place

    @property
    def first(self) -> str:
        """The path of the first file; empty of a URL."""
        return self.path if isinstance(self.path, str) else next(iter(self.path or ()), "")


def _listed(names: str | tuple[str, ...]) -> str:
    if isinstance(names, str):
        return names
    more = [f"{len(names) - MAX_NAMED + 1} more"] if len(names) > MAX_NAMED else [names[-1]]
    return f"{', '.join(names[: min(len(names), MAX_NAMED) - 1])} and {more[0]}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A relation: a file, files with the same columns, or one list in a JSON file."""

    origin: Origin
    columns: tuple[Column, ...]
    table: pa.Table = field(repr=False)
    file: str | tuple[str, ...] = ""  # what was read, relative to the folder
    nested: tuple[Column, ...] = ()  # columns inside columns
    notes: tuple[str, ...] = ()  # what the reader decided, such as which sheet of a workbook it took

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    @property
    def sampled(self) -> int:
        """The number of rows, from the first, whose values were read."""
        return len(self.columns[0].values) if self.columns else 0

    def column(self, name: str) -> Column | None:
        """Return the column of exactly that name."""
        return next((column for column in self.columns if column.name == name), None)

    def share_known(self, column: Column, values: Sequence[object]) -> float:
        """Return the share of the values that occur, as texts, in any row of the column; 0.0 without values.

        White space around them does not count, and 12.0 is 12, as the conversion compares names of documents.
        """
        if not values:
            return 0.0
        known = pc.utf8_trim_whitespace(self.table.column(column.name).combine_chunks().cast(pa.string()))
        texts = [str(value).strip() for value in values]
        whole = [found[1] if (found := WHOLE_DOUBLE.fullmatch(text)) else text for text in texts]
        is_known = pc.or_(*(pc.is_in(pa.array(named, pa.string()), value_set=known) for named in (texts, whole)))
        return float(pc.mean(is_known).as_py())


@dataclass(frozen=True, slots=True)
class FolderProfile:
    """The relations, the possible documents and all regular files of a folder, and notes on what was not read."""

    data: tuple[DataFile, ...]
    documents: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    folder: Path = Path()


def profile_folder(folder: Path, files: Sequence[str], *, url: str | None = None) -> FolderProfile:
    """Read the relations among some files of a folder."""
    paths = BenchmarkPaths(folder.name, folder, folder, folder)
    stated = sources(folder, files)
    candidates = [name for name in stated if len(files) == 1 or _can_be_data(folder, name)]
    notes = []
    if len(candidates) > MAX_DATA_FILES:
        notes.append(f"Only the first {MAX_DATA_FILES} of {len(candidates)} data files were read.")
    data: list[DataFile] = []
    refused: dict[str, InputError] = {}
    for name in candidates[:MAX_DATA_FILES]:
        try:
            data.extend(_data_files(paths, name, url))
        except InputError as error:
            if len(files) == 1:
                raise
            refused[name] = error
    data = _one_row_files(paths, data)
    notes += _unread_notes(files, refused)
    data_names = set(candidates)
    others = Counter(_kind(name) for name in stated if name not in data_names and not _is_known(name))
    if others:
        ordered = sorted(others, key=lambda kind: (-others[kind], kind == "", kind))
        kinds = ", ".join(kind or "no suffix" for kind in ordered[:MAX_KINDS])
        notes.append(f"Files of other kinds ({kinds}) were left out: {others.total()}.")
    notes += _zipped_documents(folder, files)
    documents = tuple(name for name in files if _can_be_document(name) and not _is_part_of_page(name, files))
    return FolderProfile(tuple(data), documents, tuple(files), tuple(notes), folder)


def _zipped_documents(folder: Path, files: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each zip archive with files that could be documents: none of them is used."""
    for name in files:
        try:
            members = list_zip(folder / name, name)[0] if name.lower().endswith(".zip") else frozenset()
        except InputError:
            continue
        found = [member for member in sorted(members) if _can_be_document(member) and not is_mac_metadata(member)]
        if found:
            text = f"{name} has {len(found)} files that could be documents, such as {found[0]}, which are not used"
            yield f"{text}: unpack it into the folder, or state `tables: {{docs: {{path: {name}, files: ...}}}}`."


def _unread_notes(files: Sequence[str], refused: Mapping[str, InputError]) -> Iterator[str]:
    """Yield what was not read and why: one sentence for the files with one suffix and one reason."""
    groups: dict[tuple[str, str | None], list[str]] = {}
    for name in [*(name for name in files if _kind(name) in OFFICE_SUFFIXES), *refused]:
        groups.setdefault((_kind(name), refused[name].code if name in refused else None), []).append(name)
    for (kind, _), names in groups.items():
        text = f"{names[0]} was not read"
        if len(names) > 1:
            more = ", ..." if len(names) > MAX_NAMED else ""
            text = f"{len(names)} {kind} files were not read ({', '.join(names[:MAX_NAMED])}{more})"
        if (error := refused.get(names[0])) is None:
            yield f"{text}. Save documents as PDF, and tables of questions as .xlsx or CSV."
        else:
            first = "; of the first" if len(names) > 1 else ""
            remedy = f" {error.hint}" if error.hint else ""
            yield f"{text}{first}: expected {error.expected}, found {error.found} [{error.code}].{remedy}"


def _kind(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _is_known(name: str) -> bool:
    return _kind(name) in DOCUMENT_SUFFIXES | OFFICE_SUFFIXES or PurePosixPath(name).stem.lower() in NOT_CONTENT


def _one_row_files(paths: BenchmarkPaths, data: list[DataFile]) -> list[DataFile]:
    """Return relations in which JSON files of one folder, each of which is one question, are one."""
    groups: dict[str, list[DataFile]] = {}
    for file in data:
        if file.origin.keys() == {"path": file.origin.path, **WHOLE_FILE}:
            groups.setdefault(str(PurePosixPath(file.origin.first).with_name("*.json")), []).append(file)
    for pattern, files in groups.items():
        if len(files) > 1 and all(str(file.origin.path).endswith(".json") for file in files):
            data = [file for file in data if file not in files] + [_data_file(paths, pattern, None, **WHOLE_FILE)]
    return data


def _can_be_document(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in DOCUMENT_SUFFIXES and path.stem.lower() not in NOT_CONTENT


def _is_part_of_page(name: str, files: Sequence[str]) -> bool:
    """Return whether a file is in the folder `Page_files` that a browser saves beside `Page.html`."""
    pages = [
        str(parent).removesuffix("_files") for parent in PurePosixPath(name).parents if parent.name.endswith("_files")
    ]
    return any(f"{page}.{suffix}" in files for page in pages for suffix in ("html", "htm"))


def _can_be_data(folder: Path, name: str) -> bool:
    path = PurePosixPath(name)
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSION_SUFFIXES:
        suffixes.pop()
    if suffixes and suffixes[-1] in DATA_SUFFIXES:
        return True
    if not (folder / name).is_file():
        return True
    return path.stem.lower() not in NOT_CONTENT and _trec_format(folder / name) is not None


def _trec_format(path: Path) -> str | None:
    with path.open("rb") as handle:
        sample = handle.read(SNIFFED_BYTES)
    text = sample.decode("utf-8", "replace")
    if _TOPIC.search(text):
        return "trec_topics"
    if _JUDGED.match(text.removeprefix("\ufeff")):
        return "trec_qrels" if are_judgements(path) else None
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if len(sample) == SNIFFED_BYTES:
        lines = lines[:-1]
    return "trec_qrels" if lines and all(map(_QRELS_LINE.fullmatch, lines)) else None


def _data_files(paths: BenchmarkPaths, name: str, url: str | None) -> list[DataFile]:
    """Return the relation of a file, or one for each sheet or list of objects in it."""
    path = paths.source / name
    if not path.is_file():  # a folder or a glob
        return [_data_file(paths, name, url, **(WHOLE_FILE if name.endswith(XML) else {}))]
    stated = sheets(path)
    if not stated:
        kind = _trec_format(path)
        try:
            file = _data_file(paths, name, url, format=kind)
            stated = [{"root": f"{split}.*"} for split in _splits(file)] or _lists_of_only_member(file)
            if not stated:
                return [file]
        except InputError as error:
            stated = inner_lists(path, error) if kind is None else []
            if not stated:
                raise
    found: list[DataFile] = []
    for keys in stated:
        try:
            file = _data_file(paths, name, url, **keys)
            found.append(replace(file, notes=(*file.notes, *missing_samples(paths, name, keys, file.rows))))
        except InputError:
            if len(stated) == 1:
                raise
    return found


def _splits(file: DataFile) -> list[str]:
    """Return the splits that an object of objects has, each of which is an object of questions by their ids."""
    keys = file.column("source_key")
    names = [] if keys is None else [str(key) for key in keys.present]
    others = [column for column in file.columns if column is not keys]
    is_nested = bool(others) and all(column.kind == "struct" for column in others)
    return names if is_nested and {*names} <= {*SPLITS} else []


def _lists_of_only_member(file: DataFile) -> list[dict[str, str]]:
    """Return what to state of an object with one member, such as `data`, to read the lists in that as rows."""
    keys = file.column("source_key")
    if keys is None or file.rows != 1 or keys.values[0] not in ENVELOPES:
        return []
    return [{"root": f"{keys.values[0]}.{column.name}"} for column in file.columns if column.kind == "structs"]


def _data_file(paths: BenchmarkPaths, name: str, url: str | None, **given: str | None) -> DataFile:
    stated: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    origin = Origin(url=url) if url else Origin(path=name)
    relation, stated, notes = read_text(paths, name, stated)
    origin = origin._replace(**stated)
    if not stated.keys() - {"quote", "encoding"} and (names := _columns_without_header(relation.table, name)):
        origin = origin._replace(columns=names)
        relation, _, notes = read_text(paths, name, {**stated, "columns": names})
        notes = (*notes, f"columns: {name} has no header, as its first line is a row.")
    table, notes = (
        unquoted_table(_without_blank_rows(relation.table)),
        (*notes, *(f"{note}." for note in relation.notes)),
    )
    columns = _named_members(columns_of(table)) if given.items() >= EACH_MEMBER.items() else columns_of(table)
    return DataFile(origin, tuple(columns), table, name, nested_columns(columns, table.num_rows), notes)


def _named_members(columns: list[Column]) -> list[Column]:
    """Return the columns of an object's members by what they are: questions with answers, or ids with texts."""
    keys, values = columns
    asking = sum(str(key).rstrip().endswith(QUESTION_MARKS) for key in keys.present)
    if 2 * asking <= len(keys.present):
        return [keys, replace(values, name="text", path=values.sql)]
    return [replace(keys, name="question", path=keys.sql), replace(values, name="answer", path=values.sql)]


def columns_of(table: pa.Table, sampled: int | None = None) -> list[Column]:
    """Return the columns of a table with the values of its first rows; by default as many as memory allows."""
    sampled = sampled or _sampled_rows(table)
    return [
        _column(table, place, name, sampled)
        for place, name in enumerate(table.column_names)
        if name.casefold() not in HIDDEN_COLUMNS and "\x00" not in name
    ]


def _without_blank_rows(table: pa.Table) -> pa.Table:
    """Return the rows in which any cell has more than white space; the others are no questions."""
    has_value = pa.array([False] * table.num_rows, pa.bool_())
    for column in table.columns:
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        filled = pc.match_substring_regex(column, r"\S").fill_null(False) if is_text else column.is_valid()
        has_value = pc.or_(has_value, filled)
    return table if table.num_columns == 0 else table.filter(has_value)


def unquoted_table(table: pa.Table) -> pa.Table:
    """Return a table in which a cell that is a text in JSON is that text."""
    for place, column in enumerate(table.schema):
        if is_json(column):
            table = table.set_column(place, column.name, _unquoted(table.column(place)))
    return table


def _columns_without_header(table: pa.Table, name: str) -> tuple[str, ...] | None:
    """Return names for the columns of a CSV file whose first row is no header: an id and texts, or a question.

    None otherwise.
    """
    header = table.column_names
    if len(header) < 2 or not all(pa.types.is_string(kind) for kind in table.schema.types):
        return None
    asked = _asked_place(table) if PurePosixPath(name).suffix.lower() in {".csv", ".tsv"} else None
    if asked is not None:
        other = "answer" if len(header) == 2 else ""
        return tuple("question" if n == asked else other or f"column_{n + 1}" for n in range(len(header)))
    ids = [header[0], *table.column(0).slice(0, SAMPLE_ROWS).to_pylist()]
    if not all(_INTEGER.fullmatch(value or "") for value in ids) or len(set(ids)) < len(ids):
        return None
    if not all(len(name.split()) > 2 or _INTEGER.fullmatch(name) for name in header[1:]):
        return None
    longest = max(range(1, len(header)), key=lambda place: len(header[place]))
    return ("id", *("text" if place == longest else f"column_{place + 1}" for place in range(1, len(header))))


def _asked_place(table: pa.Table) -> int | None:
    """Return the column of questions whose name is a question as well, so that it is no name."""
    for place, name in enumerate(table.column_names):
        cells = [value for value in table.column(place).slice(0, SAMPLE_ROWS).to_pylist() if value]
        asking = sum(cell.rstrip().endswith(QUESTION_MARKS) for cell in cells)
        if name.rstrip().endswith(QUESTION_MARKS) and role_of(name) is None and cells and 2 * asking > len(cells):
            return place
    return None


def _unquoted(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return JSON texts as SQL's text functions see them: a text without its quotes, all else as JSON."""
    cells = values.to_pylist()
    texts = [json.loads(cell) if cell is not None and cell.startswith('"') else cell for cell in cells]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _sampled_rows(table: pa.Table) -> int:
    bytes_a_row = max(1, int(table.nbytes) // max(1, table.num_rows))
    return max(MIN_SAMPLE_ROWS, min(SAMPLE_ROWS, int(SAMPLE_BYTES // bytes_a_row)))


def _column(table: pa.Table, place: int, name: str, sampled: int) -> Column:
    values = table.column(place)
    shape = field_of(name, values.type)
    sample = tuple(values.slice(0, sampled).to_pylist())
    # Counting the distinct values of a whole column is slow; for most columns the sample already rules uniqueness out.
    is_unique = are_keys(shape.kind, sample) and not values.null_count
    is_unique = is_unique and pc.count_distinct(values).as_py() == table.num_rows
    return Column(name, shape.kind, sample, shape.fields, is_unique)
