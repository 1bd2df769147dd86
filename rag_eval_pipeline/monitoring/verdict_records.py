"""The record of a verdict, as files, pages, alerts and commands have it, and its sentences."""

import math
from collections.abc import Sequence
from typing import Self

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.significance import RUNS_FOR_NOISE
from rag_eval_pipeline.metrics.verdicts import (
    FLIP_SHARE_MAX,
    RULES,
    Confirmation,
    Decision,
    Evidence,
    Rules,
    State,
    VerdictKind,
    decide,
    is_large_enough,
    night_state,
)

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


class MovedQuestion(Model):
    """A question whose score changed."""

    query_id: str
    before: float  # mean over the runs that are compared with
    after: float


class Verdict(Evidence):
    """One metric's verdict with its evidence."""

    kind: VerdictKind
    sentence: str  # the verdict with its numbers
    reason: str | None = None  # why there is none: `16 questions, 30 are needed`
    confirmation: Confirmation | None = None  # how far a flagged change is confirmed
    questions: tuple[MovedQuestion, ...] = ()  # those that changed most

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        *,
        confirmation: Confirmation = "pending",
        rules: Rules = RULES,
        questions: Sequence[MovedQuestion] = (),
    ) -> Self:
        """Decide a metric; the questions that changed most are kept if its change is flagged."""
        found = decide(evidence, confirmation=confirmation, rules=rules)
        reason = _reason(evidence, found.kind, rules)
        return cls(
            **{name: getattr(evidence, name) for name in Evidence.model_fields},
            kind=found.kind,
            sentence=_sentence(evidence, found, reason, rules),
            reason=reason,
            confirmation=found.confirmation,
            questions=() if found.confirmation is None else tuple(questions),
        )

    @property
    def state(self) -> State:
        """Its state as the alert rule counts it."""
        return night_state(self.kind, self.confirmation)


def _reason(evidence: Evidence, kind: VerdictKind, rules: Rules) -> str | None:
    if kind == "withheld":
        coverage = math.floor(1000 * (evidence.coverage or 0.0)) / 10  # never rounded up to the limit
        return f"coverage {coverage:.1f} %, {100 * rules.min_coverage:g} % is needed"
    return f"{evidence.n} questions, {rules.min_questions} are needed" if kind == "no_verdict" else None


def _sentence(evidence: Evidence, found: Decision, reason: str | None, rules: Rules) -> str:
    kind, confirmation = found
    if kind == "withheld":
        return f"Withheld: {reason}{_change_text(evidence, rules)}."
    if kind == "no_verdict":
        return f"No verdict: {reason}{_change_text(evidence, rules)}. {_detectable_text(evidence)}"
    change = 100 * (evidence.estimate or 0.0)
    shown, sure, unit = f"({_interval_text(evidence)})", _p_text(evidence, rules), _unit_text(evidence)
    if confirmation is not None:
        moved = f"{metric_label(evidence.metric)} {'fell' if change < 0 else 'rose'} {abs(change):.1f} points"
        if kind == "inconclusive":
            return f"Inconclusive: {moved} {shown}, {sure}; a rerun did not confirm it{unit}."
        return f"{moved} {shown}, {sure}{unit or f'; n = {evidence.n}'}; {STANDING[confirmation]}."
    withheld_by = _withholding_rule(evidence, rules)
    if kind == "equivalent":
        margin = 100 * rules.equivalence_margin
        small = f"Any change is smaller than {margin:g} points (95 % {_limits(evidence.confidence_interval)})"
        return f"{small}; {sure}{withheld_by}{unit}."
    unsure = f"Inconclusive: {format_points(evidence.estimate)} points {shown}, {sure}{withheld_by}{unit}."
    return f"{unsure} {_detectable_text(evidence)}"


