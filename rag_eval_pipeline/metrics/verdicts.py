"""The nightly verdict: did a metric get better or worse, is any change small, or is the evidence too weak to decide?

A change that is large and certain enough is flagged. It alerts only if a rerun hours later shows it again against the
same pinned baseline. The defaults of `Rules` were chosen by simulation (`bench/verdicts.py`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, compress
from typing import Literal, NamedTuple

import numpy as np
import pydantic
from numpy.typing import NDArray

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.metrics.intervals import Interval, Values, mean, number_units
from rag_eval_pipeline.metrics.significance import (
    FLIPS,
    RUNS_FOR_NOISE,
    Noise,
    adjusted_interval,
    design_effect_p,
    exact_sign_flip_p,
    holm,
    holm_levels,
    needed_flips,
    needed_units,
    paired_differences,
    paired_interval,
    run_noise,
    sign_flip_p_values,
    smallest_detectable_drop,
    standardised_difference,
    unit_sums,
)

FAILURE_RATE = "Failure rate"

# Raised with every change of the rules by which verdicts are found; recorded with every night.
PROCEDURE = 3

TestedUnits = Literal["auto", "documents", "questions"]
Confirmation = Literal["pending", "confirmed", "not_confirmed", "not_needed", "no_rerun", "provisional", "weekly"]
VerdictKind = Literal["withheld", "regressed", "improved", "equivalent", "inconclusive", "no_verdict"]
State = Literal["unflagged", "unconfirmed", "regressed", "improved", "unknown"]

BASELINE_RUNS = 5  # with one run, false alerts are ten times as many: its luck affects the night and the rerun alike
FLIP_SHARE_MAX = 0.10  # the error rates of the procedure were simulated up to here
WEEK_NIGHTS = 7
QUIET_NIGHTS = 3  # unflagged nights in a row after which the same change alerts again
ROUNDING = 1e-9  # a drop of exactly one point, averaged over fifths, comes out as 0.00999999999999999


@dataclass(frozen=True, slots=True)
class Rules:
    """The parameters of the procedure; effects are shares of a metric's range."""

    # Two-sided; half of it on each side, after Holm's correction over the metrics of one comparison.
    alpha: float = 0.02
    min_effect: float = 0.01  # smaller changes of the mean are never reported
    equivalence_margin: float = 0.02  # a metric is equivalent if its whole interval is inside this
    min_coverage: float = 0.98  # share of pairs that must be scored
    min_questions: int = 30  # fewer questions get no verdict
    flips: int = FLIPS  # random sign assignments if they are too many to count; raised for many metrics
    # What is tested if questions share documents. `auto` tests questions with the design effect of the pinned runs, or
    # documents if fewer than three runs are pinned.
    units: TestedUnits = "auto"


RULES = Rules()


class ComparedMetric(NamedTuple):
    """One metric's current scores and those of the baseline runs, over the same questions in the same order."""

    name: str
    current: Sequence[float | None]  # one score a question; None if it failed or the metric does not apply
    baselines: Sequence[Sequence[float | None]]  # the pinned runs
    higher_is_better: bool = True  # False for failure rates, hallucination rates and the like
    # False where the metric skips the question, which then lowers no coverage; None if it always applies.
    applies: Sequence[bool] | None = None


class Evidence(Model):
    """What is known of one metric's change, in the metric's unit; means and estimates are None without pairs."""

    metric: str
    higher_is_better: bool = True  # false for failure rates and the like
    baseline_mean: float | None = None  # over the baseline runs and the pairs
    current_mean: float | None = None  # over the pairs
    estimate: float | None = None  # mean of current minus baseline over the pairs
    # Of the estimate: what the test does not reject at the level that Holm's correction leaves; it excludes 0 exactly
    # where p_corrected is at most alpha / 2.
    adjusted_interval: Interval | None = None
    confidence_interval: Interval | None = None  # of the estimate at 95 %, with pseudo-units; decides "equivalent"
    p_value: float | None = pydantic.Field(None, ge=0, le=1)  # one-sided, in the direction of the estimate
    p_corrected: float | None = pydantic.Field(None, ge=0, le=1)  # after Holm over the metrics; compared with alpha / 2
    effect_size: float | None = None  # Cohen's dz; null without a spread
    n: int = pydantic.Field(ge=0)  # questions scored now and in every run that is compared with: the pairs
    n_units: int = pydantic.Field(ge=0)  # independent units among the pairs: documents, or the questions themselves
    is_clustered: bool = False  # the units are documents, or several that go together
    # Pairs among the questions that the metric applies to; null without such questions.
    coverage: float | None = pydantic.Field(None, ge=0, le=1)
    # Smallest one-directional change that can be flagged, as a share of the range; null if none can.
    smallest_drop: float | None = None
    # Units that must change in one direction before any change can be flagged.
    needed_units: int = pydantic.Field(0, ge=0)
    is_exact: bool = False  # all sign assignments were counted; otherwise p is from drawn ones or from Student's t
    is_short_of_runs: bool = False  # documents are the units because fewer than three runs are pinned
    # Of the noise that documents share; null if it was not used.
    design_effect: float | None = pydantic.Field(None, ge=1)
    n_metrics: int = pydantic.Field(1, ge=1)


