"""The nightly verdict: did a metric get better or worse, is any change small, or can nobody tell?

Evidence is compared first; what is flagged is run again (`confirm`), hours later against the same baseline; then each
metric is put in one word and one sentence (`verdict`).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from rag_eval_pipeline.metrics.evidence import RULES, Evidence, Rules

VerdictKind = Literal["withheld", "regressed", "improved", "equivalent", "inconclusive", "no_verdict"]
Confirmation = Literal["pending", "confirmed", "not_confirmed", "not_needed"]

ROUNDING = 1e-9  # a drop of exactly one point, averaged over fifths, comes out as 0.00999999999999999


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


def is_covered(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether enough pairs were scored for any verdict."""
    return evidence.coverage is not None and evidence.coverage >= rules.min_coverage


def is_large_enough(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether the mean moved by at least the minimum effect."""
    if evidence.estimate is None:
        return False
    return abs(evidence.estimate) >= rules.min_effect * evidence.value_range - ROUNDING


def is_flagged(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether a change is large and sure enough to be run again."""
    return (
        is_covered(evidence, rules)
        and evidence.n_units >= rules.min_questions
        and evidence.p_corrected is not None
        and evidence.p_corrected <= rules.alpha / 2
        and is_large_enough(evidence, rules)
    )


def confirm(first: Evidence, rerun: Evidence, *, n_flagged: int, rules: Rules = RULES) -> Confirmation:
    """Whether a rerun against the same baseline shows the flagged change again.

    Args:
        first: The flagged evidence.
        rerun: The same metric in the rerun; its uncorrected p is used.
        n_flagged: Metrics that were flagged in this comparison; p is multiplied by it.
        rules: Alpha, minimum effect and coverage are used here.
    """
    if first.estimate is None or rerun.estimate is None or rerun.p_value is None:
        return "not_confirmed"
    seen_again = (
        first.estimate * rerun.estimate > 0
        and is_covered(rerun, rules)
        and rerun.p_value * n_flagged <= rules.alpha / 2
        and is_large_enough(rerun, rules)
    )
    return "confirmed" if seen_again else "not_confirmed"


def verdict(evidence: Evidence, *, confirmation: Confirmation = "pending", rules: Rules = RULES) -> Verdict:
    """One metric's verdict, in the order withheld, no_verdict, regressed or improved, equivalent, inconclusive.

    Args:
        evidence: From `compare`.
        confirmation: What a rerun said of a flagged change; ignored when nothing is flagged.
        rules: The same as in `compare`.
    """
    if evidence.coverage is not None and not is_covered(evidence, rules):
        shown = math.floor(1000 * evidence.coverage) / 10  # never rounded up to the limit
        sentence = f"Cannot tell: coverage {shown:.1f} %, {100 * rules.min_coverage:g} % is needed."
        return Verdict("withheld", sentence, None, evidence)
    if evidence.estimate is None or evidence.confidence_interval is None or evidence.n_units < rules.min_questions:
        unit = "documents" if evidence.is_clustered else "questions"
        sentence = f"No verdict: {evidence.n_units} {unit}, {rules.min_questions} are needed; {reach_text(evidence)}."
        return Verdict("no_verdict", sentence, None, evidence)
    scale = 100 / evidence.value_range
    change = scale * evidence.estimate
    low, high = (scale * limit for limit in evidence.confidence_interval)
    moved = f"{evidence.metric} {'fell' if change < 0 else 'rose'} {abs(change):.1f} points"
    interval = f"95 % {signed(low)} to {signed(high)}"
    if is_flagged(evidence, rules):
        if confirmation == "not_confirmed":
            sentence = f"Cannot tell: {moved} ({interval}), not confirmed by a rerun."
            return Verdict("inconclusive", sentence, confirmation, evidence)
        kind: VerdictKind = "improved" if (change > 0) == evidence.higher_is_better else "regressed"
        again = {
            "pending": "not yet seen again in a rerun",
            "confirmed": "seen again in a rerun",
            "not_needed": "from a deterministic system",
        }[confirmation]
        sentence = f"{moved} ({interval}), n={evidence.n_pairs}, corrected {p_text(evidence.p_corrected)}, {again}."
        return Verdict(kind, sentence, confirmation, evidence)
    margin = 100 * rules.equivalence_margin
    if -margin < low and high < margin:
        return Verdict("equivalent", f"Any change is smaller than {margin:g} points ({interval}).", None, evidence)
    sentence = f"Cannot tell: {signed(change)} ({interval}); {reach_text(evidence)}."
    return Verdict("inconclusive", sentence, None, evidence)


def reach_text(evidence: Evidence) -> str:
    """What the set can show at all, as the end of a sentence."""
    change = "drops" if evidence.higher_is_better else "rises"
    if evidence.smallest_drop is None:
        return f"this set cannot show {change} of any size"
    return f"this set can show {change} of {100 * evidence.smallest_drop:.1f} points or more"


def signed(points: float) -> str:
    """Points with one decimal and a sign, with a true minus sign as in print."""
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0 turns -0.0 into 0.0


def p_text(p_value: float | None) -> str:
    """`p=0.002`, or `p<0.001` below that."""
    if p_value is None or p_value < 0.001:
        return "p<0.001"
    return f"p={p_value:.3f}"
