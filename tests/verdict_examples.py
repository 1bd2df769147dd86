"""The evidence that the procedure of verdicts has for its example: a drop of 3.1 points on 500 questions."""

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import Evidence

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
    n_pairs=500,
    n_units=500,
    is_clustered=False,
    coverage=1.0,
    smallest_drop=0.022,
    n_metrics=12,
)
