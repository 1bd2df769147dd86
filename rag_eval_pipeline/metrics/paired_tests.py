"""The other paired tests of a difference, two-sided: permutation, Student's t, Wilcoxon's, McNemar's.

They are for people who compare two systems and want their field's test. The nightly verdict uses none of them but the
sign flips of `significance`, whose error rates were simulated as a procedure.
"""

import math
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.clusters import Values
from rag_eval_pipeline.metrics.exact_permutation import exact_sign_flip_p
from rag_eval_pipeline.metrics.significance import FLIPS, sign_flip_p_values


class PairedTest(NamedTuple):
    """A test's result.

    Args:
        p_value: Two-sided, in [0, 1].
        statistic: Of the test; see the function.
        method: What was computed, with its parameters.
        n: Differences that entered the test.
    """

    p_value: float
    statistic: float
    method: str
    n: int


def permutation_test(differences: Values, *, seed: int) -> PairedTest:
    """Sign flips of the differences: all of them where they can be counted, else 19,999 at random.

    Args:
        differences: (units,), without NaN; one or more. With documents, each one's sum (`significance.unit_sums`).
        seed: Of the random ones.

    Returns:
        The statistic is the mean difference.

    Raises:
        ValueError: No differences.

    Source: Fisher 1935, 21; Smucker, Allan and Carterette 2007 for its use in retrieval.
    """
    if differences.size == 0:
        raise ValueError("expected at least one difference")
    one_sided = exact_sign_flip_p(differences)
    method = "sign flips, exact"
    if one_sided is None:
        [one_sided] = sign_flip_p_values(differences[:, np.newaxis], seed=seed)
        method = f"sign flips, {FLIPS} at random, seed {seed}"
    assert one_sided is not None  # there are pairs
    # The flipped sums are symmetric: the other tail is as large. A sum of 0 is reached by every assignment.
    two_sided = 1.0 if differences.sum() == 0 else min(1.0, 2 * one_sided)
    return PairedTest(two_sided, float(differences.mean()), method, differences.size)


def paired_t_test(differences: Values) -> PairedTest | None:
    """Student's t test of the mean difference.

    Args:
        differences: (questions,), without NaN.

    Returns:
        The statistic is t, with n - 1 degrees of freedom. None below two differences, or when all are equal: without a
        spread the test has no answer.

    Source: Student 1908.
    """
    if differences.size < 2 or np.ptp(differences) == 0:
        return None
    from scipy.special import stdtr

    n = differences.size
    t = float(differences.mean()) / (float(differences.std(ddof=1)) / math.sqrt(n))
    return PairedTest(2 * float(stdtr(n - 1, -abs(t))), t, f"paired t, {n - 1} degrees of freedom", n)


def wilcoxon_test(differences: Values) -> PairedTest | None:
    """Wilcoxon's signed-rank test; differences of 0 are ranked, and then left out (Pratt).

    Args:
        differences: (questions,), without NaN.

    Returns:
        The statistic is the smaller of the two sums of ranks. Exact where the sums can be counted, ties included, else
        by the normal approximation. None when no difference is other than 0.

    Source: Wilcoxon 1945; Pratt 1959.
    """
    if not differences.any():
        return None
    from scipy.stats import rankdata

    signed_ranks = np.sign(differences) * rankdata(np.abs(differences))
    rises, falls = (float(signed_ranks[side].sum()) for side in (signed_ranks > 0, signed_ranks < 0))
    statistic, net = min(rises, -falls), rises + falls
    one_sided = exact_sign_flip_p(signed_ranks)
    if one_sided is None:
        z = net / math.sqrt(float((signed_ranks**2).sum()))
        return PairedTest(math.erfc(abs(z) / math.sqrt(2)), statistic, "Wilcoxon (Pratt), normal", differences.size)
    p_value = 1.0 if net == 0 else min(1.0, 2 * one_sided)
    return PairedTest(p_value, statistic, "Wilcoxon (Pratt), exact", differences.size)


def mcnemar_test(n_fell: int, n_rose: int) -> PairedTest:
    """McNemar's exact test of two runs' right and wrong answers.

    Args:
        n_fell: Questions right before and wrong now.
        n_rose: Questions wrong before and right now.

    Returns:
        The statistic is the smaller count; p is 1.0 when nothing changed.

    Raises:
        ValueError: A negative count.

    Source: McNemar 1947; exact as the binomial test of the smaller count.
    """
    if min(n_fell, n_rose) < 0:
        raise ValueError(f"expected counts of 0 or more, found {n_fell} and {n_rose}")
    from scipy.special import bdtr

    n, smaller = n_fell + n_rose, min(n_fell, n_rose)
    p_value = min(1.0, 2 * float(bdtr(smaller, n, 0.5))) if n else 1.0
    return PairedTest(p_value, float(smaller), "McNemar, exact", n)
