"""Units of measure and currencies by their names in English text."""

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
length 1852 nautical_mile nautical_miles nmi
mass 1 kg kilo kilos kilogram kilograms
mass 0.001 g gram grams
mass 0.000001 mg milligram milligrams
mass 0.000000001 μg mcg microgram micrograms
mass 1000 t ton tons tonne tonnes
mass 0.45359 lb lbs pound
mass 0.02835 oz ounce ounces
time 0.001 ms millisecond milliseconds
time 1 second seconds sec secs
time 60 minute minutes min mins
time 3600 hour hours hr hrs h
time 86400 day days
time 604800 week weeks
time 2629746 month months
time 31556952 year years yr yrs
volume 1 l litre litres liter liters
volume 0.001 ml millilitre millilitres milliliter milliliters
volume 3.785 gallon gallons
volume 1000 m3 cubic_metres cubic_meters
area 1 m2 sq_m square_metres square_meters
area 0.0001 cm2 sq_cm square_centimetres square_centimeters
area 0.092903 sq_ft square_feet
area 1000000 km2 sq_km square_kilometres square_kilometers
area 2589988 square_miles sq_mi
area 10000 ha hectare hectares
area 4046.856 acre acres
speed 1 km/h kph kmh
speed 1.609344 mph miles_per_hour
speed 1.852 knots knot
speed 3.6 m/s metres_per_second meters_per_second
power 1 kw kilowatt kilowatts
power 0.001 w watt watts
power 1000 mw megawatt megawatts
energy 1 kwh kilowatt_hours kilowatt-hours
energy 1000 mwh megawatt_hours megawatt-hours
frequency 1 hz hertz
frequency 1000 khz kilohertz
frequency 1000000 mhz megahertz
frequency 1000000000 ghz gigahertz
pressure 1 bar bars
pressure 0.0689476 psi
pressure 0.01 kpa kilopascal kilopascals
voltage 1 volt volts
voltage 0.001 mv millivolt millivolts
voltage 1000 kv kilovolt kilovolts
current 1 ampere amperes amp amps
current 0.001 ma milliampere milliamperes milliamps
bits 1 mbps mbit/s megabits_per_second
bits 1000 gbps gbit/s gigabits_per_second
bits 0.001 kbps kbit/s kilobits_per_second
data 0.001 kb kilobyte kilobytes
data 1 mb megabyte megabytes
data 1000 gb gigabyte gigabytes
data 1000000 tb terabyte terabytes
celsius 1 °c degrees_c celsius degrees_celsius
fahrenheit 1 °f degrees_f fahrenheit degrees_fahrenheit
morning 1 am a.m.
afternoon 1 pm p.m.
"""
_UNIT_SIZES: dict[str, tuple[str, float]] = {}
_UNIT_NAMES: dict[str, str] = {}
for _kind, _size, _name, *_spellings in map(str.split, _MEASURES.strip().splitlines()):
    _UNIT_SIZES[_name] = (_kind, float(_size))
    _UNIT_NAMES.update((spelling.replace("_", " "), _name) for spelling in (_name, *_spellings))
MEASURE_WORDS = "|".join(map(re.escape, sorted(_UNIT_NAMES, key=len, reverse=True)))
CURRENCY_WORDS = (
    "dollars?|usd|euros?|eur|pounds|gbp|sterling|yen|jpy|yuan|rmb|cny|rupees?|inr|francs|chf|cents|won|krw|cad|aud"
)


def unit_names(currency: str | None, measure: str | None) -> frozenset[str]:
    """Return the names of the currencies or the unit that may be meant; none for what the tables lack."""
    if currency:
        return _CURRENCIES.get(currency.strip(), frozenset())
    return frozenset() if measure is None else frozenset({_UNIT_NAMES[measure]})


def unit_size(names: frozenset[str]) -> tuple[str, float] | None:
    """Return a unit's kind and its size in the kind's first unit; None without a unit of measure."""
    return next((_UNIT_SIZES[name] for name in names if name in _UNIT_SIZES), None)
