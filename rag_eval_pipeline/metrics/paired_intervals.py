"""The confidence intervals of a paired difference, by question or by document.

`adjusted_interval` is the inversion of the verdict's own test, at the level that the metric is held to; it is the one
that people are shown. `paired_interval` is what "equivalent" is decided by; it never has a width of zero.

Two made-up units, one that rose by the whole range and one that fell by it, stand beside those that were seen: units
that all agree are evidence, not certainty. Where documents are counted the made-up ones are documents, of the size that
a question's document has on average, so that a large document among single questions is not passed over.
Simulated nights on which documents fell by exactly the margin were called equivalent in 60 % with single questions in
their place (20 documents of 25 questions; 6 to 14 % with 100 to 400 of 5), and are in none (in 0 to 5 %).
"""

import math
from collections.abc import Sequence

import numpy as np

from rag_eval_pipeline.metrics.clusters import Values, effective_clusters, number_units, sums_by_unit
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, Interval
from rag_eval_pipeline.metrics.significance import Noise

SMALLEST = 1e-12  # a limit beside 0, where rounding or the tail of few units would reach it


def paired_interval(
    differences: Values,
    *,
    clusters: Sequence[str] | None = None,
    value_range: float = 1.0,
    confidence: float = CONFIDENCE,
    noise: Noise | None = None,
) -> Interval:
    """Student's interval of the mean difference with two pseudo-units, +range and -range.

    Args:
        differences: (questions,), without NaN; may be empty.
        clusters: A name a question; the spread is then taken between clusters.
        value_range: Largest minus smallest possible score.
        confidence: Of the interval.
        noise: Of the pinned runs, where documents share it; the design effect then widens the interval.

    Source: Bonett and Price 2012 for the pseudo-questions; the ratio of sums, Cochran 1977, 6, with G / (G - 1) for
    clusters; Kish 1965, 11.7, for the number G that clusters of unequal size are worth.
    """
    from scipy.special import stdtrit

    units = number_units(clusters, differences.size)
    seen = sums_by_unit(np.ones(differences.size), units)
    worth = effective_clusters(seen) if seen.size else 0.0
    size = differences.size / worth if worth else 1.0
    sizes = np.append(seen, (size, size))
    sums = np.append(sums_by_unit(differences, units), (size * value_range, -size * value_range))
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
    value_range: float = 1.0,
    noise: Noise | None = None,
) -> Interval:
    """The mean differences that the test of a verdict would not reject, clipped to those that are possible.

    A difference is asked about by subtracting it from every question's and testing what is left: by the sum over the
    root of the sum of squares, which is what sign flips come to where many questions moved. 0 is left out exactly where
    the test itself rejected, as it is known exactly for 0. Where no score moved, the test would leave a single point:
    the interval is then that with pseudo-units.

    Args:
        differences: (questions,), without NaN; one or more.
        level: One-sided, after the correction; see `corrections.holm_levels`.
        is_rejected: Whether the test rejected a difference of 0.
        baseline_mean: Over the same questions; scores lie in [0, value_range].
        clusters: A name a question where documents are tested.
        value_range: Largest minus smallest possible score.
        noise: Of the pinned runs, where its design effect divided the test's sum.

    Source: Hartigan 1969 and Lehmann 1975, 4.3, for intervals from tests of shifted differences.
    """
    units = number_units(clusters, differences.size)
    sizes, sums = sums_by_unit(np.ones(differences.size), units), sums_by_unit(differences, units)
    squares = float(sums @ sums)
    if squares == 0:
        found = paired_interval(differences, clusters=clusters, value_range=value_range, confidence=1 - 2 * level)
    else:
        squares += 0.0 if noise is None else noise.extra_squares(squares)
        found = _not_rejected(sizes, sums, squares, critical_value(level, noise))
    low, high = found
    if not is_rejected:
        low, high = min(low, 0.0), max(high, 0.0)
    elif float(sums.sum()) < 0:
        high = min(high, -SMALLEST)
    else:
        low = max(low, SMALLEST)
    return Interval(max(low, -baseline_mean), min(high, value_range - baseline_mean))


def critical_value(level: float, noise: Noise | None = None) -> float:
    """How many standard errors the sum of the differences must be from 0: normal, or Student's with a design effect."""
    from scipy.special import ndtri, stdtrit

    if noise is None or noise.design_effect == 1:
        return -float(ndtri(level))
    return -float(stdtrit(noise.degrees_of_freedom, level))


def _not_rejected(sizes: Values, sums: Values, squares: float, critical: float) -> Interval:
    """Where (sum of sums - sizes x d)^2 <= critical^2 x (squares - 2 x (sizes . sums) x d + (sizes . sizes) x d^2)."""
    n, total = float(sizes.sum()), float(sums.sum())
    a = n**2 - critical**2 * float(sizes @ sizes)
    b = n * total - critical**2 * float(sizes @ sums)
    c = total**2 - critical**2 * squares
    if a <= 0:  # too few units to reject any difference
        return Interval(-math.inf, math.inf)
    half = math.sqrt(max(0.0, b**2 - a * c))
    return Interval((b - half) / a, (b + half) / a)
