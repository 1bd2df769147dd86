"""Quality thresholds of `verdicts.config.yaml`: read, and compared with means and with each answer's scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from rag_eval_pipeline.evaluation.evaluation_folders import EvaluationRecord
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.judges.trust_card import is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.claims import HALLUCINATION
from rag_eval_pipeline.metrics.verdict_rules import QualityThresholds, read_quality_thresholds
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.means import ScoredRun

# Threshold -> the measure that it limits, and whether it is the most instead of the least.
THRESHOLDS = {
    "span_accuracy": ("tolerance_jaccard", False),
    "citation_validity": ("citation_correctness", False),
    "answer_consistency": ("factual_consistency", False),
    "hallucination_tolerance": (HALLUCINATION, True),
}
JUDGED = frozenset({"citation_validity", "answer_consistency", "hallucination_tolerance"})
PLACES = 12  # decimals of a score that are compared with a threshold: the last bit of a mean must not decide


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
    parts: "ScoredRun",
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
