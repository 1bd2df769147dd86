"""Evaluations that compare: two systems, a person and an evaluator, one system over its nights.

Source: Evaluation Data Models, Common Evaluation Patterns. Where its examples follow from no formula, the definitions
are those stated here.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from scipy.special import stdtrit

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    ComparisonData,
    ComparisonEvaluation,
    Evaluation,
    EvaluationStatus,
    HumanEvaluation,
    HumanModelEvaluation,
    ModelEvaluation,
    TemporalEvaluation,
    Trend,
    new_evaluation_id,
)
from rag_eval_pipeline.judges.evaluators import goodness
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, SEED, summarise

VERSION = "1.0.0"
TIE = 1e-9  # scores nearer than this are equal: sums of floats differ in their last digits
EVEN = 0.5  # neither variant is preferred


def compare_systems(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    *,
    variant_a: str,
    variant_b: str,
    now: datetime,
) -> ComparisonEvaluation:
    """Compare two systems question by question: the share of questions on which A scores higher.

    The difference is significant if the 95 % interval leaves out 0.5; that is undecided if all comparisons are ties.

    Args:
        a: Question -> score of variant A, higher being better.

    Raises:
        InputError: `nothing_to_compare` if no question has both scores.
    """
    pairs = [(one, other) for name in sorted(a) if (one := a[name]) is not None and (other := b.get(name)) is not None]
    preferences = [EVEN if abs(one - other) <= TIE else float(one > other) for one, other in pairs]
    summary = summarise(preferences, seed=SEED)
    if summary.value is None:
        raise InputError("nothing_to_compare", f"{variant_a} and {variant_b}", "a question that both have a score of")
    interval = summary.confidence_interval
    data = ComparisonData(
        variant_a_event_id=variant_a,
        variant_b_event_id=variant_b,
        preference_score=summary.value,
        confidence_interval=interval,
        sample_size=len(preferences),
        statistical_significance=None if interval is None else not interval.low <= EVEN <= interval.high,
    )
    return ComparisonEvaluation(
        evaluation_id=new_evaluation_id(),
        target_event_id=variant_a,
        evaluator_name="ab_test_comparison",
        evaluator_version=VERSION,
        score=data.preference_score,
        explanation=f"Variant A preferred in {data.preference_score:.0%} of {data.sample_size} comparisons",
        metadata={"ties": preferences.count(EVEN), "left_out": len(a.keys() | b.keys()) - len(pairs)},
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        comparison_data=data,
    )


def compare_with_human(human: HumanEvaluation, evaluation: Evaluation, *, now: datetime) -> HumanModelEvaluation:
    """Compare a person's and an evaluator's score in [0, 1] of one event: 1 - |difference|."""
    name = evaluation.evaluator_name
    agreement, discrepancy = None, "one of the two has no score"
    if human.score is not None and evaluation.score is not None:
        difference = goodness(name, float(evaluation.score)) - goodness(name, float(human.score))
        agreement = 1 - abs(difference)
        how = "more lenient" if difference > 0 else "stricter"
        discrepancy = "none" if abs(difference) <= TIE else (
            f"{name} is {abs(difference):.2f} of its scale {how} than the person"
        )  # fmt: skip
    model = (evaluation.metadata or {}).get("evaluator_model")
    return HumanModelEvaluation(
        evaluation_id=new_evaluation_id(),
        target_event_id=evaluation.target_event_id,
        evaluator_name="human_ai_comparison",
        evaluator_version=VERSION,
        score=agreement,
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        human_evaluation=human,
        ai_evaluation=ModelEvaluation(
            model=model if isinstance(model, str) and model else name,
            score=evaluation.score,
            explanation=evaluation.explanation,
        ),
        agreement_score=agreement,
        discrepancy_analysis=discrepancy,
    )


def evaluate_over_time(
    metric: str, scores: Sequence[float], *, target_event_id: str, now: datetime
) -> TemporalEvaluation:
    """Describe the trend of one metric's scores, one or more, the oldest night first."""
    found = development(scores)
    return TemporalEvaluation(
        evaluation_id=new_evaluation_id(),
        target_event_id=target_event_id,
        evaluator_name=f"temporal_{metric}",
        evaluator_version=VERSION,
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        current_score=scores[-1],
        historical_scores=tuple(scores),
        **found._asdict(),
    )


class Development(NamedTuple):
    """Scores over runs.

    Args:
        trend: By the 95 % interval of the slope (Student's t, n - 2 degrees of freedom): `improving` or `declining` if
            it leaves out 0, `stable` if all scores are equal, else `no_clear_trend`. None below three scores.
        change_rate: Slope of the least-squares line, score per run; None below two.
        stability_score: 1 - sample standard deviation / mean; None below two scores or if the mean is not above 0.
    """

    trend: Trend | None
    change_rate: float | None
    stability_score: float | None


def development(scores: Sequence[float]) -> Development:
    """Return trend, rate and stability of scores, oldest first."""
    n = len(scores)
    if n < 2:
        return Development(None, None, None)
    mean = math.fsum(scores) / n
    if len(set(scores)) == 1:
        return Development("stable" if n > 2 else None, 0.0, 1.0 if mean > 0 else None)
    squares = math.fsum((score - mean) ** 2 for score in scores)
    stability = 1 - math.sqrt(squares / (n - 1)) / mean if mean > 0 else None
    middle = (n - 1) / 2
    spread = n * (n * n - 1) / 12  # sum of squared distances of 0, 1, ..., n - 1 from their middle
    slope = math.fsum((run - middle) * score for run, score in enumerate(scores)) / spread
    if n < 3:
        return Development(None, slope, stability)
    residuals = math.fsum((score - mean - slope * (run - middle)) ** 2 for run, score in enumerate(scores))
    half = float(stdtrit(n - 2, (1 + CONFIDENCE) / 2)) * math.sqrt(residuals / (n - 2) / spread)
    trend: Trend = "improving" if slope > half else "declining" if slope < -half else "no_clear_trend"
    return Development(trend, slope, stability)
