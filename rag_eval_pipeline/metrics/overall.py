"""The overall citation score: four parts by fixed weights, which are spread anew over the parts that an answer has.

The specification's code scores a missing part as 0, so that a question without gold spans cannot reach more than 0.7,
and an empty answer has 0.15 for its absent hallucinations. Here a missing part is left out and the coverage says so.
Source: Citation Accuracy Evaluation 5.1, _calculate_overall_scores.
"""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

Missing = Literal["renormalise", "zero"]

# Part -> weight, and the measure of an answer that it is taken from.
WEIGHTS = {"span_accuracy": 0.30, "citation_quality": 0.30, "answer_consistency": 0.25, "no_hallucination": 0.15}
SPAN_ACCURACY = "tolerance_jaccard"
CITATION_QUALITY = "citation_correctness"
ANSWER_CONSISTENCY = "factual_consistency"
HALLUCINATION = "hallucination_vs_citations"


class OverallScore(NamedTuple):
    """One answer's overall score.

    Args:
        value: In [0, 1]; None when it has none of the parts.
        coverage: Sum of the weights of the parts that it has, in [0, 1].
        parts: Part -> its score, of those that it has.
    """

    value: float | None
    coverage: float
    parts: Mapping[str, float]


def overall_score(
    parts: Mapping[str, float | None],
    *,
    weights: Mapping[str, float] = WEIGHTS,
    missing: Missing = "renormalise",
) -> OverallScore:
    """The weighted mean of the parts.

    Args:
        parts: Part -> score in [0, 1], higher being better; None and an absent part are missing.
        weights: Part -> weight; parts without a weight are a fault.
        missing: `renormalise` leaves missing parts out; `zero` counts them as 0, as the specification's code does.

    Raises:
        ValueError: A part without a weight, a score outside [0, 1], or weights that are negative or all 0.
    """
    if unknown := sorted(set(parts) - set(weights)):
        raise ValueError(f"expected parts among {', '.join(weights)}, found {unknown[0]}")
    known = {name: score for name in weights if (score := parts.get(name)) is not None}
    for name, score in known.items():
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"expected {name} in [0, 1], found {score}")
    total = math.fsum(weights.values())
    if min(weights.values()) < 0 or total == 0:
        raise ValueError(f"expected weights of 0 or more, not all 0, found {dict(weights)}")
    present = math.fsum(weights[name] for name in known)
    if not known or present == 0:
        return OverallScore(None, 0.0, known)
    weighted = math.fsum(weights[name] * score for name, score in known.items())
    # Rounding must not lift a perfect answer above 1.
    value = min(1.0, weighted / (total if missing == "zero" else present))
    return OverallScore(value, present / total, known)


def overall_of_answer(scores: Mapping[str, float], *, missing: Missing = "renormalise") -> OverallScore:
    """The overall score of an answer from its measures by name; see the module for which they are.

    Args:
        scores: Of all rooms together.
        missing: As in `overall_score`.
    """
    hallucination = scores.get(HALLUCINATION)
    return overall_score(
        {
            "span_accuracy": scores.get(SPAN_ACCURACY),
            "citation_quality": scores.get(CITATION_QUALITY),
            "answer_consistency": scores.get(ANSWER_CONSISTENCY),
            "no_hallucination": None if hallucination is None else 1.0 - hallucination,
        },
        missing=missing,
    )
