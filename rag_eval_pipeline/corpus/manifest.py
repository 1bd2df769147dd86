"""The files that describe a corpus: `documents.parquet`, `documents.json`, `planned.parquet` and `web.json`.

The first three depend on the inputs only. What is known of pages on the web, such as ETags, is kept apart in
`web.json`, so that a server with another ETag does not cause a new evaluation. A file that cannot be read is an
`InputError` (`bad_manifest`); one that does not exist has no rows.
"""

import json
import logging
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.corpus.documents import CorpusDocument, Drift, FileName, PlannedDocument
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import SCHEMA_VERSION
from rag_eval_pipeline.storage import parquet_files
from rag_eval_pipeline.storage.atomic_files import atomic_write, publishing

logger = logging.getLogger(__name__)
Item = TypeVar("Item")

_WEB_FIELDS = ("etag", "last_modified", "drift", "drift_sha256", "drift_reason")
_STORED = [field.name for field in fields(CorpusDocument) if field.name not in {"seconds", *_WEB_FIELDS}]
_TYPES = {
    **{name: pa.list_(pa.string()) for name in ("flags", "resources")},
    **{name: pa.int32() for name in ("pages", "images_expected", "images_drawn", "words_seen", "words_printed")},
}
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _STORED])
_NAME = pa.struct([("name", pa.string()), ("url", pa.string()), ("flags", pa.list_(pa.string()))])
_PLANNED_TYPES = {"names": pa.list_(_NAME), "content": pa.large_string()}
_PLANNED_SCHEMA = pa.schema(
    [(field.name, _PLANNED_TYPES.get(field.name, pa.string())) for field in fields(PlannedDocument)]
)


def write_manifest(path: Path, documents: Iterable[CorpusDocument]) -> None:
    """Publish `documents.parquet`."""
    write_rows(path, ({name: getattr(row, name) for name in _STORED} for row in documents), _SCHEMA)


def read_manifest(path: Path, keys: Container[str] | None = None) -> list[CorpusDocument]:
    """Return the rows of a manifest, or of some documents, with `seconds` 0.0."""
    try:
        return [
            CorpusDocument(**row | {"flags": tuple(row["flags"]), "resources": tuple(row["resources"])})
            for row in iterate_rows(path)
            if keys is None or row["key"] in keys
        ]
    except (TypeError, KeyError) as error:
        raise bad_manifest(path, error) from error


def write_manifest_json(
    path: Path, rows: Iterable[Mapping[str, Any]], characters: Mapping[str, int], *, extractor: str
) -> None:
    """Publish `documents.json`: the rows of `documents.parquet` and the length of each text in code points."""
    head = {"extractor": extractor, "schema_version": SCHEMA_VERSION}  # comes after the documents: sorted
    with publishing(path) as file:
        file.write(b'{\n  "documents": [')
        between = b"\n    "
        for row in rows:
            document = dict(row) | {"characters": characters.get(row["file_name"])}
            # `json` takes eight times as long when it indents: 11 s for 100,000 documents.
            text = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2)
            file.write(between + text.replace(b"\n", b"\n    "))
            between = b",\n    "
        end = b"]" if between[:1] == b"\n" else b"\n  ]"
        file.write(end + b"," + msgspec.json.format(msgspec.json.encode(head), indent=2)[1:] + b"\n")


def write_planned(path: Path, planned: Sequence[PlannedDocument], *, base: Path) -> None:
    """Publish the plan, `planned.parquet`; paths are stored relative to `base`."""
    rows = [
        asdict(document) | {"path": None if document.path is None else os.path.relpath(document.path, base)}
        for document in planned
    ]
    write_rows(path, rows, _PLANNED_SCHEMA)


