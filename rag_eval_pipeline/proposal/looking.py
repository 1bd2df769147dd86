"""What is in the files: columns, their kinds, sample values, and files that can be documents.

Files are decoded by the readers that a conversion uses, so a column has here the name and the type that SQL will see.
Nothing is written, and links are not followed.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.proposal.columns import DataFile, data_file
from rag_eval_pipeline.proposal.draft import Origin
from rag_eval_pipeline.proposal.words import ABOUT
from rag_eval_pipeline.sources.reading import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.workspace import BenchmarkPaths

SNIFFED_BYTES = 16_384
MAX_DATA_FILES = 60  # of a folder; one with more is a folder of documents
MAX_ROOT_BYTES = 200_000_000  # of a JSON file that is parsed to find where its rows are

DATA_SUFFIXES = frozenset({".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".jsonlines", ".json", ".parquet"})
PACKED_SUFFIXES = frozenset({".gz", ".bz2", ".xz", ".zst"})
DOCUMENT_SUFFIXES = frozenset({".pdf", ".html", ".htm", ".xhtml", ".txt", ".md"})

_QRELS_LINE = re.compile(r"\S+[ \t]+\S+[ \t]+\S+[ \t]+-?\d+[ \t]*")
_TOPIC = re.compile(r"<top>.*?<num>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a file or a folder holds.

    Args:
        data: Relations, in the order of their files' names.
        documents: Paths of files that can be bodies of documents.
        files: Paths of all regular files.
        notes: What could not be looked at, a sentence each.
    """

    data: tuple[DataFile, ...]
    documents: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def look(folder: Path, files: Sequence[str], *, url: str | None = None) -> Seen:
    """Relations and documents among the files of a folder.

    Args:
        folder: Where they are.
        files: Paths relative to it.
        url: Address that the one file was downloaded from.

    Raises:
        InputError: The reader's own, when there is one file and it cannot be read.
    """
    paths = BenchmarkPaths(folder.name, folder, folder, folder)
    documents = tuple(name for name in files if _can_be_document(name))
    candidates = [name for name in files if len(files) == 1 or _can_be_data(folder, name)]
    notes = []
    if len(candidates) > MAX_DATA_FILES:
        notes.append(f"Of {len(candidates)} data files only the first {MAX_DATA_FILES} were looked at.")
    data: list[DataFile] = []
    for name in candidates[:MAX_DATA_FILES]:
        try:
            data.extend(_data_files(paths, name, url))
        except InputError as error:
            if len(files) == 1:
                raise
            notes.append(f"{name} was not looked at: expected {error.expected}, found {error.found} [{error.code}].")
    return Seen(tuple(data), documents, tuple(files), tuple(notes))


def _can_be_document(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in DOCUMENT_SUFFIXES and path.stem.lower() not in ABOUT


def _can_be_data(folder: Path, name: str) -> bool:
    path = PurePosixPath(name)
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in PACKED_SUFFIXES:
        suffixes.pop()
    if suffixes and suffixes[-1] in DATA_SUFFIXES:
        return True
    return path.stem.lower() not in ABOUT and _trec_format(folder / name) is not None


def _trec_format(path: Path) -> str | None:
    """`trec_qrels` or `trec_topics` by content; None for anything else."""
    with path.open("rb") as handle:
        sample = handle.read(SNIFFED_BYTES)
    text = sample.decode("utf-8", "replace")
    if _TOPIC.search(text):
        return "trec_topics"
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if len(sample) == SNIFFED_BYTES:
        lines = lines[:-1]
    return "trec_qrels" if lines and all(map(_QRELS_LINE.fullmatch, lines)) else None


def _data_files(paths: BenchmarkPaths, name: str, url: str | None) -> list[DataFile]:
    """The relations of a file: one, or one for each list of objects below the keys of a JSON file."""
    path = paths.source / name
    own = {"url": url} if url else {"path": name}
    kind = _trec_format(path)
    if kind is not None:
        return [_data_file(paths, name, Origin(**own, format=kind))]
    try:
        return [_data_file(paths, name, Origin(**own))]
    except InputError as error:
        if error.code != "missing_root":
            raise
        roots = _roots(path)
        if not roots:
            raise
    return [_data_file(paths, name, Origin(**own, root=root)) for root in roots]


def _roots(path: Path) -> list[str]:
    """Dotted keys of a JSON file that lead to lists of objects, outermost first."""
    if path.stat().st_size > MAX_ROOT_BYTES:
        return []
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, dict):
        return []
    parts = {key: item for key, item in value.items() if key and "." not in key}
    found = [key for key, item in parts.items() if _is_objects(item)]
    nested = [(key, item) for key, item in parts.items() if isinstance(item, dict)]
    return found or [f"{key}.{k}" for key, item in nested for k in item if k and "." not in k and _is_objects(item[k])]


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _data_file(paths: BenchmarkPaths, name: str, origin: Origin) -> DataFile:
    stated = {key: value for key, value in origin.keys().items() if key in {"root", "format"}}
    # A name with glob characters that exists is that file, as a conversion reads it too.
    return data_file(origin, read_relation(paths, SourceSpec.model_validate({"path": name, **stated})).table)
