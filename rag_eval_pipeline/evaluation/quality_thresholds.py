"""Quality thresholds of `verdicts.config.yaml`: read, and compared with means and with each answer's scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pydantic

from rag_eval_pipeline.evaluation.evaluation_folders import EvaluationRecord
from rag_eval_pipeline.evaluation.means import ScoredRun
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.model import Model, bad_format_of
from rag_eval_pipeline.judges.trust_card import is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.claims import HALLUCINATION
from rag_eval_pipeline.storage.yaml_files import read_settings
from rag_eval_pipeline.workspace import Workspace

VERDICTS_FILE = "verdicts.config.yaml"
THRESHOLDS_KEY = "quality_thresholds"  # in that file
# Threshold -> the measure that it limits, and whether it is the most instead of the least.
THRESHOLDS = {
    "span_accuracy": ("tolerance_jaccard", False),
    "citation_validity": ("citation_correctness", False),
    "answer_consistency": ("factual_consistency", False),
    "hallucination_tolerance": (HALLUCINATION, True),
}
JUDGED = frozenset({"citation_validity", "answer_consistency", "hallucination_tolerance"})
PLACES = 12  # decimals of a score that are compared with a threshold: the last bit of a mean must not decide


class QualityThresholds(Model):
    """The least, and for hallucination the most, that a mean or an answer's score may be; null sets no limit."""

    span_accuracy: float | None = pydantic.Field(None, ge=0, le=1, description="Minimum of the citation overlap.")
    citation_validity: float | None = pydantic.Field(
        None, ge=0, le=1, description="Minimum share of citations that support their claim."
    )
    answer_consistency: float | None = pydantic.Field(None, ge=0, le=1, description="Minimum factual consistency.")
    hallucination_tolerance: float | None = pydantic.Field(
        None, ge=0, le=1, description="Maximum share of claims that no cited text supports."
    )


def read_quality_thresholds(workspace: Workspace) -> QualityThresholds:
    """Read the thresholds of a workspace; none without the file.

    They move no score, so they are read when results are published and are in no fingerprint.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad limit.
    """
    path = workspace.config / VERDICTS_FILE
    settings = read_settings(path, missing_ok=True)
    with bad_format_of(f"{path}, {THRESHOLDS_KEY}", QualityThresholds):
        return QualityThresholds.model_validate(settings.get(THRESHOLDS_KEY) or {})


def breaks(threshold: str, score: float, limit: float) -> bool:
    """Return whether a score is worse than a threshold's limit.

    Source: Citation Accuracy Evaluation 6.1, quality_thresholds, and 9.2, alerts for a query.
    """
    _, is_most = THRESHOLDS[threshold]
    return round((score - limit) if is_most else (limit - score), PLACES) > 0


def check_thresholds(
    thresholds: QualityThresholds,
    values: Mapping[str, float | None],
    *,
    is_calibrated: bool,
    scores: Callable[[str], Sequence[float]] = lambda threshold: (),
) -> dict[str, form.ThresholdResult]:
    """Compare each threshold with its value, and with the scores of answers.

    Those of a judge not calibrated for support break none.
    """
    checked = {}
    for name, (_, is_most) in THRESHOLDS.items():
        if (limit := getattr(thresholds, name)) is None:
            continue
        value, of_answers = values[name], scores(name)
        reason: Literal["no_value", "not_calibrated"] | None = None
        if value is None or (name in JUDGED and not is_calibrated):
            reason = "no_value" if value is None else "not_calibrated"
        checked[name] = form.ThresholdResult(
            limit=limit,
            bound="most" if is_most else "least",
            value=value,
            is_broken=None if value is None or reason else breaks(name, value, limit),
            answers_scored=len(of_answers),
            answers_broken=None if reason else sum(breaks(name, score, limit) for score in of_answers),
            reason=reason,
        )
    return checked


def results_thresholds(
    workspace: Workspace, record: EvaluationRecord, citations: form.CitationMetrics, answers: form.AnswerQualityMetrics,
    parts: ScoredRun,
) -> dict[str, form.ThresholdResult]:  # fmt: skip
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
        task="support",
    )

    def scores(threshold: str) -> list[float]:
        table = parts.citations if threshold == "span_accuracy" else parts.judged
        found: list[float] = table.values(THRESHOLDS[threshold][0])[0].tolist()
        return found

    return check_thresholds(thresholds, values, is_calibrated=calibrated, scores=scores)
