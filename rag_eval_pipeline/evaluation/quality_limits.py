"""The quality thresholds of `verdicts.config.yaml`, and what an evaluation's figures and answers break of them."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import pydantic

from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.evaluation.runs import EvaluationRecord
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.model import bad_format
from rag_eval_pipeline.judges.calibration_card import is_calibrated, read_trust_cards
from rag_eval_pipeline.judges.calibration_labels import Task
from rag_eval_pipeline.metrics.thresholds import MEASURE_OF, QualityThresholds, breaches, count_breaches
from rag_eval_pipeline.systems.settings import read_yaml
from rag_eval_pipeline.workspace import Workspace

FILE = "verdicts.config.yaml"
KEY = "quality_thresholds"
SUPPORT: Task = "support"  # the labels that vouch for a judge's figures among the limits
JUDGED = frozenset({"citation_validity", "answer_consistency", "hallucination_tolerance"})


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


class Held(NamedTuple):
    """A limit that is set, and what a figure says of it.

    Args:
        limit: As set.
        bound: Whether the figure may be that at least, or at most.
        value: The figure.
        is_broken: None where `reason` says why nobody knows.
        reason: `no_value`, or `not_calibrated` for a figure of a judge whom nobody has compared with people.
    """

    limit: float
    bound: Literal["least", "most"]
    value: float | None
    is_broken: bool | None
    reason: Literal["no_value", "not_calibrated"] | None = None


def held_thresholds(
    thresholds: QualityThresholds, figures: Mapping[str, float | None], *, is_calibrated: bool
) -> dict[str, Held]:
    """Each limit that is set, and whether a figure breaks it: for the results, and for the check after each night.

    Args:
        thresholds: As set.
        figures: Threshold -> the figure of the evaluation.
        is_calibrated: Of the judge, for support, on this benchmark: its figures decide nothing before.
    """
    means = {measure: value for name, (measure, _) in MEASURE_OF.items() if (value := figures[name]) is not None}
    broken = {breach.threshold for breach in breaches(means, thresholds)}
    held = {}
    for name, (_, is_most) in MEASURE_OF.items():
        limit: float | None = getattr(thresholds, name)
        if limit is None:
            continue
        bound: Literal["least", "most"] = "most" if is_most else "least"
        if figures[name] is None:
            held[name] = Held(limit, bound, None, None, "no_value")
        elif name in JUDGED and not is_calibrated:
            held[name] = Held(limit, bound, figures[name], None, "not_calibrated")
        else:
            held[name] = Held(limit, bound, figures[name], name in broken)
    return held


def thresholds_of_results(
    workspace: Workspace, record: EvaluationRecord, citations: form.CitationMetrics, answers: form.AnswerQualityMetrics,
    parts: Parts,
) -> dict[str, form.HeldThreshold]:  # fmt: skip
    """The limits of the workspace as the results of an evaluation have them, with how many answers break each.

    Args:
        workspace: With the limits, and with the judge's trust cards.
        record: Of the evaluation.
        citations: Figures of it.
        answers: The same.
        parts: Scores of each answer.
    """
    thresholds = read_quality_thresholds(workspace)
    figures = {
        "span_accuracy": citations.span_accuracy.mean_tolerance_jaccard,
        "citation_validity": citations.citation_correctness.value,
        "answer_consistency": answers.factual_consistency.value,
        "hallucination_tolerance": answers.hallucination_rate.value,
    }
    calibrated = is_calibrated(
        read_trust_cards(workspace.trust_cards),
        benchmark=record.benchmark,
        fingerprint=record.fingerprints.judge,
        task=SUPPORT,
    )
    scores = [{**one.scores, **other.scores} for one, other in zip(parts.citations, parts.judged, strict=True)]
    counts = count_breaches(scores, thresholds)
    return {
        name: form.HeldThreshold(
            **held._asdict(),
            answers_scored=sum(MEASURE_OF[name][0] in own for own in scores),
            answers_broken=None if held.reason else counts[name],
        )
        for name, held in held_thresholds(thresholds, figures, is_calibrated=calibrated).items()
    }
