"""The manifest `documents.parquet` and the plan before it, `planned.parquet`.

Both hold nothing but what follows from the inputs: no time, no absolute path. The same documents give the same bytes.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.web_state import WEB_FIELDS
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage import parquet
from rag_eval_pipeline.storage.atomic import publishing

_NOT_STORED = {"seconds", *WEB_FIELDS}
_STORED = [field.name for field in fields(CorpusDocument) if field.name not in _NOT_STORED]


def write_manifest(path: Path, documents: Sequence[CorpusDocument], metadata: Mapping[str, str] | None = None) -> None:
    """Publishes the manifest.

    Args:
        path: `documents.parquet`.
        documents: In the order that `build_corpus` gave them.
        metadata: Key/value pairs for the file's footer, such as the source digest.
    """
    import pyarrow as pa

    types = {"flags": pa.list_(pa.string()), "resources": pa.list_(pa.string())}
    types |= {name: pa.int32() for name in ("pages", "images_expected", "images_drawn", "words_seen", "words_printed")}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _STORED])
    write_rows(path, [{name: getattr(row, name) for name in _STORED} for row in documents], schema, metadata)


def read_manifest(path: Path) -> list[CorpusDocument]:
    """The rows of a manifest, with `seconds` 0.0; none when there is no file.

    Raises:
        InputError: `bad_manifest`.
    """
    rows = read_rows(path)
    try:
        return [
            CorpusDocument(**row | {"flags": tuple(row["flags"]), "resources": tuple(row["resources"])}) for row in rows
        ]
    except (TypeError, KeyError) as error:
        raise _bad_manifest(path, error) from error


def write_planned(
    path: Path, planned: Sequence[PlannedDocument], *, base: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Publishes the plan.

    Args:
        path: `planned.parquet`.
        planned: In source order.
        base: Folder that the documents' paths are stored relative to.
        metadata: Key/value pairs for the file's footer.
    """
    import pyarrow as pa

    name = pa.struct([("name", pa.string()), ("url", pa.string()), ("flags", pa.list_(pa.string()))])
    types = {"names": pa.list_(name), "content": pa.large_string()}
    schema = pa.schema([(field.name, types.get(field.name, pa.string())) for field in fields(PlannedDocument)])
    rows = [
        asdict(document) | {"path": None if document.path is None else os.path.relpath(document.path, base)}
        for document in planned
    ]
    write_rows(path, rows, schema, metadata)


def read_planned(path: Path, *, base: Path) -> list[PlannedDocument]:
    """The plan, with absolute paths again.

    Raises:
        InputError: `bad_manifest`.
    """
    rows = read_rows(path)
    try:
        return [
            PlannedDocument(
                **row
                | {
                    "names": tuple(FileName(**name | {"flags": tuple(name["flags"])}) for name in row["names"]),
                    "path": None if row["path"] is None else Path(os.path.normpath(base / row["path"])),
                }
            )
            for row in rows
        ]
    except (TypeError, KeyError) as error:
        raise _bad_manifest(path, error) from error


def read_metadata(path: Path) -> dict[str, str]:
    """The key/value pairs of a parquet file's footer; none when there is no file.

    Raises:
        InputError: `bad_manifest`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:
            pairs = pq.read_schema(file).metadata or {}
    except FileNotFoundError:
        return {}
    except pa.ArrowInvalid as error:
        raise _bad_manifest(path, error) from error
    return {key.decode(): value.decode() for key, value in pairs.items()}


def write_rows(path: Path, rows: list[dict[str, Any]], schema: Any, metadata: Mapping[str, str] | None) -> None:
    """Publishes rows as parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(rows, schema=schema.with_metadata(dict(metadata or {})))
    # Handles and not paths: pyarrow takes a path for a URI when it looks like one, and loses what follows a `#`.
    with publishing(path) as file:
        pq.write_table(table, file, compression="zstd")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a parquet file; none when there is no file.

    Raises:
        InputError: `bad_manifest`.
    """
    import pyarrow as pa

    try:
        return parquet.read_rows(path)
    except FileNotFoundError:
        return []
    except pa.ArrowException as error:
        raise _bad_manifest(path, error) from error


def _bad_manifest(path: Path, error: Exception) -> InputError:
    hint = "Remove the file and convert the benchmark again."
    return InputError("bad_manifest", path, "a parquet file as this version writes it", found=str(error), hint=hint)
