"""The evidence that the procedure of verdicts has for its example: a drop of 3.1 points on 500 questions."""

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import Evidence, VerdictKind
from rag_eval_pipeline.monitoring.verdict_records import Verdict

DROP = Evidence(
    metric="EM",
    higher_is_better=True,
    baseline_mean=0.75,
    current_mean=0.719,
    estimate=-0.031,
    adjusted_interval=Interval(-0.056, -0.006),
    confidence_interval=Interval(-0.046, -0.016),
    p_value=0.0002,
    p_corrected=0.002,
    effect_size=-0.18,
    n=500,
    n_units=500,
    is_clustered=False,
    coverage=1.0,
    smallest_drop=0.022,
    n_metrics=12,
)


def replace(evidence: Evidence, **changes: object) -> Evidence:
    """Return evidence with other values."""
    return evidence.model_copy(update=changes)


RISE = replace(
    DROP, estimate=0.031, adjusted_interval=Interval(0.006, 0.056), confidence_interval=Interval(0.016, 0.046)
)
SMALL = replace(
    DROP, estimate=0.001, adjusted_interval=Interval(-0.015, 0.017), confidence_interval=Interval(-0.008, 0.011),
    p_value=0.4, p_corrected=1.0,
)  # fmt: skip
UNCLEAR = replace(
    DROP, estimate=-0.012, adjusted_interval=Interval(-0.046, 0.022), confidence_interval=Interval(-0.034, 0.010),
    p_value=0.075, p_corrected=0.9,
)  # fmt: skip


def verdict_of(kind: VerdictKind) -> Verdict:
    """Return a verdict of a kind, whatever its evidence."""
    return Verdict.of(DROP).model_copy(update={"kind": kind})
