"""Effect sizes: how large a difference is, apart from how sure it is."""

import math

import numpy as np

from rag_eval_pipeline.metrics.clusters import Values


def standardised_difference(differences: Values) -> float | None:
    """Mean of the paired differences over their standard deviation (Cohen's dz): 0.2 small, 0.5 medium, 0.8 large.

    Args:
        differences: (questions,), without NaN.

    Returns:
        Unbounded, with the sign of the mean. None below two differences, or when all are equal.

    Source: Cohen 1988, Statistical Power Analysis, 2.3; Lakens 2013 for dz.
    """
    if differences.size < 2 or np.ptp(differences) == 0:
        return None
    return float(differences.mean()) / float(differences.std(ddof=1))


def rank_biserial(differences: Values) -> float | None:
    """Share of rank sum that rose minus the share that fell, differences of 0 left out.

    Returns:
        In [-1, 1]: 1 when all that moved rose. None when nothing moved.

    Source: Kerby 2014, matched pairs.
    """
    moved = differences[differences != 0]
    if moved.size == 0:
        return None
    from scipy.stats import rankdata

    ranks = rankdata(np.abs(moved))
    return float((np.sign(moved) * ranks).sum() / ranks.sum())


def odds_ratio(n_fell: int, n_rose: int) -> float | None:
    """Rises a fall: the odds ratio of matched pairs.

    Returns:
        In [0, inf]; inf when nothing fell. None when nothing changed.

    Source: Fleiss, Levin and Paik 2003, Statistical Methods for Rates and Proportions, 13.1.
    """
    if n_fell == n_rose == 0:
        return None
    return n_rose / n_fell if n_fell else math.inf
