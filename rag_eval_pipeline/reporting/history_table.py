"""The history as tables that DuckDB reads: a row a figure and a row a score, two small parquet files an evaluation.

`data/evaluation/history/{figures,questions}/<evaluation_id>.parquet`. They stay when an evaluation's folder and answers
are removed; what they are made from is the results file, which is sealed at the same time (`seals`).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.reporting.history_index import HistoryIndex
from rag_eval_pipeline.reporting.seals import history_folder, seal
from rag_eval_pipeline.storage.files import publishing
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    import duckdb

TABLES = {"results": "figures", "questions": "questions"}  # name in a query -> folder
# A twentieth of a year of 30 pairs, in a second: every file is read again within the month.
VERIFIED_BYTES = 250_000_000
FIGURES = (
    ("evaluation_id", "VARCHAR"), ("timestamp", "TIMESTAMPTZ"), ("benchmark", "VARCHAR"), ("system", "VARCHAR"),
    ("metric", "VARCHAR"), ("value", "DOUBLE"), ("low", "DOUBLE"), ("high", "DOUBLE"), ("n_scored", "BIGINT"),
    ("coverage", "DOUBLE"), ("reason", "VARCHAR"),
)  # fmt: skip
QUESTIONS = (
    ("evaluation_id", "VARCHAR"), ("timestamp", "TIMESTAMPTZ"), ("benchmark", "VARCHAR"), ("system", "VARCHAR"),
    ("query_id", "VARCHAR"), ("status", "VARCHAR"), ("metric", "VARCHAR"), ("value", "DOUBLE"),
)  # fmt: skip
COLUMNS = {"figures": FIGURES, "questions": QUESTIONS}


def update_history(workspace: Workspace) -> list[str]:
    """Writes the tables of every results file that has none, and seals it; reads a part of the others again.

    Returns:
        A line for each file that cannot be read; it costs no other.
    """
    faults = []
    history_folder(workspace).mkdir(parents=True, exist_ok=True)  # from now on what was read is kept
    benchmarks, systems = set(workspace.benchmarks()), set(workspace.systems())
    with HistoryIndex.opened(workspace) as index:
        index.verify(VERIFIED_BYTES)
        faults += index.damaged()
        tables = [_names(workspace, folder) for folder in TABLES.values()]
        wanted = [
            row.evaluation_id
            for row in index.rows()
            if row.benchmark in benchmarks and row.system in systems and row.fault is None
            if not (row.is_sealed and all(f"{row.evaluation_id}.parquet" in names for names in tables))
        ]
    for name in wanted:
        path = results_path(workspace, name)
        try:
            results = EvaluationResults.read(path)
        except InputError as error:
            faults.append(str(error))
            continue
        _write(workspace, "figures", results.evaluation_id, list(_figures(results)))
        _write(workspace, "questions", results.evaluation_id, list(_scores(results)))
        seal(workspace, path)
    return faults


def _names(workspace: Workspace, table: str) -> set[str]:
    folder = history_folder(workspace) / table
    return set(os.listdir(folder)) if folder.is_dir() else set()


def query_history(workspace: Workspace, sql: str) -> list[dict[str, Any]]:
    """The rows of a query over `results` and `questions`.

    Raises:
        InputError: `bad_query` with DuckDB's own words.
    """
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            connection.execute("SET TimeZone = 'UTC'")
            for name, folder in TABLES.items():
                _register(connection, name, history_folder(workspace) / folder, COLUMNS[folder])
            cursor = connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]
        except duckdb.Error as error:
            found = str(error).partition("\n")[0]
            raise InputError("bad_query", "--sql", "a query over results and questions", found=found) from error


def _register(
    connection: "duckdb.DuckDBPyConnection", name: str, folder: Path, columns: tuple[tuple[str, str], ...]
) -> None:
    files = sorted(str(path) for path in folder.glob("*.parquet"))
    if files:
        connection.read_parquet(files).create_view(name)
    else:
        connection.execute(f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns)})")


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _figures(results: EvaluationResults) -> Iterator[dict[str, Any]]:
    for name, metric in _metrics(results):
        interval = metric.confidence_interval
        yield {
            **_head(results),
            "metric": name,
            "value": metric.value,
            "low": None if interval is None else interval[0],
            "high": None if interval is None else interval[1],
            "n_scored": metric.n_scored,
            "coverage": metric.coverage,
            "reason": metric.reason,
        }


def _metrics(results: EvaluationResults) -> Iterator[tuple[str, Metric]]:
    yield from results.retrieval_metrics.items()
    yield from ((f"page/{name}", metric) for name, metric in results.page_retrieval_metrics.items())
    yield from ((name, metric) for name, metric in results.answer_quality_metrics if isinstance(metric, Metric))
    yield from ((f"abstention/{n}", m) for n, m in results.answer_quality_metrics.abstention if isinstance(m, Metric))
    yield from results.judge_metrics.items()
    yield from results.further_metrics.items()
    citations = results.citation_metrics
    yield "overall_citation_accuracy", citations.overall_citation_accuracy
    yield "overall_coverage", citations.overall_coverage
    spans = citations.span_accuracy
    yield "citation_jaccard", Metric(value=spans.mean_tolerance_jaccard, n_scored=spans.true_spans, reason=spans.reason)
    performance = results.performance_metrics
    measured = sum(row.status == "ok" and row.latency_ms is not None for row in results.query_results)
    limits = {str(name): interval for name, interval in performance.latency_intervals.items()}
    for name, value in performance.latency_stats.items():
        interval, reason = limits.get(name), performance.latency_reason
        yield f"latency_{name}_ms", Metric(value=value, confidence_interval=interval, n_scored=measured, reason=reason)


def _scores(results: EvaluationResults) -> Iterator[dict[str, Any]]:
    for row in results.query_results:
        for name, value in {**row.individual_metrics, "latency_ms": row.latency_ms}.items():
            yield {**_head(results), "query_id": row.query_id, "status": row.status, "metric": name, "value": value}


def _head(results: EvaluationResults) -> dict[str, Any]:
    return {
        "evaluation_id": results.evaluation_id,
        "timestamp": results.timestamp,
        "benchmark": results.benchmark,
        "system": results.system,
    }


def _write(workspace: Workspace, table: str, evaluation_id: str, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "VARCHAR": pa.string(), "DOUBLE": pa.float64(), "BIGINT": pa.int64(), "TIMESTAMPTZ": pa.timestamp("us", "UTC")
    }  # fmt: skip
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS[table]])
    with publishing(history_folder(workspace) / table / f"{evaluation_id}.parquet") as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), file, compression="zstd")
