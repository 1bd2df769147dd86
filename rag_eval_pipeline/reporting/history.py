"""The history of a workspace: its published results files, and tables of their metrics and scores.

`data/evaluation/history/results.parquet` has a row for each published results file: its header (all but the questions)
and the SHA-256 of the published bytes. A new or changed file is read again, and a row outlives its file. A history that
is lost or damaged is made again from the results files.

`data/evaluation/history/{figures,questions}/<evaluation_id>.parquet` have a row for each metric and each score, for
`rag-eval history --sql`.
"""

import contextlib
import functools
import logging
import math
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.baseline_files import nights_file, read_baseline
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.formats.model import check_schema_version
from rag_eval_pipeline.formats.results import (
    ROWS,
    EvaluationResults,
    Metric,
    QueryResult,
    StoredResults,
    open_results,
)
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.formats.store import AB_TEST, WEEKLY
from rag_eval_pipeline.metrics.verdicts import FAILURE_RATE
from rag_eval_pipeline.reporting.nightly import Night, Nights, find_reruns
from rag_eval_pipeline.storage.files import publishing, sha256_of
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.parquet import limit_allocators, raise_damage
from rag_eval_pipeline.workspace import Workspace

FILE = "results.parquet"
SUFFIX = ".results.json"
LAYOUT = 2  # of a row's header; results files are read again when it is raised
# The nightly aggregation reads this much of the files again: each one within a month, for a year of 30 pairs.
VERIFIED_BYTES = 250_000_000
ROWS_PER_GROUP = 1000  # few, so that reading and writing need little memory
SCORES_PER_GROUP = 256 * 1024  # rows of a row group: some 30 MB until it is written
QUESTIONS_AT_ONCE = 1000
ALWAYS = ("f1", "abstention_f1", "citation_jaccard", "latency_p50_ms")  # metrics that every results file has
KEPT_UNPACKED = 256  # headers, of some 40 kB each
SHOWN = ("hit@1", "ndcg@10", "exact_match", "f1")  # metrics of a line of `rag-eval history`

logger = logging.getLogger(__name__)


class MetricHeader(msgspec.Struct, frozen=True):
    """A metric with its interval."""

    value: float | None
    confidence_interval: tuple[float, float] | None = None
    n_scored: int = 0
    n_failed: int = 0
    coverage: float | None = None
    reason: str | None = None


class FurtherMetrics(msgspec.Struct, frozen=True):
    """Those of `further_metrics` that are compared between runs."""

    tolerance_jaccard: MetricHeader | None = None


class ResultsHeader(msgspec.Struct, frozen=True):
    """A results file without `query_results`, which msgspec skips."""

    evaluation_id: str
    timestamp: datetime
    benchmark: str
    system: str
    system_version: str
    dataset_version: str
    fingerprints: dict[str, str | None]
    summary: dict[str, float | None]
    retrieval_level: str
    retrieval_metrics: dict[str, MetricHeader]
    page_retrieval_metrics: dict[str, MetricHeader]
    citation_metrics: dict[str, dict[str, Any]]
    answer_quality_metrics: dict[str, Any]
    performance_metrics: dict[str, Any]
    judge_metrics: dict[str, MetricHeader] = {}
    further_metrics: FurtherMetrics = FurtherMetrics()

    def metric(self, name: str, *, level: str | None = None) -> MetricHeader:
        """Return a metric by its name on the leaderboard, retrieval at a level, by default the one of the file.

        Values of two files are only compared at one level.
        """
        retrieval = self.page_retrieval_metrics if (level or self.retrieval_level) == "page" else self.retrieval_metrics
        if name in retrieval:
            return retrieval[name]
        if name == "abstention_f1":
            return msgspec.convert(self.answer_quality_metrics["abstention"]["f1"], MetricHeader)
        if name == FAILURE_RATE:
            total, failed = (int(self.summary.get(part) or 0) for part in ("total_queries", "failed_queries"))
            return MetricHeader(failed / total, n_scored=total) if total else MetricHeader(None, reason="not_asked")
        if name == "tolerance_jaccard":
            return self.further_metrics.tolerance_jaccard or MetricHeader(None, reason="no_gold_spans")
        if name == "citation_jaccard":
            spans = self.citation_metrics["span_accuracy"]
            limits = spans.get("confidence_intervals", {}).get("mean_tolerance_jaccard")
            interval = (limits["low"], limits["high"]) if limits else None
            scored = (spans.get("recall") or {}).get("n_scored", 0)  # questions with gold spans
            return MetricHeader(spans["mean_tolerance_jaccard"], interval, scored, reason=spans.get("reason"))
        if name == "latency_p50_ms":
            limits = self.performance_metrics.get("latency_intervals", {}).get("p50")
            value = self.performance_metrics["latency_stats"]["p50"]
            answered = int((self.summary["total_queries"] or 0) - (self.summary["failed_queries"] or 0))
            if value is None:
                return MetricHeader(None, reason=self.performance_metrics.get("latency_reason") or "no_latencies")
            found = {"value": value, "confidence_interval": limits, "n_scored": answered}
            return msgspec.convert(found, MetricHeader)
        if name in self.answer_quality_metrics:
            return msgspec.convert(self.answer_quality_metrics[name], MetricHeader)
        if name in self.judge_metrics:
            return self.judge_metrics[name]
        return MetricHeader(None, reason="not_measured")


