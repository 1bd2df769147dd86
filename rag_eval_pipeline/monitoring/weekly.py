"""Summaries of all pairs: a week against the baselines, A/B tests, and benchmark files for other programs.

`benchmark_weekly_<date>.results.json` has the last night of the week of each pair with its verdicts, and the week's
evaluations; it is dated by the Monday after the week and written once.

Source: Evaluation Data Formats 3.1.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.compared_runs import (
    ScoredRun,
    calibrated_measures,
    dataset_clusters,
    run_of_evaluation,
)
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, all_published, published_evaluations
from rag_eval_pipeline.formats import evaluations as data_models
from rag_eval_pipeline.formats.model import SCHEMA_VERSION
from rag_eval_pipeline.judges.trust_card import read_trust_cards
from rag_eval_pipeline.metrics.verdict_rules import CHANGES, FAILURE_RATE
from rag_eval_pipeline.metrics.verdicts import first_confirmation
from rag_eval_pipeline.monitoring.ab_comparisons import compare_systems, compare_with_people, evaluate_over_time
from rag_eval_pipeline.monitoring.baselines import newest_alike
from rag_eval_pipeline.monitoring.comparison import compare_runs
from rag_eval_pipeline.monitoring.comparison_files import comparison_cells
from rag_eval_pipeline.monitoring.history import MetricHeader, ResultsHeader, read_history
from rag_eval_pipeline.monitoring.night_records import read_nights
from rag_eval_pipeline.monitoring.settings_files import AbTest, read_ab_tests
from rag_eval_pipeline.monitoring.verdict_records import Comparison
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.storage.atomic_files import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

MONDAY = 0
WEEK = timedelta(days=7)
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
        monday: The day after the week, as ISO 8601; by default the most recent Monday.
    """
    end = _end_of_week(monday, now)
    name = f"benchmark_weekly_{end:%Y%m%d}"
    path = workspace.results / f"{name}.results.json"
    if path.exists():
        return Week(path, msgspec.json.decode(path.read_bytes()))
    rows = [_week_of_pair(workspace, evaluations, end) for _, evaluations in sorted(all_published(workspace).items())]
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": name,
        "evaluation_type": "weekly",
        "timestamp": now.isoformat(),
        **dict.fromkeys(("benchmark", "system", "dataset_id"), ALL),
        "system_version": "1",
        "dataset_version": "1.0.0",
        "retrieval_metrics": {},  # which every results file has; those of a pair are under `pairs`
        "from": (end - WEEK).isoformat(),
        "to": (end - timedelta(days=1)).isoformat(),
        "pairs": [{**row.model_dump(), "evaluations": nights} for row, nights in rows],
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


def _week_of_pair(workspace: Workspace, evaluations: Sequence[Evaluation], end: date) -> tuple[Comparison, list[str]]:
    """Return a pair's last night of the week, and the evaluations of the week."""
    record = evaluations[-1].record
    week = [one for one in evaluations if end - WEEK <= one.record.opened_at.astimezone(UTC).date() < end]
    names = [one.record.evaluation_id for one in week]
    row = Comparison(kind="weekly", benchmark=record.benchmark, old="baseline", new=record.system)
    try:
        if read_baseline(workspace, record.benchmark, record.system) is None:
            return row.model_copy(update={"reason": "no_baseline"}), names
    except InputError as error:
        return row.model_copy(update={"reason": str(error)}), names
    known = read_nights(workspace, record.benchmark, record.system)
    nights = [night for night in (known.nights if known else ()) if night.evaluation_id in names]
    if not nights:
        return row.model_copy(update={"reason": "no night was compared"}), names
    found = {"verdicts": nights[-1].metrics, "reason": nights[-1].reason, "evaluation_id": nights[-1].evaluation_id}
    return row.model_copy(update=found), names


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
    # Copied answers took no time.
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
    fields = ("value", "confidence_interval", "n_scored", "coverage", "reason")
    return {name: {field: getattr(metric, field) for field in fields} for name, metric in metrics.items()}


# Name -> folder, and what the file holds of a results file.
BENCHMARK_FILES: dict[str, tuple[str, Callable[[ResultsHeader], dict[str, Any]]]] = {
    "latency_benchmarks": ("performance", _latency),
    "throughput_benchmarks": ("performance", _throughput),
    "retrieval_quality_benchmarks": ("quality", _retrieval),
    "citation_accuracy_benchmarks": ("quality", _citations),
}

NIGHTS = 30  # of system B in its trend


@dataclass(frozen=True, slots=True)
class AbResult:
    """A test's file and its content."""

    path: Path
    record: Mapping[str, Any]

    def sentences(self) -> Iterator[str]:
        """Yield a line for each benchmark and metric that changed, or the reason why there is none."""
        for row in self.record["benchmarks"]:
            if row["reason"]:
                yield f"{row['benchmark']}: {row['reason']}"
                continue
            moved = [found for found in row["verdicts"].values() if found["kind"] in CHANGES]
            for found in moved or list(row["verdicts"].values())[:1]:
                yield f"{row['benchmark']}: {found['sentence']}"


