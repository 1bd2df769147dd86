"""Questions that share a document: which of them move together.

Questions of one document are answered from the same text and fail together. Tests and intervals that count each of
them as evidence of its own are too sure; they count documents instead.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Units = NDArray[np.int64]
Values = NDArray[np.float64]


def number_units(clusters: Sequence[str] | None, n_questions: int) -> Units:
    """The number of each question's independent unit: its cluster, or itself without clusters.

    Returns:
        (questions,), numbered from 0 in the order of first appearance, so that clusters of one question each are
        numbered like no clusters at all.

    Raises:
        ValueError: Another number of clusters than questions.
    """
    if clusters is None:
        return np.arange(n_questions, dtype=np.int64)
    if len(clusters) != n_questions:
        raise ValueError(f"expected a cluster for each of {n_questions} questions, found {len(clusters)}")
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in clusters], dtype=np.int64)


def count_units(units: Units) -> int:
    """How many units there are; 0 without questions."""
    return int(units.max(initial=-1)) + 1


def cluster_spread(values: Values, units: Units) -> Values:
    """Each unit's sum of deviations from the mean of all values: what it contributes to the mean's error.

    Args:
        values: (questions,), at least one.
        units: (questions,), from `number_units`.

    Returns:
        (units,), adding up to 0.

    Source: the linearised ratio of sums, Cochran 1977, Sampling Techniques, 6.
    """
    return sums_by_unit(values - values.mean(), units)


def sums_by_unit(values: Values, units: Units) -> Values:
    """Each unit's sum: (units,)."""
    sums: Values = np.bincount(units, values, minlength=count_units(units)).astype(np.float64)
    return sums


def effective_clusters(sizes: Values) -> float:
    """How many clusters of equal size say as much: their number where sizes are equal, else fewer.

    Args:
        sizes: (clusters,) questions of each.

    Source: Kish 1965, 11.7, the effect of unequal weights.
    """
    return float(sizes.sum() ** 2 / (sizes @ sizes))
