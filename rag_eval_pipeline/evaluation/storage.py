"""The parquet files of a run: `responses.parquet` with its answers, and one file of scores per score asset."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.settings import COLUMNS
from rag_eval_pipeline.storage import parquet
from rag_eval_pipeline.storage.files import publishing
from rag_eval_pipeline.systems.base import RagAnswer

BATCH_ROWS = 1000  # some ten megabytes of answers with their passages
PAGE = "page/"  # prefix of page-level measures
FAULTS = "faults"  # a column only where a metric failed

Outcome = Literal["scored", "failed", "skipped"]

_PASSAGE = {
    "document": pa.string(), "page": pa.int64(), "text": pa.string(), "score": pa.float64(), "rank": pa.int64(),
    "start": pa.int64(), "end": pa.int64(), "kind": pa.string(),
}  # fmt: skip
_CITATION = {
    "file_name": pa.string(),
    **dict.fromkeys(("start_char", "end_char", "page_number", "marker_start", "marker_end"), pa.int64()),
}
_USAGE = {
    "total_tokens": pa.int64(), "estimated_cost_usd": pa.float64(), "requests": pa.int64(),
    "prompt_tokens": pa.int64(), "completion_tokens": pa.int64(),
}  # fmt: skip
_RESPONSES = pa.schema(
    {
        "query_id": pa.string(),
        "status": pa.string(),
        "answer": pa.string(),
        "abstained": pa.bool_(),
        "contexts": pa.list_(pa.struct(_PASSAGE)),
        "citations": pa.list_(pa.struct(_CITATION)),
        "latency_ms": pa.float64(),
        "usage": pa.struct(_USAGE),
        "error": pa.string(),
        "reused_from": pa.string(),
        "error_code": pa.string(),
        "partial": pa.string(),
        "timings": pa.map_(pa.string(), pa.float64()),
        "raw_sha256": pa.string(),
        "model": pa.string(),
    }
)


@dataclass(frozen=True, slots=True)
class QueryScores:
    """One question's scores in one score asset.

    Args:
        outcome: `failed` when the system gave no answer, `skipped` when the measures do not apply.
        reason: Why not scored: the answer's status, or such as `impossible`, `no_contexts`, `no_gold_spans`.
        scores: A measure that is absent does not apply to this question though others do.
        faults: Measure -> why it alone failed: the error of a custom metric, or the answer's status.
    """

    query_id: str
    outcome: Outcome
    reason: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def write_responses(path: Path, answers: Iterable[RagAnswer]) -> None:
    """Publish answers, one row each, with one batch in memory at a time."""
    pending = iter(answers)
    with publishing(path) as file, pq.ParquetWriter(file, _RESPONSES) as writer:
        while batch := list(islice(pending, BATCH_ROWS)):
            rows = [msgspec.to_builtins(answer) | {"timings": list(answer.timings.items())} for answer in batch]
            writer.write_table(pa.Table.from_pylist(rows, schema=_RESPONSES))


def read_responses(path: Path) -> list[RagAnswer]:
    """Return the answers of a run; raises `bad_responses`."""
    return list(iter_responses(path))


def iter_responses(path: Path) -> Iterator[RagAnswer]:
    """Yield the answers of a run with one batch in memory at a time; raises `bad_responses`."""
    try:
        # Opened here, because Arrow would take a path such as `file:...` for a URI.
        with parquet.raise_damage(), path.open("rb") as file, pq.ParquetFile(file) as table:
            for batch in table.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    yield msgspec.convert({**row, "timings": dict(row.get("timings") or ())}, RagAnswer)
    except (FileNotFoundError, pa.ArrowException, msgspec.ValidationError) as error:
        raise _damaged("bad_responses", path, "the answers of an evaluation", error) from error


def write_scores(path: Path, rows: Sequence[QueryScores], measures: Sequence[str], *, evaluation_id: str) -> None:
    """Publish scores with one column per measure; absent scores are null."""
    columns = {
        "query_id": pa.array([row.query_id for row in rows], pa.string()),
        "outcome": pa.array([row.outcome for row in rows], pa.string()),
        "reason": pa.array([row.reason for row in rows], pa.string()),
        **{name: pa.array([row.scores.get(name) for row in rows], pa.float64()) for name in measures},
    }
    if any(row.faults for row in rows):
        faults = [list(row.faults.items()) for row in rows]
        columns[FAULTS] = pa.array(faults, pa.map_(pa.string(), pa.string()))
    table = pa.table(columns).replace_schema_metadata({"evaluation_id": evaluation_id})
    with publishing(path) as file:
        pq.write_table(table, file)


def read_scores(path: Path) -> list[QueryScores]:
    """Return the scores of a file in its order; raises `bad_scores`."""
    try:
        rows = parquet.read_rows(path)
    except (FileNotFoundError, pa.ArrowException) as error:
        raise _damaged("bad_scores", path, "the scores of an evaluation", error) from error
    return [
        QueryScores(
            row["query_id"],
            row["outcome"],
            row["reason"],
            {name: value for name, value in row.items() if name not in COLUMNS and value is not None},
            dict(row.get(FAULTS) or ()),
        )
        for row in rows
    ]


def scored_evaluation_id(path: Path) -> str | None:
    """Return the id of the evaluation whose scores a file holds; None if it is missing or damaged."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            metadata = pq.read_schema(file).metadata or {}
    except pa.ArrowException:
        return None  # the scores are then computed again
    name = metadata.get(b"evaluation_id")
    return name.decode() if name else None


def _damaged(code: str, path: Path, expected: str, error: Exception) -> InputError:
    return InputError(code, path, expected, found=str(error).splitlines()[0], hint="Evaluate the pair again.")