class _Stated(msgspec.Struct):
    schema_version: str | None = None


class Headers(Sequence[ResultsHeader]):
    """Packed headers that are decoded on access: eleven thousand take 20 MB, and half a gigabyte when decoded."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        self._packed = packed

    @overload
    def __getitem__(self, index: int) -> ResultsHeader: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> ResultsHeader | Self:
        if isinstance(index, slice):
            return type(self)(self._packed[index])
        return _unpack(self._packed[index])

    def __len__(self) -> int:
        return len(self._packed)


def _pack(header: ResultsHeader) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(header), 1)


@functools.lru_cache(KEPT_UNPACKED)
def _unpack(data: bytes) -> ResultsHeader:
    return msgspec.msgpack.decode(zlib.decompress(data), type=ResultsHeader)


def read_header(path: Path, data: bytes) -> ResultsHeader:
    """Return the header in a results file's bytes.

    Raises:
        InputError: It is no results file, is not named by its evaluation, or lacks a metric that every file has.
    """
    try:
        stated = msgspec.json.decode(data, type=_Stated).schema_version
        if stated is not None:
            check_schema_version(stated, EvaluationResults.file_type, EvaluationResults.current_version)
        header = msgspec.json.decode(data, type=ResultsHeader)
        for name in ALWAYS:
            header.metric(name)  # decoded on access only, so a damaged one is found here
        if header.timestamp.tzinfo is None:
            raise ValueError("a timestamp without its zone")
        if path.name != f"{header.evaluation_id}{SUFFIX}":
            raise ValueError(f"the evaluation {header.evaluation_id}")
    except PydanticCustomError as error:
        hint = "Read it with the release that wrote it."
        raise InputError(error.type, path, error.message(), field="schema_version", found=stated, hint=hint) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        hint = "Restore it, or score its answers again (rag-eval rescore) and remove it."
        raise InputError("corrupt_result", path, "a results file", found=str(error), hint=hint) from error
    return header


class PublishedResult(NamedTuple):
    """A row of the history.

    Args:
        signature: Time, size and inode of the file as it was last read; None once it is gone.
        read_at: When that was, in ns.
        size: In bytes.
        sha256: Of the published bytes; None if the file could never be read.
        published_at: The time that the published file states, in microseconds.
        timestamp: The time that the file states now, in microseconds.
        header: The whole header, packed; None if the file cannot be read now.
        fault: Why the file cannot be read or is not what was published.
    """

    evaluation_id: str
    signature: str | None = None
    read_at: int = 0
    size: int = 0
    sha256: str | None = None
    published_at: int | None = None
    benchmark: str | None = None
    system: str | None = None
    timestamp: int | None = None
    header: bytes | None = None
    fault: str | None = None


_NUMBERS = ("read_at", "size", "published_at", "timestamp")
_SCHEMA = pa.schema(
    [
        (name, pa.int64() if name in _NUMBERS else pa.binary() if name == "header" else pa.string())
        for name in PublishedResult._fields
    ]
)


def history_folder(workspace: Workspace) -> Path:
    """Return the folder of the history's files."""
    return workspace.results.parent / "history"


