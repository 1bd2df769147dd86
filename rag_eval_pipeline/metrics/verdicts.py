"""The nightly verdict: did a metric get better or worse, is any change small, or is the evidence too weak to say?

A change that is large and certain enough is flagged. A flag alone alerts nobody: the system is evaluated again hours
later, and the same change must show against the same baseline. This rerun replaces a correction over all comparisons of
a night at a lower cost in power. A baseline is pinned by a person and never moves by itself: a slow decline would pull
it along.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np

from rag_eval_pipeline.metrics.evidence import RULES, Evidence, Rules
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.significance import RUNS_FOR_NOISE

Confirmation = Literal["pending", "confirmed", "not_confirmed", "not_needed", "no_rerun", "provisional", "weekly"]
VerdictKind = Literal["withheld", "regressed", "improved", "equivalent", "inconclusive", "no_verdict"]
State = Literal["unflagged", "unconfirmed", "regressed", "improved", "unknown"]

BASELINE_RUNS = 5  # with one run, false alerts are ten times as many: its luck affects the night and the rerun alike
FLIP_SHARE_MAX = 0.10  # the error rates of the procedure were simulated up to here
WEEK_NIGHTS = 7
QUIET_NIGHTS = 3  # unflagged nights in a row after which the same change alerts again
ROUNDING = 1e-9  # a drop of exactly one point, averaged over fifths, comes out as 0.00999999999999999
DESIGN_EFFECT_SHOWN = 1.2  # smaller ones are not worth mentioning

# How far a change is confirmed, at the end of its sentence.
STANDING: dict[Confirmation, str] = {
    "pending": "not yet seen again in a rerun",
    "confirmed": "seen again in a rerun",
    "not_needed": "from a deterministic system",
    "no_rerun": "without a rerun",
    "provisional": "provisional until the baseline has its runs",
    "weekly": "mean of seven nights",
}


def is_covered(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether enough pairs were scored for a verdict."""
    return evidence.coverage is not None and evidence.coverage >= rules.min_coverage


