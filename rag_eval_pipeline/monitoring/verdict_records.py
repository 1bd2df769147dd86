"""The record of a verdict, as files, pages, alerts and commands have it, and its sentences."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, Self

import pydantic

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.metric_info import OF_SEGMENT
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.run_labels import P_MIN
from rag_eval_pipeline.metrics.verdict_rules import FLIP_SHARE_MAX, RULES, Confirmation, Rules, State, VerdictKind
from rag_eval_pipeline.metrics.verdicts import (
    Decision,
    Evidence,
    Segment,
    decide,
    is_large_enough,
    is_sure,
    night_state,
)
from rag_eval_pipeline.storage.json_files import read_bytes

# How far a change is confirmed, at the end of its sentence.
STANDING: dict[Confirmation, str] = {
    "pending": "not yet seen again in a rerun",
    "confirmed": "confirmed on an earlier night",
    "not_needed": "from a deterministic system",
    "no_rerun": "without a rerun",
    "provisional": "provisional until the baseline has its runs",
}
# How far a change is confirmed, in a word or two.
CONFIRMED: dict[Confirmation, str] = {
    "pending": "awaits its rerun",
    "confirmed": "confirmed by a rerun",
    "not_confirmed": "not confirmed by its rerun",
    "not_needed": "deterministic system",
    "no_rerun": "single runs",
    "provisional": "provisional",
}
IN_SENTENCES = ": an answer in sentences equals no gold answer; read F1 and the judge"  # of an exact match of 0
SINGLE_RUNS = "single runs: noise between runs is not averaged out, as a pinned baseline of five runs does"
NOT_CALIBRATED = "not calibrated: its verdicts are not compared with people's labels on this benchmark"
WAYS = {True: ("fell", "rose"), False: ("lower", "higher")}  # of one system, of two
COUNTS = {2: "two", 3: "three", 4: "four"}


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
        is_one_system: bool = True,
    ) -> Self:
        """Decide a metric; the questions that changed most are kept if its change is flagged.

        Args:
            is_one_system: Whether both sides are one system, which fell or rose; two systems are lower or higher.
        """
        found = decide(evidence, confirmation=confirmation, rules=rules)
        reason = _reason(evidence, found.kind, rules)
        return cls(
            **{name: getattr(evidence, name) for name in Evidence.model_fields},
            kind=found.kind,
            sentence=_sentence(evidence, found, reason, rules, WAYS[is_one_system]),
            reason=reason,
            confirmation=found.confirmation,
            questions=() if found.confirmation is None else tuple(questions),
        )

    def withheld(self, reason: str) -> Self:
        """Return the same evidence without a verdict."""
        sentence = f"Withheld: {reason}{_change_text(self)}."
        changes = {"kind": "withheld", "sentence": sentence, "reason": reason, "confirmation": None, "questions": ()}
        return self.model_copy(update=changes)

    @property
    def standing(self) -> str:
        """How far a change is confirmed, in a word or two; empty where there is nothing to confirm."""
        if self.confirmation == "confirmed" and self.runs == 1:
            return STANDING["confirmed"]  # the same change was, and this night had no rerun
        return CONFIRMED[self.confirmation] if self.confirmation else ""

    @property
    def state(self) -> State:
        """Its state as the alert rule counts it."""
        return night_state(self.kind, self.confirmation)


SLIGHT = 10  # less evidence of a decline is none: unchanged systems often have it
NOTABLE = 100  # it is worth a line from this part of an alert's


class Decline(Model):
    """The evidence that a metric declines over nights: see `metrics.declines`."""

    metric: str
    evidence: float = pydantic.Field(ge=0)
    alert_at: float = pydantic.Field(ge=0)  # the evidence that alerts
    since: str | None = None  # the date on which it probably began; null without evidence
    first: str | None = None  # the evaluation of that night
    change: float | None = None  # mean of the nights since, as a share, from the reference runs

    @property
    def is_notable(self) -> bool:
        """Whether it is worth a line beside a verdict."""
        return NOTABLE * self.evidence >= self.alert_at > 0

    @property
    def finding(self) -> str:
        """Such as `a possible decline since 12 November, as an unchanged system shows once in 340 nights`."""
        if self.evidence < SLIGHT:
            return "no sign of a decline"
        return f"a possible decline since {self.began}, as an unchanged system shows once in {self.nights} nights"

    @property
    def sentence(self) -> str:
        """Such as `Exact match: a possible decline since ... once in 340 nights (an alert at 262,800)`."""
        return f"{metric_label(self.metric)}: {self.finding} (an alert at {self.alert_at:,.0f})"

    @property
    def summary(self) -> str:
        """Such as `Exact match −1.2 points since 12 November (an unchanged system shows this once in ... nights`."""
        change = f"{metric_label(self.metric)} {format_points(self.change)} points since {self.began}"
        rare = (
            f"an unchanged system shows this once in {self.nights} nights, and an alert comes at {self.alert_at:,.0f}"
        )
        return f"{change} ({rare}; first seen in {self.first})"

    @property
    def nights(self) -> str:
        """The evidence, such as `340`: the nights in which an unchanged system reaches it once, or more."""
        return f"{float(f'{self.evidence:.2g}'):,.0f}"

    @property
    def began(self) -> str:
        """Such as `12 November`; empty without evidence."""
        return f"{date.fromisoformat(self.since):%-d %B}" if self.since else ""


def _reason(evidence: Evidence, kind: VerdictKind, rules: Rules) -> str | None:
    if kind == "withheld":
        missing = counted(evidence.n_missing, "question")
        if evidence.estimate is None:
            return f"{missing} without a score, and none with one"
        change = format_points(evidence.estimate_if_missing)
        p_value = format_p(evidence.p_if_missing or 1.0, evidence.level)
        return f"{missing} without a score could overturn it: unchanged at best, they leave {change} points, {p_value}"
    if evidence.is_advisory:
        return "advisory, as it is not among critical_metrics"
    return f"{counted(evidence.n, 'question')}, {rules.min_questions} are needed" if kind == "no_verdict" else None


def _sentence(evidence: Evidence, found: Decision, reason: str | None, rules: Rules, ways: tuple[str, str]) -> str:
    kind, confirmation = found
    usual = limits_text(evidence.confidence_interval)
    if kind == "withheld":
        return f"Withheld: {reason}{_change_text(evidence)}."
    if evidence.is_at_floor:
        return f"0 before and now, so that it cannot fall{IN_SENTENCES if evidence.metric == 'exact_match' else ''}."
    if evidence.is_advisory:
        if evidence.estimate is None:
            return "Advisory."
        return f"Advisory: {format_points(evidence.estimate)} points (95 % {usual})."
    if kind == "no_verdict":
        return f"No verdict: {reason}{_change_text(evidence)}. {_detectable_text(evidence)}"
    shown, unit = _interval_text(evidence), _unit_text(evidence)
    if confirmation is not None:
        moved = f"{_moved_text(evidence, kind, ways)}; {_sure_text(evidence)}{_missing_text(evidence)}{unit}"
        if kind == "inconclusive":
            reruns = "a rerun" if evidence.runs <= 2 else f"{COUNTS[evidence.runs - 1]} reruns"
            beyond = "" if evidence.is_beyond else ", and a reference run is as far from the others"
            return f"Inconclusive: {moved}; {reruns} did not confirm it{beyond}."
        return f"{moved}{_standing_text(evidence, confirmation)}."
    small = (
        f"; below the minimum effect of {100 * rules.min_effect:g} point{'' if rules.min_effect == 0.01 else 's'}"
        if is_sure(evidence) and not is_large_enough(evidence.estimate, rules)
        else ""
    )
    sure = f"{_sure_text(evidence)}{small}{_missing_text(evidence)}{unit}"
    if kind == "equivalent":
        margin = 100 * rules.equivalence_margin
        return f"Any change is smaller than {margin:g} points (95 % {usual}); {sure}."
    return f"Inconclusive: {format_points(evidence.estimate)} points ({shown}), {sure}. {_detectable_text(evidence)}"


def _moved_text(evidence: Evidence, kind: VerdictKind, ways: tuple[str, str]) -> str:
    """Return such as `Exact match fell 6.0 points (…): 14 questions fell and 2 rose, in both runs`."""
    change = 100 * (evidence.estimate or 0.0)
    way, other = ways if change < 0 else ways[::-1]
    first, second = (evidence.fell, evidence.rose) if change < 0 else (evidence.rose, evidence.fell)
    runs = (
        "" if evidence.runs == 1 else ", in both runs" if evidence.runs == 2 else f", in {COUNTS[evidence.runs]} runs"
    )
    changed = ", so its answers changed both ways" if kind == "changed" else ""
    interval = "" if evidence.is_certain else f" ({_interval_text(evidence)})"
    counts = f"{counted(first, 'question')} {way} and {second} {other}{runs}{changed}"
    if not (first or second):
        counts = f"no single question is beyond all of its reference runs{runs}"
    others = f"; {_others_text(evidence.segment)}" if evidence.segment else ""
    points = f"{abs(change):.1f} points"
    moved = f"{way} {points}" if ways == WAYS[True] else f"is {points} {way}"
    return f"{metric_label(evidence.key)} {moved}{interval}: {counts}{others}"


def metric_of(key: str) -> str:
    """Return the metric of a verdict by its key, which may name a segment as well."""
    return key.partition(OF_SEGMENT)[0]


def leading(keys: Collection[str]) -> list[str]:
    """Leave out the segments of metrics that are among the keys as well: they are where the whole changed."""
    return [key for key in keys if metric_of(key) == key or metric_of(key) not in keys]


def segment_text(evidence: Evidence) -> str:
    """Return `section tariffs −30.0 points (57 questions); the other 193 unchanged`, of evidence on a segment."""
    if evidence.segment is None:
        raise ValueError(f"evidence on all questions: {evidence.metric}")
    change = f"{evidence.segment.name} {format_points(evidence.estimate)} points ({counted(evidence.n, 'question')})"
    return f"{change}; {_others_text(evidence.segment)}"


def _others_text(segment: Segment) -> str:
    """Return that the others are unchanged if any change of theirs is small for sure, else their change."""
    is_small = all(abs(limit) < RULES.equivalence_margin for limit in segment.others_interval)
    change = " unchanged" if is_small else f": {format_points(segment.others_estimate)} points"
    return f"the other {segment.n_others}{change}"


def _standing_text(evidence: Evidence, confirmation: Confirmation) -> str:
    if confirmation == "confirmed" and evidence.runs > 1:
        return ""  # the sentence says in how many runs
    if confirmation == "pending" and evidence.runs > 1:
        return "; another rerun will decide"
    return f"; {STANDING[confirmation]}"


def _detectable_text(evidence: Evidence) -> str:
    if evidence.is_certain:
        return "Any change of this deterministic system is detected."
    change = "drops" if evidence.higher_is_better else "rises"
    groups = counted(evidence.n_units, "group")
    if evidence.smallest_drop is None:
        why = f": it has {groups}, and {evidence.needed_units} must change" if evidence.is_clustered else ""
        return f"This benchmark cannot detect {change} of any size{why}."
    where = f", in {evidence.needed_units} of its {groups}" if evidence.is_clustered else ""
    return f"At best this benchmark detects {change} of {100 * evidence.smallest_drop:.1f} points{where}."


def _unit_text(evidence: Evidence) -> str:
    return f"; n = {evidence.n}{_groups(evidence)}"


def _groups(evidence: Evidence) -> str:
    return (
        f", in {counted(evidence.n_units, 'group that shares', 'groups that share')} a document or conversation"
        if evidence.is_clustered
        else ""
    )


def _missing_text(evidence: Evidence) -> str:
    """Return that missing scores change nothing about a change that is sure."""
    if evidence.p_if_missing is None:
        return ""
    return f"; {counted(evidence.n_missing, 'question')} without a score would change nothing"


def shown_interval(evidence: Evidence) -> tuple[str, Interval | None]:
    """Return the name and limits of a change's interval: the adjusted one, or the usual one if that has no width.

    It has none where all units moved alike, as the test then rejects every other change.
    """
    adjusted, usual = evidence.adjusted_interval, evidence.confidence_interval
    if adjusted is not None and usual is not None and adjusted.low == adjusted.high and usual.low < usual.high:
        return "95 %", usual
    return "adjusted interval", adjusted


def _interval_text(evidence: Evidence) -> str:
    name, interval = shown_interval(evidence)
    return f"{name} {limits_text(interval)}"


def format_points(change: float | None) -> str:
    """Format a change of a share in points: one decimal, a sign and a true minus; none for what is rounded to 0."""
    points = round(100 * (change or 0.0), 1)
    return f"{points:+.1f}".replace("-", "−") if points else "0.0"


def format_p(p_value: float, needed: float) -> str:
    """Return such as `p = 0.008` or `p = 3e-9`.

    Args:
        needed: The largest p of a reported change. A p that two digits would show as equal to it gets more of them.
    """
    if p_value <= 10 * P_MIN:
        return "p < 1e-12"
    least = 2 if p_value >= 0.001 else 1
    shown = (_number(p_value, n) for n in range(least, 7))
    return f"p = {next((text for text in shown if p_value == needed or text != _number(needed, 2)), f'{p_value:g}')}"


def _number(value: float, digits: int) -> str:
    """Format 0.008 or 3e-9."""
    text = f"{value:.{digits}g}"
    return text.replace("e-0", "e-") if value < 0.001 else text


def needed_text(evidence: Evidence) -> str:
    """Return such as `1e-5 is needed`, the largest p of a reported change."""
    return f"{_number(evidence.level, 2)} is needed"


def _sure_text(evidence: Evidence) -> str:
    """Return such as `p = 3e-9 …, 1e-5 is needed so that 12 pairs raise at most one false alarm in two years`."""
    if evidence.is_certain:
        return f"{counted(evidence.n, 'question')} compared"
    if evidence.p_corrected is None:
        return f"no p, {_needed(evidence)}"
    return (
        f"{format_p(evidence.p_corrected, evidence.level)} after correction for {_tests(evidence)}, {_needed(evidence)}"
    )


def tested_text(evidence: Evidence) -> str:
    """Return how the metrics of a night were tested, such as `p is corrected for 8 metrics; 0.01 is needed ...`."""
    questions = f"{counted(evidence.n, 'question')}{_groups(evidence)}"
    if evidence.is_certain:
        return f"{questions} compared; the system is deterministic, so every difference is real."
    return f"{questions}; p is corrected for {_tests(evidence)}, and {_needed(evidence)}."


def _needed(evidence: Evidence) -> str:
    return " ".join(filter(None, [needed_text(evidence), evidence.level_text]))


def _tests(evidence: Evidence) -> str:
    tests = "metric" if evidence.segment is None else "test"
    return counted(evidence.n_metrics, tests)


def _change_text(evidence: Evidence) -> str:
    if evidence.estimate is None or evidence.confidence_interval is None:
        return ""
    change = format_points(evidence.estimate)
    return f"; {change} points ({_interval_text(evidence)}), {_sure_text(evidence)}{_unit_text(evidence)}"


def limits_text(interval: Interval | None) -> str:
    """Format an interval in points; a limit that is rounded to 0 keeps its sign, which says on which side it ends."""
    return " to ".join(f"{100 * limit:+.1f}".replace("-", "−") if limit else "0.0" for limit in interval or ())


def flip_sentence(share: float | None) -> str:
    """Return a sentence on how steady the unchanged system is, shown beside its verdicts."""
    if share is None:
        return "How much the answers differ between two runs is not known: there are no two baseline runs."
    shown = f"{100 * share:.1f} % of the answers differ between two runs of the unchanged system"
    if share > FLIP_SHARE_MAX:
        return f"{shown}; above {100 * FLIP_SHARE_MAX:g} % the rate of false verdicts is unknown."
    return f"{shown}."


def withheld_text(verdicts: Iterable[Verdict]) -> str | None:
    """Return how many metrics have no verdict because too few questions were scored, and why; None if there are none.

    Such as `no verdict on 2 of 7 metrics: 20 questions without a score could overturn it: ...`.
    """
    given = list(verdicts)
    withheld = [found for found in given if found.kind == "withheld"]
    if not withheld:
        return None
    return f"no verdict on {len(withheld)} of {len(given)} metrics: {withheld[0].reason}"


class Comparison(Model):
    """Two sides on one benchmark and a verdict for each metric: a row of `regressions.json`."""

    kind: Literal["baseline", "systems", "evaluations", "weekly", "ab_test"]
    benchmark: str = pydantic.Field(min_length=1)
    old: str = pydantic.Field(min_length=1)  # the side that is compared with: `baseline`, a system or an evaluation
    new: str = pydantic.Field(min_length=1)  # the side in question
    evaluation_id: str | None = None  # the newer evaluation; of a night the first one
    rerun: str | None = None  # the evaluation that ran it again
    reason: str | None = None  # why there are no verdicts: `no_baseline`, `is_baseline`, `different_dataset`, ...
    note: str | None = None  # a sentence about the comparison, such as how steady the unchanged system is
    newest: tuple[str, ...] = ()  # the newest evaluations of the systems when they were compared, that of `old` first
    verdicts: dict[str, Verdict] = pydantic.Field(default_factory=dict)  # metric -> verdict
    declines: tuple[Decline, ...] = ()  # the evidence that metrics decline over nights, the strongest first

    @property
    def moved(self) -> dict[str, tuple[MovedQuestion, ...]]:
        """Metric -> the questions that changed most."""
        return {name: found.questions for name, found in self.verdicts.items() if found.questions}

    @property
    def regressed(self) -> list[str]:
        """The metrics that got worse, confirmed or not."""
        return [name for name, found in self.verdicts.items() if found.kind == "regressed"]


def read_comparison_rows(path: Path) -> tuple[Comparison, ...]:
    """Return the rows of `regressions.json`; none if it is not there, of another version, or edited."""
    try:
        return pydantic.TypeAdapter(tuple[Comparison, ...]).validate_json(read_bytes(path))
    except (InputError, pydantic.ValidationError):
        return ()
