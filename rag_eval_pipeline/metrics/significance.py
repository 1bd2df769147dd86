"""Holm's correction over the metrics of a comparison, effect sizes, and what a benchmark can detect."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from rag_eval_pipeline.metrics.intervals import Values

RUNS_FOR_NOISE = 3  # with fewer pinned runs too little is known of the noise that documents share
FEW_DOCUMENTS = 8  # with fewer, the upper limit of the design effect is used
UPPER_LIMIT = 0.80  # one-sided confidence of that limit

NORMAL_POWER = 0.8416  # the normal quantile of a power of 80 %


class Noise(NamedTuple):
    """How much the scores of an unchanged system differ between runs, and how far documents share that."""

    # Factor on the variance of a run's sum because questions of one document err together; at least 1.
    design_effect: float
    squares: float  # expected sum of squared paired differences of an unchanged system
    degrees_of_freedom: float  # of the design effect: (runs - 1) x documents

    def extra_squares(self, squares: float) -> float:
        """Return what the design effect adds to a sum of squared differences, of which only noise is multiplied."""
        return (self.design_effect - 1) * min(self.squares, squares)


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


def design_effect_limit(documents: float, n_runs: int) -> float:
    """Return the factor from a design effect to its upper 80 % limit for few documents, else 1."""
    freedom = (n_runs - 1) * documents
    return freedom / float(chdtri(freedom, UPPER_LIMIT)) if documents < FEW_DOCUMENTS else 1.0


def critical_value(level: float, noise: Noise | None = None) -> float:
    """Return how many standard errors the sum must be from 0: normal, or Student's t with a design effect."""
    if noise is None or noise.design_effect == 1:
        return -float(ndtri(level))
    return -float(stdtrit(noise.degrees_of_freedom, level))


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
