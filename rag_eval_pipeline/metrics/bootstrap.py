"""Bootstrap intervals of means, percentile and BCa, of questions or of the documents that they share.

Every random number comes from a seed that is an argument, so the same scores give the same interval.
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

from rag_eval_pipeline.metrics.clusters import Values, cluster_spread, count_units, number_units, sums_by_unit
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, Interval
from rag_eval_pipeline.metrics.resampling import distinct_rows, resampled_sums

RESAMPLES = 10_000
SEED = 42  # Evaluation Data Formats, evaluation_parameters.random_seed
SAME = 1e-12  # resampled means of the same questions in another order differ by this share of themselves at most

BootstrapKind = Literal["percentile", "bca"]


def bootstrap_interval(
    values: Sequence[float] | Values,
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    kind: BootstrapKind = "percentile",
    clusters: Sequence[str] | None = None,
) -> Interval | None:
    """An interval of the mean over resamples of the values.

    Args:
        values: One a question, finite.
        seed: Same values and seed, same interval.
        resamples: How many.
        confidence: Of the interval.
        kind: `percentile`, or `bca`: corrected for bias and skewness, which held the truth as often on scores
            of 30 questions and more (`bench/intervals.py`) and is there for who compares with other tools.
        clusters: A name a question where questions share a document: documents are drawn, and the mean of a draw is
            the sum of its scores over the number of its questions.

    Returns:
        None when fewer than two values, or two documents' means, differ: every resample is the same, and a width of
        zero would claim certainty.

    Source: Efron and Tibshirani 1993, 13.3 (percentile) and 14.3 (BCa); Davison and Hinkley 1997, 3.8 (clusters).
    """
    sample = np.asarray(values, dtype=np.float64)
    units = number_units(clusters, sample.size)
    n_units = count_units(units)
    if n_units == sample.size:
        if distinct_rows(sample[:, np.newaxis]).counts.size < 2:
            return None
        means = resampled_sums(sample[:, np.newaxis], seed=seed, resamples=resamples)[:, 0] / sample.size
    else:
        sums, sizes = sums_by_unit(sample, units), sums_by_unit(np.ones(sample.size), units)
        ratios = sums / sizes
        if np.ptp(ratios) <= SAME * np.abs(ratios).max():
            return None
        drawn = resampled_sums(np.column_stack((sums, sizes)), seed=seed, resamples=resamples)
        means = drawn[:, 0] / drawn[:, 1]
    if kind == "percentile":
        return percentile_interval(means, confidence)
    return bca_interval(means, float(sample.mean()), cluster_spread(sample, units), confidence)


def bootstrap_intervals(
    columns: Sequence[Values], *, seed: int = SEED, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> list[Interval | None]:
    """The percentile interval of each column's mean, as `bootstrap_interval` gives it, in less time.

    Columns of one length and many distinct values share their resamples, which they would see alone as well: twenty
    of them take the time of two.

    Args:
        columns: One a metric, each (questions,), finite; lengths may differ.
        seed: As in `bootstrap_interval`.
        resamples: As in `bootstrap_interval`.
        confidence: As in `bootstrap_interval`.

    Returns:
        One a column; None as in `bootstrap_interval`.
    """
    intervals: list[Interval | None] = [None] * len(columns)
    sharing: dict[int, list[int]] = {}
    for place, values in enumerate(columns):
        if distinct_rows(values[:, np.newaxis]).are_few:
            intervals[place] = bootstrap_interval(values, seed=seed, resamples=resamples, confidence=confidence)
        elif values.size and np.ptp(values) > 0:
            sharing.setdefault(values.size, []).append(place)
    for n_questions, places in sharing.items():
        table = np.column_stack([columns[place] for place in places])
        means = resampled_sums(table, seed=seed, resamples=resamples) / n_questions
        for place, own in zip(places, means.T, strict=True):
            intervals[place] = percentile_interval(own, confidence)
    return intervals


def percentile_interval(means: Values, confidence: float = CONFIDENCE) -> Interval:
    """The middle part of the resampled means.

    Source: Efron and Tibshirani 1993, 13.3.
    """
    tail = (1 - confidence) / 2
    return _quantiles(means, tail, 1 - tail)


def bca_interval(means: Values, estimate: float, influences: Values, confidence: float = CONFIDENCE) -> Interval:
    """Resampled means between the levels that bias and acceleration move the tails to.

    Args:
        means: Resampled.
        estimate: The mean itself.
        influences: What each independent unit adds to the mean's error; any multiple of it.
        confidence: Of the interval.

    Source: Efron and Tibshirani 1993, 14.10 and 14.15; a mean's jackknife acceleration in closed form, without leaving
    each question out in turn.
    """
    normal = NormalDist()
    skewed = acceleration(influences)
    is_same = np.abs(means - estimate) <= SAME * np.abs(means)
    below = float(((means < estimate) & ~is_same).sum()) + 0.5 * float(is_same.sum())
    # With every resample on one side the bias would be infinite; it is at most what the resamples can show.
    bias = normal.inv_cdf(min(max(below, 0.5), means.size - 0.5) / means.size)

    def level(tail: float) -> float:
        z = bias + normal.inv_cdf(tail)
        return normal.cdf(bias + z / (1 - skewed * z)) if skewed * z < 1 else 1.0

    tail = (1 - confidence) / 2
    return _quantiles(means, level(tail), level(1 - tail))


def acceleration(influences: Values) -> float:
    """Skewness of the influences over 6 sqrt(n): how fast the mean's standard error changes with the mean.

    Source: Efron and Tibshirani 1993, 14.15, which is this sum for a mean.
    """
    return float((influences**3).sum() / (6 * (influences**2).sum() ** 1.5))


def _quantiles(means: Values, low: float, high: float) -> Interval:
    lower, upper = np.quantile(means, (low, high))
    return Interval(float(lower), float(upper))
