"""Summaries of all pairs: a week against the baselines, and benchmark files for other programs.

`benchmark_weekly_<date>.results.json` has the mean of seven nights of each pair against its pinned baseline, which
shows what one night cannot; it is dated by the Monday after the week and written once. `*.benchmark.json` under
`data/benchmarks/` have the newest metrics of every pair: latency and throughput, retrieval quality and citation
accuracy.

Source: Evaluation Data Formats 3.1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.formats.model import SCHEMA_VERSION
from rag_eval_pipeline.metrics.verdicts import WEEK_NIGHTS, verdict, weekly_scores
from rag_eval_pipeline.reporting.baselines import all_published
from rag_eval_pipeline.reporting.comparison import (
    Comparison,
    VerdictSettings,
    comparison_cells,
    comparison_record,
    read_verdict_settings,
    why_not_comparable,
)
from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader, read_history
from rag_eval_pipeline.reporting.nightly import read_baseline_runs
from rag_eval_pipeline.reporting.scored_runs import Column, ScoredRun, run_of_evaluation
from rag_eval_pipeline.storage.files import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

MONDAY = 0
ALL = "all"  # where the results file of one evaluation names its benchmark, system or dataset


@dataclass(frozen=True, slots=True)
class Week:
    """A week's file and its content."""

    path: Path
    record: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, float]:
        """Pairs, and pairs with verdicts."""
        pairs = self.record["pairs"]
        return {"pairs": len(pairs), "compared": sum(pair["reason"] is None for pair in pairs)}

    def cells(self) -> list[dict[str, Any]]:
        """Return a table row for each verdict."""
        return [
            {"benchmark": pair["benchmark"], "system": pair["new"], **cell}
            for pair in self.record["pairs"]
            for cell in comparison_cells(pair)
        ]


def write_week(workspace: Workspace, monday: str | None, *, now: datetime) -> Week:
    """Write a week's file, or read it if it exists.

    Args:
        workspace: With the evaluations.
        monday: The day after the week, as ISO 8601; by default the most recent Monday.
        now: Aware.

    Raises:
        InputError: `bad_date`, `week_not_over`, or an error in the settings.
    """
    end = _end_of_week(monday, now)
    name = f"benchmark_weekly_{end:%Y%m%d}"
    path = workspace.results / f"{name}.results.json"
    if path.exists():
        return Week(path, msgspec.json.decode(path.read_bytes()))
    settings = read_verdict_settings(workspace)
    rows = [
        _week_of_pair(workspace, evaluations, end, settings)
        for _, evaluations in sorted(all_published(workspace).items())
    ]
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name,
        "evaluation_type": "weekly",
        "timestamp": now.isoformat(),
        **dict.fromkeys(("benchmark", "system", "dataset_id"), ALL),
        "system_version": "1",
        "dataset_version": "1.0.0",
        "from": (end - timedelta(days=WEEK_NIGHTS)).isoformat(),
        "to": (end - timedelta(days=1)).isoformat(),
        "pairs": [{**comparison_record(row), "evaluations": nights} for row, nights in rows],
    }
    atomic_write_json(path, record)
    return Week(path, record)


def _end_of_week(given: str | None, now: datetime) -> date:
    today = now.astimezone(UTC).date()
    if given is None:
        return today - timedelta(days=(today.weekday() - MONDAY) % 7)
    try:
        end = date.fromisoformat(given)
    except ValueError:
        raise InputError("bad_date", "the week", "a date such as 2026-11-23", found=given) from None
    if end.weekday() != MONDAY:
        raise InputError("bad_date", "the week", "a Monday, the day after the week", found=given)
    if end > today:
        raise InputError("week_not_over", "the week", "a week that has ended", found=given)
    return end


def _week_of_pair(
    workspace: Workspace, evaluations: Sequence[Evaluation], end: date, settings: VerdictSettings
) -> tuple[Comparison, list[str]]:
    """Return a pair's week and the evaluations that it is the mean of."""
    record = evaluations[-1].record
    nights = _last_of_each_day(evaluations, end)
    names = [one.record.evaluation_id for one in nights]
    row = Comparison("weekly", record.benchmark, "baseline", record.system, {})
    try:
        baseline = read_baseline(workspace, record.benchmark, record.system)
        if baseline is None:
            return replace(row, reason="no_baseline"), names
        if len(nights) < WEEK_NIGHTS:
            return replace(row, reason=f"{len(nights)} of {WEEK_NIGHTS} nights"), names
        runs = [run_of_evaluation(night) for night in nights]
        if reason := why_not_comparable(runs[-1], runs[:-1]):
            return replace(row, reason=reason), names
        week = _mean_run(runs)
        found = read_baseline_runs(workspace, nights[-1], baseline.evaluations, settings).gather_evidence(week)
    except InputError as error:
        return replace(row, reason=str(error)), names
    rules = settings.rules(week.min_coverage)
    verdicts = {name: verdict(one, confirmation="weekly", rules=rules) for name, one in found.evidence.items()}
    moved = {name: found.moved[name] for name, one in verdicts.items() if one.confirmation is not None}
    return replace(row, verdicts=verdicts, reason=found.reason, moved=moved), names


