"""Verdicts: did a metric get better or worse, is any change small, or is the evidence too weak to decide?

A night is compared with 5 to 20 reference runs of the same system. What looks changed is run again, up to three times,
until the night and its reruns together decide it at a level that keeps a yearly budget of false alarms. Two single
evaluations are compared by the same test with one run on each side.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pydantic

from rag_eval_pipeline.errors import printable
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.intervals import Interval, Units, Values, mean
from rag_eval_pipeline.metrics.metric_info import OF_SEGMENT
from rag_eval_pipeline.metrics.registry import find_metric_info
from rag_eval_pipeline.metrics.run_labels import PairedRuns, change_interval, label_test, pair_runs
from rag_eval_pipeline.metrics.verdict_rules import (
    BASELINE_RUNS,
    CHANGES,
    CONFIDENCE_LEVEL,
    FIRST_LOOK,
    ONE_SIDED,
    QUIET_NIGHTS,
    ROUNDING,
    RULES,
    RUNS,
    ZERO_LIMIT,
    Confirmation,
    Rules,
    State,
    VerdictKind,
)


class ComparedMetric(NamedTuple):
    """One metric's scores in the current runs and in those it is compared with, over the same questions.

    Args:
        current: (runs, questions); None where the question failed or the metric does not apply.
        reference: (runs, questions), likewise.
        higher_is_better: False for failure rates, hallucination rates and the like.
        applies: False where the metric skips the question, whose score is then not missing; None if it always applies.
        is_advisory: It is shown, and gets no verdict.
    """

    name: str
    current: Sequence[Sequence[float | None]]
    reference: Sequence[Sequence[float | None]]
    higher_is_better: bool = True
    applies: Sequence[bool] | None = None
    is_advisory: bool = False


class Segment(Model):
    """The questions with one value of a column, and what the others did meanwhile."""

    column: str
    value: str
    n_others: int = pydantic.Field(ge=0)
    others_estimate: float  # the change of their mean
    others_interval: Interval  # at 95 %

    @property
    def name(self) -> str:
        """`section tariffs`, on one line."""
        return printable(f"{self.column} {self.value}")


# Fields of verdicts that nights of procedure 3 and before have on file.
_FORMER = ("coverage", "is_exact", "is_short_of_runs", "design_effect")


class Evidence(Model):
    """What is known of one metric's change, in the metric's unit; means and estimates are None without pairs."""

    metric: str
    segment: Segment | None = None  # null if it is of all questions
    higher_is_better: bool = True  # false for failure rates and the like
    baseline_mean: float | None = None  # over the reference runs and the pairs
    current_mean: float | None = None  # over the current runs and the pairs
    estimate: float | None = None  # mean of current minus baseline over the pairs
    # Of the estimate: what the test does not reject at the level that Holm's correction leaves; it excludes 0 exactly
    # where p_corrected is at most `level`.
    adjusted_interval: Interval | None = None
    confidence_interval: Interval | None = None  # of the estimate at 95 %, with two more questions; for "equivalent"
    p_value: float | None = pydantic.Field(None, ge=0, le=1)  # one-sided, in the direction of the estimate
    p_corrected: float | None = pydantic.Field(None, ge=0, le=1)  # after Holm over the metrics; compared with `level`
    level: float = FIRST_LOOK
    level_text: str = ""  # what it is for
    effect_size: float | None = None  # Cohen's dz; null without a spread
    n: int = pydantic.Field(ge=0)  # questions scored on both sides: the pairs
    n_units: int = pydantic.Field(ge=0)  # independent units among the pairs: documents, or the questions themselves
    is_clustered: bool = False  # the units are documents, or several that go together
    n_missing: int = pydantic.Field(0, ge=0)  # questions with a current score that failed
    # If the missing scores were the best (of a decline) or the worst (of a rise) of the question's reference scores.
    p_if_missing: float | None = pydantic.Field(None, ge=0, le=1)
    estimate_if_missing: float | None = None
    fell: int = pydantic.Field(0, ge=0)  # questions whose every current score is below every reference score
    rose: int = pydantic.Field(0, ge=0)  # and above
    runs: int = pydantic.Field(1, ge=1)  # current ones: the night and its reruns
    reference_runs: int = pydantic.Field(1, ge=0)
    is_beyond: bool = True  # each current run's mean is beyond every reference run's
    is_advisory: bool = False  # not among the critical metrics: not tested, and without a verdict
    is_certain: bool = False  # a deterministic system: any difference is real
    # Smallest one-directional change that can be confirmed, as a share of the range; null if none can.
    smallest_drop: float | None = None
    # Units that must change in one direction before any change can be confirmed.
    needed_units: int = pydantic.Field(0, ge=0)
    n_metrics: int = pydantic.Field(1, ge=1)

    @property
    def key(self) -> str:
        """Its name among the verdicts of a comparison: `exact_match`, `exact_match of section tariffs`."""
        return self.metric if self.segment is None else f"{self.metric}{OF_SEGMENT}{self.segment.name}"

    @property
    def is_at_floor(self) -> bool:
        """Whether a score of at least 0 was 0 on both sides, so that it cannot have fallen."""
        info = find_metric_info(self.metric)
        has_floor = info is not None and info.range.low == 0 and self.higher_is_better
        return has_floor and self.baseline_mean == self.current_mean == 0

    @pydantic.model_validator(mode="before")
    @classmethod
    def _drop_former(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if k not in _FORMER} if isinstance(value, dict) else value


class Compared(NamedTuple):
    """A metric's evidence, and the scores that it is of."""

    evidence: Evidence
    paired: PairedRuns


