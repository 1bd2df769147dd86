"""Per-question scores of one score asset: a parquet with a column a measure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rag_eval_pipeline.evaluation.responses_file import read_rows
from rag_eval_pipeline.storage.atomic import publishing

PAGE = "page/"  # prefix of page-level measures
FAULTS = "faults"  # a column only where a metric failed

Outcome = Literal["scored", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class QueryScores:
    """One question's scores by one asset.

    Args:
        query_id: Whose.
        outcome: `failed` when the system gave no answer, `skipped` when the measures do not apply.
        reason: Why not scored: the answer's status, `impossible`, `no_relevant_documents`, `no_contexts`,
            `unknown_documents`, `no_documents_named`, `no_gold_spans`.
        scores: Measure -> value; a measure that is absent does not apply to this question though others do.
        faults: Measure -> why it alone failed: the line of an own metric's error, or the answer's status.
    """

    query_id: str
    outcome: Outcome
    reason: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


def write_scores(path: Path, rows: Sequence[QueryScores], measures: Sequence[str], *, evaluation_id: str) -> None:
    """Publishes scores; absent ones are null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    """The scores of a file, in its order.

    Raises:
        InputError: `bad_scores`.
    """
    rows = read_rows(path, "bad_scores", "the scores of an evaluation")
    facts = ("query_id", "outcome", "reason", FAULTS)
    return [
        QueryScores(
            row["query_id"],
            row["outcome"],
            row["reason"],
            {name: value for name, value in row.items() if name not in facts and value is not None},
            dict(row.get(FAULTS) or ()),
        )
        for row in rows
    ]


def written_for(path: Path) -> str | None:
    """The evaluation whose scores a file holds; None when there is no good file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            metadata = pq.read_schema(file).metadata or {}
    except pa.ArrowException:
        return None  # a damaged file holds the scores of nothing: they are made again
    name = metadata.get(b"evaluation_id")
    return name.decode() if name else None
