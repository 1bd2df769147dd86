"""The quality thresholds of `verdicts.config.yaml`, and which of them an evaluation breaks."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

import pydantic

from rag_eval_pipeline.evaluation.means import ScoredRun
from rag_eval_pipeline.evaluation.runs import EvaluationRecord
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.model import bad_format
from rag_eval_pipeline.formats.yaml import read_settings
from rag_eval_pipeline.judges.trust_card import Task, is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.claims import THRESHOLDS, QualityThresholds, broken_thresholds
from rag_eval_pipeline.workspace import Workspace

FILE = "verdicts.config.yaml"
KEY = "quality_thresholds"
SUPPORT: Task = "support"  # a judge calibrated for this task may break thresholds
JUDGED = frozenset({"citation_validity", "answer_consistency", "hallucination_tolerance"})


def read_quality_thresholds(workspace: Workspace) -> QualityThresholds:
    """Read the thresholds of a workspace; none without the file.

    They move no score, so they are read when results are published and are in no fingerprint.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad limit.
    """
    path = workspace.config / FILE
    settings = read_settings(path, missing_ok=True)
    try:
        return QualityThresholds.model_validate(settings.get(KEY) or {})
    except pydantic.ValidationError as error:
        raise bad_format(f"{path}, {KEY}", error) from error


class ThresholdCheck(NamedTuple):
    """A threshold and the value compared with it.

    Args:
        limit: As set.
        bound: Whether the limit is the least or the most allowed.
        value: Of the metric.
        is_broken: None if unknown; `reason` says why.
        reason: `no_value`, or `not_calibrated` for a judge that was not compared with people's labels.
    """

    limit: float
    bound: Literal["least", "most"]
    value: float | None
    is_broken: bool | None
    reason: Literal["no_value", "not_calibrated"] | None = None


def check_thresholds(
    thresholds: QualityThresholds, values: Mapping[str, float | None], *, is_calibrated: bool
) -> dict[str, ThresholdCheck]:
    """Compare each threshold that is set with its value: for the results, and for the check after each night.

    Args:
        thresholds: As set.
        values: Threshold -> value in the evaluation.
        is_calibrated: Whether the judge is, for support, on this benchmark; otherwise its values break no threshold.
    """
    means = {measure: value for name, (measure, _) in THRESHOLDS.items() if (value := values[name]) is not None}
    broken = broken_thresholds(means, thresholds)
    held = {}
    for name, (_, is_most) in THRESHOLDS.items():
        limit: float | None = getattr(thresholds, name)
        if limit is None:
            continue
        bound: Literal["least", "most"] = "most" if is_most else "least"
        if values[name] is None:
            held[name] = ThresholdCheck(limit, bound, None, None, "no_value")
        elif name in JUDGED and not is_calibrated:
            held[name] = ThresholdCheck(limit, bound, values[name], None, "not_calibrated")
        else:
            held[name] = ThresholdCheck(limit, bound, values[name], name in broken)
    return held


def results_thresholds(
    workspace: Workspace, record: EvaluationRecord, citations: form.CitationMetrics, answers: form.AnswerQualityMetrics,
    parts: ScoredRun,
) -> dict[str, form.HeldThreshold]:  # fmt: skip
    """Return the workspace's thresholds for the results of an evaluation, with how many answers break each."""
    thresholds = read_quality_thresholds(workspace)
    values = {
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
    counts = Counter(name for own in scores for name in broken_thresholds(own, thresholds))
    return {
        name: form.HeldThreshold(
            **held._asdict(),
            answers_scored=sum(THRESHOLDS[name][0] in own for own in scores),
            answers_broken=None if held.reason else counts[name],
        )
        for name, held in check_thresholds(thresholds, values, is_calibrated=calibrated).items()
    }
