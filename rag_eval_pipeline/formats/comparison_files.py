"""Files of comparisons: `regressions.json`, `benchmark_weekly_*.results.json`, `ab_test_*.results.json`.

A row is one side against another on one benchmark: verdicts by metric, or the reason why there are none.
Source: Evaluation Data Formats 3.1, 3.2; RAG Evaluation Framework 6.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import ClassVar, Literal

import pydantic

from rag_eval_pipeline.formats.findings import Finding, finding
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion

WEEK_DAYS = 7


class MovedQuestion(Model):
    """A question whose score is not what it was."""

    query_id: str = pydantic.Field(description="Which.")
    before: float = pydantic.Field(description="Mean over the runs that are compared with.")
    after: float = pydantic.Field(description="Now.")


class VerdictRecord(Model):
    """One metric's verdict with its evidence; effects in the metric's own unit."""

    kind: Literal["withheld", "regressed", "improved", "equivalent", "inconclusive", "no_verdict"] = pydantic.Field(
        description="The word."
    )
    sentence: str = pydantic.Field(description="What a reader is told.")
    confirmation: (
        Literal["pending", "confirmed", "not_confirmed", "not_needed", "no_rerun", "provisional", "weekly"] | None
    ) = pydantic.Field(description="Of a flagged change: what stands behind it.")
    baseline_mean: float | None = pydantic.Field(description="Over the pinned runs and the pairs.")
    current_mean: float | None = pydantic.Field(description="Over the pairs.")
    estimate: float | None = pydantic.Field(description="Current minus baseline.")
    higher_is_better: bool = pydantic.Field(True, description="False for failure rates and the like.")
    value_range: float = pydantic.Field(1.0, gt=0, description="Largest minus smallest possible score.")
    adjusted_interval: tuple[float, float] | None = pydantic.Field(
        None, description="Of the estimate: what the test does not reject at the level that Holm's correction leaves."
    )
    confidence_interval: tuple[float, float] | None = pydantic.Field(
        description="Of the estimate, 95 %, with pseudo-units."
    )
    effect_size: float | None = pydantic.Field(description="Cohen's dz.")
    p_value: float | None = pydantic.Field(None, ge=0, le=1, description="One-sided, in the direction of the estimate.")
    p_corrected: float | None = pydantic.Field(ge=0, le=1, description="The same after Holm over the metrics.")
    n: int = pydantic.Field(ge=0, description="Questions scored on both sides.")
    coverage: float | None = pydantic.Field(ge=0, le=1, description="Share of the questions asked that are pairs.")
    n_units: int | None = pydantic.Field(None, ge=0, description="Groups of questions that were flipped together.")
    is_clustered: bool = pydantic.Field(False, description="The groups are documents, or several that go together.")
    is_short_of_runs: bool = pydantic.Field(
        False, description="The groups are documents because fewer than three runs are pinned."
    )
    design_effect: float | None = pydantic.Field(None, ge=1, description="Of the noise that documents share.")
    n_metrics: int | None = pydantic.Field(None, ge=1, description="How many metrics p was corrected for.")
    smallest_drop: float | None = pydantic.Field(description="The smallest change this set can show, as a share.")
    needed_units: int | None = pydantic.Field(None, ge=0, description="Groups that must fall for it, and none rise.")
    is_exact: bool = pydantic.Field(False, description="All assignments of signs were counted, none drawn.")
    questions: tuple[MovedQuestion, ...] = pydantic.Field(description="Those that moved most.")


class ComparisonRow(Model):
    """Two sides on one benchmark."""

    kind: Literal["baseline", "systems", "evaluations", "weekly", "ab_test"] = pydantic.Field(description="What sides.")
    benchmark: str = pydantic.Field(min_length=1, description="Of both.")
    old: str = pydantic.Field(min_length=1, description="The side that is compared with.")
    new: str = pydantic.Field(min_length=1, description="The side in question.")
    evaluation_id: str | None = pydantic.Field(description="The evaluation in question.")
    rerun: str | None = pydantic.Field(description="The evaluation that looked again.")
    reason: str | None = pydantic.Field(description="Why there is no verdict.")
    note: str | None = pydantic.Field(description="How steady the unchanged system is.")
    made_from: str | None = pydantic.Field(
        None, description="A digest of the runs, settings and rules; while it is the same, so is the row."
    )
    verdicts: dict[str, VerdictRecord] = pydantic.Field(description="Metric -> verdict.")


class Regressions(pydantic.RootModel[tuple[ComparisonRow, ...]]):
    """`regressions.json`: a list, made anew by every aggregation."""


class WeekRow(ComparisonRow):
    """A pair's week."""

    evaluations: tuple[str, ...] = pydantic.Field(description="Its nights, oldest first.")


class AbRow(ComparisonRow):
    """A benchmark of an A/B test."""

    runs_of_a: tuple[str, ...] = pydantic.Field((), description="The runs that stand for A.")


