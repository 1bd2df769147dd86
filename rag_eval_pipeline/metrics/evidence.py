"""What is known of each metric's change since the baseline: size, interval, p, coverage, and what could be shown.

The metrics of one benchmark and system are compared together, because they share questions and a correction for their
number. The numbers in `Rules` were chosen by simulation, and its false-alarm rates hold for them only: less than one
false alert a year over 30 comparisons a night when 2 % of the answers differ between two runs of an unchanged system.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.clusters import number_units
from rag_eval_pipeline.metrics.corrections import holm, holm_levels
from rag_eval_pipeline.metrics.effects import standardised_difference
from rag_eval_pipeline.metrics.exact_permutation import exact_sign_flip_p
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.paired_intervals import adjusted_interval, paired_interval
from rag_eval_pipeline.metrics.power import needed_units, smallest_detectable_drop
from rag_eval_pipeline.metrics.significance import (
    FLIPS,
    RUNS_FOR_NOISE,
    Differences,
    Noise,
    design_effect_p,
    needed_flips,
    paired_differences,
    run_noise,
    sign_flip_p_values,
    unit_sums,
)
from rag_eval_pipeline.metrics.statistics import mean

FAILURE_RATE = "Failure rate"

Units = Literal["auto", "documents", "questions"]

# Raised with every change of the rules by which a verdict is found; it stands with every night.
PROCEDURE = 2


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of the procedure; shares of a metric's range where they are effects.

    Args:
        alpha: Two-sided; half of it on each side, after Holm over the metrics of one comparison.
        min_effect: The smallest change of the mean that is worth a word.
        equivalence_margin: A change is called small when its whole interval is inside this.
        min_coverage: Share of pairs that must be scored.
        min_questions: Fewer questions get no verdict, however many documents they share.
        flips: Sign assignments where they are too many to be counted; raised when many metrics are compared.
        units: What is tested where questions share documents. `auto`: questions, with the design effect of the pinned
            runs, and documents where fewer than three runs are pinned; the others: always the same.
    """

    alpha: float = 0.02
    min_effect: float = 0.01
    equivalence_margin: float = 0.02
    min_coverage: float = 0.98
    min_questions: int = 30
    flips: int = FLIPS
    units: Units = "auto"


RULES = Rules()


