"""The records of `regressions.json`: one side against another on one benchmark, with a verdict for each metric.

Source: Evaluation Data Formats 3.1, 3.2; RAG Evaluation Framework 6.
"""

from typing import Literal

import pydantic

from rag_eval_pipeline.formats.model import Model


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
    """`regressions.json`: a list, written by every aggregation."""