class _SeveralResults(FileModel):
    """What both files have of a results file's header, so that listings know what they are."""

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Of this file's form.")
    evaluation_id: str = pydantic.Field(description="The file's name without its ending.")
    timestamp: pydantic.AwareDatetime = pydantic.Field(description="When it was written.")
    benchmark: Literal["all"] = pydantic.Field(description="Each row names its own.")
    system: str = pydantic.Field(description="`all`, or B.")
    dataset_id: Literal["all"] = pydantic.Field(description="Each benchmark has its own.")
    system_version: str = pydantic.Field(description="Of no meaning here.")
    dataset_version: str = pydantic.Field(description="Of no meaning here.")


class WeeklyResults(_SeveralResults):
    """Seven nights of each pair against its pinned baseline."""

    form: ClassVar[Form] = Form("file of a week")

    evaluation_type: Literal["weekly"] = pydantic.Field(description="Which of the two it is.")
    first_day: date = pydantic.Field(alias="from", description="A Monday.")
    last_day: date = pydantic.Field(alias="to", description="The Sunday after it.")
    pairs: tuple[WeekRow, ...] = pydantic.Field(description="A row a pair.")


class AbTestResults(_SeveralResults):
    """Two systems on the benchmarks of a test."""

    form: ClassVar[Form] = Form("file of an A/B test")

    evaluation_type: Literal["ab_test"] = pydantic.Field(description="Which of the two it is.")
    a: str = pydantic.Field(description="The system that is compared with.")
    b: str = pydantic.Field(description="The system in question.")
    benchmarks: tuple[AbRow, ...] = pydantic.Field(description="A row a benchmark.")


def check_week(week: WeeklyResults, path: Path) -> Iterator[Finding]:
    """Faults of a week: its days, its name, its rows."""
    yield from _named(week.evaluation_id, path)
    if week.first_day.weekday() or week.last_day - week.first_day != timedelta(days=WEEK_DAYS - 1):
        expected = "a Monday, and the Sunday after it under `to`"
        yield finding("error", "bad_date", path, expected, field="from", found=f"{week.first_day} to {week.last_day}")
    for number, row in enumerate(week.pairs):
        place = f"pairs[{number}].evaluations"
        if len(row.evaluations) > WEEK_DAYS or row.reason is None and len(row.evaluations) < WEEK_DAYS:
            yield finding("error", "counts", path, "seven nights", field=place, found=len(row.evaluations))
        if len(set(row.evaluations)) < len(row.evaluations):
            yield finding("error", "duplicate_id", path, "each night once", field=place, found=row.evaluations)
    yield from _rows(week.pairs, path, "pairs", kind="weekly")


def check_ab_test(test: AbTestResults, path: Path) -> Iterator[Finding]:
    """Faults of an A/B test: its sides, its name, its rows."""
    yield from _named(test.evaluation_id, path)
    if test.a == test.b or test.system != test.b:
        expected = "two systems, `system` the second of them"
        yield finding("error", "bad_sides", path, expected, field="b", found=f"{test.a}, {test.b}, {test.system}")
    for number, row in enumerate(test.benchmarks):
        if (row.old, row.new) != (test.a, test.b):
            found = f"{row.old} and {row.new}"
            yield finding(
                "error", "bad_sides", path, f"{test.a} and {test.b}", field=f"benchmarks[{number}]", found=found
            )
    yield from _rows(test.benchmarks, path, "benchmarks", kind="ab_test")


def check_regressions(regressions: Regressions, path: Path) -> Iterator[Finding]:
    """Faults of the rows."""
    yield from _rows(regressions.root, path, "", kind=None)


def _named(evaluation_id: str, path: Path) -> Iterator[Finding]:
    if path.name.partition(".")[0] != evaluation_id:
        expected = "the file's name without its ending"
        yield finding("error", "misnamed_file", path, expected, field="evaluation_id", found=evaluation_id)


def _rows(rows: tuple[ComparisonRow, ...], path: Path, field: str, *, kind: str | None) -> Iterator[Finding]:
    seen = set()
    for number, row in enumerate(rows):
        place = f"{field}[{number}]"
        sides = (row.kind, row.benchmark, row.old, row.new)
        if sides in seen:
            yield finding("error", "duplicate_id", path, "each comparison once", field=place, found=sides)
        seen.add(sides)
        if kind is not None and row.kind != kind:
            yield finding("error", "bad_sides", path, f"rows of kind {kind!r}", field=f"{place}.kind", found=row.kind)
        if (row.reason is None) == (not row.verdicts):
            expected = "verdicts, or the reason why there are none"
            yield finding("error", "verdicts", path, expected, field=f"{place}.reason", found=row.reason)
        for name, found in row.verdicts.items():
            yield from _verdict(found, path, f"{place}.verdicts.{name}")


def _verdict(found: VerdictRecord, path: Path, place: str) -> Iterator[Finding]:
    for name in ("adjusted_interval", "confidence_interval"):
        limits = getattr(found, name)
        if limits is not None and limits[0] > limits[1]:
            yield finding("error", "interval", path, "the lower limit first", field=f"{place}.{name}", found=limits)
    changed = found.kind in ("regressed", "improved")
    refuted = found.kind == "inconclusive" and found.confirmation == "not_confirmed"
    if changed == (found.confirmation is None) and not refuted:
        expected = "what stands behind a change, and null where there is none"
        yield finding("error", "verdicts", path, expected, field=f"{place}.confirmation", found=found.confirmation)
