"""Means over questions with an interval, counts and coverage.

A failure is never a score of 0: it is counted and lowers the coverage, and a missing value has a reason. Questions
that share a document fail together, so intervals count documents where there are fewer of them than questions. Every
random number comes from a seed, so the same scores give the same interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.distributions import log_factorials, student_quantile

CONFIDENCE = 0.95  # Evaluation Data Formats, statistical_analysis.confidence_level
UPPER = (1 + CONFIDENCE) / 2
Z = NormalDist().inv_cdf(UPPER)
RESAMPLES = 10_000
NO_VARIATION = "no interval: the scores are all alike"  # one of zero width would claim certainty
SEED = 42  # Evaluation Data Formats, evaluation_parameters.random_seed

# Resampled means of the same questions in another order differ by at most this share of themselves.
ROUNDING = 1e-12
# Drawing counts of distinct rows is faster than drawing rows as long as at most about one row in 40 is distinct.
ROWS_PER_DISTINCT_ROW = 40
DRAWS_AT_ONCE = 16_384  # their counts fit into a processor's cache

Values = NDArray[np.float64]
Units = NDArray[np.int64]
Clusters = Sequence[str] | Units  # names (documents), or their numbers


class Interval(NamedTuple):
    """Lower and upper limit, in the unit of the value."""

    low: float
    high: float


class Scores(NamedTuple):
    """The scores of one metric over the questions of a run."""

    # One score a question; None is a failure. Questions that the metric does not apply to are left out and counted in
    # `skipped`. An array has no failures.
    values: Sequence[float | None] | Values
    failed: int = 0  # failures that are not in `values`
    skipped: int = 0  # questions that were left out
    reason: str | None = None  # why there is no value, if there is none; otherwise `all_failed` or `nothing_to_score`
    clusters: Clusters | None = None  # one for each value


@dataclass(frozen=True, slots=True)
class Summary:
    """A mean or ratio with its interval and counts."""

    value: float | None  # None if nothing was scored
    confidence_interval: Interval | None  # at 95 %; None if there is no value, or if all resamples would be equal
    method: str | None  # how the interval was made, or why a value has none
    n_scored: int  # questions behind the value
    n_failed: int  # questions that should have a score but have none
    n_skipped: int  # questions that the metric does not apply to
    coverage: float | None  # n_scored / (n_scored + n_failed); None if both are 0
    reason: str | None  # why there is no value; None if there is one
    # Number of documents that the interval counts instead of questions; None if questions are counted.
    n_clusters: int | None = None


def summarise(
    values: Sequence[float | None] | Values,
    *,
    failed: int = 0,
    skipped: int = 0,
    reason: str | None = None,
    seed: int = SEED,
    clusters: Clusters | None = None,
) -> Summary:
    """Return the mean of one metric; the arguments are those of `Scores`."""
    return summarise_all({"": Scores(values, failed, skipped, reason, clusters)}, seed=seed)[""]


def summarise_all(metrics: Mapping[str, Scores], *, seed: int = SEED) -> dict[str, Summary]:
    """Return the mean of each metric with an interval: Wilson's if all scores are 0 or 1, else a bootstrap interval.

    Metrics over the same questions share their resamples.
    """
    columns = {name: _column(scores) for name, scores in metrics.items()}
    graded = [name for name, (values, _) in columns.items() if not np.isin(values, (0.0, 1.0)).all()]
    intervals = dict(zip(graded, bootstrap_intervals([columns[name] for name in graded], seed=seed), strict=True))
    summaries = {}
    for name, scores in metrics.items():
        values, clusters = columns[name]
        n_failed = scores.failed + len(scores.values) - values.size
        if values.size == 0:
            summaries[name] = make_summary(None, 0, n_failed, scores.skipped, reason=scores.reason)
            continue
        n_clusters = None if clusters is None else _n_distinct(clusters)
        if name in intervals:
            interval, method = intervals[name], f"bootstrap percentile, {RESAMPLES} resamples, seed {seed}"
            if clusters is not None:
                sizes = unit_sizes(number_units(clusters, values.size))
                over = f"{n_clusters} clusters worth {effective_clusters(sizes):.1f}"
                method = f"bootstrap percentile, {RESAMPLES} resamples of {over}, widened, seed {seed}"
            if interval is None:
                method = NO_VARIATION
        elif clusters is None:
            interval, method = wilson_interval(int(values.sum()), values.size), "wilson"
        else:
            interval, effective = clustered_wilson_interval(values, clusters)
            method = f"wilson, {n_clusters} clusters worth {effective:.1f} of {values.size}"
        summaries[name] = make_summary(
            mean(values), values.size, n_failed, scores.skipped,
            interval=interval, method=method, n_clusters=n_clusters,
        )  # fmt: skip
    return summaries


class Column(NamedTuple):
    """Finite scores of one metric, and one cluster name for each; None if no two scores share a cluster."""

    values: Values
    clusters: Clusters | None = None


def _column(scores: Scores) -> Column:
    clusters = scores.clusters
    if isinstance(scores.values, np.ndarray):
        values = scores.values
    else:
        values = np.array([value for value in scores.values if value is not None], dtype=np.float64)
        if clusters is not None:
            clusters = [name for name, value in zip(clusters, scores.values, strict=True) if value is not None]
    if clusters is None or _n_distinct(clusters) == len(clusters):
        return Column(values)
    return Column(values, clusters)


def _n_distinct(clusters: Clusters) -> int:
    return np.unique(clusters).size if isinstance(clusters, np.ndarray) else len(set(clusters))


def make_summary(
    value: float | None,
    scored: int,
    failed: int,
    skipped: int,
    *,
    interval: Interval | None = None,
    method: str | None = None,
    n_clusters: int | None = None,
    reason: str | None = None,
) -> Summary:
    """Return a summary with the coverage and the reason that follow from its counts."""
    return Summary(
        value=value,
        confidence_interval=interval,
        method=method,
        n_scored=scored,
        n_failed=failed,
        n_skipped=skipped,
        coverage=scored / (scored + failed) if scored + failed else None,
        reason=None if value is not None else reason or ("all_failed" if failed else "nothing_to_score"),
        n_clusters=None if interval is None else n_clusters,
    )


def mean(values: Sequence[float] | Values) -> float:
    """Return the arithmetic mean, added up in the order given: trec_eval's last bit depends on it.

    It is never outside the values: rounding must not make 0.2999999999999999 of ten times 0.3.
    """
    given = np.asarray(values, dtype=np.float64)
    # np.sum adds pairwise and Python's sum compensates from 3.12 on; a running sum does neither.
    return min(max(float(np.cumsum(given)[-1]) / len(given), float(given.min())), float(given.max()))


def number_units(clusters: Clusters | None, n_questions: int) -> Units:
    """Number the unit of each question, its cluster or itself, from 0 in order of first appearance."""
    if clusters is None:
        return np.arange(n_questions, dtype=np.int64)
    if isinstance(clusters, np.ndarray):
        _, first, units = np.unique(clusters, return_index=True, return_inverse=True)
        return first.argsort().argsort()[units]
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in clusters], dtype=np.int64)


def sums_by_unit(values: Values, units: Units) -> Values:
    """Return the sum of each unit's values: (units,)."""
    sums: Values = np.bincount(units, values).astype(np.float64)
    return sums


