"""Krippendorff's alpha: how far several observers agree beyond chance, whoever left out what.

1 is perfect agreement, 0 what chance gives, below 0 systematic disagreement. Alpha is made of exact fractions, so that
"no variation" is recognised and not drowned in rounding.
Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

Level = Literal["nominal", "ordinal", "interval"]
Positions = Mapping[float, Fraction]


class Unit(NamedTuple):
    """One thing that was observed.

    Args:
        values: One for each observer who gave one, in any order; what is missing is left out.
        weight: How many equal units this stands for, at least 1.
    """

    values: tuple[float, ...]
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Alpha:
    """One coefficient.

    Args:
        value: At most 1; None where the data cannot say.
        reason: Why there is no value: `nothing_to_compare` (no unit with two values), `no_variation` (all values are
            equal, so that agreement cannot be told from the lack of anything to disagree about). None with a value.
        level: What the differences between values mean.
        n_units: Units with at least two values, each counted `weight` times.
        n_values: Values in them.
    """

    value: float | None
    reason: str | None
    level: Level
    n_units: int
    n_values: int


def krippendorff_alpha(units: Iterable[Unit], level: Level) -> Alpha:
    """Alpha of the units; those with fewer than two values are passed over.

    Args:
        units: Each value finite.
        level: `nominal`: values differ or not. `ordinal`: they differ by the values between them. `interval`: they
            differ by their distance.
    """
    compared = [unit for unit in units if len(unit.values) > 1]
    counts: Counter[float] = Counter()
    for unit in compared:
        for value in unit.values:
            counts[value] += unit.weight
    n_units, n_values = sum(unit.weight for unit in compared), counts.total()
    if not compared:
        return Alpha(None, "nothing_to_compare", level, 0, 0)
    if len(counts) == 1:
        return Alpha(None, "no_variation", level, n_units, n_values)
    disagreement = _DISAGREEMENTS[level](counts)
    observed = sum(
        (unit.weight * disagreement(Counter(unit.values)) / (len(unit.values) - 1) for unit in compared), Fraction()
    )
    expected = disagreement(counts) / (n_values - 1)
    return Alpha(float(1 - observed / expected), None, level, n_units, n_values)


# Of a bag of values: the sum, over all ordered pairs of two of them, of their squared difference.
Disagreement = Callable[[Counter[float]], Fraction]


def _nominal(_: Counter[float]) -> Disagreement:
    return lambda bag: Fraction(bag.total() ** 2 - sum(count**2 for count in bag.values()))


def _distance(positions: Positions) -> Disagreement:
    def disagreement(bag: Counter[float]) -> Fraction:
        # Sum of (x - y)^2 over ordered pairs = 2 (n * sum x^2 - (sum x)^2): linear in the values, not quadratic.
        first = sum((positions[value] * count for value, count in bag.items()), Fraction())
        second = sum((positions[value] ** 2 * count for value, count in bag.items()), Fraction())
        return 2 * (bag.total() * second - first**2)

    return disagreement


def _interval(counts: Counter[float]) -> Disagreement:
    return _distance({value: Fraction(value) for value in counts})


def _ordinal(counts: Counter[float]) -> Disagreement:
    """Krippendorff's ordinal difference of two values is the distance of their middle ranks."""
    return _distance(_middle_ranks(sorted(counts), counts))


def _middle_ranks(values: Sequence[float], counts: Counter[float]) -> Positions:
    ranks, below = {}, 0
    for value in values:
        ranks[value] = below + Fraction(counts[value], 2)
        below += counts[value]
    return ranks


_DISAGREEMENTS: Mapping[Level, Callable[[Counter[float]], Disagreement]] = {
    "nominal": _nominal,
    "ordinal": _ordinal,
    "interval": _interval,
}
