"""The nightly verdict: did a metric get better or worse, is any change small, or can nobody tell?

Evidence is compared first; what is flagged is run again (`confirm`), hours later against the same baseline; then each
metric is put in one word and one sentence (`verdict`).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from rag_eval_pipeline.metrics.equivalence import is_inside
from rag_eval_pipeline.metrics.evidence import RULES, Evidence, Rules
from rag_eval_pipeline.metrics.flags import Confirmation, confirm, confirm_flags, is_covered, is_flagged
from rag_eval_pipeline.metrics.intervals import Interval
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
        shown = math.floor(1000 * evidence.coverage) / 10  # never rounded up to the limit
        sentence = f"Cannot tell: coverage {shown:.1f} %, {100 * rules.min_coverage:g} % is needed."
        return Verdict("withheld", sentence, None, evidence)
    if evidence.estimate is None or evidence.confidence_interval is None or evidence.n_pairs < rules.min_questions:
        few = f"{evidence.n_pairs} questions, {rules.min_questions} are needed"
        sentence = f"No verdict: {few}; {reach_text(evidence)}."
        return Verdict("no_verdict", sentence, None, evidence)
    scale = 100 / evidence.value_range
    change = scale * evidence.estimate
    low, high = (scale * limit for limit in evidence.confidence_interval)
    moved = f"{title_of(evidence.metric)} {'fell' if change < 0 else 'rose'} {abs(change):.1f} points"
    interval = f"95 % {signed(low)} to {signed(high)}"
    if is_flagged(evidence, rules):
        if confirmation == "not_confirmed":
            sentence = f"Cannot tell: {moved} ({interval}), not confirmed by a rerun."
            return Verdict("inconclusive", sentence, confirmation, evidence)
        kind: VerdictKind = "improved" if (change > 0) == evidence.higher_is_better else "regressed"
        groups = f" in {evidence.n_units} groups by document" if evidence.is_clustered else ""
        sure = f"n={evidence.n_pairs}{groups}, corrected {p_text(evidence.p_corrected)}"
        sentence = f"{moved} ({interval}), {sure}, {STANDING[confirmation]}."
        return Verdict(kind, sentence, confirmation, evidence)
    margin = 100 * rules.equivalence_margin
    if is_inside(Interval(low, high), margin):
        return Verdict("equivalent", f"Any change is smaller than {margin:g} points ({interval}).", None, evidence)
    sentence = f"Cannot tell: {signed(change)} ({interval}); {reach_text(evidence)}."
    return Verdict("inconclusive", sentence, None, evidence)


def reach_text(evidence: Evidence) -> str:
    """What the set can show at all, as the end of a sentence."""
    change = "drops" if evidence.higher_is_better else "rises"
    groups = f"{evidence.n_units} groups by document"
    if evidence.smallest_drop is None:
        why = f": {groups}, of which {evidence.needed_units} must change" if evidence.is_clustered else ""
        return f"this set cannot show {change} of any size{why}"
    where = f", in {evidence.needed_units} of its {groups}" if evidence.is_clustered else ""
    return f"this set can show {change} of {100 * evidence.smallest_drop:.1f} points or more{where}"


def signed(points: float) -> str:
    """Points with one decimal and a sign, with a true minus sign as in print."""
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0 turns -0.0 into 0.0


def p_text(p_value: float | None) -> str:
    """`p=0.002`, or `p<0.001` below that."""
    if p_value is None or p_value < 0.001:
        return "p<0.001"
    return f"p={p_value:.3f}"
