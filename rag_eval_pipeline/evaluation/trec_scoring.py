"""Runs and qrels in files: TREC, JSON, parquet and BEIR's qrels are read, scores are printed as trec_eval prints them.

A file is recognised by its content; TREC and JSON may be gzip-compressed. JSON is query -> document -> score or
grade. Parquet has a row per document, under the column names in common use; ids may be text or whole numbers.
"""

import gzip
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.formats.trec import BEIR_HEADER, iterate_run
from rag_eval_pipeline.formats.trec import read_qrels as read_trec_qrels
from rag_eval_pipeline.formats.trec_columns import IrregularError, read_qrels_table, run_batches
from rag_eval_pipeline.metrics.retrieval.engine import Scores, score
from rag_eval_pipeline.metrics.retrieval.families import Measure
from rag_eval_pipeline.metrics.retrieval.rankings import (
    Documents,
    Floats,
    Ints,
    Qrels,
    Run,
    make_qrels,
    qrels_from_dict,
    run_from_dict,
)
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK, GZIP_MAGIC, checked_json, gunzip, read_bytes
from rag_eval_pipeline.storage.parquet_files import open_parquet

# Names of columns: ours, and those of ranx, ir_datasets, BEIR and TREC.
QUERY = ("query_id", "q_id", "qid", "query-id", "query", "topic")
DOCUMENT = ("document_id", "doc_id", "docid", "doc-id", "corpus-id", "docno")
SCORE = ("score", "sim")
GRADE = ("grade", "relevance", "rel", "label", "score")
PARQUET_MAGIC = b"PAR1"
SNIFFED_BYTES = 4096  # JSON may begin with white space
PIECE_ROWS = 1 << 19  # some 20 MB of ids and scores

_Grade = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what a column of numbers holds


def score_file(run: Path, qrels: Path, measures: Sequence[Measure], *, level: int = 1) -> tuple[Scores, str]:
    """Score a run in a file; run and qrels may be of different kinds.

    Returns:
        The scores, and the run's id: TREC's tag, or the file's name without endings.
    """
    judged = read_qrels(qrels)
    tags = [run.name.split(".")[0]]
    kind = _file_kind(run)
    if kind == "json":
        whole = run_from_dict(_read_json(run, dict[str, dict[str, float]]), source=str(run))
        return score(whole, judged, measures, level=level), tags[0]

    def read() -> Iterator[Columns]:
        return _trec_columns(run, tags) if kind == "trec" else run_columns(run)

    try:
        try:
            scores = score(iterate_queries(read(), str(run)), judged, measures, level=level)
        except UnsortedRunError:
            scores = score(group_by_query(read(), str(run)), judged, measures, level=level)
    except InputError:
        if kind == "trec":
            deque(iterate_run(run), maxlen=0)  # line by line, so that the message names the line
        raise
    return scores, tags[-1]


def read_qrels(path: Path) -> Qrels:
    """Read the judgements of a file."""
    kind = _file_kind(path)
    if kind == "parquet":
        return _read_parquet_qrels(path)
    if kind == "trec":
        with suppress(IrregularError, InputError):  # line by line, the message names the line
            query_ids, documents, grades = (column.chunk(0) for column in read_qrels_table(path).columns)
            return _make_qrels(query_ids, documents, grades, path)
    if kind == "json":
        return qrels_from_dict(_read_json(path, dict[str, dict[str, _Grade]]), source=str(path))
    if kind == "beir":
        from rag_eval_pipeline.formats.beir import read_beir_qrels  # with models that other files do without

        return qrels_from_dict(read_beir_qrels(path), source=str(path))
    return qrels_from_dict(read_trec_qrels(path), source=str(path))


def _file_kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            first = file.read(SNIFFED_BYTES)
            if first.startswith(GZIP_MAGIC):
                file.seek(0)
                first = gzip.GzipFile(fileobj=file).read(SNIFFED_BYTES)
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError("bad_gzip", path, "a whole gzip file", found=str(error)) from error
    if first.startswith(PARQUET_MAGIC):
        return "parquet"
    text = first.removeprefix(BYTE_ORDER_MARK)
    if text.startswith("\t".join(BEIR_HEADER).encode()):
        return "beir"
    return "json" if text.lstrip().startswith(b"{") else "trec"


class UnsortedRunError(Exception):
    """A query occurs again after another one, so the rows have to be grouped first."""


class Columns(NamedTuple):
    """Some rows of a run, in the file's order."""

    queries: list[str]  # the query of each stretch of rows with the same query
    starts: Ints  # where each stretch begins; the first at 0
    documents: Any  # Arrow array of ids, one per row
    scores: Floats  # one per row


