"""Scores of different evaluators on one scale, and the summary score of one event.

Every evaluator declares in which range it scores and which end is good; scores are brought to [0, 1], higher being
better, before anything is added up. Toxicity 0.05 then counts as 0.95.
Source: Evaluation Data Models, MultiEvaluationResult; its own summary (0.89) follows from no reading of its numbers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationStatus, SummaryMethod

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Scale:
    """What an evaluator's scores mean.

    Args:
        low: Least possible score.
        high: Greatest possible score.
        better: Which of the two is good.
        categories: The number that each text stands for, in [low, high]; a text without one is an error.
    """

    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    categories: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"expected low < high, found {self.low}, {self.high}")


SHARE = Scale()
SCALES: Mapping[str, Scale] = {
    "quality": SHARE,
    "factual_accuracy": SHARE,
    "relevance": SHARE,
    "length": SHARE,
    "coherence": SHARE,
    "toxicity": Scale(better="lower"),
}


class LeftOut(NamedTuple):
    """An evaluation that has no part in a summary.

    Args:
        evaluator_name: Whose.
        reason: Its status (`failed`, `skipped`, `pending`), or `no_score`.
    """

    evaluator_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SummaryScore:
    """One number for one event.

    Args:
        value: In [0, 1], higher is better; None when no evaluation has a score.
        reason: Why there is none: `nothing_completed`, `no_weight` (all that completed weigh nothing).
        weights: Of the evaluators behind the value; they add up to 1. Of `minimum`, equal.
        coverage: Weight of the completed evaluators / weight of all; None without any.
        left_out: The others.
    """

    value: float | None
    reason: str | None
    weights: Mapping[str, float]
    coverage: float | None
    left_out: tuple[LeftOut, ...]


def normalised(score: Value, scale: Scale | None, evaluator_name: str) -> float:
    """A score in [0, 1], higher being better.

    Args:
        score: True is 1 and false 0, whatever the range.
        scale: None will do for true and false only.
        evaluator_name: For messages.

    Raises:
        InputError: `no_scale`, `unknown_category`, `score_out_of_range`.
    """
    if isinstance(score, bool):
        return float(score) if scale is None or scale.better == "higher" else float(not score)
    if scale is None:
        raise InputError(
            "no_scale", evaluator_name, "a declared range and direction for its scores", found=score,
            hint="Add a Scale for this evaluator.",
        )  # fmt: skip
    if isinstance(score, str):
        if scale.categories is None or score not in scale.categories:
            known = ", ".join(scale.categories or ()) or "none declared"
            raise InputError("unknown_category", evaluator_name, f"a declared category ({known})", found=score)
        score = scale.categories[score]
    if not scale.low <= score <= scale.high:
        raise InputError(
            "score_out_of_range", evaluator_name, f"a score from {scale.low:g} to {scale.high:g}", found=score
        )
    share = (score - scale.low) / (scale.high - scale.low)
    return share if scale.better == "higher" else 1 - share


def summary_score(
    evaluations: Sequence[Evaluation],
    method: SummaryMethod,
    *,
    weights: Mapping[str, float] | None = None,
    scales: Mapping[str, Scale] = SCALES,
) -> SummaryScore:
    """The summary of one event's evaluations; those that were not completed do not count, and say so.

    Args:
        evaluations: One an evaluator.
        method: `weighted_average`, `simple_average` or `minimum`; what is `custom` is its owner's to compute.
        weights: By evaluator's name, 0 or more; every evaluator has one. Only for `weighted_average`.
        scales: By evaluator's name.

    Raises:
        InputError: `duplicate_evaluator`, `missing_weight`, `bad_weight`, `unknown_method`; those of `normalised`.
    """
    names = [evaluation.evaluator_name for evaluation in evaluations]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError("duplicate_evaluator", "the evaluations", "each evaluator once", found=repeated)
    if method == "custom":
        raise InputError(
            "unknown_method", "summary_method", "weighted_average, simple_average or minimum", found=method
        )
    weight = _weights(names, weights) if method == "weighted_average" else dict.fromkeys(names, 1.0)
    scores: dict[str, float] = {}
    left_out = []
    for evaluation in evaluations:
        name = evaluation.evaluator_name
        if evaluation.status is not EvaluationStatus.COMPLETED:
            left_out.append(LeftOut(name, str(evaluation.status)))
        elif evaluation.score is None:
            left_out.append(LeftOut(name, "no_score"))
        else:
            scores[name] = normalised(evaluation.score, scales.get(name), name)
    whole, part = math.fsum(weight.values()), math.fsum(weight[name] for name in scores)
    coverage = part / whole if whole else None
    if not part:
        return SummaryScore(None, "no_weight" if scores else "nothing_completed", {}, coverage, tuple(left_out))
    if method == "minimum":
        value = min(scores.values())
    else:
        value = math.fsum(weight[name] * score for name, score in scores.items()) / part
    return SummaryScore(value, None, {name: weight[name] / part for name in scores}, coverage, tuple(left_out))


def _weights(names: Iterable[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    own = {}
    for name in names:
        if weights is None or name not in weights:
            raise InputError("missing_weight", "weights", f"a weight of {name!r}", hint="0 leaves an evaluator out.")
        if not 0 <= weights[name] < math.inf:
            raise InputError("bad_weight", "weights", "a number of 0 or more", field=name, found=weights[name])
        own[name] = weights[name]
    return own
