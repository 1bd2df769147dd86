"""The content of a file or folder: relations with their columns and sample values, and files that can be documents.

Files are decoded by the readers of the conversion, so a column has the name and type here that SQL will see. Nothing is
written, and symbolic links are not followed.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.arrow_types import is_json
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.spec import SourceSpec
from rag_eval_pipeline.workspace import BenchmarkPaths

SAMPLE_ROWS = 5_000  # rows whose values are read; types and uniqueness are determined from all rows
SAMPLE_VALUE_CHARACTERS = 50
SNIFFED_BYTES = 16_384
MAX_DATA_FILES = 60  # a folder with more data files than this is a folder of documents
MAX_JSON_BYTES = 200_000_000  # of a JSON file that is parsed to find the lists in it

DATA_SUFFIXES = frozenset({".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".jsonlines", ".json", ".parquet"})
COMPRESSION_SUFFIXES = frozenset({".gz", ".bz2", ".xz", ".zst"})
DOCUMENT_SUFFIXES = frozenset({".pdf", ".html", ".htm", ".xhtml", ".txt", ".md"})
NOT_CONTENT = frozenset("authors changelog citation contributing copying licence license notice readme source".split())
HIDDEN_COLUMNS = frozenset({"source_file", "source_row", "source_item"})  # SQL sees other columns of these names

_QRELS_LINE = re.compile(r"\S+[ \t]+\S+[ \t]+\S+[ \t]+-?\d+[ \t]*")
_TOPIC = re.compile(r"<top>.*?<num>", re.DOTALL | re.IGNORECASE)

Kind = Literal["text", "integer", "number", "boolean", "texts", "text lists", "structs", "struct", "other"]


class Origin(NamedTuple):
    """Where a relation comes from, as `source:` and `tables:` state it; exactly one of path, files and url is set."""

    path: str | None = None
    files: str | None = None
    url: str | None = None
    root: str | None = None
    format: str | None = None

    def keys(self) -> dict[str, str]:
        """Return the keys that are set, in the order in which they are written."""
        return {key: value for key, value in self._asdict().items() if value is not None}

    @property
    def shown(self) -> str:
        """The relation's name in a sentence."""
        place = self.path or self.files or self.url or ""
        return f"{place} ({self.root})" if self.root else place


