"""The evidence for each metric's change since the baseline: size, interval, p, coverage, and what could be detected.

The metrics of one benchmark and system are tested together, because they share questions and a correction for their
number. The defaults of `Rules` were chosen by simulation (`bench/verdicts.py`): less than one false alert a year over
30 comparisons a night if 2 % of the answers differ between two runs of an unchanged system.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.intervals import Interval, Values, mean, number_units
from rag_eval_pipeline.metrics.power import needed_units, smallest_detectable_drop
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
    paired_differences,
    paired_interval,
    run_noise,
    sign_flip_p_values,
    standardised_difference,
    unit_sums,
)

FAILURE_RATE = "Failure rate"

# Raised with every change of the rules by which verdicts are found; recorded with every night.
PROCEDURE = 2

TestedUnits = Literal["auto", "documents", "questions"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The parameters of the procedure; effects are shares of a metric's range.

    Args:
        alpha: Two-sided; half of it on each side, after Holm's correction over the metrics of one comparison.
        min_effect: Smaller changes of the mean are never reported.
        equivalence_margin: A metric is equivalent if its whole interval is inside this.
        min_coverage: Share of pairs that must be scored.
        min_questions: Fewer questions get no verdict.
        flips: Random sign assignments if they are too many to count; raised for many metrics.
        units: What is tested if questions share documents. `auto` tests questions with the design effect of the pinned
            runs, or documents if fewer than three runs are pinned.
    """

    alpha: float = 0.02
    min_effect: float = 0.01
    equivalence_margin: float = 0.02
    min_coverage: float = 0.98
    min_questions: int = 30
    flips: int = FLIPS
    units: TestedUnits = "auto"


RULES = Rules()