def read_planned(path: Path, *, base: Path, rows: range | None = None) -> list[PlannedDocument]:
    """Return the plan, or the documents at consecutive positions of it, with absolute paths."""
    try:
        return [
            PlannedDocument(
                **row
                | {
                    "names": tuple(FileName(**name | {"flags": tuple(name["flags"])}) for name in row["names"]),
                    "path": None if row["path"] is None else Path(os.path.normpath(base / row["path"])),
                }
            )
            for row in iterate_rows(path, rows)
        ]
    except (TypeError, KeyError) as error:
        raise bad_manifest(path, error) from error


def read_metadata(path: Path) -> dict[str, str]:
    """Return the key/value pairs of a parquet file's footer."""
    try:
        with parquet_files.raise_damage(), path.open("rb") as file:
            pairs = pq.read_schema(file).metadata or {}
            return {key.decode(): value.decode() for key, value in pairs.items()}
    except FileNotFoundError:
        return {}
    except pa.ArrowException as error:
        raise bad_manifest(path, error) from error


def write_rows(
    path: Path,
    rows: Iterable[dict[str, Any]],
    schema: pa.Schema,
    *,
    metadata: Mapping[str, str] | None = None,
    size: Callable[[dict[str, Any]], int] | None = None,
    row_group_size: int = 0,
) -> None:
    """Publish rows as parquet, as `parquet_files.write_rows`."""
    schema = schema.with_metadata(dict(metadata or {}))
    # Handles and not paths: pyarrow takes a path for a URI when it resembles one, and loses what follows a `#`.
    with publishing(path) as file:
        parquet_files.write_rows(file, rows, schema, size=size, row_group_size=row_group_size)


def iterate_rows(
    path: Path, rows: range | None = None, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a parquet file, or those at consecutive positions."""
    try:
        yield from parquet_files.iterate_rows(path, rows, columns)
    except FileNotFoundError:
        return
    except pa.ArrowException as error:
        raise bad_manifest(path, error) from error


def count_rows(path: Path) -> int:
    """Return the number of rows of a parquet file; 0 when there is no file."""
    try:
        return parquet_files.count_rows(path)
    except FileNotFoundError:
        return 0
    except pa.ArrowException as error:
        raise bad_manifest(path, error) from error


def unless_damaged(read: Callable[[Path], list[Item]], path: Path) -> list[Item]:
    """Return what the last conversion wrote; nothing if it is damaged or there was none."""
    try:
        return read(path)
    except InputError as error:
        logger.warning("A damaged file of the last conversion is made again: %s", error)
        return []


def bad_manifest(path: Path, error: Exception) -> InputError:
    """Return the error of a damaged file, or one without a column."""
    hint = "Remove the file and convert the benchmark again."
    return InputError("bad_manifest", path, "a parquet file as this version writes it", found=str(error), hint=hint)


class _WebState(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    body_sha256: str
    etag: str | None = None
    last_modified: str | None = None
    drift: Drift | None = None
    drift_sha256: str | None = None
    drift_reason: str | None = None


def write_web_state(path: Path, documents: Iterable[CorpusDocument]) -> None:
    """Publish `web.json`; without a fetched document there is no file."""
    states = {
        document.key: msgspec.to_builtins(
            _WebState(document.body_sha256, **{name: getattr(document, name) for name in _WEB_FIELDS})
        )
        for document in documents
        if document.final_url is not None and document.body_sha256 is not None
    }
    if states:
        atomic_write(path, json.dumps({"documents": states}, indent=1, sort_keys=True, ensure_ascii=False).encode())
    else:
        path.unlink(missing_ok=True)


def with_web_state(documents: Iterable[CorpusDocument], path: Path) -> list[CorpusDocument]:
    """Add to each row what is known of its page, unless that concerns another body."""
    states = _read_web_states(path)
    return [
        replace(document, **{name: getattr(state, name) for name in _WEB_FIELDS})
        if (state := states.get(document.key)) is not None and state.body_sha256 == document.body_sha256
        else document
        for document in documents
    ]


def _read_web_states(path: Path) -> dict[str, _WebState]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, _WebState]])["documents"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError) as error:
        # Nothing is lost: the pages are requested without naming the known version.
        logger.warning("%s is ignored: %s", path.name, error)
        return {}