def is_large_enough(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether the mean changed by at least the minimum effect."""
    if evidence.estimate is None:
        return False
    return abs(evidence.estimate) >= rules.min_effect * evidence.value_range - ROUNDING


def improvement_excludes_zero(evidence: Evidence) -> bool:
    """Whether the interval of an improvement excludes 0; True for every change for the worse.

    Near-perfect scores with occasional dips bias the baseline low, so a night without a dip shows many small
    improvements and no decline. Sign flips assume symmetry and are certain of those, in the rerun as well. Changes for
    the worse are decided by the flips alone, as their error rates were simulated.
    """
    if evidence.estimate is None or evidence.confidence_interval is None:
        return False
    is_better = (evidence.estimate > 0) == evidence.higher_is_better
    return not is_better or not evidence.confidence_interval.low <= 0 <= evidence.confidence_interval.high


def is_flagged(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether a change is large and certain enough for a rerun."""
    return (
        is_covered(evidence, rules)
        and evidence.n_pairs >= rules.min_questions
        and evidence.p_corrected is not None
        and evidence.p_corrected <= rules.alpha / 2
        and is_large_enough(evidence, rules)
        and improvement_excludes_zero(evidence)
    )


def confirm_flags(
    first: Mapping[str, Evidence], rerun: Mapping[str, Evidence], *, rules: Rules = RULES
) -> dict[str, Confirmation]:
    """Return `confirmed` or `not_confirmed` for each flagged metric.

    Args:
        first: Evidence of the night, by metric.
        rerun: Of the rerun against the same baseline. A flagged metric that is missing here is not confirmed.
        rules: The same as for the night.
    """
    flagged = [name for name, evidence in first.items() if is_flagged(evidence, rules)]
    return {
        name: "confirmed"
        if name in rerun and _is_seen_again(first[name], rerun[name], n_flagged=len(flagged), rules=rules)
        else "not_confirmed"
        for name in flagged
    }


def _is_seen_again(first: Evidence, rerun: Evidence, *, n_flagged: int, rules: Rules) -> bool:
    if first.estimate is None or rerun.estimate is None or rerun.p_value is None:
        return False
    return (
        first.estimate * rerun.estimate > 0
        and is_covered(rerun, rules)
        and rerun.p_value * n_flagged <= rules.alpha / 2
        and is_large_enough(rerun, rules)
        and improvement_excludes_zero(rerun)
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """One metric's verdict.

    Args:
        kind: The verdict in a word.
        sentence: The verdict with its numbers, as it is shown everywhere.
        confirmation: Whether a rerun showed the same; only `confirmed` and `not_needed` alert. None if nothing was
            flagged.
        evidence: What it is based on.
    """

    kind: VerdictKind
    sentence: str
    confirmation: Confirmation | None
    evidence: Evidence = field(repr=False)


def verdict(evidence: Evidence, *, confirmation: Confirmation = "pending", rules: Rules = RULES) -> Verdict:
    """Decide one metric, in the order withheld, no verdict, regressed or improved, equivalent, inconclusive.

    Args:
        evidence: From `compare`.
        confirmation: What a rerun showed of a flagged change, or why there is none (`first_confirmation`); ignored if
            nothing is flagged.
        rules: The same as in `compare`.
    """
    if evidence.coverage is not None and not is_covered(evidence, rules):
        coverage = math.floor(1000 * evidence.coverage) / 10  # never rounded up to the limit
        needed = f"coverage {coverage:.1f} %, {100 * rules.min_coverage:g} % is needed"
        return Verdict("withheld", f"Withheld: {needed}{_change_text(evidence, rules)}.", None, evidence)
    if evidence.estimate is None or evidence.confidence_interval is None or evidence.n_pairs < rules.min_questions:
        few = f"{evidence.n_pairs} questions, {rules.min_questions} are needed"
        sentence = f"No verdict: {few}{_change_text(evidence, rules)}. {detectable_text(evidence)}"
        return Verdict("no_verdict", sentence, None, evidence)
    change = 100 / evidence.value_range * evidence.estimate
    moved = f"{metric_label(evidence.metric)} {'fell' if change < 0 else 'rose'} {abs(change):.1f} points"
    shown, sure = f"({interval_text(evidence)})", p_text(evidence, rules)
    if is_flagged(evidence, rules):
        if confirmation == "not_confirmed":
            sentence = f"Inconclusive: {moved} {shown}, {sure}; a rerun did not confirm it{unit_text(evidence)}."
            return Verdict("inconclusive", sentence, confirmation, evidence)
        kind: VerdictKind = "improved" if (change > 0) == evidence.higher_is_better else "regressed"
        unit = unit_text(evidence) or f"; n = {evidence.n_pairs}"
        return Verdict(kind, f"{moved} {shown}, {sure}{unit}; {STANDING[confirmation]}.", confirmation, evidence)
    withheld_by = _withholding_rule(evidence, rules)
    margin = 100 * rules.equivalence_margin
    low, high = _in_points(evidence, evidence.confidence_interval)
    if -margin < low and high < margin:
        small = f"Any change is smaller than {margin:g} points ({_limits(evidence, evidence.confidence_interval)})"
        return Verdict("equivalent", f"{small}; {sure}{withheld_by}{unit_text(evidence)}.", None, evidence)
    sentence = f"Inconclusive: {format_points(change)} points {shown}, {sure}{withheld_by}{unit_text(evidence)}."
    return Verdict("inconclusive", f"{sentence} {detectable_text(evidence)}", None, evidence)


def detectable_text(evidence: Evidence) -> str:
    """Return a sentence on what the benchmark can detect at best."""
    change = "drops" if evidence.higher_is_better else "rises"
    groups = f"{evidence.n_units} groups by document"
    if evidence.smallest_drop is None:
        why = f": {groups}, of which {evidence.needed_units} must change" if evidence.is_clustered else ""
        return f"This benchmark cannot detect {change} of any size{why}."
    where = f", in {evidence.needed_units} of its {groups}" if evidence.is_clustered else ""
    return f"At best this benchmark detects {change} of {100 * evidence.smallest_drop:.1f} points{where}."


def unit_text(evidence: Evidence) -> str:
    """Return what was tested, as the middle of a sentence; empty if it was simply questions."""
    if evidence.is_clustered:
        why = f", because fewer than {RUNS_FOR_NOISE} runs are pinned" if evidence.is_short_of_runs else ""
        return f"; n = {evidence.n_pairs} in {evidence.n_units} groups by document{why}"
    if evidence.design_effect is not None and evidence.design_effect > DESIGN_EFFECT_SHOWN:
        return f"; n = {evidence.n_pairs} questions, design effect {evidence.design_effect:.1f} within documents"
    return ""


def interval_text(evidence: Evidence) -> str:
    """Return the test's own interval in points."""
    if evidence.adjusted_interval is None:  # recorded before there was one
        return _limits(evidence, evidence.confidence_interval)
    low, high = _in_points(evidence, evidence.adjusted_interval)
    return f"adjusted interval {format_points(low)} to {format_points(high)}"


def format_points(points: float) -> str:
    """Format points with one decimal, a sign and a true minus; 0 itself has no sign."""
    return f"{points:+.1f}".replace("-", "−") if points else "0.0"


def p_text(evidence: Evidence, rules: Rules = RULES) -> str:
    """Return such as `p = 0.04 after correction for 8 metrics, 0.01 is needed`."""
    p_value, needed = evidence.p_corrected, rules.alpha / 2
    metrics = f"{evidence.n_metrics} metric{'s' if evidence.n_metrics > 1 else ''}"
    if p_value is None:
        return f"no p, {needed:g} is needed"
    # Two digits, or more if p would otherwise seem to be on the other side of what is needed.
    digits = next((n for n in range(2, 6) if (float(f"{p_value:.{n}g}") <= needed) == (p_value <= needed)), 6)
    shown = "p < 0.001" if p_value < 0.001 < needed else f"p = {p_value:.{digits}g}"
    return f"{shown} after correction for {metrics}, {needed:g} is needed"


def _change_text(evidence: Evidence, rules: Rules) -> str:
    """Return change and p of a verdict that is withheld in spite of them."""
    if evidence.estimate is None or evidence.confidence_interval is None:
        return ""
    change = format_points(100 / evidence.value_range * evidence.estimate)
    return f"; {change} points ({interval_text(evidence)}), {p_text(evidence, rules)}{unit_text(evidence)}"


def _withholding_rule(evidence: Evidence, rules: Rules) -> str:
    """Return why a change that the test is certain of is not reported; empty if the test is not certain."""
    if evidence.p_corrected is None or evidence.p_corrected > rules.alpha / 2:
        return ""
    if not is_large_enough(evidence, rules):
        points = 100 * rules.min_effect
        return f"; below the minimum effect of {points:g} point{'' if points == 1 else 's'}"
    if evidence.confidence_interval is None:
        return ""
    return f"; bad luck of the baseline would show it as well ({_limits(evidence, evidence.confidence_interval)})"


def _in_points(evidence: Evidence, interval: Interval) -> Interval:
    return Interval(*(100 / evidence.value_range * limit for limit in interval))


def _limits(evidence: Evidence, interval: Interval | None) -> str:
    if interval is None:
        return "no interval"
    low, high = _in_points(evidence, interval)
    return f"95 % {format_points(low)} to {format_points(high)}"


def night_state(verdict: Verdict) -> State:
    """Return a night's state for alerting.

    `regressed` and `improved` need a rerun or a deterministic system; `unconfirmed` was flagged but is pending, not
    confirmed or provisional; `unknown` was withheld or has too few questions.
    """
    if verdict.kind in ("withheld", "no_verdict"):
        return "unknown"
    if verdict.confirmation is None:
        return "unflagged"
    if verdict.confirmation in ("confirmed", "not_needed"):
        if verdict.kind == "regressed":
            return "regressed"
        if verdict.kind == "improved":
            return "improved"
    return "unconfirmed"


def alerts(history: Sequence[State]) -> list[bool]:
    """Return whether each night alerts.

    A confirmed change alerts unless the last alert said the same and fewer than three unflagged nights in a row have
    passed since. An unknown night neither counts as unflagged nor breaks the row.

    Args:
        history: One metric's states, oldest first, from the first night after its baseline was pinned.
    """
    last: State | None = None
    quiet = 0
    found = []
    for state in history:
        if state == "unflagged":
            quiet += 1
        elif state != "unknown":
            quiet = 0
        if quiet >= QUIET_NIGHTS:
            last = None
        is_alert = state in ("regressed", "improved") and state != last
        if is_alert:
            last = state
        found.append(is_alert)
    return found


def first_confirmation(n_baseline_runs: int, *, is_deterministic: bool = False) -> Confirmation:
    """Return what a flag waits for before its rerun.

    `not_needed` for a deterministic system, whose rerun would confirm every change; `provisional`, which never alerts,
    until the baseline has its runs; else `pending`.
    """
    if is_deterministic:
        return "not_needed"
    return "provisional" if n_baseline_runs < BASELINE_RUNS else "pending"


def flip_share(runs: Sequence[Sequence[float | None]]) -> float | None:
    """Return the share of questions whose score differs between two runs, over all pairs of an unchanged system's runs.

    Args:
        runs: A binary metric's scores (exact match) in the baseline runs; same questions, same order.

    Returns:
        In [0, 1]; None unless two runs have a question in common.
    """
    if len({len(run) for run in runs}) > 1:
        raise ValueError(f"expected runs over the same questions, found {sorted({len(run) for run in runs})}")
    scores = [np.array(run, dtype=np.float64) for run in runs]  # None becomes NaN
    differences = [one - other for one, other in combinations(scores, 2)]
    n_pairs = sum(int((~np.isnan(difference)).sum()) for difference in differences)
    n_flipped = sum(int((np.nan_to_num(difference) != 0).sum()) for difference in differences)
    return n_flipped / n_pairs if n_pairs else None


def flip_sentence(share: float | None) -> str:
    """Return a sentence on how steady the unchanged system is, shown beside its verdicts."""
    if share is None:
        return "How much the answers differ between two runs is not known: there are no two baseline runs."
    shown = f"{100 * share:.1f} % of the answers differ between two runs of the unchanged system"
    if share > FLIP_SHARE_MAX:
        return f"{shown}; above {100 * FLIP_SHARE_MAX:g} % nobody knows how often a verdict is false."
    return f"{shown}."


def weekly_scores(nights: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Return each question's mean over seven nights; None if any night has no score, so that all weigh the same."""
    if len(nights) != WEEK_NIGHTS:
        raise ValueError(f"expected {WEEK_NIGHTS} nights, found {len(nights)}")
    means: list[float | None] = []
    for scores in zip(*nights, strict=True):
        known = [score for score in scores if score is not None]
        # Deviations from the first night are averaged, so that nights that agree have exactly their score as mean.
        deviations = sum(score - known[0] for score in known) if known else 0.0
        means.append(known[0] + deviations / len(scores) if len(known) == len(scores) else None)
    return means
