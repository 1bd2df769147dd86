"""Summaries of many evaluations: how well evaluating went, and how far the evaluators agree.

Fields carry the specification's names; what nothing was reported for is None, and sums say how many parts they lack.
Source: Evaluation Data Models, Evaluation Metrics.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationStatus
from rag_eval_pipeline.metrics.evaluation_scores import SCALES, Scale, normalised
from rag_eval_pipeline.metrics.performance import latency_stats

Band = Literal["high_confidence", "medium_confidence", "low_confidence"]

HIGH_CONFIDENCE = 0.8  # from here up
MEDIUM_CONFIDENCE = 0.5
TARGETS_MIN = 3  # two points correlate perfectly, whatever they are


@dataclass(frozen=True, slots=True)
class EvaluationPerformance:
    """How evaluating went.

    Args:
        total_evaluations: All.
        successful_evaluations: Completed.
        failed_evaluations: Failed.
        skipped_evaluations: Skipped.
        pending_evaluations: Not ended.
        success_rate: Completed / (completed + failed); None without either.
        average_duration_ms: Of completed ones that say; None when none does.
        p95_duration_ms: The same, interpolated linearly.
        total_cost_usd: Sum of the costs reported, of failed ones too; None when none is.
        n_without_duration: Completed evaluations that do not say.
        n_without_cost: Completed or failed evaluations whose cost is missing from the sum.
    """

    total_evaluations: int
    successful_evaluations: int
    failed_evaluations: int
    skipped_evaluations: int
    pending_evaluations: int
    success_rate: float | None
    average_duration_ms: float | None
    p95_duration_ms: float | None
    total_cost_usd: float | None
    n_without_duration: int
    n_without_cost: int


class Correlation(NamedTuple):
    """Two evaluators over the events that both scored.

    Args:
        value: Pearson's r, in [-1, 1]; None with a reason.
        n: Events.
        reason: `too_few_events` (below three), `constant` (one of them gave the same score throughout).
    """

    value: float | None
    n: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class EvaluationQuality:
    """How far the evaluators agree, and how sure they are.

    Args:
        evaluator_agreement: Mean over pairs of evaluators of the mean over their common events of 1 - |difference| of
            the normalised scores, in [0, 1]; None when no two evaluators share an event.
        inter_evaluator_correlation: By `a_vs_b`, names sorted.
        confidence_distribution: Shares of high (0.8 and above), medium (0.5 and above) and low; None when no
            evaluation states its confidence.
        n_without_confidence: Completed evaluations that do not.
        n_without_scale: Scores that are not compared, because nobody declared their evaluator's scale.
    """

    evaluator_agreement: float | None
    inter_evaluator_correlation: Mapping[str, Correlation]
    confidence_distribution: Mapping[Band, float] | None
    n_without_confidence: int
    n_without_scale: int


def evaluation_performance(evaluations: Iterable[Evaluation]) -> EvaluationPerformance:
    """Counts, times and costs."""
    every = list(evaluations)
    states = Counter(evaluation.status for evaluation in every)
    completed, failed = states[EvaluationStatus.COMPLETED], states[EvaluationStatus.FAILED]
    ended = [e for e in every if e.status in (EvaluationStatus.COMPLETED, EvaluationStatus.FAILED)]
    durations = [e.duration_ms for e in every if e.duration_ms is not None and e.status is EvaluationStatus.COMPLETED]
    costs = [e.cost_usd for e in ended if e.cost_usd is not None]
    latency = latency_stats(durations)
    return EvaluationPerformance(
        total_evaluations=len(every),
        successful_evaluations=completed,
        failed_evaluations=failed,
        skipped_evaluations=states[EvaluationStatus.SKIPPED],
        pending_evaluations=states[EvaluationStatus.PENDING],
        success_rate=completed / len(ended) if ended else None,
        average_duration_ms=latency.mean,
        p95_duration_ms=latency.p95,
        total_cost_usd=math.fsum(costs) if costs else None,
        n_without_duration=completed - len(durations),
        n_without_cost=len(ended) - len(costs),
    )


def evaluation_quality(evaluations: Iterable[Evaluation], *, scales: Mapping[str, Scale] = SCALES) -> EvaluationQuality:
    """Agreement, correlation and confidence of completed evaluations; of repeated ones the mean counts.

    Args:
        evaluations: Of any events.
        scales: By evaluator's name; true and false need none.

    Raises:
        InputError: `unknown_category`, `score_out_of_range`.
    """
    completed = [e for e in evaluations if e.status is EvaluationStatus.COMPLETED]
    scores: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    n_without_scale = 0
    for evaluation in completed:
        scale = scales.get(evaluation.evaluator_name)
        if evaluation.score is None:
            continue
        if scale is None and not isinstance(evaluation.score, bool):
            n_without_scale += 1
            continue
        share = normalised(evaluation.score, scale, evaluation.evaluator_name)
        scores[evaluation.evaluator_name][evaluation.target_event_id].append(share)
    means = {name: {event: _mean(own) for event, own in events.items()} for name, events in scores.items()}
    common = {
        (one, other): [(means[one][event], means[other][event]) for event in means[one] if event in means[other]]
        for one, other in combinations(sorted(means), 2)
    }
    agreements = [_mean([1 - abs(a - b) for a, b in pairs]) for pairs in common.values() if pairs]
    confidences = [e.confidence for e in completed if e.confidence is not None]
    bands = Counter(confidence_band(confidence) for confidence in confidences)
    names: tuple[Band, ...] = ("high_confidence", "medium_confidence", "low_confidence")
    return EvaluationQuality(
        evaluator_agreement=_mean(agreements) if agreements else None,
        inter_evaluator_correlation={f"{a}_vs_{b}": _correlation(pairs) for (a, b), pairs in common.items() if pairs},
        confidence_distribution={band: bands[band] / len(confidences) for band in names} if confidences else None,
        n_without_confidence=len(completed) - len(confidences),
        n_without_scale=n_without_scale,
    )


def confidence_band(confidence: float) -> Band:
    """High from 0.8, medium from 0.5, else low."""
    if confidence >= HIGH_CONFIDENCE:
        return "high_confidence"
    return "medium_confidence" if confidence >= MEDIUM_CONFIDENCE else "low_confidence"


def _correlation(pairs: Sequence[tuple[float, float]]) -> Correlation:
    if len(pairs) < TARGETS_MIN:
        return Correlation(None, len(pairs), "too_few_events")
    one, other = zip(*pairs, strict=True)
    if len(set(one)) == 1 or len(set(other)) == 1:
        return Correlation(None, len(pairs), "constant")
    return Correlation(statistics.correlation(one, other), len(pairs), None)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
