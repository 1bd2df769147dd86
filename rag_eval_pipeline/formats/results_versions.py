"""The versions of results files, and what makes one of an older version a present one.

1.0: the first. 1.1: overall scores of citations, rates of abstention, tokens by kind, groups of questions, intervals of
latencies, metrics of one's own. What an older file could not measure is null with the reason `not_measured`, never a
number.
"""

from collections.abc import Mapping
from typing import Any

from rag_eval_pipeline.formats.forms import Form, Value

NOT_MEASURED: Mapping[str, Any] = {"value": None, "reason": "not_measured"}
LATER_RATES = ("false_answer_rate", "abstention_rate", "accuracy")
LATER_SCORES = ("overall_citation_accuracy", "overall_coverage")
LATER_USAGE = ("prompt_tokens", "completion_tokens", "answers_without_tokens")


def _with_later_figures(value: Value) -> Value:
    """1.0 -> 1.1."""
    value = _filled(value, ("citation_metrics",), dict.fromkeys(LATER_SCORES, NOT_MEASURED))
    value = _filled(value, ("answer_quality_metrics", "abstention"), dict.fromkeys(LATER_RATES, NOT_MEASURED))
    return _filled(value, ("performance_metrics", "api_usage"), dict.fromkeys(LATER_USAGE))


def _filled(value: Value, place: tuple[str, ...], later: Mapping[str, Any]) -> Value:
    """A copy in which a part has the keys that came later; what is no such part is its reader's to refuse."""
    if not place:
        return {**later, **value}
    part = value.get(place[0])
    return {**value, place[0]: _filled(part, place[1:], later)} if isinstance(part, dict) else value


RESULTS = Form("results file", ("1.0", "1.1"), {"1.0": _with_later_figures})
