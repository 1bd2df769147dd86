"""`responses.parquet`: a run's answers in the dataset's order."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage import parquet
from rag_eval_pipeline.storage.atomic import publishing
from rag_eval_pipeline.systems.answer import RagAnswer

BATCH_ROWS = 1000  # some ten megabytes of answers with their passages


def write_responses(path: Path, answers: Iterable[RagAnswer]) -> None:
    """Publishes answers, one row each, a batch in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pending = iter(answers)
    with publishing(path) as file, pq.ParquetWriter(file, _schema()) as writer:
        while batch := list(islice(pending, BATCH_ROWS)):
            writer.write_table(pa.Table.from_pylist([_row(answer) for answer in batch], schema=_schema()))


def read_responses(path: Path) -> list[RagAnswer]:
    """The answers of a run.

    Raises:
        InputError: `bad_responses`.
    """
    return list(iter_responses(path))


def iter_responses(path: Path) -> Iterator[RagAnswer]:
    """The same, a batch in memory at a time.

    Raises:
        InputError: `bad_responses`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Opened by us: Arrow would take a path such as `file:...` for an address.
        with parquet.damage_raised(), path.open("rb") as file, pq.ParquetFile(file) as table:
            for batch in table.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    yield msgspec.convert({**row, "timings": dict(row.get("timings") or ())}, RagAnswer)
    except (FileNotFoundError, pa.ArrowException, msgspec.ValidationError) as error:
        raise _damaged("bad_responses", path, "the answers of an evaluation", error) from error


def _row(answer: RagAnswer) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(answer)
    return row | {"timings": list(answer.timings.items())}


def read_rows(path: Path, code: str, expected: str) -> list[dict[str, Any]]:
    """The rows of a parquet file of a run; one that is missing, cut or damaged is an `InputError` with this code.

    Raises:
        OSError: The machine could not read it, which says nothing of the file.
    """
    import pyarrow as pa

    try:
        return parquet.read_rows(path)
    except (FileNotFoundError, pa.ArrowException) as error:
        raise _damaged(code, path, expected, error) from error


def _damaged(code: str, path: Path, expected: str, error: Exception) -> InputError:
    return InputError(code, path, expected, found=str(error).splitlines()[0], hint="Evaluate the pair again.")


def _schema() -> Any:
    import pyarrow as pa

    passage = {
        "document": pa.string(), "page": pa.int64(), "text": pa.string(), "score": pa.float64(), "rank": pa.int64(),
        "start": pa.int64(), "end": pa.int64(), "kind": pa.string(),
    }  # fmt: skip
    places = ("start_char", "end_char", "page_number", "marker_start", "marker_end")
    citation = {"file_name": pa.string(), **dict.fromkeys(places, pa.int64())}
    usage = {
        "total_tokens": pa.int64(), "estimated_cost_usd": pa.float64(), "requests": pa.int64(),
        "prompt_tokens": pa.int64(), "completion_tokens": pa.int64(),
    }  # fmt: skip
    return pa.schema(
        {
            "query_id": pa.string(),
            "status": pa.string(),
            "answer": pa.string(),
            "abstained": pa.bool_(),
            "contexts": pa.list_(pa.struct(passage)),
            "citations": pa.list_(pa.struct(citation)),
            "latency_ms": pa.float64(),
            "usage": pa.struct(usage),
            "error": pa.string(),
            "reused_from": pa.string(),
            "error_code": pa.string(),
            "partial": pa.string(),
            "timings": pa.map_(pa.string(), pa.float64()),
            "raw_sha256": pa.string(),
            "model": pa.string(),
        }
    )
