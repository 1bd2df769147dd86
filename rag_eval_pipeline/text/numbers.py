"""Numbers in English text, compared by what they mean: `$1.2 billion`, `1.2bn` and `1,200 million` are one number.

A quantity has a value, a class of unit (none, percent, currency) and the precision it is written with. Years are
compared as years and dates as dates.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from rag_eval_pipeline.text.normalise import fold, unify

Unit = Literal["", "%", "currency"]
Match = Literal["yes", "sign", "no"]

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
_MOST_DIGITS = 25  # with separators; longer ones are keys and serial numbers, which nobody rounds
_HAS_NUMBER = re.compile(r"[0-9]")
_FISCAL = re.compile(
    r"(?<!\w)(?:fy ?'?|fiscal(?: year)? '?|[qh][1-4] ?(?:fy)? ?'?)(?P<year>[12][0-9]{3}|[0-9]{2})(?!\w|[.,][0-9])"
)
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?!\w)\.?"
_GAP = r"[ \n-]{1,3}"
_YEAR = r"(?P<year>[12][0-9]{3})(?!\w)"
_DATES = (
    re.compile(r"(?<![\w./-])(?P<year>[12][0-9]{3})[-/.](?P<month>[01]?[0-9])[-/.](?P<day>[0-3]?[0-9])(?![\w/-])"),
    re.compile(r"(?<![\w./-])(?P<month>[0-3]?[0-9])([-/.])(?P<day>[0-3]?[0-9])\2(?P<year>[12][0-9]{3})(?![\w/-])"),
    re.compile(
        rf"(?<![\w.,/])(?P<day>[0-3]?[0-9])(?:st|nd|rd|th|\.)?{_GAP}(?:of )?{_MONTH}(?:,?{_GAP}(?:of )?{_YEAR})?"
    ),
    re.compile(rf"(?<!\w){_MONTH}{_GAP}(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?(?![\w%]|[.,][0-9])(?:,?{_GAP}{_YEAR})?"),
    re.compile(rf"(?<!\w){_MONTH}(?P<day>),?{_GAP}(?:of )?{_YEAR}"),
)
_CAPITAL_ONLY = frozenset({"may", "march", "mar"})  # `it may 5 times` is no date

_CURRENCY_WORDS = (
    "dollars?|usd|euros?|eur|pounds|gbp|sterling|yen|jpy|yuan|rmb|cny|rupees?|inr|francs|chf|cents|won|krw|cad|aud"
)
_PERCENT_WORDS = "percentage points?|percent|per cent|pct"
_SCALE_WORDS = "|".join(sorted(_SCALES, key=len, reverse=True))
_WORDS = "|".join(sorted(_VALUES, key=len, reverse=True))


def _number_pattern(number: str, apart: str, ended: str) -> re.Pattern[str]:
    return re.compile(
        rf"{apart}(?P<open>\()?(?P<minus>[-+](?<=-)|(?:minus|negative) )?"
        r"(?:(?P<currency>(?:us|c|a|hk|nz)?[$€£¥₹₩₽₺₪฿]|usd|eur|gbp|jpy|cny|rmb|inr|chf|rs\.?) ?)?"
        rf"(?P<inner_open>\()?(?P<inner_minus>-)?(?P<number>{number}){ended}"
        r"(?P<ordinal>(?:st|nd|rd|th)\b)?(?P<close>\))?"
        # 5 mm are millimetres and $5 mm are millions.
        rf"(?:(?P<letter>[kmb])(?!\w)|[ -]?(?P<scale>(?(currency)|(?!mm(?!\w)))(?:{_SCALE_WORDS})"
        rf"(?: (?:{_SCALE_WORDS}))?)(?!\w)\.?)?"
        rf"(?:[ -]?(?:(?P<percent>%|(?:{_PERCENT_WORDS})(?!\w))|(?P<basis>(?:basis points?|bps)(?!\w))"
        rf"|(?:(?:of )?(?:us |u\.s\. )?(?P<currency_after>[$€£¥₹₩₽₺₪]|(?:{_CURRENCY_WORDS})(?!\w)))))?"
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
    rf"(?:[ -](?:(?P<percent>{_PERCENT_WORDS})(?!\w)|(?P<currency>{_CURRENCY_WORDS})(?!\w)))?"
)
_TWO_WORDS = re.compile(rf"\b({_TENS.replace(' ', '|')})[ -]({'|'.join(_SMALL.split()[1:10])})\b", re.IGNORECASE)


class Date(NamedTuple):
    """A date as far as it is written; never only a year."""

    year: int | None
    month: int
    day: int | None

    def covers(self, wanted: "Date") -> bool:
        """Whether all that is wanted is here: a day of May 2021 covers May 2021, and not the reverse."""
        return all(part is None or part == own for part, own in zip(wanted, self, strict=True))


class Quantity(NamedTuple):
    """A number as it is meant."""

    value: float  # in units of one; percent as written; for a date its year, or 0
    unit: Unit
    half_step: float  # half a unit of the last significant digit as written; 0 for a bare integer under ten
    is_year: bool  # compared as a year: equal or not
    date: Date | None
    is_weak: bool  # a word such as `one` or `first`, which mostly counts nothing
    text: str  # as written, folded


def quantities(text: str, *, decimal_comma: bool = False) -> list[Quantity]:
    """Return the quantities of a text without citation marks, dates first; a decimal comma is never guessed."""
    unified = unify(text)
    folded = fold(unified)
    written = unified if len(unified) == len(folded) else folded
    found = []
    if _HAS_NUMBER.search(folded):
        for date, start, end in _find_dates(folded, written):
            found.append(Quantity(float(date.year or 0), "", 0.0, False, date, False, folded[start:end]))
            folded = _without(folded, start, end)
        for match in _FISCAL.finditer(folded):
            year = int(match["year"])
            year += 0 if year >= 100 else 2000 if year < 70 else 1900
            found.append(Quantity(float(year), "", 0.0, True, None, False, match[0]))
            folded = _without(folded, *match.span())
        for match in (_COMMA if decimal_comma else _POINT).finditer(folded):
            if len(match["number"]) <= _MOST_DIGITS:
                found.append(_number(match, written, decimal_comma=decimal_comma))
    found.extend(_worded(folded))
    return found


def in_digits(text: str) -> str:
    """Write numbers of two words in digits, `thirty-one` as 31, so that both spellings are one word."""
    return _TWO_WORDS.sub(lambda match: str(_VALUES[match[1].lower()] + _VALUES[match[2].lower()]), text)


class NumberIndex:
    """The quantities of a text in any order, indexed for searches."""

    # "In USD millions" may be in the question or in a table's head, so either side may lack it.
    _FACTORS = (1.0, 1e3, 1e-3, 1e6, 1e-6, 1e9, 1e-9)
    _ROUNDING = 1e-9  # relative: what sums and products of floats lose
    _OWN_ROUNDING = 0.5  # a four-digit number that looks like a year is exact to the unit

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

    def match(self, wanted: Quantity, tolerance: float) -> Match:
        """Look for a number, all of it or all but its sign.

        The relative tolerance is allowed besides half a unit of the wanted number's last digit.
        """
        if wanted.date is not None:
            return "yes" if any(date.covers(wanted.date) for date in self._dates) else "no"
        if wanted.is_year:
            is_here = self._has_year(wanted.value, 0.0) or self._has_amount(wanted.value)
            return "yes" if is_here else "no"
        size = abs(wanted.value)
        slack = max(wanted.half_step, tolerance * size)
        found: Match = "no"
        for factor, units in self._scalings(wanted):
            for given in self._near(size * factor, slack * factor + self._ROUNDING * size * factor):
                if given.unit in units:
                    if (given.value < 0) == (wanted.value < 0):
                        return "yes"
                    found = "sign"
        if found == "no" and not wanted.unit and self._has_year(wanted.value, min(slack, self._OWN_ROUNDING)):
            return "yes"
        return found

    def _near(self, size: float, reach: float) -> Iterator[Quantity]:
        place = bisect_left(self._sizes, size - reach)
        while place < len(self._sizes) and self._sizes[place] <= size + reach:
            yield self._numbers[place]
            place += 1

    def _has_amount(self, year: float) -> bool:
        """Whether a year is an amount here: 1577 as 1,577 or as $1,577 million, to the last digit."""
        return any(
            # $2 billion is not 2000: it is not written to the unit.
            given.value > 0 and given.unit != "%" and given.half_step <= self._OWN_ROUNDING * factor
            for factor in self._FACTORS
            for given in self._near(year * factor, self._ROUNDING * year * factor)
        )

    def _has_year(self, value: float, slack: float) -> bool:
        place = bisect_left(self._years, value - slack)
        return place < len(self._years) and self._years[place] <= value + slack

    @classmethod
    def _scalings(cls, wanted: Quantity) -> Iterable[tuple[float, tuple[Unit, ...]]]:
        """Return each factor by which the number may be written, and the units that it may have then."""
        if wanted.unit == "%":
            return ((1.0, ("%", "")), (0.01, ("",)))
        if wanted.unit == "currency":
            return tuple((factor, ("currency", "")) for factor in cls._FACTORS)
        return (*((factor, ("", "currency")) for factor in cls._FACTORS), (1.0, ("%",)), (100.0, ("%",)))


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
            # 3/4/2021 has the month first, unless it cannot be one.
            month, day = (int(day), str(month)) if month > 12 and day and int(day) <= 12 else (month, day)
            if 1 <= month <= 12 and (day or year) and (not day or 1 <= int(day) <= 31):
                date = Date(int(year) if year else None, month, int(day) if day else None)
                found.append((date, match.start(), match.end()))
    result: list[tuple[Date, int, int]] = []
    for date, start, end in sorted(found, key=lambda one: (one[1], -one[2])):
        if not result or start >= result[-1][2]:
            result.append((date, start, end))
    return result


def _number(match: re.Match[str], written: str, *, decimal_comma: bool) -> Quantity:
    digits = match["number"]
    thousands, decimal = (".", ",") if decimal_comma else (",", ".")
    bare = digits.replace("'", "").replace(" ", "").replace(thousands, "").replace(decimal, ".")
    decimals = len(bare.partition(".")[2].rstrip("0"))
    scale = 1.0
    letter = written[match.start("letter")] if match["letter"] else ""
    if letter in "kKMB" or match["currency"]:  # 5 m are metres and $5m are millions
        scale = _LETTERS.get(letter.lower(), 1.0)
    for word in (match["scale"] or "").split():
        scale *= _SCALES[word.rstrip(".")]
    unit: Unit = "%" if match["percent"] or match["basis"] else ""
    if not unit and (match["currency"] or match["currency_after"]):
        unit = "currency"
    value = float(bare) * scale
    half_step = 0.5 * 10.0**-decimals * scale
    is_plain = not unit and scale == 1.0
    if is_plain and decimals == 0 and value < 10:
        half_step = 0.0
    if match["basis"]:
        value, half_step = value / 100, half_step / 100
    signed = bool(match["minus"] or match["inner_minus"])
    enclosed = (match["open"] or match["inner_open"]) and match["close"]
    # (546) alone is a note or a count; with anything financial beside it, it is a loss.
    if enclosed and (not is_plain or match["currency"] or not digits.isdigit()):
        signed = True
    is_year = (
        is_plain and not signed and not match["ordinal"] and len(digits) == 4 and digits.isdigit()
        and int(digits) in _YEARS
    )  # fmt: skip
    return Quantity(-value if signed else value, unit, half_step, is_year, None, False, match[0].strip())


def _worded(folded: str) -> Iterator[Quantity]:
    for match in _WORDED.finditer(folded):
        total = current = 0.0
        step = 1.0
        for word in re.findall(r"[a-z]+", match["words"]):
            if word in _VALUES:
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
        is_weak = match["words"].strip() in _WEAK_WORDS
        yield Quantity(value, unit, half_step, False, None, is_weak, match[0].strip())
