"""Evaluations that compare: two systems on the same questions, a person and an evaluator, one evaluator over nights."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import (
    ComparisonEvaluation,
    Evaluation,
    EvaluationStatus,
    HumanEvaluation,
    HumanModelEvaluation,
    ModelEvaluation,
    TemporalEvaluation,
)
from rag_eval_pipeline.metrics.evaluation_patterns import agreement_score, compare_variants, development
from rag_eval_pipeline.metrics.evaluation_scores import SCALES, SHARE, Scale, normalised
from rag_eval_pipeline.metrics.statistics import SEED

VERSION = "1.0.0"
TIE = 1e-9  # scores nearer than this are equal: sums of floats differ in their last digits


def compare_systems(
    a: Mapping[str, float | None],
    b: Mapping[str, float | None],
    *,
    variant_a: str,
    variant_b: str,
    now: datetime,
    new_id: Callable[[], str],
    tie_within: float = TIE,
    seed: int = SEED,
) -> ComparisonEvaluation:
    """Two systems, question by question.

    Args:
        a: Question -> score of variant A, higher being better, such as the summary scores of its events; None where
            there is none.
        b: The same of variant B.
        variant_a: Stands for all events of A, such as its evaluation's id.
        variant_b: Of B.
        now: Aware.
        new_id: Called once.
        tie_within: Scores that differ by no more are a tie.
        seed: Of the interval, where there are ties.

    Raises:
        InputError: `nothing_to_compare` when no question has both scores.
    """
    pairs = [(one, other) for name in sorted(a) if (one := a[name]) is not None and (other := b.get(name)) is not None]
    preferences = [0.5 if abs(one - other) <= tie_within else float(one > other) for one, other in pairs]
    data = compare_variants(preferences, variant_a_event_id=variant_a, variant_b_event_id=variant_b, seed=seed)
    if data is None:
        raise InputError("nothing_to_compare", f"{variant_a} and {variant_b}", "a question that both have a score of")
    share = f"{data.preference_score:.0%}"
    return ComparisonEvaluation(
        evaluation_id=new_id(),
        target_event_id=variant_a,
        evaluator_name="ab_test_comparison",
        evaluator_version=VERSION,
        score=data.preference_score,
        explanation=f"Variant A preferred in {share} of {data.sample_size} comparisons",
        metadata={
            "ties": preferences.count(0.5),
            "left_out": len(a.keys() | b.keys()) - len(pairs),
        },
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        comparison_data=data,
    )


def compare_with_human(
    human: HumanEvaluation,
    evaluation: Evaluation,
    *,
    now: datetime,
    new_id: Callable[[], str],
    scales: Mapping[str, Scale] = SCALES,
) -> HumanModelEvaluation:
    """A person's verdict and an evaluator's on one event, on the evaluator's scale.

    Args:
        human: The person's.
        evaluation: The evaluator's; `metadata.evaluator_model` names its model, else it stands by its own name.
        now: Aware.
        new_id: Called once.
        scales: By evaluator's name; without one only true and false can be compared.

    Raises:
        InputError: `no_scale`, `unknown_category`, `score_out_of_range`.
    """
    name = evaluation.evaluator_name
    scale = scales.get(name)
    both = human.score is not None and evaluation.score is not None
    if both and scale is None and not (isinstance(human.score, bool) and isinstance(evaluation.score, bool)):
        raise InputError("no_scale", name, "a declared range and direction for its scores", found=evaluation.score)
    agreement = agreement_score(human.score, evaluation.score, scale or SHARE)
    model = (evaluation.metadata or {}).get("evaluator_model")
    return HumanModelEvaluation(
        evaluation_id=new_id(),
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
        discrepancy_analysis=_discrepancy(human, evaluation, scale or SHARE) if both else "one of the two has no score",
    )


def evaluate_over_time(
    evaluator_name: str,
    scores: Sequence[float],
    *,
    target_event_id: str,
    now: datetime,
    new_id: Callable[[], str],
    scale: Scale = SHARE,
) -> TemporalEvaluation:
    """One evaluator over several nights.

    Args:
        evaluator_name: Whose scores.
        scores: One a night, oldest first, the current one last.
        target_event_id: What was evaluated every night, such as a question's id or `<benchmark>|<system>`.
        now: Aware.
        new_id: Called once.
        scale: Which end is better.

    Raises:
        InputError: `no_scores`, `score_out_of_range`.
    """
    if not scores:
        raise InputError("no_scores", evaluator_name, "one score or more")
    for score in scores:
        normalised(score, scale, evaluator_name)
    found = development(scores, is_lower_better=scale.better == "lower")
    return TemporalEvaluation(
        evaluation_id=new_id(),
        target_event_id=target_event_id,
        evaluator_name=f"temporal_{evaluator_name}",
        evaluator_version=VERSION,
        timestamp=now,
        status=EvaluationStatus.COMPLETED,
        current_score=scores[-1],
        historical_scores=tuple(scores),
        trend=found.trend,
        change_rate=found.change_rate,
        stability_score=found.stability_score,
    )


def _discrepancy(human: HumanEvaluation, evaluation: Evaluation, scale: Scale) -> str:
    assert human.score is not None
    assert evaluation.score is not None
    name = evaluation.evaluator_name
    difference = normalised(evaluation.score, scale, name) - normalised(human.score, scale, name)
    if abs(difference) <= TIE:
        return "none"
    return f"{name} is {abs(difference):.2f} of its scale {'kinder' if difference > 0 else 'stricter'} than the person"
