"""The history of a workspace: its published results files.

`data/evaluation/history/results.parquet` has a row for each published results file: its header (all but the questions)
and the SHA-256 of the published bytes. A new or changed file is read again, and a row outlives its file. A history that
is lost or damaged is made again from the results files.
"""

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, age_order, all_published
from rag_eval_pipeline.formats.model import check_schema_version
from rag_eval_pipeline.formats.results import AB_TEST, ROWS, WEEKLY, EvaluationResults, pooled_jaccard
from rag_eval_pipeline.formats.row_files import WHOLE_BYTES, RowFile
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE
from rag_eval_pipeline.monitoring.night_records import Night, find_reruns, nights_since
from rag_eval_pipeline.storage.atomic_files import publishing, sha256_of
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.parquet_files import limit_allocators, open_parquet
from rag_eval_pipeline.workspace import Workspace

FILE = "results.parquet"
SUFFIX = ".results.json"
ROWS_PER_GROUP = 1000  # few, so that reading and writing need little memory
ALWAYS = ("f1", "abstention_f1", "citation_jaccard", "latency_p50_ms")  # metrics that every results file has
SHOWN = ("hit@1", "ndcg@10", "exact_match", "f1")  # metrics of a line of `rag-eval history`

logger = logging.getLogger(__name__)


class MetricHeader(msgspec.Struct, frozen=True, gc=False):
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


class JudgeHeader(msgspec.Struct, frozen=True):
    """The models that the judge's server reported."""

    models: tuple[str, ...] = ()


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
    judge: JudgeHeader | None = None

    @property
    def judge_models(self) -> tuple[str, ...]:
        """As the judge's server reported them."""
        return () if self.judge is None else self.judge.models

    @property
    def questions(self) -> int:
        """The number of questions that were asked."""
        return int(self.summary.get("total_queries") or 0)

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
            return msgspec.convert(pooled_jaccard(self.citation_metrics["span_accuracy"]), MetricHeader)
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
        sha256: Of the published bytes; None if the file could never be read.
        published_at: The time that the published file states, in microseconds.
        timestamp: The time that the file states now, in microseconds.
        header: None if the file cannot be read now.
        fault: Why the file cannot be read or is not what was published.
    """

    evaluation_id: str
    signature: str | None = None
    sha256: str | None = None
    published_at: int | None = None
    benchmark: str | None = None
    system: str | None = None
    timestamp: int | None = None
    header: ResultsHeader | None = None
    fault: str | None = None


_TYPES = {"published_at": pa.int64(), "timestamp": pa.int64(), "header": pa.binary()}
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in PublishedResult._fields])


def published_results(workspace: Workspace, *, verify: bool = False) -> list[PublishedResult]:
    """Return a row for each results file that is there, by name; the history's file is brought up to date.

    Args:
        verify: Whether files that seem unchanged are read again.
    """
    path = workspace.history / FILE
    signatures = _signatures(workspace)
    if not signatures and not path.exists():
        return []
    rows = _read_rows(path)
    kept = {name: row.signature for name, row in (rows or {}).items() if row.signature is not None}
    if rows is None or verify or kept != signatures:
        try:
            with locked(path.with_name(".lock"), holder=f"history, process {os.getpid()}", exclusive=True):
                rows = _read_rows(path)  # another process may have written it
                if rows is None and (path.exists() or (path.parent / "figures").is_dir()):
                    logger.warning("%s is rebuilt; earlier changes of results files cannot be detected", path)
                rows = _up_to_date(workspace, rows or {}, verify=verify)
                _write_rows(path, rows)
        except (OSError, ServiceError) as error:  # a full disk, a read-only folder
            logger.warning("The history is not written: %s", error)
            rows = _up_to_date(workspace, _read_rows(path) or {}, verify=verify)
    return [row for row in rows.values() if row.signature is not None]


def _read_rows(path: Path) -> dict[str, PublishedResult] | None:
    """Return the rows by evaluation; None if there is no file, or a damaged one."""
    limit_allocators()
    decode = msgspec.json.Decoder(ResultsHeader).decode
    rows = {}
    try:
        with open_parquet(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(ROWS_PER_GROUP, use_threads=False):
                for row in batch.to_pylist():
                    header = None if row["header"] is None else decode(row["header"])
                    rows[row["evaluation_id"]] = PublishedResult(**row | {"header": header})
        return rows
    except (FileNotFoundError, NotADirectoryError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None


def _write_rows(path: Path, rows: Mapping[str, PublishedResult]) -> None:
    encode = msgspec.json.Encoder().encode
    values = list(rows.values())
    with (
        publishing(path) as file,
        pq.ParquetWriter(file, _SCHEMA, compression="zstd", write_page_checksum=True) as writer,
    ):
        for first in range(0, len(values), ROWS_PER_GROUP):
            group = [
                {**row._asdict(), "header": None if row.header is None else encode(row.header)}
                for row in values[first : first + ROWS_PER_GROUP]
            ]
            writer.write_batch(pa.RecordBatch.from_pylist(group, schema=_SCHEMA))


def _signatures(workspace: Workspace) -> dict[str, str]:
    return {
        name: f"{max(stat.st_mtime_ns, stat.st_ctime_ns)}.{stat.st_size}.{stat.st_ino}"
        for name, stat in file_stats(workspace.results, SUFFIX).items()
        if not name.startswith((WEEKLY, AB_TEST))
    }


def file_stats(folder: Path, suffix: str) -> dict[str, os.stat_result]:
    """Return the status of each file in a folder by its name without the suffix."""
    found = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffix):
                with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                    found[entry.name.removesuffix(suffix)] = entry.stat()
    return found


def _up_to_date(
    workspace: Workspace, known: Mapping[str, PublishedResult], *, verify: bool
) -> dict[str, PublishedResult]:
    signatures = _signatures(workspace)
    rows = {}
    for name in sorted(known.keys() | signatures.keys()):
        row = known.get(name, PublishedResult(name))
        if name not in signatures:
            if row.sha256 is not None:  # what was published once is remembered
                rows[name] = row._replace(signature=None)
        elif row.signature == signatures[name] and not verify:
            rows[name] = row
        else:
            rows[name] = _read_again(workspace.results_file(name), row, signatures[name])
    return rows


def _read_again(path: Path, known: PublishedResult, signature: str) -> PublishedResult:
    row = known._replace(signature=signature, header=None)
    try:
        header = read_header(path, _without_rows(path))
        digest = sha256_of(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        return row._replace(signature="", fault=f"{path}: {error}")  # differs from every file's: it is read again
    except InputError as error:
        return row._replace(fault=str(error))
    timestamp = round(header.timestamp.timestamp() * 1_000_000)
    row = row._replace(benchmark=header.benchmark, system=header.system, timestamp=timestamp, header=header, fault=None)
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
    """Return a large results file without its questions, which need not fit into memory; any other one whole."""
    if path.stat().st_size <= WHOLE_BYTES:
        return path.read_bytes()
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


@dataclass(frozen=True)
class History:
    """The published evaluations of the registered benchmarks and systems.

    Args:
        by_pair: (benchmark, system) -> results of its evaluations, oldest first; sorted by pair.
        published: (benchmark, system) -> its published evaluations, oldest first.
        reruns: A rerun's evaluation id -> its night's.
        damaged: A line for each results file that cannot be read or is not what was published.
    """

    by_pair: Mapping[tuple[str, str], Sequence[ResultsHeader]]
    published: Mapping[tuple[str, str], Sequence[Evaluation]]
    reruns: Mapping[str, str]
    damaged: list[str]

    @cached_property
    def nights(self) -> Mapping[tuple[str, str], Sequence[ResultsHeader]]:
        """The results without reruns, except for one whose night's results are gone: it is all that is left of it."""
        return {
            pair: [one for n, one in enumerate(headers) if not n or one.evaluation_id not in self.reruns]
            for pair, headers in self.by_pair.items()
        }

    def newest(self) -> list[ResultsHeader]:
        """Return the last night of each pair, by benchmark and system."""
        return [headers[-1] for headers in self.nights.values()]


