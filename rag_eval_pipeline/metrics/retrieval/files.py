"""Runs and qrels as files: TREC, JSON and parquet, told apart by content; TREC and JSON may be gzip-compressed.

JSON is query -> document -> score or grade. All are read strictly: a document that stands twice for a query, NaN and
what is no number are faults with their place.
"""

import gzip
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.json_text import checked_json, unpacked
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.trec import RunLine, iterate_run
from rag_eval_pipeline.formats.trec import read_qrels as read_trec_qrels
from rag_eval_pipeline.formats.trec_lines import BYTE_ORDER_MARK, GZIP_MAGIC
from rag_eval_pipeline.metrics.retrieval.columns import Columns, Returned, gathered, whole_queries
from rag_eval_pipeline.metrics.retrieval.definition import Measure
from rag_eval_pipeline.metrics.retrieval.documents import Documents
from rag_eval_pipeline.metrics.retrieval.parquet_columns import PIECE_ROWS, qrels_columns, run_columns
from rag_eval_pipeline.metrics.retrieval.runs import Qrels, qrels_from_grades, qrels_of
from rag_eval_pipeline.metrics.retrieval.scores import Scores, score

PARQUET_MAGIC = b"PAR1"
SNIFFED = 4096  # bytes; white space before the first sign of JSON


class ScoredFile(NamedTuple):
    """The scores of a run that stands in a file, and the run's id: TREC's tag, or the file's name without endings."""

    scores: Scores
    run_id: str


def score_file(run: Path, qrels: Path, measures: Sequence[Measure], *, level: int = 1) -> ScoredFile:
    """The scores of a run in a file, which is read a piece at a time.

    Args:
        run: TREC, JSON or parquet.
        qrels: The same; need not be of the run's kind.
        measures: What to score.
        level: Least grade that counts as relevant.

    Raises:
        InputError: A fault of one of the files, as its reader says.
    """
    judged = read_qrels(qrels)
    tag = [run.name.split(".")[0]]
    pieces = _pieces(run, tag)
    try:
        found = score(whole_queries(pieces(), str(run)), judged, measures, level=level)
    except Returned:
        found = score(gathered(pieces(), str(run)), judged, measures, level=level)
    return ScoredFile(found, tag[0])


def read_qrels(path: Path) -> Qrels:
    """The judgements of a file.

    Raises:
        InputError: As `formats.trec.iterate_qrels`, `formats.json_text` or `parquet_columns` say, and `bad_json` for
            JSON that is not query -> document -> grade.
    """
    kind = _kind(path)
    if kind == "parquet":
        rows = qrels_columns(path)
        return qrels_of(rows.queries, rows.query, Documents.named(rows.documents), rows.grades, source=str(path))
    grades = _json(path, dict[str, dict[str, int]]) if kind == "json" else read_trec_qrels(path)
    return qrels_from_grades(grades, source=str(path))


def _pieces(path: Path, tag: list[str]) -> Callable[[], Iterator[Columns]]:
    """What reads a run from its beginning; of TREC it keeps the last tag."""
    kind = _kind(path)
    if kind == "parquet":
        return lambda: run_columns(path)
    return (lambda: _json_columns(path)) if kind == "json" else (lambda: _trec_columns(path, tag))


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            first = file.read(SNIFFED)
            if first.startswith(GZIP_MAGIC):
                file.seek(0)
                first = gzip.GzipFile(fileobj=file).read(SNIFFED)
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError("bad_gzip", path, "a whole gzip file", found=str(error)) from error
    if first.startswith(PARQUET_MAGIC):
        return "parquet"
    return "json" if first.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{") else "trec"


def _json(path: Path, kind: type[Any]) -> Any:
    data = read_bytes(path)
    data = checked_json(unpacked(data, path) if data.startswith(GZIP_MAGIC) else data, path)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise InputError("bad_json", path, "query -> document -> number", found=str(error)) from None


def _json_columns(path: Path) -> Iterator[Columns]:
    import pyarrow as pa

    run: dict[str, dict[str, float]] = _json(path, dict[str, dict[str, float]])
    lengths = [len(scored) for scored in run.values()]
    names = pa.array([document for scored in run.values() for document in scored], pa.string())
    scores = np.array([score for scored in run.values() for score in scored.values()], dtype=np.float64)
    if run:
        yield Columns(list(run), np.cumsum([0, *lengths[:-1]]), names, scores)


def _trec_columns(path: Path, tag: list[str]) -> Iterator[Columns]:
    import pyarrow as pa

    lines = iterate_run(path)
    while held := list(islice(lines, PIECE_ROWS)):
        stretches = [(query, sum(1 for _ in rows)) for query, rows in groupby(held, key=_query_of)]
        starts = np.cumsum([0, *(length for _, length in stretches[:-1])])
        tag[0] = held[-1].tag
        yield Columns(
            [query for query, _ in stretches], starts, pa.array([line.document_id for line in held], pa.string()),
            np.array([line.score for line in held], dtype=np.float64),
        )  # fmt: skip


def _query_of(line: RunLine) -> str:
    return line.query_id
