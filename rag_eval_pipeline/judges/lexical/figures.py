"""Whether a number stands in a text, whatever its spelling, its scale and its unit.

A unit of measure counts where both sides have one; a number without one may be in any.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Literal

from rag_eval_pipeline.judges.lexical.quantities import Quantity

Match = Literal["yes", "sign", "no"]
# "In USD millions" stands in the question or in a table's head, so either side may lack it.
_FACTORS = (1.0, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
_ROUNDING = 1e-9  # relative: what sums and products of floats lose
_OWN_ROUNDING = 0.5  # a four-digit number that looks like a year is exact to the unit


class Figures:
    """The quantities of a text, ready to be asked for.

    Args:
        given: The quantities, in any order.
    """

    def __init__(self, given: Iterable[Quantity]) -> None:
        found = list(given)
        self._dates = [quantity.date for quantity in found if quantity.date is not None]
        self._years = sorted(
            {quantity.value for quantity in found if quantity.is_year}
            | {float(date.year) for date in self._dates if date.year is not None}
        )
        numbers = [quantity for quantity in found if quantity.date is None and not quantity.is_year]
        self._numbers = sorted(numbers, key=lambda quantity: (abs(quantity.value), quantity.value, quantity.unit))
        self._sizes = [abs(quantity.value) for quantity in self._numbers]
        self._measured: dict[str, list[tuple[float, bool]]] = {}  # dimension -> size in its own unit, is negative
        for quantity in numbers:
            if quantity.measure is not None:
                size = abs(quantity.value) * quantity.measure.factor
                self._measured.setdefault(quantity.measure.dimension, []).append((size, quantity.value < 0))
        for sizes in self._measured.values():
            sizes.sort()

    def match(self, wanted: Quantity, tolerance: float) -> Match:
        """Whether a number stands here: yes; but for its sign; no.

        Args:
            wanted: A number of the gold answer or of the claim, whose precision counts.
            tolerance: Relative difference that is allowed beside half a unit of its last digit.
        """
        if wanted.date is not None:
            return "yes" if any(date.covers(wanted.date) for date in self._dates) else "no"
        if wanted.is_year:
            is_here = self._between(self._years, wanted.value, 0.0) or self._written_out(wanted.value)
            return "yes" if is_here else "no"
        size = abs(wanted.value)
        slack = max(wanted.half_step, tolerance * size)
        found = self._by_measure(wanted, slack)
        for factor, units in _scalings(wanted):
            at = size * factor
            reach = slack * factor + _ROUNDING * at
            place = bisect_left(self._sizes, at - reach)
            while place < len(self._sizes) and self._sizes[place] <= at + reach:
                given = self._numbers[place]
                place += 1
                if None not in (given.measure, wanted.measure):
                    continue  # compared in one unit already
                if given.unit in units:
                    if (given.value < 0) == (wanted.value < 0):
                        return "yes"
                    found = "sign"
        if found == "no" and not wanted.unit and self._between(self._years, wanted.value, min(slack, _OWN_ROUNDING)):
            return "yes"
        return found

    def _by_measure(self, wanted: Quantity, slack: float) -> Match:
        """Whether a number stands here with a unit of the same dimension, both in one unit."""
        measure = wanted.measure
        if measure is None:
            return "no"
        sizes = self._measured.get(measure.dimension, [])
        size, reach = abs(wanted.value) * measure.factor, slack * measure.factor
        reach += _ROUNDING * size
        found: Match = "no"
        for given, is_negative in sizes[bisect_left(sizes, (size - reach, False)) :]:
            if given > size + reach:
                break
            if is_negative == (wanted.value < 0):
                return "yes"
            found = "sign"
        return found

    def _written_out(self, year: float) -> bool:
        """Whether what looks like a year stands as an amount: 1577 as 1,577 or as $1,577 million, to the last digit."""
        for factor in _FACTORS:
            reach = _ROUNDING * year * factor
            place = bisect_left(self._sizes, year * factor - reach)
            while place < len(self._sizes) and self._sizes[place] <= year * factor + reach:
                given = self._numbers[place]
                place += 1
                # $2 billion is not 2000: it is not written to the unit.
                if given.value > 0 and given.unit != "%" and given.half_step <= _OWN_ROUNDING * factor:
                    return True
        return False

    @staticmethod
    def _between(values: list[float], value: float, slack: float) -> bool:
        place = bisect_left(values, value - slack)
        return place < len(values) and values[place] <= value + slack


def _scalings(wanted: Quantity) -> Iterable[tuple[float, tuple[str, ...]]]:
    """Each factor at which the number may stand, and the units that it may have there."""
    if wanted.unit == "%":
        return ((1.0, ("%", "")), (0.01, ("",)))
    if wanted.unit == "currency":
        return ((factor, ("currency", "")) for factor in _FACTORS)
    plain = tuple((factor, ("", "currency")) for factor in _FACTORS)
    return (*plain, (1.0, ("%",)), (100.0, ("%",)))
