"""`data/reports/otlp`: the scores of every question as OpenTelemetry events, a file for each evaluation.

A file appears whole and is never written again, so that a collector which follows the folder receives each score once,
also when the process that writes it is killed.

Source: OpenTelemetry, Protocol File Exporter (JSON lines of LogsData) and the semantic conventions of generative AI,
event `gen_ai.evaluation.result`.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from itertools import groupby
from typing import Any

import msgspec
import pyarrow.parquet as pq

from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.storage.atomic_files import publishing
from rag_eval_pipeline.workspace import Workspace

FOLDER = "otlp"
EVENT = "gen_ai.evaluation.result"
_INFO = 9  # severity number


def write_events(workspace: Workspace, headers: Iterable[ResultsHeader]) -> None:
    """Write the files of evaluations that have none, from their tables of scores, which must exist."""
    for header in headers:
        path = workspace.reports / FOLDER / f"{header.evaluation_id}.jsonl"
        if not path.exists():
            with publishing(path) as file:
                file.writelines(msgspec.json.encode(line) + b"\n" for line in _lines(workspace, header))


def _lines(workspace: Workspace, header: ResultsHeader) -> Iterator[dict[str, Any]]:
    """Yield a LogsData for each question that has scores."""
    about = {
        "rag_eval.evaluation_id": header.evaluation_id,  # a collector tells files apart by their first 1,000 bytes
        "service.name": header.system,
        "service.version": header.system_version,
        "rag_eval.benchmark": header.benchmark,
        "rag_eval.dataset": header.fingerprints.get("dataset"),
        "rag_eval.judge": header.fingerprints.get("judge"),
    }
    resource = {"attributes": _attributes(about)}
    scope = {"name": "rag_eval_pipeline", "version": metadata.version("rag-eval-pipeline")}
    nanoseconds = str(int(header.timestamp.timestamp() * 1_000_000) * 1_000)
    table = pq.read_table(workspace.history / "questions" / f"{header.evaluation_id}.parquet")
    rows = (row for batch in table.to_batches(max_chunksize=4_096) for row in batch.to_pylist())
    for query_id, scores in groupby(rows, key=lambda row: row["query_id"]):
        records = [
            {
                "timeUnixNano": nanoseconds, "observedTimeUnixNano": nanoseconds, "severityNumber": _INFO,
                "eventName": EVENT,
                "attributes": _attributes(
                    {
                        "gen_ai.evaluation.name": row["metric"], "gen_ai.evaluation.score.value": row["value"],
                        "rag_eval.query_id": query_id,
                    }
                ),
            }
            for row in scores
            if row["value"] is not None
        ]  # fmt: skip
        if records:
            yield {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": records}]}]}


def _attributes(values: Mapping[str, str | float | None]) -> list[dict[str, Any]]:
    """Return key-value pairs in OTLP's JSON form; None is left out."""
    return [
        {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}}
        for key, value in values.items()
        if value is not None
    ]