def iterate_queries(pieces: Iterable[Columns], source: str) -> Iterator[Run]:
    """Yield parts of a run that each hold whole queries, or raise UnsortedRunError if a query returns."""
    seen: set[str] = set()
    carried: Columns | None = None
    for piece in pieces:
        held = piece if carried is None else _append(carried, piece)
        if len(held.queries) > 1:
            yield _make_run(held, len(held.queries) - 1, seen, source)
        start = int(held.starts[-1])
        carried = Columns(held.queries[-1:], np.zeros(1, np.int64), held.documents.slice(start), held.scores[start:])
    if carried is not None:
        yield _make_run(carried, len(carried.queries), seen, source)


def group_by_query(pieces: Iterable[Columns], source: str) -> Run:
    """Return the whole run with the rows of each query brought together; errors are those of `Run`."""
    held = list(pieces)
    ids: dict[str, int] = {}
    codes = [
        np.repeat(
            [ids.setdefault(query, len(ids)) for query in piece.queries],
            np.diff(np.append(piece.starts, piece.scores.size)),
        )
        for piece in held
    ]
    code = np.concatenate(codes)
    order = np.argsort(code, kind="stable")
    documents = pa.concat_arrays([piece.documents for piece in held]).take(pa.array(order))
    scores = np.concatenate([piece.scores for piece in held])[order]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=len(ids)))))
    return Run(list(ids), offsets, Documents(documents), scores, source)


def _make_run(held: Columns, n_queries: int, seen: set[str], source: str) -> Run:
    queries = held.queries[:n_queries]
    before = len(seen)
    seen.update(queries)
    if len(seen) - before < len(queries):
        raise UnsortedRunError
    offsets = np.append(held.starts, held.scores.size)[: n_queries + 1]
    end = int(offsets[-1])
    return Run(queries, offsets, Documents(held.documents.slice(0, end)), held.scores[:end], source)


def _append(carried: Columns, piece: Columns) -> Columns:
    queries, starts = piece.queries, piece.starts + carried.scores.size
    if queries[0] == carried.queries[-1]:
        queries, starts = queries[1:], starts[1:]
    return Columns(
        [*carried.queries, *queries],
        np.concatenate((carried.starts, starts)),
        pa.concat_arrays([carried.documents, piece.documents]),
        np.concatenate((carried.scores, piece.scores)),
    )


def _read_json(path: Path, kind: type[Any]) -> Any:
    data = read_bytes(path)
    data = checked_json(gunzip(data, path) if data.startswith(GZIP_MAGIC) else data, path)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise InputError("bad_json", path, "query -> document -> number", found=str(error)) from None


def _trec_columns(path: Path, tags: list[str]) -> Iterator[Columns]:
    """Yield a run's rows, and append the last tag of each piece to `tags`."""
    done = 0
    try:
        for batch, tag in run_batches(path):
            tags.append(tag)
            query, document, scores = batch.columns
            yield _columns(query, document, scores.to_numpy())
            done += batch.num_rows
        return
    except IrregularError:
        lines = islice(iterate_run(path), done, None)
    while held := list(islice(lines, PIECE_ROWS)):
        stretches = [(query, sum(1 for _ in rows)) for query, rows in groupby(held, key=attrgetter("query_id"))]
        tags.append(held[-1].tag)
        yield Columns(
            [query for query, _ in stretches],
            np.cumsum([0, *(length for _, length in stretches[:-1])]),
            pa.array([line.document_id for line in held], pa.string()),
            np.array([line.score for line in held], dtype=np.float64),
        )


def run_columns(path: Path) -> Iterator[Columns]:
    """Yield a parquet run's rows in the file's order.

    Raises:
        InputError: `bad_parquet`, `missing_column`, `missing_value`, `bad_id`, `bad_number`.
    """
    with _open_parquet(path) as file:
        query, document, score = (_find_column(file, path, names) for names in (QUERY, DOCUMENT, SCORE))
        row = 0
        # More threads would cost twice the processor time and hold the file twice.
        for batch in file.iter_batches(PIECE_ROWS, columns=[query, document, score], use_threads=False):
            if not batch.num_rows:
                continue
            ids = _check_ids(batch.column(query), path, query, row)
            ids = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
            documents = _decode(_check_ids(batch.column(document), path, document, row))
            yield _columns(ids, documents, _to_numbers(batch.column(score), "double", path, score, row))
            row += batch.num_rows


def _columns(query_ids: Any, documents: Any, scores: Floats) -> Columns:
    """Return rows whose query ids are a dictionary array."""
    codes = query_ids.indices.to_numpy()
    starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1))
    queries = query_ids.dictionary.take(query_ids.indices.take(pa.array(starts))).to_pylist()
    return Columns(queries, starts, documents, scores)


