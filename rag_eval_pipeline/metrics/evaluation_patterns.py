"""The numbers in evaluations that compare: preference, agreement of a person and a model, trend over runs.

The specification shows them by examples that no formula gives; these are the definitions used here.
Source: Evaluation Data Models, Common Evaluation Patterns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rag_eval_pipeline.formats.evaluation_patterns import Trend
from rag_eval_pipeline.formats.evaluations import ComparisonData
from rag_eval_pipeline.metrics.evaluation_scores import Scale, Value, normalised
from rag_eval_pipeline.metrics.statistics import CONFIDENCE, SEED, Interval, summarise

EVEN = 0.5  # neither variant is preferred


@dataclass(frozen=True, slots=True)
class Development:
    """An evaluator's scores over runs.

    Args:
        trend: By the interval of the slope: `improving` or `declining` when it leaves 0 out, `stable` when all scores
            are equal, else `no_clear_trend`. None below three scores.
        change_rate: Slope of the least-squares line, score a run; None below two.
        slope_interval: 95 %, Student's t with n - 2 degrees of freedom; None below three.
        stability_score: 1 - sample standard deviation / mean: 1 when nothing changes, negative when the spread exceeds
            the mean; None below two scores or when the mean is not above 0.
        n: Scores.
    """

    trend: Trend | None
    change_rate: float | None
    slope_interval: Interval | None
    stability_score: float | None
    n: int


def compare_variants(
    preferences: Sequence[float], *, variant_a_event_id: str, variant_b_event_id: str, seed: int = SEED
) -> ComparisonData | None:
    """An A/B test.

    Args:
        preferences: One a comparison: 1 where A won, 0 where B did, 0.5 for a tie.
        variant_a_event_id: Of variant A.
        variant_b_event_id: Of variant B.
        seed: Of the bootstrap that gives the interval when there are ties; without ties it is Wilson's.

    Returns:
        None without comparisons. The difference is significant when the interval leaves 0.5 out; not decided when
        all comparisons are ties.

    Raises:
        ValueError: Another number than 0, 0.5 and 1.
    """
    if not set(preferences) <= {0, EVEN, 1}:
        raise ValueError("expected 0, 0.5 or 1 for each comparison")
    summary = summarise(preferences, seed=seed)
    if summary.value is None:
        return None
    interval = summary.confidence_interval
    return ComparisonData(
        variant_a_event_id=variant_a_event_id,
        variant_b_event_id=variant_b_event_id,
        preference_score=summary.value,
        confidence_interval=interval,
        sample_size=len(preferences),
        statistical_significance=None if interval is None else not interval.low <= EVEN <= interval.high,
    )


def agreement_score(human: Value | None, model: Value | None, scale: Scale) -> float | None:
    """1 - |difference| / range, in [0, 1]; None when either gave no score.

    Raises:
        InputError: `unknown_category`, `score_out_of_range`.
    """
    if human is None or model is None:
        return None
    return 1 - abs(normalised(human, scale, "human_evaluation") - normalised(model, scale, "ai_evaluation"))


def development(scores: Sequence[float], *, is_lower_better: bool = False) -> Development:
    """Trend, rate and stability of scores, oldest first.

    Args:
        scores: One a run, finite.
        is_lower_better: A falling score is then an improvement; `change_rate` stays the score's own.
    """
    n = len(scores)
    if n < 2:
        return Development(None, None, None, None, n)
    mean = math.fsum(scores) / n
    if len(set(scores)) == 1:
        interval = Interval(0.0, 0.0) if n > 2 else None
        return Development("stable" if n > 2 else None, 0.0, interval, 1.0 if mean > 0 else None, n)
    squares = math.fsum((score - mean) ** 2 for score in scores)
    stability = 1 - math.sqrt(squares / (n - 1)) / mean if mean > 0 else None
    middle = (n - 1) / 2
    spread = n * (n * n - 1) / 12  # sum of squared distances of 0, 1, ..., n - 1 from their middle
    slope = math.fsum((run - middle) * score for run, score in enumerate(scores)) / spread
    if n < 3:
        return Development(None, slope, None, stability, n)
    from scipy.stats import t

    residuals = math.fsum((score - mean - slope * (run - middle)) ** 2 for run, score in enumerate(scores))
    half = float(t.ppf((1 + CONFIDENCE) / 2, n - 2)) * math.sqrt(residuals / (n - 2) / spread)
    interval = Interval(slope - half, slope + half)
    return Development(_trend(interval, is_lower_better), slope, interval, stability, n)


def _trend(interval: Interval, is_lower_better: bool) -> Trend:
    if interval.low <= 0 <= interval.high:
        return "no_clear_trend"
    return "improving" if (interval.low > 0) != is_lower_better else "declining"
