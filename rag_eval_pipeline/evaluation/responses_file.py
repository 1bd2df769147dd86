"""`responses.parquet`: a run's answers in the dataset's order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage import parquet
from rag_eval_pipeline.storage.atomic import publishing
from rag_eval_pipeline.systems.answer import RagAnswer


def write_responses(path: Path, answers: Sequence[RagAnswer]) -> None:
    """Publishes answers, one row each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([msgspec.to_builtins(answer) for answer in answers], schema=_schema())
    with publishing(path) as file:
        pq.write_table(table, file)


def read_responses(path: Path) -> list[RagAnswer]:
    """The answers of a run.

    Raises:
        InputError: `bad_responses`.
    """
    rows = read_rows(path, "bad_responses", "the answers of an evaluation")
    return msgspec.convert(rows, list[RagAnswer])


def read_rows(path: Path, code: str, expected: str) -> list[dict[str, Any]]:
    """The rows of a parquet file of a run; one that is missing, cut or damaged is an `InputError` with this code."""
    import pyarrow as pa

    try:
        return parquet.read_rows(path)
    except (OSError, pa.ArrowException) as error:
        found = str(error).splitlines()[0]
        raise InputError(code, path, expected, found=found, hint="Evaluate the pair again.") from error


def _schema() -> Any:
    import pyarrow as pa

    passage = {
        "document": pa.string(), "page": pa.int64(), "text": pa.string(), "score": pa.float64(), "rank": pa.int64(),
        "start": pa.int64(), "end": pa.int64(),
    }  # fmt: skip
    citation = {"file_name": pa.string(), "start_char": pa.int64(), "end_char": pa.int64(), "page_number": pa.int64()}
    return pa.schema(
        {
            "query_id": pa.string(),
            "status": pa.string(),
            "answer": pa.string(),
            "abstained": pa.bool_(),
            "contexts": pa.list_(pa.struct(passage)),
            "citations": pa.list_(pa.struct(citation)),
            "latency_ms": pa.float64(),
            "usage": pa.struct({"total_tokens": pa.int64(), "estimated_cost_usd": pa.float64()}),
            "error": pa.string(),
            "reused_from": pa.string(),
        }
    )
