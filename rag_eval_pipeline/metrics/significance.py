"""Holm's correction over the metrics of a comparison and effect sizes."""

from collections.abc import Sequence

import numpy as np

from rag_eval_pipeline.metrics.intervals import Values


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