def published_results(workspace: Workspace, *, verify_bytes: float = 0) -> list[PublishedResult]:
    """Return a row for each results file that is there, by name; the history's file is brought up to date.

    Args:
        verify_bytes: How much to read again of files that seem unchanged, those that were not read for longest first;
            at least one file unless 0.
    """
    path = history_folder(workspace) / FILE
    signatures = _signatures(workspace)
    if not signatures and not path.exists():
        return []
    rows = None if verify_bytes else _read_rows(path)
    if rows is None or {name: row.signature for name, row in rows.items() if row.signature is not None} != signatures:
        rows = None  # before they are read again: a year of them is large
        try:
            with locked(path.with_name(".lock"), holder=f"history, process {os.getpid()}", exclusive=True):
                known = _read_rows(path)  # another process may have written it
                if known is None and (path.exists() or (path.parent / "figures").is_dir()):
                    logger.warning("%s is rebuilt; earlier changes of results files cannot be detected", path)
                rows = _up_to_date(workspace, known or {}, verify_bytes)
                _write_rows(path, rows)
        except (OSError, ServiceError) as error:  # a full disk, a read-only folder
            logger.warning("The history is not written: %s", error)
            rows = rows or _up_to_date(workspace, _read_rows(path) or {}, verify_bytes)
    return [row for row in rows.values() if row.signature is not None]


def _read_rows(path: Path) -> dict[str, PublishedResult] | None:
    """Return the rows by evaluation; None if there is no file, or a damaged one."""
    limit_allocators()
    try:
        with (
            raise_damage(),
            path.open("rb") as handle,
            pq.ParquetFile(handle, page_checksum_verification=True) as file,
        ):
            batches = file.iter_batches(ROWS_PER_GROUP, use_threads=False)
            rows = [PublishedResult(**row) for batch in batches for row in batch.to_pylist()]
        return {row.evaluation_id: row for row in rows}
    except (FileNotFoundError, NotADirectoryError, pa.ArrowException, TypeError, UnicodeDecodeError):
        return None


def _write_rows(path: Path, rows: Mapping[str, PublishedResult]) -> None:
    values = list(rows.values())
    with (
        publishing(path) as file,
        pq.ParquetWriter(file, _SCHEMA, compression="zstd", write_page_checksum=True) as writer,
    ):
        for first in range(0, len(values), ROWS_PER_GROUP):
            group = [row._asdict() for row in values[first : first + ROWS_PER_GROUP]]
            writer.write_batch(pa.RecordBatch.from_pylist(group, schema=_SCHEMA))


def _signatures(workspace: Workspace) -> dict[str, str]:
    """Return the signature of each results file of one evaluation; it changes with the file."""
    return {
        name: f"{LAYOUT}.{max(stat.st_mtime_ns, stat.st_ctime_ns)}.{stat.st_size}.{stat.st_ino}"
        for name, stat in _files(workspace.results, SUFFIX).items()
        if not name.startswith((WEEKLY, AB_TEST))
    }


def _files(folder: Path, suffix: str) -> dict[str, os.stat_result]:
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffix):
                with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                    found[entry.name.removesuffix(suffix)] = entry.stat()
    return found


def _up_to_date(
    workspace: Workspace, known: Mapping[str, PublishedResult], verify_bytes: float
) -> dict[str, PublishedResult]:
    signatures = _signatures(workspace)
    verified = _read_longest_ago(known, verify_bytes)
    rows = {}
    for name in sorted(known.keys() | signatures.keys()):
        row = known.get(name, PublishedResult(name))
        if name not in signatures:
            if row.sha256 is not None:  # what was published once is remembered
                rows[name] = row._replace(signature=None)
        elif row.signature == signatures[name] and name not in verified:
            rows[name] = row
        else:
            rows[name] = _read_again(results_path(workspace, name), row, signatures[name])
    return rows


