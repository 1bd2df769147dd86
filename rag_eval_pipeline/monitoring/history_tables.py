"""Tables of the metrics and scores of published results, for `rag-eval history --sql` and for notebooks.

`data/evaluation/history/{figures,questions}/<evaluation_id>.parquet` have a row for each metric and each score. Those
that lack are written when they are first asked for.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.results import (
    EvaluationResults,
    Metric,
    QueryResult,
    StoredResults,
    open_results,
    pooled_jaccard,
)
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
from rag_eval_pipeline.monitoring.history import (
    SUFFIX,
    History,
    file_stats,
    history_of,
    published_results,
    read_history,
    registered,
)
from rag_eval_pipeline.monitoring.opentelemetry import write_events
from rag_eval_pipeline.storage.atomic_files import publishing, sync_files
from rag_eval_pipeline.storage.parquet_files import read_table
from rag_eval_pipeline.workspace import Workspace

_MAGIC = b"PAR1"  # the last bytes of a parquet file
QUESTIONS_AT_ONCE = 1000  # that are written together

TABLES = {"results": "figures", "questions": "questions"}  # name in a query -> folder
_TEXT, _NUMBER = pa.string(), pa.float64()
_HEAD = {"evaluation_id": _TEXT, "timestamp": pa.timestamp("us", "UTC"), "benchmark": _TEXT, "system": _TEXT}
COLUMNS = {
    "figures": pa.schema(
        {
            **_HEAD, "metric": _TEXT, "value": _NUMBER, "low": _NUMBER, "high": _NUMBER, "n_scored": pa.int64(),
            "coverage": _NUMBER, "reason": _TEXT,
        }
    ),
    "questions": pa.schema({**_HEAD, "query_id": _TEXT, "status": _TEXT, "metric": _TEXT, "value": _NUMBER}),
}  # fmt: skip


def history_with_events(workspace: Workspace) -> History:
    """Return the history; if settings ask for events, those of new results are written, from their tables."""
    has_events = read_alert_settings(workspace).settings.otlp_files
    return update_history(workspace) if has_events else read_history(workspace)


def update_history(workspace: Workspace, *, verify: bool = False) -> History:
    """Write the tables of results files that lack them, and their events, if settings ask for these.

    Returns the history; `verify` as for `published_results`.
    """
    rows = published_results(workspace, verify=verify)
    history = history_of(workspace, rows)
    results = file_stats(workspace.results, SUFFIX)
    tables = [file_stats(workspace.history / folder, ".parquet") for folder in COLUMNS]
    scored = []
    written: dict[Path, tuple[int, int]] = {}  # table -> times of access and change
    for row in registered(workspace, rows):
        name = row.evaluation_id
        # Tables have the time of the results that they were made of, whatever the clock said.
        is_done = all(name in files and files[name].st_mtime_ns == results[name].st_mtime_ns for files in tables)
        is_done = is_done and all(_is_whole(workspace.history / folder, name) for folder in COLUMNS)
        if row.fault is None and not is_done:
            try:
                paths = _write_tables(workspace, open_results(workspace.results_file(name)))
                written |= dict.fromkeys(paths, (results[name].st_atime_ns, results[name].st_mtime_ns))
            except InputError as error:
                history.damaged.append(str(error))
                continue
        if row.fault is None and row.header is not None:
            scored.append(row.header)
    sync_files(list(written))  # at once, which takes a tenth of the time
    for path, times in written.items():
        os.utime(path, ns=times)
    if read_alert_settings(workspace).settings.otlp_files:
        write_events(workspace, scored)
    return history


def _is_whole(folder: Path, name: str) -> bool:
    """Whether a table ends as every whole parquet file does; one that a full disk has cut is written again."""
    with (folder / f"{name}.parquet").open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_MAGIC)))
        return file.read() == _MAGIC


def read_metrics(workspace: Workspace, evaluations: Iterable[str]) -> pa.Table:
    """Return the metrics of evaluations that have a table, in their order; `update_history` writes the tables."""
    folder = workspace.history / TABLES["results"]
    empty = COLUMNS[TABLES["results"]].empty_table()
    tables = [empty]
    for path in (folder / f"{name}.parquet" for name in evaluations):
        if path.exists():
            tables.append(read_table(path))
    return pa.concat_tables(tables)


def query_history(
    workspace: Workspace, sql: str, benchmark: str | None = None, system: str | None = None, *, verify: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a query over `results` and `questions`, and a line for each damaged file.

    Args:
        benchmark: The tables have only the rows of this benchmark; all if None. `system` likewise.

    Raises:
        InputError: `bad_query` with DuckDB's message.
    """
    import duckdb

    damaged = update_history(workspace, verify=verify).damaged
    only = {"benchmark": benchmark, "system": system}
    with duckdb.connect(":memory:") as connection:
        try:
            connection.execute("SET TimeZone = 'UTC'")
            for name, folder in TABLES.items():
                files = sorted(str(path) for path in (workspace.history / folder).glob("*.parquet"))
                empty = COLUMNS[folder].empty_table()
                table = connection.read_parquet(files) if files else connection.from_arrow(empty)
                for column, value in only.items():
                    if value is not None:
                        table = table.filter(duckdb.ColumnExpression(column) == duckdb.ConstantExpression(value))
                table.create_view(name)
            if not connection.extract_statements(sql):
                raise InputError("bad_query", "--sql", "a query over results and questions", found=sql)
            cursor = connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()], damaged
        except duckdb.Error as error:
            found = str(error).partition("\n")[0]
            raise InputError("bad_query", "--sql", "a query over results and questions", found=found) from error


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class _ScoredRow(msgspec.Struct):
    query_id: str
    status: str
    individual_metrics: dict[str, float | None]
    latency_ms: float | None = None


