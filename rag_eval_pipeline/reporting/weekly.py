"""A week: the mean of seven nights of each pair against its pinned baseline, which shows what one night cannot.

`benchmark_weekly_<date>.results.json`, dated by the Monday after the week, is written once and stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.formats.model import SCHEMA_VERSION
from rag_eval_pipeline.metrics.baselines import WEEK_NIGHTS, weekly_scores
from rag_eval_pipeline.metrics.verdicts import verdict
from rag_eval_pipeline.reporting.comparison_rows import Comparison, comparison_cells, comparison_record
from rag_eval_pipeline.reporting.looks import difference_of
from rag_eval_pipeline.reporting.nightbook import yardstick_of
from rag_eval_pipeline.reporting.published import all_published
from rag_eval_pipeline.reporting.scored_runs import Column, ScoredRun, run_of_evaluation
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

MONDAY = 0
ALL = "all"  # in the places where the file of one evaluation names its benchmark, system and dataset


@dataclass(frozen=True, slots=True)
class Week:
    """A week's file and what stands in it."""

    path: Path
    record: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, float]:
        """How many pairs, and how many of them have a verdict."""
        pairs = self.record["pairs"]
        return {"pairs": len(pairs), "compared": sum(pair["reason"] is None for pair in pairs)}

    def cells(self) -> list[dict[str, Any]]:
        """A row a verdict."""
        return [
            {"benchmark": pair["benchmark"], "system": pair["new"], **cell}
            for pair in self.record["pairs"]
            for cell in comparison_cells(pair)
        ]


def write_week(workspace: Workspace, monday: str | None, *, now: datetime) -> Week:
    """Publishes a week, or reads it when it is there.

    Args:
        workspace: Where.
        monday: The day after the week, as ISO 8601; None for the newest Monday that has come.
        now: Aware.

    Raises:
        InputError: `bad_date`, `week_not_over`, or a fault of the settings.
    """
    end = _monday(monday, now)
    name = f"benchmark_weekly_{end:%Y%m%d}"
    path = workspace.results / f"{name}.results.json"
    if path.exists():
        return Week(path, msgspec.json.decode(path.read_bytes()))
    settings = read_verdict_settings(workspace)
    rows = [
        (comparison, nights)
        for _, evaluations in sorted(all_published(workspace).items())
        for comparison, nights in [_week_of_pair(workspace, evaluations, end, settings)]
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


def _monday(given: str | None, now: datetime) -> date:
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
    record = evaluations[-1].record
    nights = _last_of_each_day(evaluations, end)
    names = [one.record.evaluation_id for one in nights]

    def none(reason: str) -> tuple[Comparison, list[str]]:
        return Comparison("weekly", record.benchmark, "baseline", record.system, {}, reason), names

    try:
        baseline = read_baseline(workspace, record.benchmark, record.system)
        if baseline is None:
            return none("no_baseline")
        if len(nights) < WEEK_NIGHTS:
            return none(f"{len(nights)} of {WEEK_NIGHTS} nights")
        runs = [run_of_evaluation(night) for night in nights]
        if reason := difference_of(runs[-1], runs[:-1]):
            return none(reason)
        week = _mean_run(runs)
        look = yardstick_of(workspace, nights[-1], baseline.evaluations, settings).look(week)
    except InputError as error:
        return none(str(error))
    rules = settings.rules(week.min_coverage)
    verdicts = {name: verdict(one, confirmation="weekly", rules=rules) for name, one in look.evidence.items()}
    moved = {name: look.moved[name] for name, one in verdicts.items() if one.confirmation is not None}
    return Comparison("weekly", record.benchmark, "baseline", record.system, verdicts, look.reason, moved), names


def _last_of_each_day(evaluations: Sequence[Evaluation], end: date) -> list[Evaluation]:
    """The last evaluation of each UTC day of the week before `end`, oldest first."""
    days = {one.record.opened_at.astimezone(UTC).date(): one for one in evaluations}
    return [days[day] for n in range(WEEK_NIGHTS, 0, -1) if (day := end - timedelta(days=n)) in days]


def _mean_run(runs: Sequence[ScoredRun]) -> ScoredRun:
    """Seven nights as one run; a measure that one of them lacks is left out."""
    names = [name for name in runs[-1].columns if all(name in run.columns for run in runs)]
    columns = {
        name: Column(
            tuple(weekly_scores([run.columns[name].scores for run in runs])),
            tuple(any(asked) for asked in zip(*(run.columns[name].asked for run in runs), strict=True)),
        )
        for name in names
    }
    return replace(runs[-1], evaluation_id="+".join(run.evaluation_id for run in runs), columns=columns)