def _read_longest_ago(rows: Mapping[str, PublishedResult], max_bytes: float) -> set[str]:
    found, left = set(), max_bytes
    for row in sorted(rows.values(), key=lambda row: (row.read_at, row.evaluation_id)):
        if left <= 0:
            break
        if row.signature is not None:
            found.add(row.evaluation_id)
            left -= row.size
    return found


def _read_again(path: Path, known: PublishedResult, signature: str) -> PublishedResult:
    row = known._replace(signature=signature, read_at=time.time_ns(), header=None)
    try:
        row = row._replace(size=path.stat().st_size)
        header = read_header(path, _without_rows(path))
        digest = sha256_of(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        return row._replace(signature="", fault=f"{path}: {error}")  # differs from every file's: it is read again
    except InputError as error:
        return row._replace(fault=str(error))
    timestamp = round(header.timestamp.timestamp() * 1_000_000)
    row = row._replace(
        benchmark=header.benchmark, system=header.system, timestamp=timestamp, header=_pack(header), fault=None
    )
    if digest == known.sha256 or _is_published_again(known, timestamp):
        return row._replace(sha256=digest, published_at=timestamp)
    changed = InputError(
        "changed_result", path, "the file that was published",
        found=f"sha256 {digest[:12]}, not {(known.sha256 or '')[:12]}",
        hint="Restore it from a backup; its metrics are shown as they are in the file.",
    )  # fmt: skip
    return row._replace(fault=str(changed))


class _AnyRow(msgspec.Struct):
    """A question of which nothing is read, except that it is valid JSON."""


def _without_rows(path: Path) -> bytes:
    """Return a results file without its questions, which need not fit into memory; one in another layout whole."""
    rows = RowFile.open(path, ROWS, msgspec.json.Decoder(_AnyRow).decode)
    if rows is None:
        return path.read_bytes()
    try:
        for _ in rows:
            pass
    except msgspec.MsgspecError:
        return path.read_bytes()  # its reader states where it is damaged
    return rows.rest


def _is_published_again(known: PublishedResult, timestamp: int) -> bool:
    """Whether a file with other bytes is a publication: the first, a later one, or another one after it was gone."""
    if known.published_at is None:
        return True
    return timestamp > known.published_at or (known.signature is None and timestamp != known.published_at)


@dataclass(frozen=True, slots=True)
class History:
    """The published evaluations of the registered benchmarks and systems.

    Args:
        by_pair: (benchmark, system) -> evaluations, oldest first.
        nights: The same without reruns.
        reruns: A rerun's evaluation id -> its night's.
        damaged: A line for each results file that cannot be read or is not what was published.
    """

    by_pair: Mapping[tuple[str, str], Sequence[ResultsHeader]]
    nights: Mapping[tuple[str, str], Sequence[ResultsHeader]]
    reruns: Mapping[str, str]
    damaged: list[str]

    def newest(self) -> list[ResultsHeader]:
        """Return the last night of each pair, by benchmark and system."""
        return [self.nights[pair][-1] for pair in sorted(self.nights)]


def read_history(workspace: Workspace, *, verify_bytes: float = 0) -> History:
    """Read the history; results of benchmarks and systems that are gone stay on disk and are left out.

    Args:
        verify_bytes: As for `published_results`.
    """
    return _history(workspace, published_results(workspace, verify_bytes=verify_bytes))


def _history(workspace: Workspace, rows: Sequence[PublishedResult]) -> History:
    by_pair: dict[tuple[str, str], list[bytes]] = {}
    nights: dict[tuple[str, str], list[bytes]] = {}
    reruns = find_reruns(workspace)
    for row in sorted(_registered(workspace, rows), key=lambda row: (row.timestamp or 0, row.evaluation_id)):
        # One that is not what was published is named, and shown all the same.
        if row.header is not None:
            pair = row.benchmark or "", row.system or ""
            by_pair.setdefault(pair, []).append(row.header)
            # A rerun whose night's results are gone is all that is left of the night.
            if row.evaluation_id not in reruns or pair not in nights:
                nights.setdefault(pair, []).append(row.header)
    damaged = [row.fault for row in rows if row.fault is not None]
    return History(_headers(by_pair), _headers(nights), reruns, damaged)


def _registered(workspace: Workspace, rows: Sequence[PublishedResult]) -> list[PublishedResult]:
    benchmarks, systems = set(workspace.benchmarks()), set(workspace.systems())
    return [row for row in rows if row.benchmark in benchmarks and row.system in systems]


def _headers(packed: Mapping[tuple[str, str], Sequence[bytes]]) -> dict[tuple[str, str], Headers]:
    return {pair: Headers(rows) for pair, rows in sorted(packed.items())}


def history_rows(
    workspace: Workspace, benchmark: str | None = None, system: str | None = None, *, verify: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each evaluation, oldest first within each pair, and a line for each damaged file.

    Args:
        verify: Whether every results file is read again.
    """
    history = read_history(workspace, verify_bytes=math.inf if verify else 0)
    damaged = list(history.damaged)
    rows = []
    for pair in history.by_pair:
        if benchmark in (None, pair[0]) and system in (None, pair[1]):
            try:
                rows += _rows_of_pair(workspace, history, *pair)
            except InputError as error:
                damaged.append(str(error))
    return rows, damaged


def _rows_of_pair(workspace: Workspace, history: History, benchmark: str, system: str) -> list[dict[str, Any]]:
    baseline = read_baseline(workspace, benchmark, system)
    nights: tuple[Night, ...] = ()
    if baseline is not None and (path := nights_file(workspace, benchmark, system, baseline)).exists():
        nights = Nights.read(path).nights
    verdicts = {night.evaluation_id: _night_line(night) for night in nights}
    roles = dict.fromkeys(baseline.evaluations if baseline else (), "baseline")
    roles |= {night.rerun: f"rerun of {night.evaluation_id}" for night in nights if night.rerun}
    return [
        {
            "evaluation_id": header.evaluation_id,
            "timestamp": header.timestamp.isoformat(),
            "benchmark": benchmark,
            "system": system,
            "role": roles.get(header.evaluation_id),
            "retrieval_level": header.retrieval_level,
            "figures": {name: header.metric(name).value for name in SHOWN},
            "verdict": verdicts.get(header.evaluation_id),
        }
        for header in history.by_pair[benchmark, system]
    ]


def _night_line(night: Night) -> str:
    flagged = [metric.sentence for metric in night.metrics.values() if metric.confirmation is not None]
    withheld = sum(metric.kind == "withheld" for metric in night.metrics.values())
    quiet = (
        f"nothing was flagged; {withheld} of {len(night.metrics)} metrics withheld"
        if withheld
        else "nothing was flagged"
    )
    return night.reason or " ".join(flagged) or quiet


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


def update_history(workspace: Workspace, *, verify_bytes: float = VERIFIED_BYTES) -> History:
    """Write the tables of results files that lack them, and return the history.

    Args:
        verify_bytes: As for `published_results`.
    """
    rows = published_results(workspace, verify_bytes=verify_bytes)
    history = _history(workspace, rows)
    results = _files(workspace.results, SUFFIX)
    tables = [_files(history_folder(workspace) / folder, ".parquet") for folder in COLUMNS]
    for row in _registered(workspace, rows):
        name = row.evaluation_id
        # Results that were published again are newer than their tables.
        is_done = all(name in files and files[name].st_mtime_ns >= results[name].st_mtime_ns for files in tables)
        if row.fault is None and not is_done:
            try:
                _write_tables(workspace, open_results(results_path(workspace, name)))
            except InputError as error:
                history.damaged.append(str(error))
    return history


def read_metrics(workspace: Workspace, evaluations: Iterable[str]) -> pa.Table:
    """Return the metrics of evaluations that have a table, in their order; `update_history` writes the tables."""
    folder = history_folder(workspace) / TABLES["results"]
    empty = COLUMNS[TABLES["results"]].empty_table()
    tables = [empty]
    for path in (folder / f"{name}.parquet" for name in evaluations):
        if path.exists():
            with path.open("rb") as handle, pq.ParquetFile(handle) as file:
                tables.append(file.read())
    return pa.concat_tables(tables)


def query_history(workspace: Workspace, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query over `results` and `questions`.

    Raises:
        InputError: `bad_query` with DuckDB's message.
    """
    with duckdb.connect(":memory:") as connection:
        try:
            connection.execute("SET TimeZone = 'UTC'")
            for name, folder in TABLES.items():
                files = sorted(str(path) for path in (history_folder(workspace) / folder).glob("*.parquet"))
                empty = COLUMNS[folder].empty_table()
                (connection.read_parquet(files) if files else connection.from_arrow(empty)).create_view(name)
            cursor = connection.execute(sql)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor.fetchall()]
        except duckdb.Error as error:
            found = str(error).partition("\n")[0]
            raise InputError("bad_query", "--sql", "a query over results and questions", found=found) from error


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _write_tables(workspace: Workspace, stored: StoredResults) -> None:
    results = stored.head
    head = {name: getattr(results, name) for name in _HEAD}
    measured = 0

    def counted() -> Iterator[QueryResult]:
        nonlocal measured
        for row in stored.rows:
            measured += row.status == "ok" and row.latency_ms is not None
            yield row

    path = history_folder(workspace) / "questions" / f"{results.evaluation_id}.parquet"
    with publishing(path) as file, pq.ParquetWriter(file, COLUMNS["questions"], compression="zstd") as writer:
        for table in _tables_of_scores(head, counted()):
            writer.write_table(table)
    rows = [{**head, **row} for row in _figures(results, measured)]
    table = pa.Table.from_pylist(rows, schema=COLUMNS["figures"])
    with publishing(history_folder(workspace) / "figures" / f"{results.evaluation_id}.parquet") as file:
        pq.write_table(table, file, compression="zstd")


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
    spans = citations.span_accuracy
    yield "citation_jaccard", Metric(value=spans.mean_tolerance_jaccard, n_scored=spans.true_spans, reason=spans.reason)
    performance = results.performance_metrics
    limits = {str(name): interval for name, interval in performance.latency_intervals.items()}
    for name, value in performance.latency_stats.items():
        interval, reason = limits.get(name), performance.latency_reason
        yield f"latency_{name}_ms", Metric(value=value, confidence_interval=interval, n_scored=measured, reason=reason)


def _tables_of_scores(head: Mapping[str, Any], rows: Iterable[QueryResult]) -> Iterator[pa.Table]:
    """Yield the scores of all questions, `SCORES_PER_GROUP` a table; one without any row if there are none."""
    schema = COLUMNS["questions"]
    own = [name for name in schema.names if name not in head]
    pending = schema.empty_table().select(own)
    names, is_empty = list(head), True

    def group(table: pa.Table) -> pa.Table:
        same = [pa.repeat(pa.scalar(head[name], schema.field(name).type), len(table)) for name in names]
        return pa.table([*same, *table.combine_chunks().columns], schema=schema)

    scored = iter(rows)
    while part := list(islice(scored, QUESTIONS_AT_ONCE)):
        scores = [{**row.individual_metrics, "latency_ms": row.latency_ms} for row in part]
        repeated = pa.array(np.repeat(np.arange(len(part)), list(map(len, scores))))
        columns = [
            pa.array([row.query_id for row in part]).take(repeated),
            pa.array([row.status for row in part]).take(repeated),
            pa.array([name for one in scores for name in one], _TEXT),
            pa.array([value for one in scores for value in one.values()], _NUMBER),
        ]
        pending = pa.concat_tables([pending, pa.table(columns, names=own)])
        while len(pending) >= SCORES_PER_GROUP:
            yield group(pending.slice(0, SCORES_PER_GROUP))
            pending, is_empty = pending.slice(SCORES_PER_GROUP), False
    if is_empty or len(pending):
        yield group(pending)
