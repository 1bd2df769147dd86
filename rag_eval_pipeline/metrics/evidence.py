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

from rag_eval_pipeline.metrics.corrections import holm
from rag_eval_pipeline.metrics.effects import standardised_difference
from rag_eval_pipeline.metrics.exact_permutation import exact_sign_flip_p
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.paired_intervals import paired_interval
from rag_eval_pipeline.metrics.power import needed_units, smallest_detectable_drop
from rag_eval_pipeline.metrics.significance import (
    FLIPS,
    Differences,
    needed_flips,
    paired_differences,
    sign_flip_p_values,
    unit_sums,
)
from rag_eval_pipeline.metrics.statistics import mean

FAILURE_RATE = "Failure rate"


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of the procedure; shares of a metric's range where they are effects.

    Args:
        alpha: Two-sided; half of it on each side, after Holm over the metrics of one comparison.
        min_effect: The smallest change of the mean that is worth a word.
        equivalence_margin: A change is called small when its whole interval is inside this.
        min_coverage: Share of pairs that must be scored.
        min_questions: Fewer questions get no verdict, however many documents they share.
        flips: Sign assignments; raised when many metrics are compared.
        permutations: `drawn` at random, as the error rates were simulated; `exact` counts all sign assignments where
            they can be counted, for two runs that people compare.
    """

    alpha: float = 0.02
    min_effect: float = 0.01
    equivalence_margin: float = 0.02
    min_coverage: float = 0.98
    min_questions: int = 30
    flips: int = FLIPS
    permutations: Literal["drawn", "exact"] = "drawn"


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
        confidence_interval: 95 %, in the metric's unit; None without pairs.
        p_value: One-sided, in the direction of the estimate; None without pairs.
        p_corrected: The same after Holm; compared with alpha / 2.
        effect_size: The estimate over the standard deviation of the differences (Cohen's dz); None without a spread.
        n_pairs: Questions scored tonight and in every baseline run.
        n_units: Independent units among them: clusters, or the questions themselves.
        is_clustered: Whether the units are clusters.
        coverage: n_pairs / questions that the metric applies to; None without such questions.
        smallest_drop: The smallest one-directional change that can be flagged, as a share of the range; of whole
            clusters where these are the units. None when none can.
        needed_units: How many units must change one way before any change can be flagged.
        is_exact: All sign assignments were counted; otherwise p is of those that were drawn.
    """

    metric: str
    higher_is_better: bool
    value_range: float
    baseline_mean: float | None
    current_mean: float | None
    estimate: float | None
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
    metrics: Sequence[ComparedMetric], *, seed: int, clusters: Sequence[str] | None = None, rules: Rules = RULES
) -> dict[str, Evidence]:
    """The evidence for each metric of one benchmark and system, tested together.

    Args:
        metrics: All over the same questions in the same order; one or more.
        seed: See `significance.comparison_seed`.
        clusters: A name a question (its document) where questions share one; the test and interval are then by cluster.
        rules: Alpha, minimum effect and how permutations are made are used here.

    Raises:
        ValueError: No metrics, a name twice, or sequences of different lengths.
    """
    if not metrics or len({metric.name for metric in metrics}) < len(metrics):
        raise ValueError("expected one or more metrics, each name once")
    columns = [paired_differences(metric.tonight, metric.baselines) for metric in metrics]
    asked = [
        np.full(len(metric.tonight), True) if metric.applies is None else np.array(metric.applies, dtype=bool)
        for metric in metrics
    ]
    columns = [np.where(is_asked, column, np.nan) for is_asked, column in zip(asked, columns, strict=True)]
    if clusters is not None and len(set(clusters)) == len(clusters):
        clusters = None  # every question has a document of its own
    counted = _counted(columns, clusters) if rules.permutations == "exact" else [None] * len(columns)
    flips = needed_flips(len(metrics), alpha=rules.alpha, least=rules.flips)
    drawn = sign_flip_p_values(np.column_stack(columns), seed=seed, clusters=clusters, flips=flips)
    p_values = [one if exact is None else exact for one, exact in zip(drawn, counted, strict=True)]
    known = [p_value for p_value in p_values if p_value is not None]
    n_metrics = max(1, len(known))
    corrected = iter(holm(known))
    evidence = {}
    for metric, column, is_asked, p_value, exact in zip(metrics, columns, asked, p_values, counted, strict=True):
        is_pair = ~np.isnan(column)
        pairs = column[is_pair]
        names = None if clusters is None else list(compress(clusters, is_pair))
        sizes = [1] * pairs.size if names is None else list(Counter(names).values())
        interval = paired_interval(pairs, clusters=names, value_range=metric.value_range)
        current = mean(np.array(metric.tonight, dtype=np.float64)[is_pair]) if pairs.size else None
        estimate = mean(pairs) if pairs.size else None
        evidence[metric.name] = Evidence(
            metric=metric.name,
            higher_is_better=metric.higher_is_better,
            value_range=metric.value_range,
            baseline_mean=None if current is None or estimate is None else current - estimate,
            current_mean=current,
            estimate=estimate,
            confidence_interval=interval if pairs.size else None,
            p_value=p_value,
            p_corrected=None if p_value is None else next(corrected),
            effect_size=standardised_difference(pairs),
            n_pairs=pairs.size,
            n_units=len(sizes),
            is_clustered=clusters is not None,
            coverage=pairs.size / int(is_asked.sum()) if is_asked.any() else None,
            smallest_drop=smallest_detectable_drop(
                sizes, n_metrics=n_metrics, alpha=rules.alpha, min_effect=rules.min_effect
            ),
            needed_units=needed_units(n_metrics, alpha=rules.alpha),
            is_exact=exact is not None,
        )
    return evidence


def _counted(columns: Sequence[Differences], clusters: Sequence[str] | None) -> list[float | None]:
    """The exact p of each metric; None where assignments are too many to be counted, or there are no pairs."""
    found = []
    for column in columns:
        sums = unit_sums(np.nan_to_num(column)[:, np.newaxis], clusters)[:, 0]
        found.append(None if np.isnan(column).all() else exact_sign_flip_p(sums))
    return found
