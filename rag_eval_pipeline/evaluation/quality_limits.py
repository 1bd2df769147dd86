"""The quality thresholds of `verdicts.config.yaml`, and what an evaluation's figures and answers break of them."""

from collections.abc import Mapping

import pydantic

from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.model import bad_format
from rag_eval_pipeline.metrics.thresholds import MEASURE_OF, QualityThresholds, breaches, count_breaches
from rag_eval_pipeline.systems.settings import read_yaml
from rag_eval_pipeline.workspace import Workspace

FILE = "verdicts.config.yaml"
KEY = "quality_thresholds"


def read_quality_thresholds(workspace: Workspace) -> QualityThresholds:
    """The limits that people have set; none where there is no file.

    They move no score, so they are read when results are published and are in no fingerprint.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad limit.
    """
    path = workspace.config / FILE
    settings = read_yaml(path) if path.exists() else {}
    try:
        return QualityThresholds.model_validate(settings.get(KEY) or {})
    except pydantic.ValidationError as error:
        raise bad_format(f"{path}, {KEY}", error) from error


def held_thresholds(
    thresholds: QualityThresholds,
    citations: form.CitationMetrics,
    answers: form.AnswerQualityMetrics,
    parts: Parts,
) -> dict[str, form.HeldThreshold]:
    """Each limit that is set, with the figure that it holds for and how many answers are worse than it.

    Args:
        thresholds: As set.
        citations: Figures of the same evaluation.
        answers: The same.
        parts: Scores of each answer.
    """
    figures: Mapping[str, float | None] = {
        "span_accuracy": citations.span_accuracy.mean_tolerance_jaccard,
        "citation_validity": citations.citation_correctness.value,
        "answer_consistency": answers.factual_consistency.value,
        "hallucination_tolerance": answers.hallucination_rate.value,
    }
    means = {measure: value for name, (measure, _) in MEASURE_OF.items() if (value := figures[name]) is not None}
    broken = {breach.threshold for breach in breaches(means, thresholds)}
    scores = [{**one.scores, **other.scores} for one, other in zip(parts.citations, parts.judged, strict=True)]
    counts = count_breaches(scores, thresholds)
    held = {}
    for name, (measure, is_most) in MEASURE_OF.items():
        limit = getattr(thresholds, name)
        if limit is not None:
            held[name] = form.HeldThreshold(
                limit=limit,
                bound="most" if is_most else "least",
                value=figures[name],
                is_broken=None if figures[name] is None else name in broken,
                answers_scored=sum(measure in own for own in scores),
                answers_broken=counts[name],
            )
    return held
