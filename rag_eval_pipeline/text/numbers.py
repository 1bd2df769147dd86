"""Numbers in English text, compared by what they mean: `$1.2 billion`, `1.2bn` and `1,200 million` are one number.

A quantity has a value, a unit, the precision it is written with, and what the words around it make of it: `not 42`,
`at least 42`. Years are compared as years, dates as dates and codes such as 00731 as they are written.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from rag_eval_pipeline.text.folding import fold, unify
from rag_eval_pipeline.text.hedges import LOOSE, Hedge, find_hedges
from rag_eval_pipeline.text.units_of_measure import CURRENCY_WORDS, MEASURE_WORDS, unit_names, unit_size

Unit = Literal["", "%", "currency", "code"]
Match = Literal[
    "yes",
    "no",
    "rounding",
    "last digit",
    "sign",
    "unit",
    "day and month",
    "denial",
    "alternative",
    "list",
    "bracket",
    "bound",
]
"""Whether a number is there, or in what it differs from one that is there."""

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
)
COUNTING_WORDS = {word: value for value, word in enumerate(_SMALL.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), start=2)
}
_VALUES = COUNTING_WORDS | {word: value for value, word in enumerate(_ORDINALS.split(), start=1)} | {"thirtieth": 30}
_WEAK_WORDS = frozenset({"one", "first", "second"})  # `one of`, `first of all`: they rarely count anything
_SCALES = {
    "hundred": 1e2, "thousand": 1e3, "thousands": 1e3, "million": 1e6, "millions": 1e6, "mn": 1e6, "mln": 1e6,
    "mm": 1e6, "billion": 1e9, "billions": 1e9, "bn": 1e9, "bln": 1e9, "trillion": 1e12, "trillions": 1e12, "tn": 1e12,
    "lakh": 1e5, "lakhs": 1e5, "crore": 1e7, "crores": 1e7,
}  # fmt: skip
_LETTERS = {"k": 1e3, "m": 1e6, "b": 1e9}
_MONTHS = {
    name: number
    for number, (month, *short) in enumerate(
        (
            ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",), ("june", "jun"),
            ("july", "jul"), ("august", "aug"), ("september", "sept", "sep"), ("october", "oct"), ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in (month, *short)
}  # fmt: skip

_YEARS = range(1000, 2101)
_UNIT_STEP = 0.5  # half a step of a number that is written to the unit
_LEADING_ZERO = re.compile(r"0[0-9]{2,}")
_MOST_DIGITS = 25  # with separators; longer ones are keys and serial numbers, which nobody rounds
_HAS_NUMBER = re.compile(r"[0-9]")
_FISCAL = re.compile(
    # "H2 20 people" is no year: two digits need an apostrophe or FY.
    r"(?<!\w)(?:fy ?'?|fiscal(?: year)? '?|[qh][1-4] ?(?:fy ?'?|'|(?=[0-9]{4}))|[qh][1-4])"
    r"(?P<year>[12][0-9]{3}|[0-9]{2})(?!\w|[.,][0-9])"
)
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?!\w)\.?"
_GAP = r"[ \n-]{1,3}"
_YEAR = r"(?P<year>[12][0-9]{3})(?!\w)"
_NUMERIC_DATE = re.compile(
    r"(?<![\w./-])(?P<month>[0-3]?[0-9])([-/.])(?P<day>[0-3]?[0-9])\2(?P<year>[12][0-9]{3})(?![\w/-])"
)
_DATES = (
    re.compile(r"(?<![\w./-])(?P<year>[12][0-9]{3})[-/.](?P<month>[01]?[0-9])[-/.](?P<day>[0-3]?[0-9])(?![\w/-])"),
    _NUMERIC_DATE,
    re.compile(
        rf"(?<![\w.,/])(?P<day>[0-3]?[0-9])(?:st|nd|rd|th|\.)?{_GAP}(?:of )?{_MONTH}(?:,?{_GAP}(?:of )?{_YEAR})?"
    ),
    re.compile(rf"(?<!\w){_MONTH}{_GAP}(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?(?![\w%]|[.,][0-9])(?:,?{_GAP}{_YEAR})?"),
    re.compile(rf"(?<!\w){_MONTH}(?P<day>),?{_GAP}(?:of )?{_YEAR}"),
)
_CAPITAL_ONLY = frozenset({"may", "march", "mar"})  # `it may 5 times` is no date

_PERCENT_WORDS = "percentage points?|percent|per cent|pct"
_SCALE_WORDS = "|".join(sorted(_SCALES, key=len, reverse=True))
_WORDS = "|".join(sorted(_VALUES, key=len, reverse=True))


def _number_pattern(number: str, apart: str, ended: str) -> re.Pattern[str]:
    return re.compile(
        # "10%-20%" is a range.
        rf"{apart}(?P<open>\()?(?P<minus>(?<![%)$€£¥₹₩₽₺₪])[-+](?<=-)|(?:minus|negative) )?"
        r"(?:(?P<currency>(?:us|c|a|hk|nz)?[$€£¥₹₩₽₺₪฿]|usd|eur|gbp|jpy|cny|rmb|inr|chf|rs\.?) ?)?"
        rf"(?P<inner_open>\()?(?(currency)(?P<inner_minus>-)?)(?P<number>{number}){ended}"
        r"(?P<ordinal>(?:st|nd|rd|th)\b)?(?P<close>\))?"
        # 5 mm are millimetres and $5 mm are millions.
        rf"(?:(?P<letter>[kmb])(?!\w)|[ -]?(?P<scale>(?(currency)|(?!mm(?!\w)))(?:{_SCALE_WORDS})"
        rf"(?: (?:{_SCALE_WORDS}))?)(?!\w)\.?)?"
        rf"(?:[ -]?(?:(?P<percent>%|(?:{_PERCENT_WORDS})(?!\w))|(?P<basis>(?:basis points?|bps)(?!\w))"
        rf"|(?:(?:of )?(?:us |u\.s\. )?(?P<currency_after>[$€£¥₹₩₽₺₪]|(?:{CURRENCY_WORDS})(?!\w)))"
        rf"|(?P<measure>(?:{MEASURE_WORDS})(?!\w))))?"
    )


# Not inside a word, except between characters of Chinese, Japanese and Korean, which have no space.
_APART = r"(?<![^\W\u2e80-\u9fff\uac00-\ud7af])"
# No part of a version such as 1.2.3. 12,34,567 is how lakhs and crores are grouped.
_POINT = _number_pattern(
    r"[0-9]{1,3}(?:[,'][0-9]{2,3})*[,'][0-9]{3}(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+",
    rf"{_APART}(?<![0-9]\.)",
    r"(?!\.?[0-9])",
)
_COMMA = _number_pattern(
    r"[0-9]{1,3}(?:[.' ][0-9]{3})+(?![0-9])(?:,[0-9]+)?|[0-9]+(?:,[0-9]+)?",
    rf"{_APART}(?<![0-9][.,])",
    r"(?![.,]?[0-9])",
)
_WORDED = re.compile(
    rf"(?<![\w'])(?P<words>(?:(?:{_WORDS})(?!\w)|an?(?=[ -](?:{_SCALE_WORDS})(?!\w)))"
    rf"(?:(?:[ -]|[ -]and[ -])(?:{_WORDS}|{_SCALE_WORDS})(?!\w)){{0,8}})"
    rf"(?:[ -](?:(?P<percent>{_PERCENT_WORDS})(?!\w)|(?P<currency>{CURRENCY_WORDS})(?!\w)"
    rf"|(?P<measure>{MEASURE_WORDS})(?!\w)))?"
)
# A part of something: `a quarter`, `two thirds of the crew`; not a quarter of an hour, the first half, a third party.
_FRACTION = re.compile(
    r"(?<![\w'-])(?:(?P<count>an?|one|two|three|four)(?:(?P<joined>-)| )(?P<part>half|halves|thirds?|quarters?|fifths?"
    r"|tenths?)|(?P<bare>half))(?(joined)(?![\w-])|(?= of (?!an? )|\W*(?:$|[.;,)\n])))"
)
_PARTS = {"hal": 2, "thi": 3, "qua": 4, "fif": 5, "ten": 10}
_AND_A_HALF = re.compile(rf"\b({'|'.join(COUNTING_WORDS)}|[0-9]{{1,4}}) and a half\b", re.IGNORECASE)
_DOZEN = re.compile(rf"\b(?:(half a)|(an?|{'|'.join(COUNTING_WORDS)}|[0-9]{{1,4}})) dozen\b", re.IGNORECASE)
_MIXED = re.compile(r"(?<![\w./-])(\d{1,4}) {1,2}([1-9])/([2-9])(?![\w/-]|\.\d)")
_BETWEEN_UNITS = re.compile(r"[ ,]*(?:and )?")  # 1 hour and 30 minutes
_TWO_WORDS = re.compile(rf"\b({_TENS.replace(' ', '|')})[ -]({'|'.join(_SMALL.split()[1:10])})\b", re.IGNORECASE)


class Date(NamedTuple):
    """A date as far as it is written; never only a year. 03/09/2024 is read as American, and may be 3 September."""

    year: int | None
    month: int
    day: int | None
    may_swap: bool = False

    def match(self, wanted: "Date") -> Match:
        """Whether all that is wanted is here: a day of May 2021 covers May 2021, and not the reverse."""
        if self._covers(wanted):
            return "yes" if self.may_swap == wanted.may_swap or wanted.day is None else "day and month"
        swapped = self.may_swap != wanted.may_swap and wanted.day is not None
        return "day and month" if swapped and Date(self.year, self.day or 0, self.month)._covers(wanted) else "no"

    def _covers(self, wanted: "Date") -> bool:
        return all(part is None or part == own for part, own in zip(wanted[:3], self[:3], strict=True))


class Quantity(NamedTuple):
    """A number as it is meant."""

    value: float  # in units of one; percent as written; for a date its year, or 0
    unit: Unit
    half_step: float  # half a unit of the last significant digit as written; 0 for a bare integer under ten
    text: str  # as written, folded
    written_step: float = 0.0  # the same of the last digit: 0.005 of 4.50
    rounded_by: float = 0.0  # what may have been rounded off: the same, or 50 of 1,400
    is_year: bool = False  # compared as a year: equal or not
    date: Date | None = None
    is_weak: bool = False  # a word such as `one` or `first`, which mostly counts nothing
    names: frozenset[str] = frozenset()  # the currencies or the unit of measure that it may have; empty if none is said
    is_enclosed: bool = False  # (3.14) is a remark or a loss
    hedge: Hedge = ""

    @property
    def is_round(self) -> bool:
        """Whether it is written like an estimate: 300, 1.2 million."""
        return not self.is_year and self.date is None and (self.half_step > _UNIT_STEP or self.value % 10 == 0)

    @property
    def is_exact(self) -> bool:
        """Whether it is a year, a date or a count, so that `about 42` is not 42."""
        return not (self.is_round or self.unit or self.names) and self.value == int(self.value)

    def doubt(self, given: "Quantity") -> Match:
        """Whether a number of this size answers this one, or in what it differs."""
        if self.names and given.names and self.names.isdisjoint(given.names):
            return "unit"
        if {self.unit, given.unit} == {"", "%"} and (_is_measured(self) or _is_measured(given)):
            return "unit"
        if (self.value < 0) != (given.value < 0) and not (self.is_enclosed or given.is_enclosed):
            return "sign"
        return _hedge_doubt(self, given)


def quantities(text: str, *, decimal_comma: bool = False) -> list[Quantity]:
    """Return the quantities of a text without citation marks, dates first; a decimal comma is never guessed."""
    unified = in_decimals(unify(text), decimal_comma=decimal_comma)
    folded = fold(unified)
    if len(folded) != len(unified):  # ß is folded to two letters
        folded = "".join(letter if len(fold(letter)) != 1 else fold(letter) for letter in unified)
    whole = folded
    found: list[tuple[Quantity, int, int]] = []
    if _HAS_NUMBER.search(folded):
        for date, start, end in _find_dates(folded, unified):
            found.append((Quantity(float(date.year or 0), "", 0.0, folded[start:end], date=date), start, end))
            folded = _without(folded, start, end)
        for match in _FISCAL.finditer(folded):
            year = int(match["year"])
            year += 0 if year >= 100 else 2000 if year < 70 else 1900
            found.append((Quantity(float(year), "", 0.0, match[0], is_year=True), *match.span()))
            folded = _without(folded, *match.span())
        for match in (_COMMA if decimal_comma else _POINT).finditer(folded):
            if len(match["number"]) <= _MOST_DIGITS:
                found.append((_number(match, unified, decimal_comma=decimal_comma), *match.span()))
    for match in _FRACTION.finditer(folded):
        count = COUNTING_WORDS.get(match["count"] or "", 1)
        value = count / _PARTS[(match["part"] or match["bare"])[:3]]
        found.append((Quantity(value, "", 0.005, match[0], 0.005, 0.005), *match.span()))
        folded = _without(folded, *match.span())
    found.extend((_worded(match), *match.span()) for match in _WORDED.finditer(folded))
    found = _with_sums(found, whole)
    places = [(start, end, one.is_year or one.date is not None) for one, start, end in found]
    return [one._replace(hedge=hedge) for (one, _, _), hedge in zip(found, find_hedges(whole, places), strict=True)]


def in_digits(text: str) -> str:
    """Write numbers of two words in digits, `thirty-one` as 31, so that both spellings are one word."""
    return _TWO_WORDS.sub(lambda match: str(_VALUES[match[1].lower()] + _VALUES[match[2].lower()]), text)


def in_decimals(text: str, *, decimal_comma: bool) -> str:
    """Write mixed numbers as decimal ones, `2 1/2` and `two and a half` as 2.5, and `two dozen` as 24."""
    text = _DOZEN.sub(_dozen, text)
    text = _AND_A_HALF.sub(lambda match: f"{COUNTING_WORDS.get(match[1].lower(), match[1])} 1/2", text)
    mark = "," if decimal_comma else "."
    return _MIXED.sub(lambda match: f"{int(match[1]) + int(match[2]) / int(match[3]):.6g}".replace(".", mark), text)


def _dozen(match: re.Match[str]) -> str:
    if match[1]:
        return "6"
    count = match[2].lower()
    return str(12 * (1 if count in ("a", "an") else int(COUNTING_WORDS.get(count, count))))


def _with_sums(found: list[tuple[Quantity, int, int]], text: str) -> list[tuple[Quantity, int, int]]:
    """Return the quantities with those that are one measure as one: `1 hour and 30 minutes` are 90 minutes."""
    summed: list[tuple[Quantity, int, int]] = []
    for given, start, end in sorted(found, key=lambda one: one[1]) if len(found) > 1 else found:
        earlier, first, last = summed[-1] if summed else (given, 0, 0)
        large, small = unit_size(earlier.names), unit_size(given.names)
        is_next = _BETWEEN_UNITS.fullmatch(text, last, start) is not None
        if is_next and large and small and large[0] == small[0] and large[1] > small[1]:
            value = earlier.value * large[1] / small[1] + given.value
            summed[-1] = given._replace(value=value, text=text[first:end].strip()), first, end
        else:
            summed.append((given, start, end))
    return summed


class NumberIndex:
    """The quantities of a text in any order, indexed for searches."""

    # "In USD millions" may be in the question or in a table's head, so either side may lack it.
    _FACTORS: tuple[float, ...] = (1.0, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
    _ROUNDING = 1e-9  # relative: what sums and products of floats lose

    def __init__(self, given: Iterable[Quantity]) -> None:
        found = list(given)
        self._dates = [quantity for quantity in found if quantity.date is not None]
        self._codes = [quantity for quantity in found if quantity.unit == "code"]
        years = [quantity for quantity in found if quantity.is_year]
        years += [one._replace(date=None, is_year=True) for one in self._dates if one.value]
        numbers = [one for one in found if one.date is None and not one.is_year and one.unit != "code"]
        self._years = _Sorted((year.value, year) for year in years)
        self._numbers = _Sorted((abs(number.value), number) for number in numbers)
        self._temperatures = _Sorted((abs(one.value), one) for one in map(_other_scale, numbers) if one is not None)
        self._measured = _Sorted(
            (abs(number.value) * unit[1], number) for number in numbers if (unit := unit_size(number.names))
        )

    def match(self, wanted: Quantity, tolerance: float) -> Match:
        """Look for a number, or for one that differs from it in its unit, its sign or the words beside it only.

        "yes" is a number that one of the two may be rounded from. One within the relative tolerance, or half a unit of
        the wanted number's last significant digit, differs by its "rounding".
        """
        found: Match = "no"
        for match in self._matches(wanted, tolerance):
            if match == "yes":
                return match
            found = match if found == "no" else found
        return found

    def _matches(self, wanted: Quantity, tolerance: float) -> Iterator[Match]:
        if wanted.date is not None:
            for given in self._dates:
                match = given.date.match(wanted.date) if given.date else "no"
                yield _hedge_doubt(wanted, given) if match == "yes" else match
        elif wanted.unit == "code":
            yield from (wanted.doubt(given) for given in self._codes if given.text == wanted.text)
        elif wanted.is_year:
            yield from (wanted.doubt(given) for given in self._years.near(wanted.value, 0.0))
            yield from (wanted.doubt(given) for given in self._amounts(wanted.value))
        else:
            yield from self._number_matches(wanted, tolerance)

    def _number_matches(self, wanted: Quantity, tolerance: float) -> Iterator[Match]:
        size = abs(wanted.value)
        slack = max(wanted.half_step, tolerance * size)
        lost = self._ROUNDING * size
        for factor, units in self._scalings(wanted):
            for given in self._numbers.near(size * factor, (slack + lost) * factor):
                if given.unit in units and (factor == 1.0 or not (_is_measured(wanted) or _is_measured(given))):
                    rounded = max(wanted.written_step, min(given.rounded_by / factor, tolerance * size)) + lost
                    is_rounded = abs(abs(given.value) / factor - size) <= rounded
                    yield wanted.doubt(given) if is_rounded else "rounding"
        if (unit := unit_size(wanted.names)) is not None:
            for given in self._measured.near(size * unit[1], slack * unit[1]):
                if given.names != wanted.names and (own := unit_size(given.names)) and own[0] == unit[0]:
                    yield wanted.doubt(given._replace(names=wanted.names))
        for given in self._temperatures.near(size, slack) if wanted.names else ():
            if given.names == wanted.names:
                yield wanted.doubt(given)
        if wanted.unit != "%":  # 1500 is also a number without its unit
            is_bare = not wanted.unit and not wanted.names
            for given in self._years.near(wanted.value, min(slack, _UNIT_STEP)):
                if is_bare or given.text.isdigit():
                    yield wanted.doubt(given)

    def _amounts(self, year: float) -> Iterator[Quantity]:
        """Yield amounts that are written like a year: 1577 as 1,577 or as $1,577 million, to the last digit."""
        for factor in self._FACTORS:
            for given in self._numbers.near(year * factor, self._ROUNDING * year * factor):
                # $2 billion is not 2000: it is not written to the unit.
                if given.value > 0 and given.unit != "%" and given.half_step <= _UNIT_STEP * factor:
                    yield given

    @classmethod
    def _scalings(cls, wanted: Quantity) -> Iterable[tuple[float, tuple[Unit, ...]]]:
        """Return each factor by which the number may be written, and the units that it may have then."""
        if wanted.unit == "%":
            return ((1.0, ("%", "")), (0.01, ("",)))
        if wanted.unit == "currency":
            return tuple((factor, ("currency", "")) for factor in cls._FACTORS)
        return (*((factor, ("", "currency")) for factor in cls._FACTORS), (1.0, ("%",)), (100.0, ("%",)))


class _Sorted:
    """Quantities by size."""

    def __init__(self, items: Iterable[tuple[float, Quantity]]) -> None:
        self._items = sorted(items, key=lambda item: item[0])
        self._sizes = [size for size, _ in self._items]

    def near(self, size: float, reach: float) -> Iterator[Quantity]:
        place = bisect_left(self._sizes, size - reach)
        while place < len(self._sizes) and self._sizes[place] <= size + reach:
            yield self._items[place][1]
            place += 1


def _other_scale(quantity: Quantity) -> Quantity | None:
    """Return a temperature in Celsius as one in Fahrenheit and the reverse; None of another quantity."""
    if quantity.names == {"°c"}:
        return quantity._replace(value=quantity.value * 9 / 5 + 32, names=frozenset({"°f"}))
    if quantity.names == {"°f"}:
        return quantity._replace(value=(quantity.value - 32) * 5 / 9, names=frozenset({"°c"}))
    return None


def _is_measured(quantity: Quantity) -> bool:
    return bool(quantity.names) and quantity.unit == ""


def _hedge_doubt(wanted: Quantity, given: Quantity) -> Match:
    one, other = wanted.hedge, given.hedge
    if one == "about" or (other == "about" and not wanted.is_exact):
        one, other = (hedge if hedge != "about" else "" for hedge in (one, other))
    if one in ("above", "below") and wanted.is_round and other == "":  # "over 14,000" and "14,000"
        return "yes"
    if one in LOOSE:  # the gold answer itself is a list
        one = other if other in LOOSE else ""
    if one == other:
        return "yes"
    if "denial" in (one, other):
        return "denial"
    return next((loose for loose in LOOSE if other == loose), "bound")


def _without(text: str, start: int, end: int) -> str:
    return f"{text[:start]}{' ' * (end - start)}{text[end:]}"


def _find_dates(folded: str, written: str) -> list[tuple[Date, int, int]]:
    found = []
    for pattern in _DATES:
        for match in pattern.finditer(folded):
            name, day, year = match["month"], match["day"], match["year"]
            if name in _CAPITAL_ONLY and written[match.start("month")].islower():
                continue
            month = _MONTHS.get(name) or int(name)
            # 3/4/2021 has the month first, unless it cannot be one; it may be 3 April.
            month, day = (int(day), str(month)) if month > 12 and day and int(day) <= 12 else (month, day)
            if 1 <= month <= 12 and (day or year) and (not day or 1 <= int(day) <= 31):
                may_swap = pattern is _NUMERIC_DATE and int(day) <= 12 and int(day) != month and int(name) <= 12
                date = Date(int(year) if year else None, month, int(day) if day else None, may_swap)
                found.append((date, match.start(), match.end()))
    result: list[tuple[Date, int, int]] = []
    for date, start, end in sorted(found, key=lambda one: (one[1], -one[2])):
        if not result or start >= result[-1][2]:
            result.append((date, start, end))
    return result


def _number(match: re.Match[str], written: str, *, decimal_comma: bool) -> Quantity:
    digits = match["number"]
    if _LEADING_ZERO.fullmatch(digits):
        return Quantity(0.0, "code", 0.0, digits)
    thousands, decimal = (".", ",") if decimal_comma else (",", ".")
    bare = digits.replace("'", "").replace(" ", "").replace(thousands, "").replace(decimal, ".")
    letter = written[match.start("letter")] if match["letter"] else ""
    measure = match["measure"] or ("m" if letter == "m" and not match["currency"] else None)
    scale = 1.0
    if letter in "kKMB" or match["currency"]:  # 5 m are metres and $5m are millions
        scale = _LETTERS.get(letter.lower(), 1.0)
    for word in (match["scale"] or "").split():
        scale *= _SCALES[word.rstrip(".")]
    if match["basis"]:
        scale = 0.01
    currency = match["currency"] or match["currency_after"]
    unit: Unit = "%" if match["percent"] or match["basis"] else "currency" if currency else ""
    value = float(bare) * scale
    decimals = len(bare.partition(".")[2].rstrip("0"))
    half_step = 0.5 * 10.0**-decimals * scale
    is_plain = not unit and scale == 1.0
    if is_plain and decimals == 0 and value < 10:
        half_step = 0.0
    written_step = half_step and 0.5 * 10.0 ** -len(bare.partition(".")[2]) * scale
    is_enclosed = bool(match["open"] and match["close"])
    # $(546) is a loss.
    is_negative = match["minus"] or match["inner_minus"] or (match["inner_open"] and match["close"])
    is_year = (
        is_plain and not measure and not is_negative and not match["ordinal"] and len(digits) == 4
        and digits.isdigit() and int(digits) in _YEARS
    )  # fmt: skip
    return Quantity(
        -value if is_negative else value, unit, half_step, match[0].strip(),
        written_step, written_step * 10 ** (len(bare) - len(bare.rstrip("0")) if bare.isdigit() and value else 0),
        is_year=is_year, names=unit_names(currency, measure), is_enclosed=is_enclosed,
    )  # fmt: skip


def _worded(match: re.Match[str]) -> Quantity:
    total = current = 0.0
    step = 1.0
    is_year = False
    for word in re.findall(r"[a-z]+", match["words"]):
        if word in _VALUES:
            if step == 1.0 and not total and 10 <= current <= 20 and COUNTING_WORDS.get(word, 0) >= 10:
                current, is_year = current * 100, True  # nineteen eighty-four
            current += _VALUES[word]
        elif word in _SCALES:
            step = _SCALES[word]
            if step < 1000:
                current = max(current, 1) * step
            else:
                total, current = total + max(current, 1) * step, 0.0
    value = total + current
    unit: Unit = "%" if match["percent"] else "currency" if match["currency"] else ""
    # "Two million" is exact to half a million, "two" and "two hundred and five" to the unit.
    half_step = 0.0 if value < 10 else 0.5 * (step if current == 0 else 1.0)
    return Quantity(
        value, unit, half_step, match[0].strip(), half_step, half_step, is_year=is_year and int(value) in _YEARS,
        is_weak=match["words"].strip() in _WEAK_WORDS, names=unit_names(match["currency"], match["measure"]),
    )  # fmt: skip
