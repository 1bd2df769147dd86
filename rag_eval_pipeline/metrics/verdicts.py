"""The nightly verdict: did a metric get better or worse, is any change small, or can nobody tell?

Evidence is compared first; what is flagged is run again (`confirm`), hours later against the same baseline; then each
metric is put in one word and one sentence (`verdict`).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from rag_eval_pipeline.metrics.equivalence import is_inside
from rag_eval_pipeline.metrics.evidence import RULES, Evidence, Rules
from rag_eval_pipeline.metrics.flags import (
    Confirmation,
    confirm,
    confirm_flags,
    is_covered,
    is_flagged,
    is_large_enough,
)
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.significance import RUNS_FOR_NOISE
from rag_eval_pipeline.metrics.titles import title_of

__all__ = [
    "Confirmation",
    "Verdict",
    "VerdictKind",
    "confirm",
    "confirm_flags",
    "is_flagged",
    "verdict",
]

VerdictKind = Literal["withheld", "regressed", "improved", "equivalent", "inconclusive", "no_verdict"]

DESIGN_EFFECT_SHOWN = 1.2  # smaller ones are no news

# What stands behind a change, at the end of its sentence.
STANDING: dict[Confirmation, str] = {
    "pending": "not yet seen again in a rerun",
    "confirmed": "seen again in a rerun",
    "not_needed": "from a deterministic system",
    "no_rerun": "without a rerun",
    "provisional": "provisional until the baseline has its runs",
    "weekly": "mean of seven nights",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One metric's verdict.

    Args:
        kind: The word.
        sentence: What a reader is told.
        confirmation: Whether a rerun saw the same; only confirmed (or `not_needed`) changes alert. None when nothing
            was flagged.
        evidence: What it rests on.
    """

    kind: VerdictKind
    sentence: str
    confirmation: Confirmation | None
    evidence: Evidence = field(repr=False)


def verdict(evidence: Evidence, *, confirmation: Confirmation = "pending", rules: Rules = RULES) -> Verdict:
    """One metric's verdict, in the order withheld, no_verdict, regressed or improved, equivalent, inconclusive.

    Args:
        evidence: From `compare`.
        confirmation: What a rerun said of a flagged change, or why there is none (`baselines.first_confirmation`);
            ignored when nothing is flagged.
        rules: The same as in `compare`.
    """
    if evidence.coverage is not None and not is_covered(evidence, rules):
        coverage = math.floor(1000 * evidence.coverage) / 10  # never rounded up to the limit
        needed = f"coverage {coverage:.1f} %, {100 * rules.min_coverage:g} % is needed"
        return Verdict("withheld", f"Withheld: {needed}{_besides(evidence, rules)}.", None, evidence)
    if evidence.estimate is None or evidence.confidence_interval is None or evidence.n_pairs < rules.min_questions:
        few = f"{evidence.n_pairs} questions, {rules.min_questions} are needed"
        sentence = f"No verdict: {few}{_besides(evidence, rules)}. {reach_text(evidence)}"
        return Verdict("no_verdict", sentence, None, evidence)
    change = 100 / evidence.value_range * evidence.estimate
    moved = f"{title_of(evidence.metric)} {'fell' if change < 0 else 'rose'} {abs(change):.1f} points"
    shown, sure = f"({interval_text(evidence)})", p_text(evidence, rules)
    if is_flagged(evidence, rules):
        if confirmation == "not_confirmed":
            sentence = f"Inconclusive: {moved} {shown}, {sure}; a rerun did not confirm it{unit_text(evidence)}."
            return Verdict("inconclusive", sentence, confirmation, evidence)
        kind: VerdictKind = "improved" if (change > 0) == evidence.higher_is_better else "regressed"
        unit = unit_text(evidence) or f"; n = {evidence.n_pairs}"
        return Verdict(kind, f"{moved} {shown}, {sure}{unit}; {STANDING[confirmation]}.", confirmation, evidence)
    withholding = _withholding_rule(evidence, rules)
    margin = 100 * rules.equivalence_margin
    if is_inside(_scaled(evidence, evidence.confidence_interval), margin):
        small = f"Any change is smaller than {margin:g} points ({_limits(evidence, evidence.confidence_interval)})"
        return Verdict("equivalent", f"{small}; {sure}{withholding}{unit_text(evidence)}.", None, evidence)
    sentence = f"Inconclusive: {signed(change)} points {shown}, {sure}{withholding}{unit_text(evidence)}."
    return Verdict("inconclusive", f"{sentence} {reach_text(evidence)}", None, evidence)


