"""No difference, shown: the absence of significance is none of its evidence.

Two tests ask whether the mean difference is above the lower and below the upper margin; only when both say yes is any
change small. The verdict asks the same of its 95 % interval, which is stricter than two tests at 5 %.
"""

import math
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.clusters import Values
from rag_eval_pipeline.metrics.intervals import Interval


class EquivalenceTest(NamedTuple):
    """Two one-sided tests.

    Args:
        p_value: The larger of the two; the means are equivalent when it is at most alpha.
        p_above_lower: Of the mean difference being at or below -margin.
        p_below_upper: Of the mean difference being at or above +margin.
        margin: In the unit of the differences.
        n: Differences.
    """

    p_value: float
    p_above_lower: float
    p_below_upper: float
    margin: float
    n: int


def is_inside(interval: Interval, margin: float) -> bool:
    """Whether every difference of the interval is smaller than the margin, either way."""
    return -margin < interval.low and interval.high < margin


def equivalence_test(differences: Values, margin: float) -> EquivalenceTest | None:
    """Two one-sided t tests (TOST) of the mean difference against a margin.

    Args:
        differences: (questions,), without NaN.
        margin: The largest difference that does not matter; above 0.

    Returns:
        None below two differences, or when all are equal: a spread of zero would claim certainty, which is why the
        verdict's interval has pseudo-questions.

    Raises:
        ValueError: A margin that is not above 0.

    Source: Schuirmann 1987; Lakens 2017.
    """
    if margin <= 0:
        raise ValueError(f"expected a margin above 0, found {margin}")
    if differences.size < 2 or np.ptp(differences) == 0:
        return None
    from scipy.special import stdtr

    n, mean = differences.size, float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    above = float(stdtr(n - 1, -(mean + margin) / error))
    below = float(stdtr(n - 1, (mean - margin) / error))
    return EquivalenceTest(max(above, below), above, below, margin, n)