def _read_parquet_qrels(path: Path) -> Qrels:
    with _open_parquet(path) as file:
        query, document, grade = (_find_column(file, path, names) for names in (QUERY, DOCUMENT, GRADE))
        table = file.read([query, document, grade], use_threads=False)
        query_ids, documents, grades = (table.column(name).combine_chunks() for name in (query, document, grade))
        ids = _decode(_check_ids(query_ids, path, query, 0)).dictionary_encode()
        documents = _decode(_check_ids(documents, path, document, 0))
        numbers = _to_numbers(grades, "int64", path, grade, 0)
    return _make_qrels(ids, documents, numbers, path)


def _make_qrels(query_ids: Any, documents: Any, grades: Any, path: Path) -> Qrels:
    codes = query_ids.indices.to_numpy().astype(np.int64)
    return make_qrels(query_ids.dictionary.to_pylist(), codes, Documents(documents), grades, source=str(path))


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    try:
        with open_parquet(path) as file:
            query = [name for name in file.schema_arrow.names if name in QUERY]
        # The query column usually is a dictionary in the file already; reading it as one takes a tenth of the time.
        with open_parquet(path, read_dictionary=query) as file:
            yield file
    except pa.ArrowException as error:
        raise InputError("bad_parquet", path, "a whole parquet file", found=str(error)) from error


def _find_column(file: Any, path: Path, names: Sequence[str]) -> str:
    present = file.schema_arrow.names
    if found := [name for name in names if name in present]:
        return found[0]
    raise InputError("missing_column", path, f"a column {' or '.join(names)}", found=present)


def _check_ids(array: Any, path: Path, field: str, row: int) -> Any:
    """Return ids as an Arrow array of strings, or a dictionary of them."""
    _check_present(array, path, field, row)
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_string(kind):
        array.validate(full=True)  # Arrow reads texts that are no UTF-8
        return array
    if not (pa.types.is_integer(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
        raise InputError("bad_id", path, "text or whole numbers as ids", field=field, found=str(kind))
    return _decode(array).cast(pa.string())


def _decode(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _to_numbers(array: Any, kind: str, path: Path, field: str, row: int) -> Any:
    _check_present(array, path, field, row)
    try:
        return array.cast(kind).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        expected = "whole numbers" if kind == "int64" else "numbers"
        raise InputError("bad_number", path, expected, field=field, found=str(error)) from error


def _check_present(array: Any, path: Path, field: str, row: int) -> None:
    if array.null_count:
        first = row + array.is_null().index(True).as_py() + 1
        raise InputError("missing_value", path, "a value in every row", row=first, field=field)


def trec_lines(scores: Scores, *, run_id: str | None, by_query: bool) -> Iterator[str]:
    """Yield what trec_eval prints: `%-22s`, a tab, the query or `all`, a tab, the value with four decimals.

    Without a `run_id` its line is left out.
    """
    if by_query:
        shown = [
            (measure, values.tolist())
            for measure, values in zip(scores.measures, scores.values, strict=True)
            if measure.family.shown != "summary"
        ]
        for place, query in enumerate(scores.queries):
            for measure, column in shown:
                yield _trec_line(measure, query, column[place])
    if run_id is not None:
        yield f"{'runid':22}\tall\t{run_id}"
    for measure in scores.measures:
        value = scores.summary(measure)
        if value is not None and measure.family.shown != "queries":
            yield _trec_line(measure, "all", value)


def _trec_line(measure: Measure, query: str, value: Any) -> str:
    kind = measure.family.printed
    text = f"{value:d}" if kind == "integer" else f"{value:6.4f}" if kind == "decimal" else f"'{value}'"
    return f"{measure.label:22}\t{query}\t{text}"


def to_json(scores: Scores, *, run_id: str, by_query: bool) -> dict[str, Any]:
    """Return the scores with every digit, and what was missing."""
    found: dict[str, Any] = {
        "run_id": run_id,
        "measures": {measure.label: scores.summary(measure) for measure in scores.measures},
        "queries": len(scores.queries),
        "missing_queries": list(scores.missing),
        "queries_without_relevant_documents": list(scores.nothing_relevant),
        "unjudged_queries": scores.unjudged,
    }
    if by_query:
        labels = [measure.label for measure in scores.measures]
        rows = zip(*(values.tolist() for values in scores.values), strict=True)
        found["scores"] = {
            query: dict(zip(labels, row, strict=True)) for query, row in zip(scores.queries, rows, strict=False)
        }
    return found


def notes(scores: Scores) -> Iterator[str]:
    """Yield what a reader of the numbers has to know, one line each."""
    n = len(scores.queries)
    for queries, fault in (
        (scores.missing, "are not in the run"),
        (scores.nothing_relevant, "have no relevant document"),
    ):
        if queries:
            yield f"{len(queries)} of {n} judged queries {fault} and count 0: {', '.join(queries[:3])}"
    if len(scores.missing) < n and not scores.known_documents:
        yield "no retrieved document is judged for its query: does the run name documents as the qrels do?"
    if scores.unjudged:
        yield f"{counted(scores.unjudged, 'query', 'queries')} of the run without judgements, left out"