def compare(
    metrics: Sequence[ComparedMetric],
    *,
    seed: int,
    clusters: Sequence[str] | None = None,
    is_deterministic: bool = False,
    rules: Rules = RULES,
) -> dict[str, Evidence]:
    """Test the metrics of one benchmark and system together, over the same questions in the same order.

    `clusters` has one name (document) for each question; see `Rules.units`. A deterministic system has no noise between
    runs.
    """
    unit = _tested_unit(clusters, len(metrics[0].baselines), rules, is_deterministic=is_deterministic)
    columns = [_column(metric, clusters, unit) for metric in metrics]
    flips = needed_flips(len(metrics), alpha=rules.alpha, least=rules.flips)
    p_values = _p_values(columns, clusters if unit.startswith("documents") else None, seed=seed, flips=flips)
    known = [p_value for p_value, _ in p_values if p_value is not None]
    corrected = iter(zip(holm(known), holm_levels(known, rules.alpha / 2), strict=True))
    n_metrics = max(1, len(known))
    evidence = {}
    for column, (p_value, is_exact) in zip(columns, p_values, strict=True):
        metric, pairs, noise = column.metric, column.pairs, column.noise
        estimate = baseline = current = p_corrected = adjusted = interval = None
        if p_value is not None:  # there are pairs
            p_corrected, level = next(corrected)
            estimate = mean(pairs)
            current = mean(np.array(metric.current, dtype=np.float64)[column.is_pair])
            baseline = current - estimate
            adjusted = adjusted_interval(
                pairs,
                level=level,
                is_rejected=p_corrected <= rules.alpha / 2,
                baseline_mean=baseline,
                clusters=column.clusters,
                noise=noise,
            )
            interval = paired_interval(pairs, clusters=column.clusters, noise=noise)
        evidence[metric.name] = Evidence(
            metric=metric.name,
            higher_is_better=metric.higher_is_better,
            baseline_mean=baseline,
            current_mean=current,
            estimate=estimate,
            adjusted_interval=adjusted,
            confidence_interval=interval,
            p_value=p_value,
            p_corrected=p_corrected,
            effect_size=standardised_difference(pairs),
            n=pairs.size,
            n_units=len(column.sizes),
            is_clustered=unit.startswith("documents"),
            coverage=pairs.size / column.n_asked if column.n_asked else None,
            smallest_drop=smallest_detectable_drop(
                column.sizes, n_metrics=n_metrics, alpha=rules.alpha, min_effect=rules.min_effect, noise=noise
            ),
            needed_units=needed_units(n_metrics, alpha=rules.alpha, noise=noise),
            is_exact=is_exact,
            is_short_of_runs=unit == "documents (too few runs)",
            design_effect=None if noise is None else noise.design_effect,
            n_metrics=n_metrics,
        )
    return evidence


_Unit = Literal["questions", "documents", "documents (too few runs)", "questions with shared noise"]


def _tested_unit(clusters: Sequence[str] | None, n_runs: int, rules: Rules, *, is_deterministic: bool) -> _Unit:
    if clusters is None or rules.units == "questions" or len(set(clusters)) == len(clusters):
        return "questions"
    if rules.units == "documents":
        return "documents"
    if is_deterministic:
        return "questions"
    return "questions with shared noise" if n_runs >= RUNS_FOR_NOISE else "documents (too few runs)"


@dataclass(frozen=True, slots=True)
class _Column:
    metric: ComparedMetric
    n_asked: int  # questions that it applies to
    differences: Values  # (questions,), NaN where there is no pair
    clusters: Sequence[str] | None  # one name for each pair if documents are tested
    noise: Noise | None  # of the pinned runs if its design effect is used

    @property
    def is_pair(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.differences)

    @property
    def pairs(self) -> Values:
        return self.differences[self.is_pair]

    @property
    def sizes(self) -> list[int]:  # questions of each unit
        return [1] * self.pairs.size if self.clusters is None else list(Counter(self.clusters).values())


def _column(metric: ComparedMetric, clusters: Sequence[str] | None, unit: _Unit) -> _Column:
    n_questions = len(metric.current)
    asked = np.full(n_questions, True) if metric.applies is None else np.array(metric.applies, dtype=bool)
    differences = np.where(asked, paired_differences(metric.current, metric.baselines), np.nan)
    is_pair = ~np.isnan(differences)
    names = None if clusters is None or unit == "questions" else list(compress(clusters, is_pair))
    noise = None
    if unit == "questions with shared noise" and is_pair.any():
        runs = np.array(metric.baselines, dtype=np.float64)[:, is_pair]
        noise = run_noise(runs, number_units(names, runs.shape[1]))
    return _Column(metric, int(asked.sum()), differences, names if unit.startswith("documents") else None, noise)


