"""Paired tests of a run against a baseline, question by question, with their intervals and what they can detect.

The test flips the signs of the paired differences: if nothing changed, each difference might as well have the other
sign. It serves binary and graded metrics alike and assumes no distribution. If the pinned runs show that questions of
one document err together, a t statistic with a design effect takes its place.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri, stdtr, stdtrit

from rag_eval_pipeline.metrics.intervals import (
    CONFIDENCE,
    Interval,
    Units,
    Values,
    effective_clusters,
    number_units,
    sums_by_unit,
    unit_sizes,
)

FLIPS = 19_999
RESOLUTION = 10  # how many times finer than the limit the smallest p must be, after correction
SIGNS_AT_ONCE = 4_000_000  # 32 MB as doubles

# Sums of the same differences in another order differ in their last bits only, and must still count as ties.
RELATIVE_TIE = 1e-9
HALVED_UNITS_MAX = 32  # two lists of 2^16 sums: 10 ms; each two more units double that
CONVOLUTION_COST_MAX = 20_000_000  # additions: 20 ms; 4,000 right or wrong answers that moved
SMALLEST_STEP = 1e-6  # of the largest difference; a smaller common step is an accident of rounding

RUNS_FOR_NOISE = 3  # with fewer pinned runs too little is known of the noise that documents share
FEW_DOCUMENTS = 8  # with fewer, the upper limit of the design effect is used
UPPER_LIMIT = 0.80  # one-sided confidence of that limit

NORMAL_POWER = 0.8416  # the normal quantile of a power of 80 %
ZERO_LIMIT = 1e-12  # replaces a limit of exactly 0 that rounding would reach


class Noise(NamedTuple):
    """How much the scores of an unchanged system differ between runs, and how far documents share that."""

    # Factor on the variance of a run's sum because questions of one document err together; at least 1.
    design_effect: float
    squares: float  # expected sum of squared paired differences of an unchanged system
    degrees_of_freedom: float  # of the design effect: (runs - 1) x documents

    def extra_squares(self, squares: float) -> float:
        """Return what the design effect adds to a sum of squared differences, of which only noise is multiplied."""
        return (self.design_effect - 1) * min(self.squares, squares)


def paired_differences(current: Sequence[float | None], baselines: Sequence[Sequence[float | None]]) -> Values:
    """Return the current score minus the mean of the baseline runs for each question; NaN where any run has none."""
    scores = np.array(current, dtype=np.float64)  # None becomes NaN
    total = np.zeros(scores.size)
    for run in baselines:
        # Differences are averaged instead of scores: the mean of six times 0.7 is not 0.7.
        total += scores - np.array(run, dtype=np.float64)
    return total / len(baselines)


def unit_sums(differences: Values, clusters: Sequence[str] | None) -> Values:
    """Return (units, metrics) sums of (questions, metrics) differences; a unit is a cluster or the question itself."""
    units = number_units(clusters, len(differences))
    return np.column_stack([sums_by_unit(column, units) for column in differences.T])


def sign_flip_p_values(
    differences: Values, *, seed: int, clusters: Sequence[str] | None = None, flips: int = FLIPS
) -> list[float]:
    """Return the one-sided p of each metric's mean difference in its own direction, from randomly drawn signs.

    `differences` are (questions, metrics), NaN where a question has no pair; one sign matrix serves all metrics, and
    questions of one cluster get one sign. The p is (1 + assignments at least as extreme) / (flips + 1), to be compared
    with alpha / 2.

    Source: Phipson and Smyth 2010 for the estimate of p; exact McNemar's test if the metric is binary.
    """
    sums = unit_sums(np.nan_to_num(differences), clusters)
    sums = sums[(sums != 0).any(axis=1)]
    observed = sums.sum(axis=0)
    direction = np.where(observed < 0, -1.0, 1.0)
    reach = np.abs(observed) - RELATIVE_TIE * np.abs(sums).sum(axis=0)
    extreme = np.zeros(differences.shape[1], dtype=np.int64)
    rng = np.random.default_rng(seed)
    n_units = len(sums)
    row_bytes = (n_units + 7) // 8
    step = max(1, SIGNS_AT_ONCE // max(1, n_units))
    for start in range(0, flips, step):
        rows = min(step, flips - start)
        random_bytes = np.frombuffer(rng.bytes(rows * row_bytes), dtype=np.uint8).reshape(rows, row_bytes)
        positive = np.unpackbits(random_bytes, axis=1, count=n_units).astype(np.float64)
        flipped = 2 * (positive @ sums) - observed
        extreme += (flipped * direction >= reach).sum(axis=0)
    return [(1 + count) / (flips + 1) for count in extreme.tolist()]


def needed_flips(n_metrics: int, *, alpha: float, least: int = FLIPS) -> int:
    """Return how many signs to draw so that the smallest p after correction is a tenth of the limit."""
    return max(least, math.ceil(RESOLUTION * n_metrics / (alpha / 2)) - 1)


def comparison_seed(comparison_key: str, run_ids: Iterable[str]) -> int:
    """Return a seed by which the same comparison gives the same p."""
    text = "\n".join((comparison_key, *run_ids))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def exact_sign_flip_p(differences: Values) -> float | None:
    """Return the share of all sign assignments whose sum is at least as far in the direction of the observed one.

    Multiples of one step are counted by convolution, up to 32 differences of any size in two halves. None if there are
    too many to count.

    Source: Fisher 1935, The Design of Experiments, 21; exact McNemar's test on binary scores.
    """
    sizes = np.abs(differences[differences != 0])
    if sizes.size == 0:
        return 1.0
    multiples = _whole_multiples(sizes)
    if multiples is not None and int(multiples.sum()) * sizes.size <= CONVOLUTION_COST_MAX:
        signed = np.sign(differences[differences != 0]).astype(np.int64)
        return _count_by_convolution(multiples, abs(int(signed @ multiples)))
    if sizes.size <= HALVED_UNITS_MAX:
        return _count_by_halves(sizes, abs(float(differences.sum())))
    return None


def _whole_multiples(sizes: Values) -> NDArray[np.int64] | None:
    """Return positive sizes as multiples of their largest common step; None if they have none."""
    largest = float(sizes.max())
    step = 0.0
    for size in np.unique(sizes).tolist():
        step, rest = size, step
        while rest > RELATIVE_TIE * largest:  # Euclid's algorithm; a smaller rest is what rounding left
            step, rest = rest, abs(math.remainder(step, rest))
        if step < SMALLEST_STEP * largest:
            return None
    # Rounding errors have added up in the step; all sizes together determine it better.
    step = float(sizes.sum()) / float(np.rint(sizes / step).sum())
    multiples = np.rint(sizes / step)
    return multiples.astype(np.int64) if np.abs(sizes - multiples * step).max() <= RELATIVE_TIE * largest else None


def _count_by_convolution(multiples: NDArray[np.int64], observed: int) -> float:
    """Return the share of assignments whose positive part is at least half of total + observed."""
    total = int(multiples.sum())
    shares = np.zeros(total + 1)  # of assignments, by their positive part
    shares[0] = 1.0
    reached = 0
    for size in np.sort(multiples).tolist():
        grown = 0.5 * shares[: reached + size + 1]
        grown[size:] += 0.5 * shares[: reached + 1]
        reached += size
        shares[: reached + 1] = grown
    return min(1.0, float(shares[(total + observed + 1) // 2 :].sum()))


def _count_by_halves(sizes: Values, observed: float) -> float:
    """Return the same share from the sums of both halves: for each sum of one, how many of the other complete it."""
    first, second = np.zeros(1), np.zeros(1)
    for size in sizes[: sizes.size // 2]:
        first = np.concatenate((first + size, first - size))
    for size in sizes[sizes.size // 2 :]:
        second = np.concatenate((second + size, second - size))
    wanted = observed - RELATIVE_TIE * float(sizes.sum())
    enough = second.size - np.searchsorted(np.sort(second), wanted - first, side="left")
    return float(enough.sum()) / 2.0**sizes.size


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


def run_noise(runs: NDArray[np.float64], units: Units) -> Noise:
    """Return the noise of three or more pinned runs from their residuals around each question's mean.

    The design effect is the sum over runs and documents of (the document's sum of residuals) squared, over the sum of
    all squared residuals. Few documents determine it badly: below eight, the upper 80 % limit is taken.

    Source: Kish 1965, 5.4, for the design effect; the chi-squared limit of a variance.
    """
    n_runs, n_questions = runs.shape
    residuals = runs - runs.mean(axis=0)
    squares = float((residuals**2).sum())
    sums = np.column_stack([sums_by_unit(run, units) for run in residuals])
    documents = effective_clusters(unit_sizes(units)) if n_questions else 0.0
    freedom = (n_runs - 1) * documents
    if squares <= RELATIVE_TIE * max(1.0, float((runs**2).sum())):  # nothing but rounding
        return Noise(1.0, 0.0, freedom)
    effect = float((sums**2).sum()) / squares * design_effect_limit(documents, n_runs)
    return Noise(max(1.0, effect), squares / (n_runs - 1) * (1 + 1 / n_runs), freedom)


def design_effect_limit(documents: float, n_runs: int) -> float:
    """Return the factor from a design effect to its upper 80 % limit for few documents, else 1."""
    freedom = (n_runs - 1) * documents
    return freedom / float(chdtri(freedom, UPPER_LIMIT)) if documents < FEW_DOCUMENTS else 1.0


def design_effect_p(differences: Values, noise: Noise) -> float:
    """Return the one-sided p of Student's t in the difference's direction, with the design effect in its noise."""
    squares = float(differences @ differences)
    if squares == 0:
        return 1.0
    t = abs(float(differences.sum())) / math.sqrt(squares + noise.extra_squares(squares))
    return float(stdtr(noise.degrees_of_freedom, -t))


def critical_value(level: float, noise: Noise | None = None) -> float:
    """Return how many standard errors the sum must be from 0: normal, or Student's t with a design effect."""
    if noise is None or noise.design_effect == 1:
        return -float(ndtri(level))
    return -float(stdtrit(noise.degrees_of_freedom, level))


def paired_interval(
    differences: Values,
    *,
    clusters: Sequence[str] | None = None,
    confidence: float = CONFIDENCE,
    noise: Noise | None = None,
) -> Interval:
    """Return Student's interval of the mean difference with two pseudo-units, +1 and -1; "equivalent" uses it.

    It never has a width of zero. With clusters the pseudo-units are documents of average size.

    Source: Bonett and Price 2012 for the pseudo-questions; the ratio of sums, Cochran 1977, 6, with G / (G - 1) for
    clusters; Kish 1965, 11.7, for the number G that clusters of unequal size are worth.
    """
    units = number_units(clusters, differences.size)
    seen = unit_sizes(units)
    worth = effective_clusters(seen) if seen.size else 0.0
    size = differences.size / worth if worth else 1.0
    sizes = np.append(seen, (size, size))
    sums = np.append(sums_by_unit(differences, units), (size, -size))
    n_units, n_questions = worth + 2, float(sizes.sum())
    centre = float(sums.sum()) / n_questions
    residuals = sums - centre * sizes
    squares, freedom = float(residuals @ residuals), n_units - 1
    if noise is not None and noise.design_effect > 1:
        squares += noise.extra_squares(squares)
        freedom = min(freedom, noise.degrees_of_freedom)
    variance = n_units / (n_units - 1) * squares / n_questions**2
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
    return Interval(centre - half, centre + half)


def adjusted_interval(
    differences: Values,
    *,
    level: float,
    is_rejected: bool,
    baseline_mean: float,
    clusters: Sequence[str] | None = None,
    noise: Noise | None = None,
) -> Interval:
    """Return the mean differences that the test of a verdict would not reject, clipped to the possible ones.

    A difference is tested by subtracting it from every question's and testing what is left by the sum over the root of
    the sum of squares, to which sign flips converge when many questions moved. If no score moved, the interval is that
    with pseudo-units. The one-sided `level` is that of `holm_levels`; the interval excludes 0 exactly if the test
    `is_rejected`. Scores lie in [0, 1].

    Source: Hartigan 1969 and Lehmann 1975, 4.3, for intervals from tests of shifted differences.
    """
    units = number_units(clusters, differences.size)
    sizes, sums = unit_sizes(units), sums_by_unit(differences, units)
    squares = float(sums @ sums)
    if squares == 0:
        low, high = paired_interval(differences, clusters=clusters, confidence=1 - 2 * level)
    else:
        squares += 0.0 if noise is None else noise.extra_squares(squares)
        low, high = _not_rejected(sizes, sums, squares, critical_value(level, noise))
    if not is_rejected:
        low, high = min(low, 0.0), max(high, 0.0)
    elif float(sums.sum()) < 0:
        high = min(high, -ZERO_LIMIT)
    else:
        low = max(low, ZERO_LIMIT)
    return Interval(max(low, -baseline_mean), min(high, 1.0 - baseline_mean))


def _not_rejected(sizes: Values, sums: Values, squares: float, critical: float) -> Interval:
    """Solve (sum of sums - sizes x d)^2 <= critical^2 x (squares - 2 x (sizes . sums) x d + (sizes . sizes) x d^2)."""
    n, total = float(sizes.sum()), float(sums.sum())
    a = n**2 - critical**2 * float(sizes @ sizes)
    b = n * total - critical**2 * float(sizes @ sums)
    c = total**2 - critical**2 * squares
    if a <= 0:  # too few units to reject any difference
        return Interval(-math.inf, math.inf)
    half = math.sqrt(max(0.0, b**2 - a * c))
    return Interval((b - half) / a, (b + half) / a)


def standardised_difference(differences: Values) -> float | None:
    """Return Cohen's dz (Lakens 2013), the mean over the standard deviation; None without a spread."""
    if differences.size < 2 or np.ptp(differences) == 0:
        return None
    return float(differences.mean()) / float(differences.std(ddof=1))


def needed_units(n_metrics: int, *, alpha: float, noise: Noise | None = None) -> int:
    """Return how many units must fall, with none rising, before a drop can be flagged at all.

    k units that all fall have p = 2^-k, and Holm's first step multiplies by the number of metrics: 11 units for 12
    metrics at a two-sided alpha of 0.02. Noise that documents share asks for more.
    """
    if noise is None or noise.design_effect == 1:
        return math.ceil(math.log2(n_metrics / (alpha / 2)))
    critical = critical_value(alpha / 2 / n_metrics, noise)
    units = math.ceil(critical**2)
    while units**2 < critical**2 * (units + noise.extra_squares(units)):
        units += 1
    return units


def smallest_detectable_drop(
    sizes: Sequence[int], *, n_metrics: int, alpha: float, min_effect: float, noise: Noise | None = None
) -> float | None:
    """Return the smallest drop, as a share of the range, that can be flagged if the fewest and smallest units fall.

    `sizes` are the questions of each unit. None if even a fall of every unit could not be flagged.
    """
    needed = needed_units(n_metrics, alpha=alpha, noise=noise)
    return max(sum(sorted(sizes)[:needed]) / sum(sizes), min_effect) if needed <= len(sizes) else None


class Detection(NamedTuple):
    """What a benchmark can show, as shares of a metric's range."""

    at_best: float | None  # smallest drop that can be flagged at all, if nothing else moves; None if no drop can
    usually: float | None  # smallest drop that is flagged on four nights of five; None if no drop is


def detectable_drop(
    n_questions: int,
    *,
    flip_share: float,
    n_metrics: int,
    n_runs: int,
    n_documents: float | None,
    alpha: float,
    min_effect: float,
) -> Detection:
    """Return the smallest drops of right or wrong answers that one night finds.

    It is the normal approximation of the power of a paired test, with the squares that the drop itself adds.

    Args:
        n_questions: Asked.
        flip_share: Share of the answers that differ between two runs of the unchanged system.
        n_metrics: Tests that are corrected together.
        n_runs: Pinned runs.
        n_documents: Documents that the questions share evenly (`effective_clusters`); None if each has its own.
        alpha: Two-sided.
        min_effect: Smaller changes are not flagged.
    """
    squares = n_questions * flip_share / 2 * (1 + 1 / n_runs)
    noise = None
    if squares and n_documents is not None:
        noise = Noise(design_effect_limit(n_documents, n_runs), squares, (n_runs - 1) * n_documents)
    at_best = smallest_detectable_drop(
        [1] * n_questions, n_metrics=n_metrics, alpha=alpha, min_effect=min_effect, noise=noise
    )
    critical = critical_value(alpha / 2 / n_metrics, noise)
    for fallen in range(needed_units(n_metrics, alpha=alpha, noise=noise), n_questions + 1):
        total = squares + fallen
        needed = critical * math.sqrt(total + (0.0 if noise is None else noise.extra_squares(squares)))
        if fallen >= needed + NORMAL_POWER * math.sqrt(squares):
            return Detection(at_best, max(fallen / n_questions, min_effect))
    return Detection(at_best, None)
