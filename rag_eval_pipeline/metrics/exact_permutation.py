"""The exact p of the sign-flip test, where all sign assignments can be counted.

Two ways: differences that are multiples of one step (binary scores against a mean of five runs, ranks) have whole
sums, whose distribution is built up question by question; few differences of any size are counted half by half.
"""

import math

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.clusters import Values

# Sums of the same differences in another order differ in their last bits only; a tie must not be lost to that.
RELATIVE_TIE = 1e-9
HALVED_UNITS_MAX = 32  # two lists of 2^16 sums: 10 ms; each two more double that
CONVOLUTION_COST_MAX = 20_000_000  # additions: 20 ms; 4,000 right or wrong answers that moved
SMALLEST_STEP = 1e-6  # of the largest difference; below it a common step is an accident of rounding


def exact_sign_flip_p(differences: Values) -> float | None:
    """The share of sign assignments whose sum reaches the observed one, in the direction that it has.

    Args:
        differences: (units,): a difference a question, or the sum of a document's; without NaN.

    Returns:
        In (0, 1], the observed assignment included; 1.0 when no difference is other than 0. None when there are too
        many different ones to count: `significance.sign_flip_p_values` then draws.

    Source: Fisher 1935, The Design of Experiments, 21; on binary scores exact McNemar's test.
    """
    sizes = np.abs(differences[differences != 0])
    if sizes.size == 0:
        return 1.0
    observed = abs(float(differences.sum()))
    multiples = whole_multiples(sizes)
    if multiples is not None and int(multiples.sum()) * sizes.size <= CONVOLUTION_COST_MAX:
        signed = np.sign(differences[differences != 0]).astype(np.int64)
        return _by_convolution(multiples, abs(int(signed @ multiples)))
    if sizes.size <= HALVED_UNITS_MAX:
        return _by_halves(sizes, observed)
    return None


def whole_multiples(sizes: Values) -> NDArray[np.int64] | None:
    """Sizes as whole multiples of their largest common step; None when they have none.

    Args:
        sizes: Positive, one or more.
    """
    largest = float(sizes.max())
    step = 0.0
    for size in np.unique(sizes).tolist():
        step, rest = size, step
        while rest > RELATIVE_TIE * largest:  # Euclid's algorithm; a smaller rest is what rounding left
            step, rest = rest, abs(math.remainder(step, rest))
        if step < SMALLEST_STEP * largest:
            return None
    # Rounding has added up in the step; all sizes together know it better.
    step = float(sizes.sum()) / float(np.rint(sizes / step).sum())
    multiples = np.rint(sizes / step)
    return multiples.astype(np.int64) if np.abs(sizes - multiples * step).max() <= RELATIVE_TIE * largest else None


def _by_convolution(multiples: NDArray[np.int64], observed: int) -> float:
    """The share of assignments whose positive part is at least half of total + observed."""
    total = int(multiples.sum())
    shares = np.zeros(total + 1)  # of assignments by their positive part
    shares[0] = 1.0
    reached = 0
    for size in np.sort(multiples).tolist():
        grown = 0.5 * shares[: reached + size + 1]
        grown[size:] += 0.5 * shares[: reached + 1]
        reached += size
        shares[: reached + 1] = grown
    return min(1.0, float(shares[(total + observed + 1) // 2 :].sum()))


def _by_halves(sizes: Values, observed: float) -> float:
    """The same by sums of either half of the differences, sorted, and how many of one complete each of the other."""
    half = sizes.size // 2
    first, second = (np.sort(_signed_sums(part)) for part in (sizes[:half], sizes[half:]))
    wanted = observed - RELATIVE_TIE * float(sizes.sum())
    enough = second.size - np.searchsorted(second, wanted - first, side="left")
    return float(enough.sum()) / 2.0**sizes.size


def _signed_sums(sizes: Values) -> Values:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums + size, sums - size))
    return sums