class ComparedMetric(NamedTuple):
    """One metric's current scores and those of the baseline runs, over the same questions in the same order.

    Args:
        name: As in results files.
        current: One score a question; None if it failed or the metric does not apply.
        baselines: The pinned runs.
        value_range: Largest minus smallest possible score.
        higher_is_better: False for failure rates, hallucination rates and the like.
        applies: False where the metric skips the question, which then lowers no coverage; None if it always applies.
    """

    name: str
    current: Sequence[float | None]
    baselines: Sequence[Sequence[float | None]]
    value_range: float = 1.0
    higher_is_better: bool = True
    applies: Sequence[bool] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one metric's change, in the metric's unit.

    Args:
        metric: Its name.
        higher_is_better: As in `ComparedMetric`.
        value_range: As in `ComparedMetric`.
        baseline_mean: Over the baseline runs and the pairs; None without pairs.
        current_mean: Over the pairs; None without pairs.
        estimate: Mean of current minus baseline over the pairs; None without pairs.
        adjusted_interval: What the test does not reject at the level that Holm's correction leaves; it excludes 0
            exactly where p_corrected is at most alpha / 2. None without pairs.
        confidence_interval: At 95 %, with pseudo-units; decides "equivalent". None without pairs.
        p_value: One-sided, in the direction of the estimate; None without pairs.
        p_corrected: After Holm; compared with alpha / 2.
        effect_size: Cohen's dz; None without a spread.
        n_pairs: Questions scored now and in every baseline run.
        n_units: Independent units among the pairs: documents, or the questions themselves.
        is_clustered: Whether the units are documents.
        coverage: n_pairs / questions that the metric applies to; None without such questions.
        smallest_drop: Smallest one-directional change that can be flagged, as a share of the range; None if none can.
        needed_units: How many units must change in one direction before any change can be flagged.
        is_exact: All sign assignments were counted; otherwise p is from drawn ones or from Student's t.
        is_short_of_runs: Documents are the units because fewer than three runs are pinned.
        design_effect: Of the noise that documents share, at least 1; None if it was not used.
        n_metrics: Number of metrics that p was corrected for.
    """

    metric: str
    higher_is_better: bool
    value_range: float
    baseline_mean: float | None
    current_mean: float | None
    estimate: float | None
    adjusted_interval: Interval | None
    confidence_interval: Interval | None
    p_value: float | None
    p_corrected: float | None
    effect_size: float | None
    n_pairs: int
    n_units: int
    is_clustered: bool
    coverage: float | None
    smallest_drop: float | None
    needed_units: int = 0
    is_exact: bool = False
    is_short_of_runs: bool = False
    design_effect: float | None = None
    n_metrics: int = 1


def failure_rate(current: Sequence[bool], baselines: Sequence[Sequence[bool]]) -> ComparedMetric:
    """Return the share of failed questions as a metric, which is never withheld: a failed question has a score here."""
    return ComparedMetric(
        FAILURE_RATE,
        [float(failed) for failed in current],
        [[float(failed) for failed in run] for run in baselines],
        higher_is_better=False,
    )


def compare(
    metrics: Sequence[ComparedMetric],
    *,
    seed: int,
    clusters: Sequence[str] | None = None,
    is_deterministic: bool = False,
    rules: Rules = RULES,
) -> dict[str, Evidence]:
    """Test the metrics of one benchmark and system together and return the evidence for each.

    Args:
        metrics: At least one, all over the same questions in the same order.
        seed: Of the sign assignments that are drawn; see `significance.comparison_seed`.
        clusters: One name (document) for each question; see `Rules.units`.
        is_deterministic: All runs are of systems without run-to-run noise.
        rules: Alpha, minimum effect, flips and units are used here.
    """
    if not metrics or len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError("expected one or more metrics, each name once")
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
                value_range=metric.value_range,
                noise=noise,
            )
            interval = paired_interval(pairs, clusters=column.clusters, value_range=metric.value_range, noise=noise)
        evidence[metric.name] = Evidence(
            metric=metric.name,
            higher_is_better=metric.higher_is_better,
            value_range=metric.value_range,
            baseline_mean=baseline,
            current_mean=current,
            estimate=estimate,
            adjusted_interval=adjusted,
            confidence_interval=interval,
            p_value=p_value,
            p_corrected=p_corrected,
            effect_size=standardised_difference(pairs),
            n_pairs=pairs.size,
            n_units=len(column.sizes),
            is_clustered=unit.startswith("documents"),
            coverage=pairs.size / column.n_asked if column.n_asked else None,
            smallest_drop=smallest_detectable_drop(
                column.sizes, n_metrics=n_metrics, alpha=rules.alpha, min_effect=rules.min_effect, noise=noise
            ),
            needed_units=needed_units(n_metrics, alpha=rules.alpha, noise=noise),
            is_exact=is_exact,
            is_short_of_runs=unit == "documents for now",
            design_effect=None if noise is None else noise.design_effect,
            n_metrics=n_metrics,
        )
    return evidence


_Unit = Literal["questions", "documents", "documents for now", "questions with shared noise"]


def _tested_unit(clusters: Sequence[str] | None, n_runs: int, rules: Rules, *, is_deterministic: bool) -> _Unit:
    if clusters is None or rules.units == "questions" or len(set(clusters)) == len(clusters):
        return "questions"
    if rules.units == "documents":
        return "documents"
    if is_deterministic:
        return "questions"
    return "questions with shared noise" if n_runs >= RUNS_FOR_NOISE else "documents for now"


@dataclass(frozen=True, slots=True)
class _Column:
    """One metric's differences and what they are tested with.

    Args:
        metric: The metric.
        n_asked: Questions that it applies to.
        differences: (questions,), NaN where there is no pair.
        clusters: One name for each pair if documents are tested.
        noise: Of the pinned runs if its design effect is used.
    """

    metric: ComparedMetric
    n_asked: int
    differences: Values
    clusters: Sequence[str] | None
    noise: Noise | None

    @property
    def is_pair(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.differences)

    @property
    def pairs(self) -> Values:
        return self.differences[self.is_pair]

    @property
    def sizes(self) -> list[int]:
        """Questions of each unit."""
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
