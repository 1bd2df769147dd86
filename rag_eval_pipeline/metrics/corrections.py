"""Corrections of p values for the number of tests: Holm for any false one, Benjamini and Hochberg for their share."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the family-wise p of each, in the order given, at most 1.

    Source: Holm 1979.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(_ascending(p_values)):
        largest = max(largest, p_values[index] * (len(p_values) - place))
        corrected[index] = min(1.0, largest)
    return corrected


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """The level that each p is held to by Holm's correction: p is at most its level exactly where it is rejected.

    Args:
        p_values: In any order; the levels are in the same one.
        alpha: Of the family.

    Source: Holm 1979.
    """
    levels = [0.0] * len(p_values)
    n_left, goes_on = len(p_values), True
    for index in _ascending(p_values):
        levels[index] = alpha / n_left
        goes_on = goes_on and p_values[index] <= levels[index]
        n_left -= goes_on
    return levels


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's step-up correction: the false discovery rate that rejects each, in the order given.

    At most 1. For lists to look through, such as the questions or patterns that changed; the verdict is Holm's.

    Source: Benjamini and Hochberg 1995; as adjusted p values Yekutieli and Benjamini 1999.
    """
    corrected = [0.0] * len(p_values)
    smallest = 1.0
    for rank, index in reversed(list(enumerate(_ascending(p_values), start=1))):
        smallest = min(smallest, p_values[index] * len(p_values) / rank)
        corrected[index] = smallest
    return corrected


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)
