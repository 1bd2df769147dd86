"""Evidence as nights and comparisons have it: a drop of 6 points on 200 questions, and changes of other sizes."""

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdict_rules import VerdictKind
from rag_eval_pipeline.metrics.verdicts import Evidence
from rag_eval_pipeline.monitoring.verdict_records import Verdict

DROP = Evidence(  # a night and its rerun
    metric="EM",
    baseline_mean=0.75,
    current_mean=0.69,
    estimate=-0.06,
    adjusted_interval=Interval(-0.104, -0.023),
    confidence_interval=Interval(-0.089, -0.031),
    p_value=2.5e-10,
    p_corrected=3e-9,
    level=1e-5,
    level_text="so that 12 pairs raise at most one false alarm in two years",
    effect_size=-0.28,
    n=200,
    n_units=200,
    fell=14,
    rose=2,
    runs=2,
    reference_runs=5,
    smallest_drop=0.02,
    needed_units=4,
    n_metrics=12,
)


def replace(evidence: Evidence, **changes: object) -> Evidence:
    """Return evidence with other values."""
    return evidence.model_copy(update=changes)


FIRST = replace(DROP, runs=1, level=0.01, level_text="for a rerun", p_value=0.0001, p_corrected=0.0012)
SINGLE = replace(FIRST, level_text="", reference_runs=1)  # two evaluations
RISE = replace(
    DROP, estimate=0.06, current_mean=0.81, adjusted_interval=Interval(0.023, 0.104),
    confidence_interval=Interval(0.031, 0.089), fell=2, rose=14,
)  # fmt: skip
SMALL = replace(
    FIRST, estimate=0.001, adjusted_interval=Interval(-0.015, 0.017), confidence_interval=Interval(-0.008, 0.011),
    p_value=0.4, p_corrected=1.0, fell=0, rose=0,
)  # fmt: skip
UNCLEAR = replace(
    FIRST, estimate=-0.012, adjusted_interval=Interval(-0.046, 0.022), confidence_interval=Interval(-0.034, 0.010),
    p_value=0.075, p_corrected=0.9, fell=3, rose=1,
)  # fmt: skip


def verdict_of(kind: VerdictKind) -> Verdict:
    """Return a verdict of a kind, whatever its evidence."""
    return Verdict.of(DROP).model_copy(update={"kind": kind})