def compare(
    metrics: Sequence[ComparedMetric],
    *,
    units: Units | None = None,
    is_deterministic: bool = False,
    rules: Rules = RULES,
) -> dict[str, Compared]:
    """Test the metrics of one benchmark and system together, over the same questions in the same order.

    Args:
        units: (questions,) numbers of their documents; None if each question stands for itself.
        is_deterministic: The system gives the same answers again. Where its reference runs are indeed equal, any
            difference is real, and nothing is tested.
    """
    paired = [paired_scores(metric, units) for metric in metrics]
    certain = [is_deterministic and all(run == metric.reference[0] for run in metric.reference) for metric in metrics]
    tested = [_estimate_and_p(one, is_certain=sure) for one, sure in zip(paired, certain, strict=True)]
    tested = [(one, None if metric.is_advisory else p) for metric, (one, p) in zip(metrics, tested, strict=True)]
    known = [p for _, p in tested if p is not None]
    corrected = iter(zip(holm(known), holm_levels(known, rules.level), strict=True))
    found = {}
    for metric, scores, is_certain, (estimate, p_value) in zip(metrics, paired, certain, tested, strict=True):
        p_corrected, level = (None, rules.level) if p_value is None else next(corrected)
        sizes = _unit_sizes(scores)
        needed = needed_units(
            max(1, len(known)), level=rules.final_level, reference=len(metric.reference), runs=rules.final_runs
        )
        values: dict[str, Any] = {}
        if estimate is not None:
            before, now = scores.means
            values = {
                "estimate": estimate,
                "baseline_mean": mean(now) - estimate,
                "current_mean": mean(now),
                "effect_size": standardised_difference(now - before),
            }
            if metric.is_advisory and not is_certain:
                values |= estimate_intervals(scores, estimate, level, is_rejected=False)
            elif p_corrected is None:
                values |= dict.fromkeys(("adjusted_interval", "confidence_interval"), Interval(estimate, estimate))
            else:
                is_rejected = p_corrected <= rules.level
                values |= {"p_value": p_value, "p_corrected": p_corrected}
                values |= estimate_intervals(scores, estimate, level, is_rejected=is_rejected)
                if is_rejected:
                    values |= _if_missing(metric, units, estimate, factor=rules.level / level)
        found[metric.name] = Compared(
            Evidence(
                metric=metric.name,
                higher_is_better=metric.higher_is_better,
                level=rules.level,
                level_text=rules.level_text,
                n=int(scores.is_pair.sum()),
                n_units=len(sizes),
                is_clustered=units is not None and len(sizes) < int(scores.is_pair.sum()),
                n_missing=int(_is_missing(metric).any(axis=0).sum()),
                fell=int(scores.fallen.sum()),
                rose=int(scores.risen.sum()),
                runs=len(metric.current),
                reference_runs=len(metric.reference),
                is_beyond=not values or scores.is_beyond,
                is_advisory=metric.is_advisory,
                is_certain=is_certain,
                smallest_drop=_smallest_drop(sizes, needed, rules),
                needed_units=needed,
                n_metrics=max(1, len(known)),
                **values,
            ),
            scores,
        )
    return found


def _arrays(metric: ComparedMetric) -> tuple[Values, Values]:
    """Return the reference and the current scores, NaN where there is none or the metric does not apply."""
    sides = [np.array(runs, dtype=np.float64) for runs in (metric.reference, metric.current)]
    if metric.applies is not None:
        for runs in sides:
            runs[:, ~np.array(metric.applies, dtype=bool)] = np.nan
    return sides[0], sides[1]


def paired_scores(metric: ComparedMetric, units: Units | None) -> PairedRuns:
    """Return a metric's scores that are compared."""
    return pair_runs(*_arrays(metric), units)


def _estimate_and_p(paired: PairedRuns, *, is_certain: bool) -> tuple[float | None, float | None]:
    """Return the mean change and its one-sided p in its own direction; None without pairs, or without a test."""
    if not paired.is_pair.any():
        return None, None
    before, now = paired.means
    estimate = mean(now - before)
    if is_certain:
        return estimate, None
    test = label_test(paired)
    return estimate, test.low if estimate < 0 else test.high