def run_ab_tests(workspace: Workspace, config: Path | None = None, *, now: datetime) -> list[AbResult]:
    """Compare the systems of each test by their published evaluations, and write a results file for each.

    Raises:
        InputError: A fault of the settings, `no_ab_tests`, or `no_system` for a name without a file.
    """
    tests, settings = read_ab_tests(workspace, config), read_verdict_settings(workspace)
    return [_run(workspace, test, settings, now) for test in tests]


def _run(workspace: Workspace, test: AbTest, settings: VerdictSettings, now: datetime) -> AbResult:
    names = [name for name in workspace.benchmarks() if any(fnmatchcase(name, glob) for glob in test.benchmarks)]
    rows = [_on_benchmark(workspace, name, test, settings) for name in names]
    found = (one for name in names for one in _data_model_evaluations(workspace, name, test, now))
    evaluations = [one.model_dump(mode="json", exclude_none=True) for one in found]
    path = _take_file(workspace, test)
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": path.name.partition(".")[0],
        "evaluation_type": "ab_test",
        "timestamp": now.isoformat(),
        # The header of a results file, so that listings know what this is.
        "benchmark": ALL,
        "system": test.b,
        "system_version": "1",
        "dataset_id": ALL,
        "dataset_version": "1.0.0",
        "retrieval_metrics": {},
        "a": test.a,
        "b": test.b,
        "benchmarks": rows,
        "evaluations": evaluations,
    }
    atomic_write_json(path, record)
    return AbResult(path, record)


def _on_benchmark(workspace: Workspace, benchmark: str, test: AbTest, settings: VerdictSettings) -> dict[str, Any]:
    sides = {side: published_evaluations(workspace, benchmark, side) for side in (test.a, test.b)}
    missing = [side for side, evaluations in sides.items() if not evaluations]
    none = Comparison(kind="ab_test", benchmark=benchmark, old=test.a, new=test.b)
    if missing:
        return {**none.model_dump(), "reason": f"no evaluation of {', '.join(missing)}"}
    newest = sides[test.b][-1]
    try:
        others = [run_of_evaluation(one) for one in newest_alike(sides[test.a])]
        run = run_of_evaluation(newest)
        clusters = dataset_clusters(workspace, newest.record.dataset_id, newest.record.dataset_version)
    except InputError as error:
        return {**none.model_dump(), "reason": str(error)}
    row = compare_runs(
        "ab_test",
        run,
        others,
        old=test.a,
        new=test.b,
        settings=settings,
        judged=calibrated_measures(workspace, benchmark, run.fingerprints.judge),
        clusters=clusters,
        confirmation=first_confirmation(len(others)),
    )
    return {**row.model_dump(), "runs_of_a": [one.evaluation_id for one in others]}


def _data_model_evaluations(
    workspace: Workspace, benchmark: str, test: AbTest, now: datetime
) -> Iterator[data_models.Evaluation]:
    """Yield the comparisons of a test on one benchmark as the evaluation data models have them.

    These are A against B and B over its last nights for each measure, and people against the judge for each task that
    they labelled. Source: Evaluation Data Models, Common Evaluation Patterns.
    """
    ours, theirs = (published_evaluations(workspace, benchmark, side) for side in (test.b, test.a))
    if not ours or not theirs:
        return
    try:
        nights = [run_of_evaluation(one) for one in ours[-NIGHTS:]]
        other = run_of_evaluation(theirs[-1])
        record = ours[-1].record
        clusters = dataset_clusters(workspace, record.dataset_id, record.dataset_version)
    except InputError:  # it is in the row of the benchmark
        return
    newest = nights[-1]
    for measure in sorted(newest.columns.keys() & other.columns.keys() - {FAILURE_RATE}):
        a, b = _scores(other, measure), _scores(newest, measure)
        if any(value is not None and b.get(name) is not None for name, value in a.items()):
            yield compare_systems(
                a, b, variant_a=other.evaluation_id, variant_b=newest.evaluation_id, metric=measure,
                benchmark=benchmark, now=now, clusters=clusters,
            )  # fmt: skip
        means = [fmean(known) for run in nights if (known := _known(run, measure))]
        if means:
            yield evaluate_over_time(measure, means, target_event_id=f"{benchmark}|{test.b}", now=now)
    for card in read_trust_cards(workspace.trust_cards):
        if (card.benchmark, card.judge_fingerprint, card.labels_by) == (benchmark, newest.fingerprints.judge, "human"):
            yield from (compare_with_people(card, trust, now=now) for trust in card.tasks if trust.n_compared)


def _scores(run: ScoredRun, measure: str) -> dict[str, float | None]:
    return dict(zip(run.query_ids, run.columns[measure].scores, strict=True))


def _known(run: ScoredRun, measure: str) -> list[float]:
    column = run.columns.get(measure)
    return [] if column is None else [score for score in column.scores if score is not None]


def _take_file(workspace: Workspace, test: AbTest) -> Path:
    """Create a file with a number that no other test has."""
    workspace.results.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = workspace.results / f"ab_test_{test.a}_vs_{test.b}_{number:03d}.results.json"
        try:
            path.touch(exist_ok=False)
            return path
        except FileExistsError:
            number += 1