def _p_values(
    columns: Sequence[_Column], clusters: Sequence[str] | None, *, seed: int, flips: int
) -> list[tuple[float | None, bool]]:
    """Return the p of each metric and whether it is exact; signs are drawn only where they cannot be counted."""
    found: list[tuple[float | None, bool]] = []
    for column in columns:
        pairs, noise = column.pairs, column.noise
        if not pairs.size:
            found.append((None, False))
        elif noise is not None and noise.design_effect > 1:
            found.append((design_effect_p(pairs, noise), False))
        else:
            p_value = exact_sign_flip_p(unit_sums(pairs[:, np.newaxis], column.clusters)[:, 0])
            found.append((p_value, p_value is not None))
    uncounted = [n for n, (p_value, _) in enumerate(found) if p_value is None and columns[n].is_pair.any()]
    if uncounted:
        differences = np.column_stack([columns[n].differences for n in uncounted])
        drawn = sign_flip_p_values(differences, seed=seed, clusters=clusters, flips=flips)
        for n, p_value in zip(uncounted, drawn, strict=True):
            found[n] = (p_value, False)
    return found


def is_covered(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether enough of the questions are scored on both sides."""
    return evidence.coverage is not None and evidence.coverage >= rules.min_coverage


def is_large_enough(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether the change reaches the minimum effect."""
    if evidence.estimate is None:
        return False
    return abs(evidence.estimate) >= rules.min_effect - ROUNDING


def _improvement_excludes_zero(evidence: Evidence) -> bool:
    """Whether the interval of an improvement excludes 0; True for every change for the worse.

    Occasional dips of near-perfect scores bias the baseline low. A night without one then shows many small
    improvements, of which sign flips are certain because they assume symmetry.
    """
    if evidence.estimate is None or evidence.confidence_interval is None:
        return False
    is_better = (evidence.estimate > 0) == evidence.higher_is_better
    return not is_better or not evidence.confidence_interval.low <= 0 <= evidence.confidence_interval.high


def is_flagged(evidence: Evidence, rules: Rules = RULES) -> bool:
    """Whether a change is large and certain enough for a rerun."""
    return (
        is_covered(evidence, rules)
        and evidence.n >= rules.min_questions
        and evidence.p_corrected is not None
        and evidence.p_corrected <= rules.alpha / 2
        and is_large_enough(evidence, rules)
        and _improvement_excludes_zero(evidence)
    )


def confirm_flags(
    first: Mapping[str, Evidence], rerun: Mapping[str, Evidence], *, rules: Rules = RULES
) -> dict[str, Confirmation]:
    """Return `confirmed` or `not_confirmed` for each metric that was flagged at first; the baseline is the same."""
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
        and _improvement_excludes_zero(rerun)
    )


class Decision(NamedTuple):
    """One metric's verdict; `confirmation` is None if nothing was flagged."""

    kind: VerdictKind
    confirmation: Confirmation | None  # only `confirmed` and `not_needed` alert


def decide(evidence: Evidence, *, confirmation: Confirmation = "pending", rules: Rules = RULES) -> Decision:
    """Decide one metric, in the order withheld, no verdict, regressed or improved, equivalent, inconclusive.

    `confirmation` is what a rerun showed of a flagged change, or why there was none.
    """
    if evidence.coverage is not None and not is_covered(evidence, rules):
        return Decision("withheld", None)
    if evidence.estimate is None or evidence.confidence_interval is None or evidence.n < rules.min_questions:
        return Decision("no_verdict", None)
    if is_flagged(evidence, rules):
        if confirmation == "not_confirmed":
            return Decision("inconclusive", confirmation)
        is_better = (evidence.estimate > 0) == evidence.higher_is_better
        return Decision("improved" if is_better else "regressed", confirmation)
    margin = 100 * rules.equivalence_margin
    low, high = (100 * limit for limit in evidence.confidence_interval)
    return Decision("equivalent" if -margin < low and high < margin else "inconclusive", None)


def night_state(kind: VerdictKind, confirmation: Confirmation | None) -> State:
    """Return a night's state for alerting: `regressed` and `improved` need a rerun or a deterministic system."""
    if kind in ("withheld", "no_verdict"):
        return "unknown"
    if confirmation is None:
        return "unflagged"
    is_seen_again = confirmation in ("confirmed", "not_needed")
    return kind if is_seen_again and kind in ("regressed", "improved") else "unconfirmed"


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
        is_alert = state in ("regressed", "improved") and state != last
        if is_alert:
            last = state
        found.append(is_alert)
    return found


def first_confirmation(n_baseline_runs: int, *, is_deterministic: bool = False) -> Confirmation:
    """Return what a flag waits for: a deterministic system needs no rerun, and few pinned runs never alert."""
    if is_deterministic:
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


def weekly_scores(nights: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Return each question's mean over seven nights; None if any night has no score, so that all weigh the same."""
    means: list[float | None] = []
    for scores in zip(*nights, strict=True):
        known = [score for score in scores if score is not None]
        # Deviations from the first night are averaged, so that nights that agree have exactly their score as mean.
        deviations = sum(score - known[0] for score in known) if known else 0.0
        means.append(known[0] + deviations / len(scores) if len(known) == len(scores) else None)
    return means
