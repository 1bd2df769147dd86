"""Currencies and units of measure by the words and signs they are written with, lower-case."""

import re

_CURRENCIES = {  # what a sign or word may mean: `$` is any dollar, and pounds may be a weight
    name: frozenset(codes.split())
    for codes, names in (
        ("usd cad aud hkd nzd", "$ dollar dollars"), ("usd", "us$ usd"), ("cad", "c$ cad"), ("aud", "a$ aud"),
        ("hkd", "hk$"), ("nzd", "nz$"), ("eur", "€ eur euro euros"), ("gbp", "£ gbp sterling"), ("gbp lb", "pounds"),
        ("jpy cny", "¥"), ("jpy", "jpy yen"), ("cny", "cny rmb yuan"), ("inr", "₹ inr rs rs. rupee rupees"),
        ("chf", "chf"), ("krw", "₩ krw won"), ("usd eur", "cents"),
    )
    for name in names.split()
}  # fmt: skip
# Kind, size and spellings; the first is the unit's name. Units of one kind are converted.
_MEASURES = """
length 1 m metre metres meter meters
length 1000 km kilometre kilometres kilometer kilometers
length 0.01 cm centimetre centimetres centimeter centimeters
length 0.001 mm millimetre millimetres millimeter millimeters
length 1609.344 mi mile miles
length 0.9144 yd yard yards
length 0.3048 ft foot feet
length 0.0254 inch inches
mass 1 kg kilo kilos kilogram kilograms
mass 0.001 g gram grams
mass 1000 t ton tons tonne tonnes
mass 0.45359 lb lbs pound
mass 0.02835 oz ounce ounces
time 1 second seconds
time 60 minute minutes min mins
time 3600 hour hours hr hrs h
time 86400 day days
time 604800 week weeks
time 2629746 month months
time 31556952 year years yr yrs
volume 1 l litre litres liter liters
volume 0.001 ml millilitre millilitres milliliter milliliters
volume 3.785 gallon gallons
area 1 m2 sq_m square_metres square_meters
area 1000000 km2 sq_km square_kilometres square_kilometers
area 2589988 square_miles sq_mi
area 10000 ha hectare hectares
area 4046.856 acre acres
speed 1 km/h kph kmh
speed 1.609344 mph
power 1 kw kilowatt kilowatts
power 0.001 w watt watts
power 1000 mw megawatt megawatts
data 1 mb megabyte megabytes
data 1000 gb gigabyte gigabytes
data 1000000 tb terabyte terabytes
celsius 1 °c degrees_c celsius degrees_celsius
fahrenheit 1 °f degrees_f fahrenheit degrees_fahrenheit
morning 1 am a.m.
afternoon 1 pm p.m.
"""
_SIZES: dict[str, tuple[str, float]] = {}
_NAMES: dict[str, str] = {}
for _kind, _size, _name, *_spellings in map(str.split, _MEASURES.strip().splitlines()):
    _SIZES[_name] = (_kind, float(_size))
    _NAMES.update((spelling.replace("_", " "), _name) for spelling in (_name, *_spellings))
MEASURE_WORDS = "|".join(map(re.escape, sorted(_NAMES, key=len, reverse=True)))


def unit_names(currency: str | None, measure: str | None) -> frozenset[str]:
    """Return the names of the currencies or the unit that may be meant; none for what the tables lack."""
    if currency:
        return _CURRENCIES.get(currency.strip(), frozenset())
    return frozenset() if measure is None else frozenset({_NAMES[measure]})


def unit_size(names: frozenset[str]) -> tuple[str, float] | None:
    """Return a unit's kind and its size in the kind's first unit; None without a unit of measure."""
    return next((_SIZES[name] for name in names if name in _SIZES), None)
