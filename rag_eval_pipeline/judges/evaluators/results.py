"""What became of a batch: a result an event with its summary score, and figures over all evaluations."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationBatch, MultiEvaluationResult, SummaryMethod
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator
from rag_eval_pipeline.metrics.evaluation_scores import SCALES, Scale, summary_score
from rag_eval_pipeline.metrics.evaluation_summaries import evaluation_performance, evaluation_quality

Scales = Mapping[str, Scale]


def scales_of(evaluators: Iterable[Evaluator]) -> dict[str, Scale]:
    """Scales of evaluators by name, those of the built-in ones among them."""
    return {**SCALES, **{evaluator.name: evaluator.scale for evaluator in evaluators if evaluator.scale is not None}}


def results_by_event(
    batch: EvaluationBatch,
    method: SummaryMethod = "simple_average",
    *,
    weights: Mapping[str, float] | None = None,
    scales: Scales = SCALES,
) -> Iterator[MultiEvaluationResult]:
    """One result an event, in the batch's order.

    Scores count on one scale, higher being better: toxicity 0.05 as 0.95. Evaluators whose scale nobody declared have
    no part in the summary, nor have evaluations without a score.

    Args:
        batch: Of any events.
        method: How an event's scores become one.
        weights: By evaluator's name, for `weighted_average`; those of evaluators that are not there count for nothing.
        scales: By evaluator's name.

    Raises:
        InputError: `missing_weight`, `bad_weight`, `unknown_method`.
    """
    by_event: dict[str, list[Evaluation]] = {}
    for evaluation in batch.evaluations:
        by_event.setdefault(evaluation.target_event_id, []).append(evaluation)
    for event_id, evaluations in by_event.items():
        compared = [e for e in evaluations if e.evaluator_name in scales or isinstance(e.score, bool)]
        summary = summary_score(compared, method, weights=weights, scales=scales)
        yield MultiEvaluationResult(
            target_event_id=event_id,
            evaluations=tuple(evaluations),
            summary_score=summary.value,
            summary_method=method,
            weights=dict(summary.weights) if method == "weighted_average" and summary.weights else None,
        )


def figures(batch: EvaluationBatch, *, scales: Scales = SCALES) -> dict[str, Any]:
    """`evaluation_performance` and `evaluation_quality` of a batch, as JSON has them."""
    quality = evaluation_quality(batch.evaluations, scales=scales)
    correlations = {
        name: {"value": found.value, "n": found.n, "reason": found.reason}
        for name, found in quality.inter_evaluator_correlation.items()
    }
    return {
        "evaluation_performance": asdict(evaluation_performance(batch.evaluations)),
        "evaluation_quality": asdict(quality) | {"inter_evaluator_correlation": correlations},
    }