def read_history(workspace: Workspace, *, verify: bool = False) -> History:
    """Read the history; results of benchmarks and systems that are gone stay on disk and are left out."""
    return history_of(workspace, published_results(workspace, verify=verify))


def history_of(workspace: Workspace, rows: Sequence[PublishedResult]) -> History:
    """Return the history that rows of results files make."""
    by_pair: dict[tuple[str, str], list[ResultsHeader]] = {}
    # One that is not what was published is named, and shown all the same.
    headers = [row.header for row in registered(workspace, rows) if row.header is not None]
    age = age_order(workspace)
    for header in sorted(
        headers,
        key=lambda one: (one.benchmark, one.system, *age(one.benchmark, one.system, one.timestamp, one.evaluation_id)),
    ):
        by_pair.setdefault((header.benchmark, header.system), []).append(header)
    published = all_published(workspace)
    damaged = [row.fault for row in rows if row.fault is not None]
    return History(by_pair, published, find_reruns(workspace, published), damaged)


def registered(workspace: Workspace, rows: Sequence[PublishedResult]) -> list[PublishedResult]:
    """Return the rows of benchmarks and systems that are there."""
    benchmarks, systems = set(workspace.benchmarks()), set(workspace.systems())
    return [row for row in rows if row.benchmark in benchmarks and row.system in systems]


def history_rows(
    workspace: Workspace, benchmark: str | None = None, system: str | None = None, *, verify: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each evaluation, oldest first within each pair, and a line for each damaged file."""
    history = read_history(workspace, verify=verify)
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
    if baseline is not None and (known := nights_since(workspace, benchmark, system, baseline)) is not None:
        nights = known.nights
    verdicts = {night.evaluation_id: _night_line(night) for night in nights}
    roles = dict.fromkeys(baseline.evaluations if baseline else (), "baseline")
    roles |= {rerun: f"rerun of {night.evaluation_id}" for night in nights for rerun in night.reruns}
    return [
        {
            "evaluation_id": header.evaluation_id,
            "timestamp": header.timestamp.isoformat(),
            "benchmark": benchmark,
            "system": system,
            "role": roles.get(header.evaluation_id),
            "retrieval_level": header.retrieval_level,
            "figures": {name: header.metric(name).value for name in SHOWN},
            "partial": {
                name: (n, header.questions) for name in SHOWN if (n := header.metric(name).n_scored) != header.questions
            },
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