def unit_sizes(units: Units) -> Values:
    """Return the number of questions of each unit: (units,)."""
    return np.bincount(units).astype(np.float64)


def effective_clusters(sizes: Values) -> float:
    """Return how many clusters of equal size carry as much information as clusters of these sizes.

    Source: Kish 1965, 11.7, the effect of unequal weights.
    """
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def wilson_interval(successes: int, trials: int) -> Interval:
    """Return Wilson's score interval of a proportion, in [0, 1] and never of zero width.

    Source: Wilson 1927; Newcombe 1998, method 3.
    """
    return score_interval(successes / trials, trials)


def clustered_wilson_interval(values: Values, clusters: Clusters) -> tuple[Interval, float]:
    """Return Wilson's interval of a share of 0s and 1s over shared documents, and the effective number of questions.

    n questions count as n / design effect, with Student's t because documents may be few. If all questions agree, the
    design effect is unknown and documents are counted.

    Source: Franco, Little, Louis and Slud 2019 for Wilson's form with the effective number; Kish 1965 for the design
    effect; Korn and Graubard 1998 for t.
    """
    units = number_units(clusters, len(values))
    sizes = unit_sizes(units)
    n_questions, n_units = len(values), sizes.size
    share = float(values.mean())
    if share in (0.0, 1.0) or n_units == 1:
        effective = float(n_units)
    else:
        # The linearised ratio of sums, Cochran 1977, 6.
        spread = sums_by_unit(values - values.mean(), units)
        # One large document beside many small ones is worth two documents, not all of them.
        worth = max(2.0, effective_clusters(sizes))
        variance = worth / (worth - 1) * float(spread @ spread) / n_questions**2
        few = (Z / student_quantile(worth - 1, UPPER)) ** 2
        # Documents that are more alike than chance would make it larger than n: that is chance, not information.
        wide = share * (1 - share) / variance if variance else math.inf
        effective = max(1.0, min(wide * few, n_questions))
    return score_interval(share, effective), effective


