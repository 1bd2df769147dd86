"""Quality thresholds: which of an answer's scores are worse than they may be.

A threshold is held by a score that reaches it exactly. A score that is missing breaks nothing: it is no finding about
the system, and coverage says how often it happens.
Source: Citation Accuracy Evaluation 6.1, quality_thresholds, and 9.2, alerts a query.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.overall import ANSWER_CONSISTENCY, CITATION_QUALITY, HALLUCINATION, SPAN_ACCURACY

PLACES = 12  # decimals compared: the last bit of a mean decides nothing


class QualityThresholds(Model):
    """The least, and for hallucination the most, that a figure may be; one that is null is not looked at."""

    span_accuracy: float | None = pydantic.Field(None, ge=0, le=1, description="Least mean Jaccard with tolerance.")
    citation_validity: float | None = pydantic.Field(
        None, ge=0, le=1, description="Least share of citations that support."
    )
    answer_consistency: float | None = pydantic.Field(None, ge=0, le=1, description="Least factual consistency.")
    hallucination_tolerance: float | None = pydantic.Field(
        None, ge=0, le=1, description="Largest share of claims that no cited text supports."
    )


SPECIFIED = QualityThresholds(
    span_accuracy=0.8, citation_validity=0.7, answer_consistency=0.8, hallucination_tolerance=0.1
)


class Breach(NamedTuple):
    """A score that is worse than it may be.

    Args:
        threshold: Its name.
        measure: The measure that broke it.
        score: What was found.
        limit: What was allowed.
    """

    threshold: str
    measure: str
    score: float
    limit: float


# Threshold -> the measure that it holds for, and whether the threshold is the most instead of the least.
MEASURE_OF = {
    "span_accuracy": (SPAN_ACCURACY, False),
    "citation_validity": (CITATION_QUALITY, False),
    "answer_consistency": (ANSWER_CONSISTENCY, False),
    "hallucination_tolerance": (HALLUCINATION, True),
}


def breaches(scores: Mapping[str, float], thresholds: QualityThresholds) -> list[Breach]:
    """What an answer's scores, or means over answers, break, in the order of the thresholds."""
    found = []
    for name, (measure, is_most) in MEASURE_OF.items():
        score = scores.get(measure)
        limit: float | None = getattr(thresholds, name)
        if score is None or limit is None:
            continue
        short = round((score - limit) if is_most else (limit - score), PLACES)
        if short > 0:
            found.append(Breach(name, measure, score, limit))
    return found


def count_breaches(answers: Sequence[Mapping[str, float]], thresholds: QualityThresholds) -> dict[str, int]:
    """How many answers break each threshold."""
    counts = dict.fromkeys(MEASURE_OF, 0)
    for scores in answers:
        for breach in breaches(scores, thresholds):
            counts[breach.threshold] += 1
    return counts
