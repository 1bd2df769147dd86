"""Summaries say what they are made of; what nobody reported is None, not 0."""

from datetime import UTC, datetime

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation
from rag_eval_pipeline.metrics.evaluation_scores import SCALES, Scale
from rag_eval_pipeline.metrics.evaluation_summaries import confidence_band, evaluation_performance, evaluation_quality


def evaluation(name="quality", score=None, event="evt", **more):
    given = {"evaluation_id": "e", "target_event_id": event, "evaluator_name": name, "score": score}
    return Evaluation.model_validate(given | {"timestamp": datetime(2024, 1, 15, tzinfo=UTC)} | more)


FAILED = {"status": "failed", "error": {"type": "E", "message": "m"}}


def test_performance_worked_out():
    summary = evaluation_performance(
        [
            evaluation(score=1, duration_ms=100, cost_usd=0.01),
            evaluation(score=1, duration_ms=200),
            evaluation(score=1),
            evaluation(**FAILED, duration_ms=30_000, cost_usd=0.02),
            evaluation(status="skipped"),
            evaluation(),
        ]
    )

    counts = (summary.total_evaluations, summary.successful_evaluations, summary.failed_evaluations)
    assert counts == (6, 3, 1)
    assert (summary.skipped_evaluations, summary.pending_evaluations) == (1, 1)
    # 3 / (3 + 1): what was skipped or is not done has neither succeeded nor failed.
    assert summary.success_rate == 0.75
    # Between 100 and 200, at 95 % of the way: 195. The failure's time is the time-out's.
    assert (summary.average_duration_ms, summary.p95_duration_ms) == (150.0, 195.0)
    assert (summary.total_cost_usd, summary.n_without_cost, summary.n_without_duration) == (0.03, 2, 1)


def test_nothing_gives_nothing():
    performance, quality = evaluation_performance([]), evaluation_quality([])

    assert (performance.success_rate, performance.average_duration_ms, performance.total_cost_usd) == (None, None, None)
    assert (quality.evaluator_agreement, quality.confidence_distribution) == (None, None)
    assert quality.inter_evaluator_correlation == {}


def test_agreement_and_correlation_are_of_scores_that_mean_the_same():
    # Quality 0.2 0.4 0.9; toxicity 0.8 0.6 0.1, lower is better: 0.2 0.4 0.9. Perfect agreement.
    scores = {"a": (0.2, 0.8), "b": (0.4, 0.6), "c": (0.9, 0.1)}
    evaluations = [
        evaluation(name, score, event)
        for event, pair in scores.items()
        for name, score in zip(("quality", "toxicity"), pair, strict=True)
    ]

    quality = evaluation_quality(evaluations)

    assert quality.evaluator_agreement == pytest.approx(1.0)
    correlation = quality.inter_evaluator_correlation["quality_vs_toxicity"]
    assert correlation.value == pytest.approx(1.0)
    assert correlation.n == 3


def test_agreement_is_the_mean_over_pairs_of_evaluators():
    evaluations = [
        # quality and relevance share two events: 1 - 0.2 and 1 - 0.4, mean 0.7
        evaluation("quality", 0.5, "a"), evaluation("relevance", 0.7, "a"),
        evaluation("quality", 0.5, "b"), evaluation("relevance", 0.9, "b"),
        # length and relevance share one: 1 - 0.1; length and quality none. Mean of the pairs 0.8
        evaluation("length", 0.6, "c"), evaluation("relevance", 0.7, "c"),
        # A repeated evaluation counts by its mean: (0.6 + 0.4) / 2 = 0.5 stays quality's score of a.
        evaluation("quality", 0.6, "a"), evaluation("quality", 0.4, "a"),
        evaluation("quality", event="c", **FAILED),
    ]  # fmt: skip

    quality = evaluation_quality(evaluations)

    assert quality.evaluator_agreement == pytest.approx(0.8)
    assert {name: (c.value, c.n, c.reason) for name, c in quality.inter_evaluator_correlation.items()} == {
        "length_vs_relevance": (None, 1, "too_few_events"),
        "quality_vs_relevance": (None, 2, "too_few_events"),
    }


def test_a_constant_evaluator_correlates_with_nothing():
    evaluations = [evaluation(name, score, event) for event, score in zip("abc", (0.1, 0.2, 0.3), strict=True) for name, score in (("quality", score), ("length", 0.1))]  # fmt: skip

    assert evaluation_quality(evaluations).inter_evaluator_correlation["length_vs_quality"].reason == "constant"


def test_scores_without_a_declared_scale_are_counted_not_compared():
    evaluations = [evaluation("mine", 7), evaluation("flag", True), evaluation("quality", 1.0)]

    without = evaluation_quality(evaluations)
    declared = evaluation_quality(evaluations, scales={**SCALES, "mine": Scale(1, 10)})

    # A truth needs no scale.
    assert (without.n_without_scale, list(without.inter_evaluator_correlation)) == (1, ["flag_vs_quality"])
    assert declared.n_without_scale == 0
    with pytest.raises(InputError):
        evaluation_quality(evaluations, scales={**SCALES, "mine": Scale(1, 5)})


@pytest.mark.parametrize(
    ("confidence", "band"),
    [
        (1.0, "high_confidence"),
        (0.8, "high_confidence"),
        (0.79, "medium_confidence"),
        (0.5, "medium_confidence"),
        (0.49, "low_confidence"),
        (0.0, "low_confidence"),
    ],
)
def test_band(confidence, band):
    assert confidence_band(confidence) == band


def test_confidence_is_distributed_over_those_that_state_it():
    stated = [evaluation(score=1, confidence=confidence) for confidence in (0.9, 0.8, 0.6, 0.1)]

    quality = evaluation_quality([*stated, evaluation(score=1), evaluation(**FAILED, confidence=0.1)])

    assert quality.confidence_distribution == {"high_confidence": 0.5, "medium_confidence": 0.25, "low_confidence": 0.25}  # fmt: skip
    assert quality.n_without_confidence == 1