def _unit_sizes(paired: PairedRuns) -> list[int]:
    return list(Counter(paired.units[paired.is_pair].tolist()).values())


def estimate_intervals(paired: PairedRuns, estimate: float, level: float, *, is_rejected: bool) -> dict[str, Interval]:
    """Return the adjusted and the 95 % interval of a change; the level is what Holm's correction leaves."""
    low, high = change_interval(paired, level, with_doubt=not is_rejected)
    low, high = min(low, estimate), max(high, estimate)
    if not is_rejected:
        low, high = min(low, 0.0), max(high, 0.0)
    elif estimate < 0:
        high = min(high, -ZERO_LIMIT)
    else:
        low = max(low, ZERO_LIMIT)
    before = mean(paired.means[0])
    clipped = Interval(max(low, -before), min(high, 1.0 - before))
    return {
        "adjusted_interval": clipped,
        "confidence_interval": change_interval(paired, CONFIDENCE_LEVEL, with_doubt=True),
    }


def _is_missing(metric: ComparedMetric) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
    """Return (runs, questions): current scores that are missing although the question has a reference score."""
    reference, current = _arrays(metric)
    return np.asarray(np.isnan(current) & ~np.isnan(reference).all(axis=0))


def _if_missing(metric: ComparedMetric, units: Units | None, estimate: float, *, factor: float) -> dict[str, float]:
    """Return p, corrected by a factor, and estimate if every missing current score counted against the change."""
    missing = _is_missing(metric)
    if not missing.any():
        return {}
    reference, current = _arrays(metric)
    if estimate < 0:
        against = np.where(np.isnan(reference), -np.inf, reference).max(axis=0)
    else:
        against = np.where(np.isnan(reference), np.inf, reference).min(axis=0)
    current = np.where(missing, against, current)
    filled = pair_runs(reference, current, units)
    before, now = filled.means
    test = label_test(filled)
    p_value = min(1.0, (test.low if estimate < 0 else test.high) * factor)
    return {"p_if_missing": p_value, "estimate_if_missing": mean(now - before)}


def needed_units(n_metrics: int, *, level: float, reference: int, runs: int) -> int:
    """Return how many units must fall for good, with none rising and no noise, before a drop can be confirmed.

    Each such unit multiplies p by 1 / C(reference + runs, runs), and Holm's first step multiplies by the number of
    metrics: with 12 metrics 11 units at 0.01 with one run on each side, 3 at 1e-5 with 20 reference runs and two now.
    """
    if not reference:
        return 1
    return math.ceil(math.log(n_metrics / level) / math.log(math.comb(reference + runs, runs)))


def _smallest_drop(sizes: Sequence[int], needed: int, rules: Rules) -> float | None:
    """Return the mean's change if one question of each needed unit falls by the whole range."""
    return max(needed / sum(sizes), rules.min_effect) if needed <= len(sizes) else None


def is_large_enough(estimate: float | None, rules: Rules = RULES) -> bool:
    """Whether a change reaches the minimum effect."""
    return estimate is not None and abs(estimate) >= rules.min_effect - ROUNDING


def is_sure(evidence: Evidence, level: float | None = None) -> bool:
    """Whether the test rejects "nothing changed" at its level, or another; a deterministic system's change is sure."""
    if evidence.is_certain:
        return bool(evidence.estimate)
    return evidence.p_corrected is not None and evidence.p_corrected <= (evidence.level if level is None else level)


