"""Units of measure beside a number: which quantity they measure, and how much of its unit they are.

Two numbers with units are compared in one unit, so 66 centimetres are 0.66 m and 2.3 miles are not 2.3 km. Units that
mean several things (tons, gallons, pounds) and degrees, which differ in their zero, are left out: a number beside them
is compared as a bare one.
"""

from typing import NamedTuple


class Measure(NamedTuple):
    """A unit.

    Args:
        dimension: What it measures; units of different ones are never equal.
        factor: How many of the dimension's own unit it is.
    """

    dimension: str
    factor: float


_KNOWN: dict[str, tuple[tuple[str, float], ...]] = {
    "length": (  # in metres
        ("mm millimetre millimetres millimeter millimeters", 0.001),
        ("cm centimetre centimetres centimeter centimeters", 0.01),
        ("metre metres meter meters", 1.0),
        ("km kms kilometre kilometres kilometer kilometers", 1000.0),
        ("inch inches", 0.0254), ("ft foot feet", 0.3048), ("yard yards", 0.9144), ("mile miles", 1609.344),
    ),
    "time": (  # in days; a year as the calendar has it on average
        ("sec secs second seconds", 1 / 86_400), ("min mins minute minutes", 1 / 1440), ("hr hrs hour hours", 1 / 24),
        ("day days", 1.0), ("week weeks", 7.0), ("month months", 365.2425 / 12), ("year years", 365.2425),
        ("decade decades", 3652.425),
    ),
    "mass": (  # in kilograms
        ("gram grams gramme grammes", 0.001), ("kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes", 1.0),
        ("tonne tonnes", 1000.0), ("ounce ounces", 0.028349523125),
    ),
    "area": (("hectare hectares", 10_000.0), ("acre acres", 4046.8564224)),  # in square metres
    "volume": (("ml millilitre millilitres milliliter milliliters", 0.001), ("litre litres liter liters", 1.0)),
    "speed": (  # in kilometres an hour
        ("km/h|kmh|kph|kilometres per hour|kilometers per hour|kilometres an hour|kilometers an hour|km per hour", 1.0),
        ("mph|miles per hour|miles an hour", 1.609344), ("knots", 1.852),
    ),
}  # fmt: skip
UNITS: dict[str, Measure] = {
    word: Measure(dimension, factor)
    for dimension, units in _KNOWN.items()
    for words, factor in units
    for word in (words.split("|") if "|" in words else words.split())
}
"""Each folded unit that is one wherever it stands."""

_METRE = "m"  # of a number after a blank only: 5m may be five millions

_POWERS = {"square": 2, "cubic": 3}


def measure_of(written: str) -> Measure | None:
    """The unit that stands beside a number, folded: `miles`, `square metres`; None for none that is known."""
    first, _, rest = written.partition(" ")
    power = _POWERS.get(first)
    if power is None:
        return UNITS["metre"] if written == _METRE else UNITS.get(written)
    unit = UNITS["metre"] if rest == _METRE else UNITS.get(rest)
    if unit is None or unit.dimension != "length":
        return None
    # Hectares and litres are areas and volumes too: 10,000 square metres, a thousandth of a cubic one.
    dimension, scale = ("area", 1.0) if power == 2 else ("volume", 1000.0)
    return Measure(dimension, unit.factor**power * scale)
