"""Normal, binomial and Student's distributions without scipy.special, whose import takes longer than most commands."""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def normal_cdf(z: ArrayLike) -> NDArray[np.float64]:
    """Return the standard normal distribution function."""
    below = [math.erfc(-one * math.sqrt(0.5)) / 2 for one in np.ravel(z).tolist()]
    return np.array(below).reshape(np.shape(z))


def normal_quantile(p: ArrayLike) -> NDArray[np.float64]:
    """Return its inverse; infinite at 0 and 1."""
    inverse, ends = NormalDist().inv_cdf, {0.0: -math.inf, 1.0: math.inf}
    quantiles = [ends[one] if one in ends else inverse(one) for one in np.ravel(p).tolist()]
    return np.array(quantiles).reshape(np.shape(p))


@lru_cache(8)
def log_factorials(n: int) -> NDArray[np.float64]:
    """Return the logarithms of 0! to n!."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def student_quantile(freedom: float, p: float) -> float:
    """Return the quantile of Student's t; `freedom` is at least 1 and p from 1/2 to 0.99.

    With t = sqrt(freedom) tan(a) the density is a power of cos(a), which is integrated by Gauss and Legendre.
    """
    half = freedom / 2
    if half < 100:
        ratio = math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    else:  # the difference of two large numbers has lost its digits
        x = 8 * half
        ratio = math.sqrt(half) * (1 - 1 / x + 1 / (2 * x**2) + 5 / (2 * x**3) - 21 / (8 * x**4))
    factor = ratio / math.sqrt(math.pi)
    angle = math.atan(NormalDist().inv_cdf(p) / math.sqrt(freedom))
    power = (freedom - 1) / 2
    for _ in range(50):  # from below, so that every step of Newton's method ends below the quantile
        heights = np.exp(power * np.log1p(-(np.sin(angle / 2 * (_NODES + 1)) ** 2)))
        height = math.exp(power * math.log1p(-(math.sin(angle) ** 2)))
        step = ((p - 0.5) / factor - angle / 2 * float(_WEIGHTS @ heights)) / height
        angle += step
        if abs(step) <= 1e-15 * angle:
            break
    return math.sqrt(freedom) * math.tan(angle)
