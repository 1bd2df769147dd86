"""Checks of the aggregation: every pair is evaluated, nothing has regressed, quality thresholds are met."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.evaluation.registry import is_evaluated, read_registry
from rag_eval_pipeline.evaluation.results import check_thresholds
from rag_eval_pipeline.metrics.claims import QualityThresholds
from rag_eval_pipeline.reporting.comparison import read_verdict_settings
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history
from rag_eval_pipeline.reporting.leaderboard import Trust
from rag_eval_pipeline.reporting.regressions import Comparisons
from rag_eval_pipeline.workspace import Workspace


def aggregation_checks(workspace: Workspace, comparisons: Comparisons) -> list[Check]:
    """Return the checks of the report asset; one that does not block is a warning."""
    settings = read_verdict_settings(workspace)
    history = read_history(workspace)
    missing, expected = _missing_pairs(workspace)
    regressed = [
        f"{pair.benchmark} x {pair.system}: {name}"
        for pair in comparisons.nights
        for night in pair.nights[-1:]
        for name, metric in night.metrics.items()
        if metric.state == "regressed"
    ]
    broken = list(_broken(settings.quality_thresholds, history.newest(), Trust.of(workspace)))
    return [
        _check("every_pair_is_evaluated", missing, expected=expected, present=expected - len(missing)),
        _check("no_result_is_damaged", history.damaged),
        _check("nothing_has_regressed", regressed, blocking=settings.blocking),
        _check("quality_thresholds_are_met", broken),
    ]


def _check(name: str, offenders: Sequence[str], *, blocking: bool = False, **numbers: int) -> Check:
    found: dict[str, Any] = {**numbers, "offenders": len(offenders), "which": list(offenders)}
    return Check(name=name, passed=not offenders, blocking=blocking, numbers=found)


def _missing_pairs(workspace: Workspace) -> tuple[list[str], int]:
    registry = read_registry(workspace)
    pairs = list(registry.automatic_pairs())
    missing = [f"{one} x {other}" for one, other in pairs if not is_evaluated(workspace, registry, one, other)]
    return missing, len(pairs)


def _broken(thresholds: QualityThresholds, rows: Sequence[ResultsHeader], trust: Trust) -> Iterator[str]:
    """A line for each figure beyond its threshold; figures without a value, or of a judge nobody vouches for, pass."""
    for row in rows:
        figures = {
            "span_accuracy": row.citation_metrics["span_accuracy"]["mean_tolerance_jaccard"],
            "citation_validity": _value(row.citation_metrics["citation_correctness"]),
            "answer_consistency": _value(row.answer_quality_metrics["factual_consistency"]),
            "hallucination_tolerance": _value(row.answer_quality_metrics["hallucination_rate"]),
        }
        is_calibrated = trust.doubt(row, "faithfulness") is None
        for name, held in check_thresholds(thresholds, figures, is_calibrated=is_calibrated).items():
            if held.is_broken:
                yield f"{row.benchmark} x {row.system}: {name} {held.value:.3f}, at {held.bound} {held.limit:g}"


def _value(figure: Any) -> float | None:
    if figure is None:
        return None
    value: float | None = msgspec.convert(figure["value"], float | None)
    return value