def score_interval(share: float, trials: float) -> Interval:
    """Return Wilson's score interval of a share of so many trials, which need not be a whole number."""
    centre = (share + Z * Z / (2 * trials)) / (1 + Z * Z / trials)
    half = Z / (1 + Z * Z / trials) * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    # At 0 and 1 the formula gives the limit exactly, but floating-point arithmetic only nearly.
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return Interval(0.0 if share == 0 else low, 1.0 if share == 1 else high)


def effective_number(share: float, interval: tuple[float, float]) -> float:
    """Return the number of trials of which a share has this interval of Wilson's."""
    low, high = interval
    # Both limits solve t^2 (1 + w) - t (2 share + w) + share^2 = 0 with w = z^2 / n.
    widened = (share**2 + (1 - share) ** 2) / (low * high + (1 - low) * (1 - high))
    return Z * Z / (widened - 1)


def quantile_interval(values: Values, quantile: float) -> Interval | None:
    """Return a distribution-free interval of a quantile (such as 0.95) whose limits are two of the values.

    It holds the quantile in at least 95 % of samples. None for too few values: at 95 % confidence fewer than
    6 for the median, 72 for 0.95, 368 for 0.99.

    Source: David and Nagaraja 2003, Order Statistics, 7.1; Hahn and Meeker 1991, 5.2.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n, k, logs = ordered.size, np.arange(ordered.size), log_factorials(ordered.size)
    chances = logs[n] - logs[k] - logs[n - k] + k * math.log(quantile) + (n - k) * math.log1p(-quantile)
    below = np.cumsum(np.exp(chances))  # P(at most k values are below the quantile)
    tail = (1 - CONFIDENCE) / 2
    low = int(np.searchsorted(below, tail, side="right")) - 1
    high = int(np.searchsorted(below, 1 - tail, side="left"))
    return Interval(float(ordered[low]), float(ordered[high])) if low >= 0 and high < ordered.size else None


def bootstrap_intervals(
    columns: Sequence[Column], *, seed: int = SEED, resamples: int = RESAMPLES
) -> list[Interval | None]:
    """Return the percentile interval of each column's mean over resampled questions, or over documents if shared.

    Percentiles of few documents are too narrow, so these are widened. An interval of zero width would claim certainty
    and is None.

    Source: Efron and Tibshirani 1993, 13.3 (percentiles); Davison and Hinkley 1997, 3.8 (clusters).
    """
    intervals: list[Interval | None] = [None] * len(columns)
    tables = [_by_unit(column) for column in columns]
    # Columns over the same units are drawn together; each sees the resamples that it would see alone.
    together: dict[object, list[int]] = {}
    for place, table in enumerate(tables):
        if not _is_constant(table):
            is_clustered = table.shape[1] == 2
            over: object = _as_key(columns[place].clusters) if is_clustered else len(table)
            together.setdefault(over if _few_distinct_rows(table) is None else ("alone", place), []).append(place)
    for places in together.values():
        sums, sizes = [tables[place][:, 0] for place in places], tables[places[0]][:, 1:]
        drawn = resample_sums(np.column_stack([*sums, sizes]), seed=seed, resamples=resamples)
        n_questions = drawn[:, -1] if sizes.size else len(sums[0])
        for place, resampled in zip(places, drawn.T, strict=False):
            low, high = np.quantile(resampled / n_questions, ((1 - CONFIDENCE) / 2, 1 - (1 - CONFIDENCE) / 2))
            interval = Interval(float(low), float(high))
            if sizes.size:
                interval = _widen(interval, columns[place].values, sizes[:, 0])
            intervals[place] = interval
    return intervals


def _as_key(clusters: Clusters | None) -> object:
    return clusters.tobytes() if isinstance(clusters, np.ndarray) else tuple(clusters or ())


def _by_unit(column: Column) -> Values:
    values, clusters = column
    units = number_units(clusters, values.size)
    sizes = unit_sizes(units)
    if sizes.size == values.size:
        return values[:, np.newaxis]
    return np.column_stack((sums_by_unit(values, units), sizes))


def _is_constant(table: Values) -> bool:
    if not table.size:
        return True
    if table.shape[1] == 1:
        return float(np.ptp(table)) == 0
    means = table[:, 0] / table[:, 1]
    return bool(np.ptp(means) <= ROUNDING * np.abs(means).max())


def _widen(interval: Interval, values: Values, sizes: Values) -> Interval:
    """Widen an interval about its mean by Student's t over the normal quantile and by the divisor n - 1.

    The result stays within [0, 1] if all scores do.

    Source: Hesterberg 2015, What Teachers Should Know About the Bootstrap, 4.3.
    """
    clusters = max(2.0, effective_clusters(sizes))  # t with one degree of freedom is the most that can be asked for
    width = student_quantile(clusters - 1, UPPER) / Z * math.sqrt(clusters / (clusters - 1))
    mean = float(values.mean())
    low, high = mean - (mean - interval.low) * width, mean + (interval.high - mean) * width
    is_share = values.min() >= 0 and values.max() <= 1
    return Interval(max(0.0, low), min(1.0, high)) if is_share else Interval(low, high)


def resample_sums(table: Values, *, seed: int, resamples: int) -> Values:
    """Return column sums of as many rows as the table has, drawn with replacement, in bounded memory.

    How to draw fastest depends on the table alone, so the same table and seed give the same sums, on any number of
    processor cores.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, 6.
    """
    rng = np.random.default_rng(seed)
    n_rows, n_columns = table.shape
    sums = np.empty((resamples, n_columns))
    if (few := _few_distinct_rows(table)) is not None:
        rows, frequencies = few
        columns = np.ascontiguousarray(rows.T)
        for part in _parts(resamples, len(rows)):
            counts = rng.multinomial(n_rows, frequencies / n_rows, size=part.stop - part.start)
            sums[part] = _weighted_sums(counts, columns)
        return sums
    columns = np.ascontiguousarray(table.T)
    # Several resamples are counted at once, each in a range of its own.
    offsets = np.arange(0, max(n_rows, DRAWS_AT_ONCE), n_rows, dtype=np.int32)[:, np.newaxis]
    for part in _parts(resamples, n_rows):
        drawn = rng.integers(0, n_rows, (part.stop - part.start, n_rows), dtype=np.int32)
        if n_columns == 1:
            sums[part, 0] = [table[one, 0].sum() for one in drawn]
        else:
            counts = np.bincount((drawn + offsets[: len(drawn)]).ravel(), minlength=drawn.size)
            sums[part] = _weighted_sums(counts.reshape(drawn.shape), columns)
    return sums


def _weighted_sums(counts: Units, columns: Values) -> Values:
    """Return `counts @ columns.T`; a BLAS would keep memory for each of its threads, and round by their number."""
    sums: Values = np.einsum("ij,kj->ik", counts.astype(np.float64), columns)
    return sums


def _few_distinct_rows(table: Values) -> tuple[Values, NDArray[np.intp]] | None:
    if table.shape[1] == 1:  # numpy sorts whole rows ten times slower than numbers
        values, counts = np.unique(table[:, 0], return_counts=True)
        rows = values[:, np.newaxis]
    else:
        rows, counts = np.unique(table, axis=0, return_counts=True)
    return (rows, counts) if len(rows) * ROWS_PER_DISTINCT_ROW < len(table) else None


def _parts(resamples: int, width: int) -> list[slice]:
    step = max(1, DRAWS_AT_ONCE // width)
    return [slice(start, min(start + step, resamples)) for start in range(0, resamples, step)]