def reach_text(evidence: Evidence) -> str:
    """What the benchmark can show at all, as a sentence."""
    change = "drops" if evidence.higher_is_better else "rises"
    groups = f"{evidence.n_units} groups by document"
    if evidence.smallest_drop is None:
        why = f": {groups}, of which {evidence.needed_units} must change" if evidence.is_clustered else ""
        return f"This benchmark cannot detect {change} of any size{why}."
    where = f", in {evidence.needed_units} of its {groups}" if evidence.is_clustered else ""
    return f"At best this benchmark detects {change} of {100 * evidence.smallest_drop:.1f} points{where}."


def unit_text(evidence: Evidence) -> str:
    """What was tested where that is not simply questions, as the middle of a sentence; else nothing."""
    if evidence.is_clustered:
        why = f", because fewer than {RUNS_FOR_NOISE} runs are pinned" if evidence.is_short_of_runs else ""
        return f"; n = {evidence.n_pairs} in {evidence.n_units} groups by document{why}"
    if evidence.design_effect is not None and evidence.design_effect > DESIGN_EFFECT_SHOWN:
        return f"; n = {evidence.n_pairs} questions, design effect {evidence.design_effect:.1f} within documents"
    return ""


def interval_text(evidence: Evidence) -> str:
    """The interval that belongs to the test, in points."""
    if evidence.adjusted_interval is None:  # of a night that was compared before there was one
        return _limits(evidence, evidence.confidence_interval)
    low, high = _scaled(evidence, evidence.adjusted_interval)
    return f"adjusted interval {signed(low)} to {signed(high)}"


def signed(points: float) -> str:
    """Points with one decimal and a sign, with a true minus sign as in print; 0 itself has none."""
    return f"{points:+.1f}".replace("-", "−") if points else "0.0"


def p_text(evidence: Evidence, rules: Rules = RULES) -> str:
    """`p = 0.04 after correction for 8 metrics, 0.01 is needed`."""
    p_value, needed = evidence.p_corrected, rules.alpha / 2
    metrics = f"{evidence.n_metrics} metric{'s' if evidence.n_metrics > 1 else ''}"
    if p_value is None:
        return f"no p, {needed:g} is needed"
    # Two digits, but never such that p seems to be on the other side of what is needed.
    digits = next((n for n in range(2, 6) if (float(f"{p_value:.{n}g}") <= needed) == (p_value <= needed)), 6)
    shown = "p < 0.001" if p_value < 0.001 < needed else f"p = {p_value:.{digits}g}"
    return f"{shown} after correction for {metrics}, {needed:g} is needed"


def _besides(evidence: Evidence, rules: Rules) -> str:
    """Change and p, where a verdict is withheld in spite of them."""
    if evidence.estimate is None or evidence.confidence_interval is None:
        return ""
    change = 100 / evidence.value_range * evidence.estimate
    return f"; {signed(change)} points ({interval_text(evidence)}), {p_text(evidence, rules)}{unit_text(evidence)}"


def _withholding_rule(evidence: Evidence, rules: Rules) -> str:
    """Why a change that the test is sure of is not called one; nothing where the test is not sure."""
    if evidence.p_corrected is None or evidence.p_corrected > rules.alpha / 2:
        return ""
    if not is_large_enough(evidence, rules):
        points = 100 * rules.min_effect
        return f"; below the minimum effect of {points:g} point{'' if points == 1 else 's'}"
    if evidence.confidence_interval is None:
        return ""
    return f"; bad luck of the baseline would show it as well ({_limits(evidence, evidence.confidence_interval)})"


def _scaled(evidence: Evidence, interval: Interval) -> Interval:
    return Interval(*(100 / evidence.value_range * limit for limit in interval))


def _limits(evidence: Evidence, interval: Interval | None) -> str:
    if interval is None:
        return "no interval"
    low, high = _scaled(evidence, interval)
    return f"95 % {signed(low)} to {signed(high)}"