def _write_tables(workspace: Workspace, stored: StoredResults) -> list[Path]:
    try:
        if isinstance(stored.rows, RowFile):
            return _write_rows(workspace, stored.head, stored.rows.parsed_by(msgspec.json.Decoder(_ScoredRow).decode))
    except msgspec.MsgspecError:
        pass  # the other reader states where it is damaged
    return _write_rows(workspace, stored.head, stored.rows)


def _write_rows(
    workspace: Workspace, results: EvaluationResults, rows: Iterable[_ScoredRow | QueryResult]
) -> list[Path]:
    """Write the tables of an evaluation without waiting for the disk, and return their paths."""
    head = {name: getattr(results, name) for name in _HEAD}
    measured = 0

    def counted() -> Iterator[_ScoredRow | QueryResult]:
        nonlocal measured
        for row in rows:
            measured += row.status == "ok" and row.latency_ms is not None
            yield row

    questions, figures = (
        workspace.history / folder / f"{results.evaluation_id}.parquet" for folder in ("questions", "figures")
    )
    with (
        publishing(questions, waits_for_disk=False) as file,
        pq.ParquetWriter(file, COLUMNS["questions"], compression="zstd") as writer,
    ):
        for table in _scores(head, counted()):
            writer.write_table(table)
    table = pa.Table.from_pylist([{**head, **row} for row in _figures(results, measured)], schema=COLUMNS["figures"])
    with publishing(figures, waits_for_disk=False) as file:
        pq.write_table(table, file, compression="zstd")
    return [questions, figures]


def _figures(results: EvaluationResults, measured: int) -> Iterator[dict[str, Any]]:
    for name, metric in _metrics(results, measured):
        low, high = metric.confidence_interval or (None, None)
        yield {"metric": name, "low": low, "high": high} | metric.model_dump()


def _metrics(results: EvaluationResults, measured: int) -> Iterator[tuple[str, Metric]]:
    yield from results.retrieval_metrics.items()
    yield from ((f"page/{name}", metric) for name, metric in results.page_retrieval_metrics.items())
    yield from ((name, metric) for name, metric in results.answer_quality_metrics if isinstance(metric, Metric))
    yield from ((f"abstention/{n}", m) for n, m in results.answer_quality_metrics.abstention if isinstance(m, Metric))
    yield from results.judge_metrics.items()
    yield from results.further_metrics.items()
    citations = results.citation_metrics
    yield "overall_citation_accuracy", citations.overall_citation_accuracy
    yield "overall_coverage", citations.overall_coverage
    yield "citation_jaccard", Metric(**pooled_jaccard(citations.span_accuracy.model_dump()))
    performance = results.performance_metrics
    limits = {str(name): interval for name, interval in performance.latency_intervals.items()}
    for name, value in performance.latency_stats.items():
        interval, reason = limits.get(name), performance.latency_reason
        yield f"latency_{name}_ms", Metric(value=value, confidence_interval=interval, n_scored=measured, reason=reason)


def _scores(head: Mapping[str, Any], rows: Iterable[_ScoredRow | QueryResult]) -> Iterator[pa.Table]:
    """Yield the scores of all questions, those of `QUESTIONS_AT_ONCE` as one table."""
    scored = iter(rows)
    while part := list(islice(scored, QUESTIONS_AT_ONCE)):
        scores = [
            (row.query_id, row.status, name, value)
            for row in part
            for name, value in {**row.individual_metrics, "latency_ms": row.latency_ms}.items()
        ]
        shared = [pa.repeat(pa.scalar(head[name], kind), len(scores)) for name, kind in _HEAD.items()]
        yield pa.table([*shared, *map(list, zip(*scores, strict=True))], schema=COLUMNS["questions"])