class ComparedMetric(NamedTuple):
    """One metric's scores tonight and in the baseline, question by question.

    Args:
        name: As it stands in the sentence.
        tonight: One score a question; None where it failed or the metric does not apply. Of a week, see
            `baselines.weekly_scores`.
        baselines: The pinned runs, five of them unless the system is deterministic; same questions, same order.
        value_range: Largest minus smallest possible score.
        higher_is_better: False for failure rates, hallucination rates and the like.
        applies: False where the metric skips the question (retrieval of an impossible one), which then lowers no
            coverage; None when it applies to all.
    """

    name: str
    tonight: Sequence[float | None]
    baselines: Sequence[Sequence[float | None]]
    value_range: float = 1.0
    higher_is_better: bool = True
    applies: Sequence[bool] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one metric's change.

    Args:
        metric: Its name.
        higher_is_better: As given.
        value_range: As given; effects are shares of it.
        baseline_mean: Mean over the baseline runs and the pairs; None without pairs.
        current_mean: Tonight's mean over the pairs; None without pairs.
        estimate: Mean of tonight minus baseline over the pairs, in the metric's unit; None without pairs.
        adjusted_interval: What the test does not reject at the level that Holm's correction leaves, in the
            metric's unit: it leaves 0 out exactly where p_corrected is at most alpha / 2. None without pairs.
        confidence_interval: 95 %, with pseudo-units, in the metric's unit; what "equivalent" rests on. None without
            pairs.
        p_value: One-sided, in the direction of the estimate; None without pairs.
        p_corrected: The same after Holm; compared with alpha / 2.
        effect_size: The estimate over the standard deviation of the differences (Cohen's dz); None without a spread.
        n_pairs: Questions scored tonight and in every baseline run.
        n_units: Independent units among them: clusters, or the questions themselves.
        is_clustered: Whether the units are clusters.
        is_short_of_runs: The units are clusters because fewer than three runs are pinned.
        design_effect: Of the noise that the pinned runs share within documents, at least 1; None where it was not asked
            for, or cannot be known.
        n_metrics: That p was corrected for.
        coverage: n_pairs / questions that the metric applies to; None without such questions.
        smallest_drop: The smallest one-directional change that can be flagged, as a share of the range; of whole
            clusters where these are the units. None when none can.
        needed_units: How many units must change one way before any change can be flagged.
        is_exact: All sign assignments were counted; otherwise p is of those that were drawn, or of Student's t.
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


def failure_rate(tonight: Sequence[bool], baselines: Sequence[Sequence[bool]]) -> ComparedMetric:
    """The share of questions that failed, as a metric of its own: it may regress, and is never withheld.

    What withholds the other verdicts is what it shows, and a question without an answer has a score here.

    Args:
        tonight: Whether each question failed.
        baselines: The same in the pinned runs.
    """
    return ComparedMetric(
        FAILURE_RATE,
        [float(failed) for failed in tonight],
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
    """The evidence for each metric of one benchmark and system, tested together.

    Args:
        metrics: All over the same questions in the same order; one or more.
        seed: Of the sign assignments that are drawn; see `significance.comparison_seed`.
        clusters: A name a question (its document) where questions share one; see `Rules.units`.
        is_deterministic: All runs are of systems that answer the same every time: there is no noise to be shared.
        rules: Alpha, minimum effect and units are used here.

    Raises:
        ValueError: No metrics, a name twice, or sequences of different lengths.
    """
    if not metrics or len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError("expected one or more metrics, each name once")
    n_runs = len(metrics[0].baselines)
    unit = _unit(clusters, n_runs, rules, is_deterministic=is_deterministic)
    columns = [_column(metric, clusters, unit) for metric in metrics]
    flips = needed_flips(len(metrics), alpha=rules.alpha, least=rules.flips)
    p_values = _p_values(columns, None if unit.startswith("questions") else clusters, seed=seed, flips=flips)
    known = [p_value for p_value, _ in p_values if p_value is not None]
    corrected = iter(zip(holm(known), holm_levels(known, rules.alpha / 2), strict=True))
    n_metrics = max(1, len(known))
    evidence = {}
    for column, (p_value, is_exact) in zip(columns, p_values, strict=True):
        metric, pairs = column.metric, column.pairs
        p_corrected, level = next(corrected) if p_value is not None else (None, None)
        estimate = mean(pairs) if pairs.size else None
        current = mean(np.array(metric.tonight, dtype=np.float64)[column.is_pair]) if pairs.size else None
        baseline = None if current is None or estimate is None else current - estimate
        adjusted = interval = None
        if p_corrected is not None and level is not None and baseline is not None:
            adjusted = adjusted_interval(
                pairs,
                level=level,
                is_rejected=p_corrected <= rules.alpha / 2,
                baseline_mean=baseline,
                clusters=column.clusters,
                value_range=metric.value_range,
                noise=column.noise,
            )
            interval = paired_interval(
                pairs, clusters=column.clusters, value_range=metric.value_range, noise=column.noise
            )
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
                column.sizes,
                n_metrics=n_metrics,
                alpha=rules.alpha,
                min_effect=rules.min_effect,
                noise=column.noise,
            ),
            needed_units=needed_units(n_metrics, alpha=rules.alpha, noise=column.noise),
            is_exact=is_exact,
            is_short_of_runs=unit == "documents for now",
            design_effect=None if column.noise is None else column.noise.design_effect,
            n_metrics=n_metrics,
        )
    return evidence


_Unit = Literal["questions", "documents", "documents for now", "questions with shared noise"]


def _unit(clusters: Sequence[str] | None, n_runs: int, rules: Rules, *, is_deterministic: bool) -> _Unit:
    """What is tested; see `Rules.units`."""
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
        metric: Which.
        n_asked: Questions that the metric applies to.
        differences: (questions,), NaN where there is no pair.
        clusters: A name a pair where documents are tested.
        noise: Of the pinned runs, where its design effect was asked for.
    """

    metric: ComparedMetric
    n_asked: int
    differences: Differences
    clusters: Sequence[str] | None
    noise: Noise | None

    @property
    def is_pair(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.differences)

    @property
    def pairs(self) -> Differences:
        return self.differences[self.is_pair]

    @property
    def sizes(self) -> list[int]:
        """Questions of each unit."""
        return [1] * self.pairs.size if self.clusters is None else list(Counter(self.clusters).values())


def _column(metric: ComparedMetric, clusters: Sequence[str] | None, unit: _Unit) -> _Column:
    n_questions = len(metric.tonight)
    asked = np.full(n_questions, True) if metric.applies is None else np.array(metric.applies, dtype=bool)
    differences = np.where(asked, paired_differences(metric.tonight, metric.baselines), np.nan)
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
    """The p of each metric, and whether all sign assignments were counted for it; only where not, they are drawn."""
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