def _detectable_text(evidence: Evidence) -> str:
    change = "drops" if evidence.higher_is_better else "rises"
    groups = f"{evidence.n_units} groups by document"
    if evidence.smallest_drop is None:
        why = f": {groups}, of which {evidence.needed_units} must change" if evidence.is_clustered else ""
        return f"This benchmark cannot detect {change} of any size{why}."
    where = f", in {evidence.needed_units} of its {groups}" if evidence.is_clustered else ""
    return f"At best this benchmark detects {change} of {100 * evidence.smallest_drop:.1f} points{where}."


def _unit_text(evidence: Evidence) -> str:
    if evidence.is_clustered:
        why = f", because fewer than {RUNS_FOR_NOISE} runs are pinned" if evidence.is_short_of_runs else ""
        return f"; n = {evidence.n} in {evidence.n_units} groups by document{why}"
    if evidence.design_effect is not None and evidence.design_effect > DESIGN_EFFECT_SHOWN:
        return f"; n = {evidence.n} questions, design effect {evidence.design_effect:.1f} within documents"
    return ""


def _interval_text(evidence: Evidence) -> str:
    return f"adjusted interval {_limits(evidence.adjusted_interval)}"


def format_points(change: float | None) -> str:
    """Format a change of a share in points: one decimal, a sign and a true minus; none for what is rounded to 0."""
    points = round(100 * (change or 0.0), 1)
    return f"{points:+.1f}".replace("-", "−") if points else "0.0"


def format_p(p_value: float, needed: float) -> str:
    """Return such as `p = 0.008` or `p < 0.001`.

    Args:
        needed: The largest p of a reported change. A p that two digits would show as equal to it gets more of them.
    """
    if p_value < 0.001 < needed:
        return "p < 0.001"
    digits = next((n for n in range(2, 6) if p_value == needed or float(f"{p_value:.{n}g}") != needed), 6)
    return f"p = {p_value:.{digits}g}"


def _p_text(evidence: Evidence, rules: Rules = RULES) -> str:
    """Return such as `p = 0.04 after correction for 8 metrics, 0.01 is needed`."""
    p_value, needed = evidence.p_corrected, rules.alpha / 2
    metrics = f"{evidence.n_metrics} metric{'s' if evidence.n_metrics > 1 else ''}"
    if p_value is None:
        return f"no p, {needed:g} is needed"
    return f"{format_p(p_value, needed)} after correction for {metrics}, {needed:g} is needed"


def _change_text(evidence: Evidence, rules: Rules) -> str:
    if evidence.estimate is None or evidence.confidence_interval is None:
        return ""
    change = format_points(evidence.estimate)
    return f"; {change} points ({_interval_text(evidence)}), {_p_text(evidence, rules)}{_unit_text(evidence)}"


def _withholding_rule(evidence: Evidence, rules: Rules) -> str:
    """Return why a change that the test is certain of is not reported; empty if the test is not certain."""
    if evidence.p_corrected is None or evidence.p_corrected > rules.alpha / 2:
        return ""
    if not is_large_enough(evidence, rules):
        points = 100 * rules.min_effect
        return f"; below the minimum effect of {points:g} point{'' if points == 1 else 's'}"
    return f"; bad luck of the baseline would show it as well (95 % {_limits(evidence.confidence_interval)})"


def _limits(interval: Interval | None) -> str:
    # A limit keeps its sign where it is rounded to 0: it says on which side of 0 the interval ends.
    return " to ".join(f"{100 * limit:+.1f}".replace("-", "−") if limit else "0.0" for limit in interval or ())


def flip_sentence(share: float | None) -> str:
    """Return a sentence on how steady the unchanged system is, shown beside its verdicts."""
    if share is None:
        return "How much the answers differ between two runs is not known: there are no two baseline runs."
    shown = f"{100 * share:.1f} % of the answers differ between two runs of the unchanged system"
    if share > FLIP_SHARE_MAX:
        return f"{shown}; above {100 * FLIP_SHARE_MAX:g} % the rate of false verdicts is unknown."
    return f"{shown}."
