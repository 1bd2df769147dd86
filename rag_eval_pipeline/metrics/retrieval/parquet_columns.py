"""Runs and qrels in parquet: a row a document, by the column names that are in use.

Ids may be text, binary or whole numbers. A run is read a piece at a time in one thread: more threads cost twice the
processor's time and hold the file twice.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval.columns import Columns
from rag_eval_pipeline.metrics.retrieval.sums import Ints

QUERY = ("query_id", "q_id", "qid", "query-id", "query", "topic")  # ours, ranx, ir_datasets, BEIR, TREC
DOCUMENT = ("document_id", "doc_id", "docid", "doc-id", "corpus-id", "docno")
SCORE = ("score", "sim")
GRADE = ("grade", "relevance", "rel", "label", "score")

PIECE_ROWS = 1 << 19  # 20 MB of ids and scores


class Judgements(NamedTuple):
    """Rows of qrels: query ids, each once, the index of each row's query, document ids (Arrow), and grades."""

    queries: list[str]
    query: Ints
    documents: Any
    grades: Ints


def run_columns(path: Path) -> Iterator[Columns]:
    """A run's rows in the file's order.

    Raises:
        InputError: `bad_parquet`, `missing_column`, `missing_value`, `bad_id`, `bad_number`.
    """
    import pyarrow as pa

    with _open(path) as file:
        query, document, score = (_column(file, path, names) for names in (QUERY, DOCUMENT, SCORE))
        row = 0
        for batch in file.iter_batches(PIECE_ROWS, columns=[query, document, score], use_threads=False):
            if not batch.num_rows:
                continue
            ids = _dictionary(_ids(batch.column(query), path, query, row))
            codes = ids.indices.to_numpy()
            starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1))
            documents = _plain(_ids(batch.column(document), path, document, row))
            scores = _numbers(batch.column(score), "double", path, score, row)
            yield Columns(_texts(ids.dictionary.take(ids.indices.take(pa.array(starts)))), starts, documents, scores)
            row += batch.num_rows


def qrels_columns(path: Path) -> Judgements:
    """All judgements of a file; errors as `run_columns`."""
    with _open(path) as file:
        query, document, grade = (_column(file, path, names) for names in (QUERY, DOCUMENT, GRADE))
        table = file.read([query, document, grade], use_threads=False).combine_chunks()
        query_ids, documents, grades = (_single(table.column(name)) for name in (query, document, grade))
        names, codes = _encoded(_ids(query_ids, path, query, 0))
        documents = _plain(_ids(documents, path, document, 0))
        return Judgements(names, codes, documents, _numbers(grades, "int64", path, grade, 0))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A handle and not a path: pyarrow takes a path for a URI when it looks like one, and loses what follows a `#`.
    with path.open("rb") as handle:
        try:
            schema = pq.read_schema(handle)
            handle.seek(0)
            # The pages of a query's column hold a dictionary already: as such it is read in a tenth of the time.
            with pq.ParquetFile(handle, read_dictionary=[name for name in schema.names if name in QUERY]) as file:
                yield file
        except pa.ArrowException as error:
            raise InputError("bad_parquet", path, "a whole parquet file", found=str(error)) from error


def _column(file: Any, path: Path, names: Sequence[str]) -> str:
    present = file.schema_arrow.names
    for name in names:
        if name in present:
            return name
    raise InputError("missing_column", path, f"a column {' or '.join(names)}", found=present)


def _ids(array: Any, path: Path, field: str, row: int) -> Any:
    """Ids as an Arrow array of strings or binaries, or a dictionary of such."""
    import pyarrow as pa

    _present(array, path, field, row)
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_integer(kind):
        array = _plain(array).cast(pa.string())
    elif not any(check(kind) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary,
                                           pa.types.is_large_binary)):  # fmt: skip
        raise InputError("bad_id", path, "text or whole numbers as ids", field=field, found=str(kind))
    return array


def _encoded(array: Any) -> tuple[list[str], Ints]:
    """The ids that occur and each row's place among them."""
    array = _dictionary(array)
    place: dict[str, int] = {}
    # A dictionary may hold an id twice.
    unique = np.array([place.setdefault(name, len(place)) for name in _texts(array.dictionary)], dtype=np.int64)
    return list(place), unique[array.indices.to_numpy()]


def _dictionary(array: Any) -> Any:
    import pyarrow as pa

    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _texts(array: Any) -> list[str]:
    found = array.to_pylist()
    return [name.decode(errors="backslashreplace") if isinstance(name, bytes) else name for name in found]


def _plain(array: Any) -> Any:
    import pyarrow as pa

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _numbers(array: Any, kind: str, path: Path, field: str, row: int) -> Any:
    import pyarrow as pa

    _present(array, path, field, row)
    try:
        return array.cast(kind).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        expected = "whole numbers" if kind == "int64" else "numbers"
        raise InputError("bad_number", path, expected, field=field, found=str(error)) from error


def _present(array: Any, path: Path, field: str, row: int) -> None:
    if array.null_count:
        first = row + array.is_null().index(True).as_py() + 1
        raise InputError("missing_value", path, "a value in every row", row=first, field=field)


def _single(column: Any) -> Any:
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