def is_flagged(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether a change is large and sure enough to be reported, or for a rerun."""
    has_questions = evidence.is_certain or evidence.segment is not None or evidence.n >= rules.min_questions
    return has_questions and is_sure(evidence) and is_large_enough(evidence.estimate, rules)


def could_be_overturned(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether a change would no longer be reported if the missing scores counted against it."""
    if evidence.p_if_missing is None or evidence.estimate is None or evidence.estimate_if_missing is None:
        return False
    is_same_side = evidence.estimate * evidence.estimate_if_missing > 0
    is_large = is_large_enough(evidence.estimate_if_missing, rules)
    return evidence.p_if_missing > evidence.level or not (is_same_side and is_large)


def rerun_outcome(first: Evidence, together: Evidence, rules: Rules = RULES) -> Confirmation:
    """Return what a flagged night and its reruns together show of one metric.

    `confirmed` needs the level of the budget, the minimum effect, and every run beyond all reference runs, which guards
    against noise that a whole run shares; `pending` asks for another rerun.
    """
    if (first.estimate or 0.0) * (together.estimate or 0.0) <= 0 or not is_large_enough(together.estimate, rules):
        return "not_confirmed"
    if not together.is_beyond:
        return "not_confirmed"
    if is_sure(together):
        return "confirmed"
    return "pending" if together.runs < RUNS and is_sure(together, FIRST_LOOK) else "not_confirmed"


class Decision(NamedTuple):
    """One metric's verdict; `confirmation` is None if nothing was flagged."""

    kind: VerdictKind
    confirmation: Confirmation | None  # only `confirmed` and `not_needed` alert


def decide(evidence: Evidence, *, confirmation: Confirmation = "pending", rules: Rules = RULES) -> Decision:
    """Decide one metric.

    `confirmation` is what the reruns showed of a flagged change, or why there was none.
    """
    if evidence.is_advisory:
        return Decision("no_verdict", None)
    if evidence.estimate is None and evidence.n_missing:
        return Decision("withheld", None)
    if evidence.estimate is None or evidence.confidence_interval is None:
        return Decision("no_verdict", None)
    if evidence.n < rules.min_questions and not evidence.is_certain and evidence.segment is None:
        return Decision("no_verdict", None)
    if confirmation == "not_confirmed":
        return Decision("inconclusive", confirmation)
    if is_flagged(evidence, rules) or (confirmation == "pending" and evidence.runs > 1):
        if confirmation != "pending" and could_be_overturned(evidence, rules):
            return Decision("withheld", None)
        return Decision(_direction(evidence), confirmation)
    margin = rules.equivalence_margin
    doubt = evidence.n_missing / (evidence.n + evidence.n_missing)
    low, high = evidence.confidence_interval
    return Decision("equivalent" if -margin < low - doubt and high + doubt < margin else "inconclusive", None)


def _direction(evidence: Evidence) -> VerdictKind:
    is_decline = (evidence.estimate or 0.0) < 0
    ahead, changed = evidence.fell if is_decline else evidence.rose, evidence.fell + evidence.rose
    if changed and ahead < ONE_SIDED * changed:
        return "changed"
    return "improved" if is_decline != evidence.higher_is_better else "regressed"


def night_state(kind: VerdictKind, confirmation: Confirmation | None) -> State:
    """Return a night's state for alerting: a change needs a rerun or a deterministic system."""
    if kind in ("withheld", "no_verdict"):
        return "unknown"
    if confirmation is None:
        return "unflagged"
    is_seen_again = confirmation in ("confirmed", "not_needed")
    return kind if is_seen_again and kind in CHANGES else "unconfirmed"


def alerts(history: Sequence[State]) -> list[bool]:
    """Return whether each night alerts, from one metric's states since its baseline was pinned, oldest first.

    A confirmed change alerts unless the last alert said the same and fewer than three unflagged nights in a row have
    passed since. An unknown night neither counts as unflagged nor breaks the row.
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
        is_alert = state in CHANGES and state != last
        if is_alert:
            last = state
        found.append(is_alert)
    return found


def first_confirmation(n_baseline_runs: int, *, is_certain: bool = False) -> Confirmation:
    """Return what a flag waits for: a deterministic system needs no rerun, and few pinned runs never alert."""
    if is_certain:
        return "not_needed"
    return "provisional" if n_baseline_runs < BASELINE_RUNS else "pending"


def flip_share(runs: Sequence[Sequence[float | None]]) -> float | None:
    """Return the share of questions whose score differs between two runs of an unchanged system, over all pairs.

    `runs` are a binary metric's scores over the same questions. None unless two runs have a question in common.
    """
    scores = [np.array(run, dtype=np.float64) for run in runs]  # None becomes NaN
    differences = [one - other for one, other in combinations(scores, 2)]
    n_pairs = sum(int((~np.isnan(difference)).sum()) for difference in differences)
    n_flipped = sum(int((np.nan_to_num(difference) != 0).sum()) for difference in differences)
    return n_flipped / n_pairs if n_pairs else None


# --- correction over several tests, and the size of an effect


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p of each test, at most 1, after the correction of Holm 1979."""
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(_ascending(p_values)):
        largest = max(largest, p_values[index] * (len(p_values) - place))
        corrected[index] = min(1.0, largest)
    return corrected


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Return the level that Holm's correction holds each p to: p is at most its level exactly where it is rejected."""
    levels = [0.0] * len(p_values)
    n_left, goes_on = len(p_values), True
    for index in _ascending(p_values):
        levels[index] = alpha / n_left
        goes_on = goes_on and p_values[index] <= levels[index]
        n_left -= goes_on
    return levels


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)


def standardised_difference(differences: Values) -> float | None:
    """Return Cohen's dz (Lakens 2013), the mean over the standard deviation; None without a spread."""
    if differences.size < 2 or np.ptp(differences) == 0:
        return None
    return float(differences.mean()) / float(differences.std(ddof=1))
