"""Evaluations that compare: two systems, a person and an evaluator, one system over its nights.

Source: Evaluation Data Models, Common Evaluation Patterns. Where its examples follow from no formula, the definitions
are those stated here.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    ComparisonData,
    ComparisonEvaluation,
    EvaluationStatus,
    HumanEvaluation,
    HumanModelEvaluation,
    ModelEvaluation,
    TemporalEvaluation,
    Trend,
    new_evaluation_id,
)
from rag_eval_pipeline.judges.trust_card import TaskTrust, TrustCard
from rag_eval_pipeline.metrics.distributions import student_quantile
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, SEED, summarise
from rag_eval_pipeline.metrics.registry import metric_label

VERSION = "1.1.0"
TIE = 1e-9  # scores nearer than this are equal: sums of floats differ in their last digits
EVEN = 0.5  # neither variant is preferred


def compare_systems(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    *,
    variant_a: str,
    variant_b: str,
    metric: str,
    benchmark: str,
    now: datetime,
    clusters: Mapping[str, str] | None = None,
) -> ComparisonEvaluation:
    """Compare two systems question by question: the share of questions on which A scores higher.

    The difference is significant if the 95 % interval leaves out 0.5; that is undecided if all comparisons are ties.

    Args:
        a: Question -> score of variant A, higher being better.
        clusters: Question -> its documents, which the interval counts; None counts questions.

    Raises:
        InputError: `nothing_to_compare` if no question has both scores.
    """
    names = [name for name in sorted(a) if a[name] is not None and b.get(name) is not None]
    pairs = [(a[name] or 0.0, b[name] or 0.0) for name in names]
    preferences = [EVEN if abs(one - other) <= TIE else float(one > other) for one, other in pairs]
    units = None if clusters is None else [clusters.get(name, name) for name in names]
    summary = summarise(preferences, seed=SEED, clusters=units)
    if summary.value is None:
        raise InputError("nothing_to_compare", f"{variant_a} and {variant_b}", "a question with a score on both sides")
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
        explanation=f"Variant A preferred in {data.preference_score:.0%} of {data.sample_size} comparisons by "
        f"{metric_label(metric)} on {benchmark}",
        metadata={
            "metric": metric,
            "benchmark": benchmark,
            "ties": preferences.count(EVEN),
            "left_out": len(a.keys() | b.keys()) - len(pairs),
            "n_clusters": summary.n_clusters,
        },
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        comparison_data=data,
    )


def compare_with_people(card: TrustCard, trust: TaskTrust, *, now: datetime) -> HumanModelEvaluation:
    """Compare the verdicts of people and a judge on the same events, one or more; yes is 1, no is 0.

    The scores are the shares of yes; agreement is the mean over the events of 1 - |difference|, which is the share of
    equal verdicts: two shares may be equal although no verdict is.
    """
    table, n = trust.confusion, trust.n_compared
    lenient, strict = table.labels_no_judge_yes, table.labels_yes_judge_no
    differ = f"{lenient + strict} of {n} verdicts differ: yes by the judge alone {lenient}, by people alone {strict}"
    agreement = (table.both_yes + table.both_no) / n
    return HumanModelEvaluation(
        evaluation_id=new_evaluation_id(),
        target_event_id=f"{card.benchmark}|{trust.task}",
        evaluator_name="human_ai_comparison",
        evaluator_version=VERSION,
        score=agreement,
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        human_evaluation=HumanEvaluation(
            annotator_id=", ".join(card.annotators) or "people", score=(table.both_yes + strict) / n
        ),
        ai_evaluation=ModelEvaluation(model=card.judge, score=(table.both_yes + lenient) / n),
        agreement_score=agreement,
        discrepancy_analysis=differ if lenient + strict else "none",
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
    half = student_quantile(n - 2, (1 + CONFIDENCE) / 2) * math.sqrt(residuals / (n - 2) / spread)
    trend: Trend = "improving" if slope > half else "declining" if slope < -half else "no_clear_trend"
    return Development(trend, slope, stability)