class Field(NamedTuple):
    """A field of a struct, or of the structs in a list."""

    name: str
    kind: Kind
    fields: tuple["Field", ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    kind: Kind
    values: tuple[Any, ...] = field(repr=False)  # of the first rows, NULL included
    fields: tuple[Field, ...] = ()  # of a struct, or of the structs in a list
    is_unique: bool = False  # every row has a value, and no two rows have the same

    @property
    def present(self) -> list[Any]:
        """The sample values without NULL, empty lists and blank texts."""
        return [value for value in self.values if value is not None and value != [] and str(value).strip()]

    @property
    def is_full(self) -> bool:
        """Whether every sampled row has a value."""
        return len(self.present) == len(self.values)

    @property
    def as_text(self) -> str:
        """The SQL of its values as texts."""
        name = identifier(self.name)
        return name if self.kind == "text" else f"CAST({name} AS VARCHAR)"

    @property
    def described(self) -> str:
        """Name, kind and a sample value, for users."""
        sample = f", such as {_shorten(self.present[0])}" if self.present else ", empty"
        return f"{self.name!r} ({self.kind}{sample})"

    def field_kind(self, name: str) -> Kind | None:
        """Return the kind of a field; None if there is no field of that name."""
        return next((item.kind for item in self.fields if item.name == name), None)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A relation: a file, or one list in a JSON file."""

    origin: Origin
    columns: tuple[Column, ...]
    table: pa.Table = field(repr=False)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def column(self, name: str) -> Column | None:
        """Return the column of exactly that name."""
        return next((column for column in self.columns if column.name == name), None)

    def share_known(self, column: Column, values: Sequence[object]) -> float:
        """Return the share of the values that occur, as texts, in any row of the column; 0.0 without values."""
        if not values:
            return 0.0
        known = self.table.column(column.name).combine_chunks().cast(pa.string())
        found: list[bool] = pc.is_in(pa.array([str(v) for v in values], pa.string()), value_set=known).to_pylist()
        return sum(found) / len(found)


@dataclass(frozen=True, slots=True)
class FolderProfile:
    """The relations, the possible documents and all regular files of a folder, and notes on what was not read."""

    data: tuple[DataFile, ...]
    documents: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def profile_folder(folder: Path, files: Sequence[str], *, url: str | None = None) -> FolderProfile:
    """Read the relations among some files of a folder."""
    paths = BenchmarkPaths(folder.name, folder, folder, folder)
    candidates = [name for name in files if len(files) == 1 or _can_be_data(folder, name)]
    notes = []
    if len(candidates) > MAX_DATA_FILES:
        notes.append(f"Only the first {MAX_DATA_FILES} of {len(candidates)} data files were read.")
    data: list[DataFile] = []
    for name in candidates[:MAX_DATA_FILES]:
        try:
            data.extend(_data_files(paths, name, url))
        except InputError as error:
            if len(files) == 1:
                raise
            notes.append(f"{name} was not read: expected {error.expected}, found {error.found} [{error.code}].")
    return FolderProfile(tuple(data), tuple(filter(_can_be_document, files)), tuple(files), tuple(notes))


def identifier(name: str) -> str:
    """Return a name in SQL; it is always quoted, so that reserved words need no list."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _can_be_document(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in DOCUMENT_SUFFIXES and path.stem.lower() not in NOT_CONTENT


def _can_be_data(folder: Path, name: str) -> bool:
    path = PurePosixPath(name)
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSION_SUFFIXES:
        suffixes.pop()
    if suffixes and suffixes[-1] in DATA_SUFFIXES:
        return True
    return path.stem.lower() not in NOT_CONTENT and _trec_format(folder / name) is not None


def _trec_format(path: Path) -> str | None:
    """Return `trec_qrels` or `trec_topics` if the content is that; None otherwise."""
    with path.open("rb") as handle:
        sample = handle.read(SNIFFED_BYTES)
    text = sample.decode("utf-8", "replace")
    if _TOPIC.search(text):
        return "trec_topics"
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if len(sample) == SNIFFED_BYTES:
        lines = lines[:-1]
    return "trec_qrels" if lines and all(map(_QRELS_LINE.fullmatch, lines)) else None


def _data_files(paths: BenchmarkPaths, name: str, url: str | None) -> list[DataFile]:
    """Return the relation of a file, or one for each list of objects in a JSON file."""
    path = paths.source / name
    kind = _trec_format(path)
    try:
        return [_data_file(paths, name, url, format=kind)]
    except InputError as error:
        roots = _json_roots(path) if error.code == "missing_root" and kind is None else []
        if not roots:
            raise
    return [_data_file(paths, name, url, root=root) for root in roots]


def _json_roots(path: Path) -> list[str]:
    """Return the dotted keys of a JSON file that lead to lists of objects, outermost first."""
    if path.stat().st_size > MAX_JSON_BYTES:
        return []
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, dict):
        return []
    parts = {key: item for key, item in value.items() if key and "." not in key}
    nested = [(key, item) for key, item in parts.items() if isinstance(item, dict)]
    return [key for key, item in parts.items() if _is_objects(item)] or [
        f"{key}.{k}" for key, item in nested for k in item if k and "." not in k and _is_objects(item[k])
    ]


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _data_file(paths: BenchmarkPaths, name: str, url: str | None, **stated: str | None) -> DataFile:
    stated = {key: value for key, value in stated.items() if value is not None}
    origin = Origin(**({"url": url} if url else {"path": name}), **stated)
    # A name with glob characters that exists is read as that file, as the conversion does.
    table = read_relation(paths, SourceSpec.model_validate({"path": name, **stated})).table
    for place, column in enumerate(table.schema):
        if is_json(column):
            table = table.set_column(place, column.name, _unquoted(table.column(place)))
    columns = [
        _column(table, place, name)
        for place, name in enumerate(table.column_names)
        if name.casefold() not in HIDDEN_COLUMNS and "\x00" not in name
    ]
    return DataFile(origin, tuple(columns), table)


def _unquoted(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return JSON texts as SQL's text functions see them: a text without its quotes, all else as JSON."""
    cells = values.to_pylist()
    texts = [json.loads(cell) if cell is not None and cell.startswith('"') else cell for cell in cells]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _column(table: pa.Table, place: int, name: str) -> Column:
    values = table.column(place)
    shape = _field(name, values.type)
    sample = tuple(values.slice(0, SAMPLE_ROWS).to_pylist())
    # Counting the distinct values of a whole column is slow; for most columns the sample already rules uniqueness out.
    is_unique = shape.kind in {"text", "integer"} and bool(sample) and len(set(sample)) == len(sample)
    if is_unique:
        is_unique = not values.null_count and pc.count_distinct(values).as_py() == table.num_rows
    return Column(name, shape.kind, sample, shape.fields, is_unique)


def _field(name: str, kind: pa.DataType) -> Field:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Field(name, "text")
    if pa.types.is_boolean(kind):
        return Field(name, "boolean")
    if pa.types.is_integer(kind):
        return Field(name, "integer")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Field(name, "number")
    if pa.types.is_struct(kind):
        return Field(name, "struct", tuple(_field(part.name, part.type) for part in kind.fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _field(name, kind.value_type)
        kinds: dict[Kind, Kind] = {"text": "texts", "texts": "text lists", "struct": "structs"}
        return Field(name, kinds.get(inner.kind, "other"), inner.fields)
    return Field(name, "other")


def _shorten(value: object) -> str:
    """Return a sample value for users; a text is cut before it is quoted."""
    shown = value if isinstance(value, str) else repr(value)
    if len(shown) > SAMPLE_VALUE_CHARACTERS:
        shown = shown[:SAMPLE_VALUE_CHARACTERS] + "…"
    return repr(shown) if isinstance(value, str) else shown