def _last_of_each_day(evaluations: Sequence[Evaluation], end: date) -> list[Evaluation]:
    """Return the last evaluation of each UTC day of the week before `end`, oldest first."""
    days = {one.record.opened_at.astimezone(UTC).date(): one for one in evaluations}
    return [days[day] for n in range(WEEK_NIGHTS, 0, -1) if (day := end - timedelta(days=n)) in days]


def _mean_run(runs: Sequence[ScoredRun]) -> ScoredRun:
    """Return seven nights as one run; a measure that one of them lacks is left out."""
    names = [name for name in runs[-1].columns if all(name in run.columns for run in runs)]
    columns = {
        name: Column(
            tuple(weekly_scores([run.columns[name].scores for run in runs])),
            tuple(any(asked) for asked in zip(*(run.columns[name].asked for run in runs), strict=True)),
        )
        for name in names
    }
    return replace(runs[-1], evaluation_id="+".join(run.evaluation_id for run in runs), columns=columns)


def write_benchmark_files(workspace: Workspace) -> list[Path]:
    """Write the four benchmark files; equal results give equal bytes."""
    rows = read_history(workspace).newest()
    paths = []
    for name, (folder, content) in BENCHMARK_FILES.items():
        path = workspace.root / "data" / "benchmarks" / folder / f"{name}.benchmark.json"
        entries = [{**_head(row), **content(row)} for row in rows]
        atomic_write_json(path, {"schema_version": SCHEMA_VERSION, "benchmark": name, "entries": entries})
        paths.append(path)
    return paths


def _head(row: ResultsHeader) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark,
        "system": row.system,
        "system_version": row.system_version,
        "dataset_version": row.dataset_version,
        "evaluation_id": row.evaluation_id,
        "timestamp": row.timestamp.isoformat(),
        "queries": row.summary["total_queries"],
        "failed": row.summary["failed_queries"],
    }


def _latency(row: ResultsHeader) -> dict[str, Any]:
    metrics = row.performance_metrics
    return {"latency_ms": metrics["latency_stats"], "reused_from": metrics.get("reused_from")}


def _throughput(row: ResultsHeader) -> dict[str, Any]:
    seconds, answered = row.summary["total_evaluation_time_seconds"], row.summary["successful_queries"]
    # Copied answers took no time: their rate would say nothing about the system.
    is_measured = bool(seconds) and not row.performance_metrics.get("reused_from")
    return {
        "seconds": seconds,
        "queries_per_second": (answered or 0) / seconds if is_measured and seconds else None,
        "reason": None if is_measured else "answers_were_reused",
        "resource_usage": row.performance_metrics["resource_usage"],
    }


def _retrieval(row: ResultsHeader) -> dict[str, Any]:
    return {
        "level": row.retrieval_level,
        "by_document": _metrics(row.retrieval_metrics),
        "by_page": _metrics(row.page_retrieval_metrics),
    }


def _citations(row: ResultsHeader) -> dict[str, Any]:
    return {"span_accuracy": row.citation_metrics["span_accuracy"]}


def _metrics(metrics: Mapping[str, MetricHeader]) -> dict[str, Any]:
    return {
        name: {
            "value": metric.value,
            "confidence_interval": metric.confidence_interval,
            "n_scored": metric.n_scored,
            "coverage": metric.coverage,
            "reason": metric.reason,
        }
        for name, metric in metrics.items()
    }


# Name -> folder, and what the file holds of a results file.
BENCHMARK_FILES: dict[str, tuple[str, Callable[[ResultsHeader], dict[str, Any]]]] = {
    "latency_benchmarks": ("performance", _latency),
    "throughput_benchmarks": ("performance", _throughput),
    "retrieval_quality_benchmarks": ("quality", _retrieval),
    "citation_accuracy_benchmarks": ("quality", _citations),
}
