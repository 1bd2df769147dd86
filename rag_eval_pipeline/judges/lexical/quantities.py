"""Numbers in a text with what is written beside them: sign, scale, unit, precision; years; dates.

A quantity is compared by value, never by spelling: `$1.2 billion`, `1.2bn` and `1,200 million` are one number.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from rag_eval_pipeline.judges.lexical.dates import Date, find_dates
from rag_eval_pipeline.judges.lexical.measures import UNITS, Measure, measure_of
from rag_eval_pipeline.judges.lexical.number_words import (
    BASIS_POINTS,
    CURRENCY_WORDS,
    PERCENT_WORDS,
    SIGN_SCALES,
    counting_words,
    ordinal_words,
    scale_words,
)
from rag_eval_pipeline.judges.lexical.settings import LanguageCode
from rag_eval_pipeline.text.normalise import fold, unify

Unit = Literal["", "%", "currency"]
_YEARS = range(1000, 2101)
# Words that rarely count anything: `one of`, `first of all`, `a second time`.
_WEAK_WORDS = frozenset({"one", "first", "second", "ein", "un", "uno", "um", "een"})
_FISCAL = re.compile(
    r"(?<!\w)(?:fy ?'?|fiscal(?: year)? '?|[qh][1-4] ?(?:fy)? ?'?)(?P<year>[12][0-9]{3}|[0-9]{2})(?!\w|[.,][0-9])"
)
# Not inside a word: B2B has no number. Between characters of Chinese, Japanese and Korean there is no space.
_APART = r"(?<![^\W\u2e80-\u9fff\uac00-\ud7af])"
_MYRIADS = "万萬만千"
_MOST_DIGITS = 25  # with separators; longer ones are keys and serial numbers, which nobody rounds
_HAS_NUMBER = re.compile(r"[0-9]")


class Quantity(NamedTuple):
    """A number as it is meant.

    Args:
        value: In units of one; percent as written; for a date its year, or 0.
        unit: Class of the unit.
        half_step: Half a unit of the last significant digit as written; 0 for a bare integer under ten.
        is_year: Compared as a year: equal or not.
        date: When it is one.
        is_weak: A word such as `one` or `first`, which mostly counts nothing.
        text: As written, folded.
        measure: The unit of measure beside it; None without one, or with one that is not known.
    """

    value: float
    unit: Unit
    half_step: float
    is_year: bool
    date: Date | None
    is_weak: bool
    text: str
    measure: Measure | None = None


def quantities(text: str, language: LanguageCode, *, decimal_comma: bool) -> list[Quantity]:
    """The quantities of a text, dates first, each kind in order.

    Args:
        text: A unified text without marks of citations.
        language: Whose words for numbers, scales and months, besides the English ones.
        decimal_comma: Whether 1,5 is one and a half.
    """
    unified = unify(text)
    folded = fold(unified)
    found = []
    if _HAS_NUMBER.search(folded):
        for date in find_dates(folded, unified, language):
            found.append(_date(date.date, folded[date.start : date.end]))
            folded = _without(folded, date.start, date.end)
        for match in _FISCAL.finditer(folded):
            year = int(match["year"])
            year += 0 if year >= 100 else 2000 if year < 70 else 1900  # FY69 and before are not in anybody's report
            found.append(_year(year, match[0]))
            folded = _without(folded, *match.span())
        for match in _pattern(language, decimal_comma=decimal_comma).finditer(folded):
            if len(match["number"]) <= _MOST_DIGITS:
                written = unified if len(unified) == len(folded) else folded
                found.append(_number(match, written, language, decimal_comma))
    found.extend(_worded(folded, language))
    return found


def _without(text: str, start: int, end: int) -> str:
    return f"{text[:start]}{' ' * (end - start)}{text[end:]}"


def _date(date: Date, text: str) -> Quantity:
    return Quantity(float(date.year or 0), "", 0.0, is_year=False, date=date, is_weak=False, text=text)


def _year(year: int, text: str) -> Quantity:
    return Quantity(float(year), "", 0.0, is_year=True, date=None, is_weak=False, text=text)


def _number(match: re.Match[str], unified: str, language: LanguageCode, decimal_comma: bool) -> Quantity:
    digits = match["number"]
    thousands, decimal = (".", ",") if decimal_comma else (",", ".")
    bare = digits.replace("'", "").replace(" ", "").replace(thousands, "").replace(decimal, ".")
    decimals = len(bare.partition(".")[2].rstrip("0"))
    scale = _scale(match, unified, language)
    unit = _unit(match)
    value = float(bare) * scale
    half_step = 0.5 * 10.0**-decimals * scale
    is_plain = not unit and scale == 1.0
    if is_plain and decimals == 0 and value < 10:
        half_step = 0.0
    for digits_more, sign in re.findall(rf"([0-9]+)([{_MYRIADS}])", match["more"] or ""):  # 1億2000万
        value += int(digits_more) * SIGN_SCALES[sign]
        half_step = 0.5 * SIGN_SCALES[sign]
    if match["basis"]:
        value, half_step = value / 100, half_step / 100
    signed = bool(match["minus"] or match["inner_minus"])
    enclosed = (match["open"] or match["inner_open"]) and match["close"]
    # (546) alone is a note or a count; with anything financial beside it, it is a loss.
    if enclosed and (not is_plain or match["currency"] or not digits.isdigit()):
        signed = True
    # The 5th day and $5 a day are no days.
    measure = None if unit or match["ordinal"] else measure_of(match["measure"] or "")
    is_year = (
        is_plain and not signed and len(digits) == 4 and digits.isdigit() and int(digits) in _YEARS
        and not match["ordinal"] and measure is None
    )  # fmt: skip
    return Quantity(
        -value if signed else value, unit, half_step, is_year, date=None, is_weak=False, text=match[0].strip(),
        measure=measure,
    )  # fmt: skip


def _scale(match: re.Match[str], unified: str, language: LanguageCode) -> float:
    if match["sign_scale"]:
        return SIGN_SCALES[match["sign_scale"]]
    if match["letter"]:
        letter = unified[match.start("letter")]
        # 5 m are metres and $5m are millions.
        if letter in "kKMB" or match["currency"]:
            return {"k": 1e3, "m": 1e6, "b": 1e9}[letter.lower()]
    scale = 1.0
    for word in (match["scale"] or "").split():
        scale *= _folded_scales(language)[word.rstrip(".")]
    return scale


@cache
def _folded_scales(language: LanguageCode) -> dict[str, float]:
    return {fold(unify(word)): scale for word, scale in scale_words(language).items()}


def _unit(match: re.Match[str]) -> Unit:
    if match["percent"] or match["basis"]:
        return "%"
    return "currency" if match["currency"] or match["currency_after"] else ""


def _worded(folded: str, language: LanguageCode) -> Iterator[Quantity]:
    """Numbers written as words: `twenty-five`, `three hundred and five thousand`, `twelfth`."""
    counting, ordinals, scales = counting_words(language), ordinal_words(language), _folded_scales(language)
    for match in _word_pattern(language).finditer(folded):
        total = current = 0.0
        step = 1.0
        for word in re.findall(r"[^\s-]+(?:-(?:sept|huit|neuf|dix|vingts)\b)*", match["words"]):
            if word in {"a", "an"}:  # a hundred
                continue
            for part in (word,) if word in counting else word.split("-"):
                if part in counting or part in ordinals:
                    current += counting.get(part, ordinals.get(part, 0))
                elif part in scales:
                    step = scales[part]
                    if step < 1000:
                        current = max(current, 1) * step
                    else:
                        total, current = total + max(current, 1) * step, 0.0
        unit: Unit = "%" if match["percent"] else "currency" if match["currency"] else ""
        text = match[0].strip()
        value = total + current
        # "Two million" is exact to half a million, "two" and "two hundred and five" to the unit.
        half_step = 0.0 if value < 10 else 0.5 * (step if current == 0 else 1.0)
        is_weak = match["words"].strip() in _WEAK_WORDS
        yield Quantity(value, unit, half_step, False, None, is_weak, text, measure_of(match["measure"] or ""))


def _alternatives(words: Iterable[str]) -> str:
    folded = {fold(unify(word)) for word in words}
    return "|".join(re.escape(word) for word in sorted(folded, key=lambda word: (-len(word), word)))


_MEASURES = rf"(?:(?:square |cubic )?(?:{_alternatives(UNITS)})|(?<= )m)(?![\w/])"


@cache
def _pattern(language: LanguageCode, *, decimal_comma: bool) -> re.Pattern[str]:
    if decimal_comma:
        number = r"[0-9]{1,3}(?:[.' ][0-9]{3})+(?![0-9])(?:,[0-9]+)?|[0-9]+(?:,[0-9]+)?"
        apart, ended = rf"{_APART}(?<![0-9][.,])", r"(?![.,]?[0-9])"
    else:
        # 12,34,567 is how lakhs and crores are grouped.
        number = r"[0-9]{1,3}(?:[,'][0-9]{2,3})*[,'][0-9]{3}(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
        apart, ended = rf"{_APART}(?<![0-9]\.)", r"(?!\.?[0-9])"
    scale = _alternatives(scale_words(language))
    currencies = _alternatives(CURRENCY_WORDS)
    return re.compile(
        rf"{apart}(?P<open>\()?(?P<minus>[-+](?<=-)|(?:minus|negative) )?"
        rf"(?:(?P<currency>(?:us|c|a|hk|nz)?[$€£¥₹₩₽₺₪฿]|usd|eur|gbp|jpy|cny|rmb|inr|chf|rs\.?) ?)?"
        rf"(?P<inner_open>\()?(?P<inner_minus>-)?"
        rf"(?P<number>{number}){ended}"
        rf"(?P<ordinal>(?:st|nd|rd|th)\b)?(?P<close>\))?"
        r"(?:(?P<letter>[kmb])(?!\w)"
        rf"|(?P<sign_scale>{_alternatives(SIGN_SCALES)})(?P<more>(?:[0-9]{{1,12}}[{_MYRIADS}])*)"
        # 5 mm are millimetres and $5 mm are millions.
        rf"|[ -]?(?P<scale>(?(currency)|(?!mm(?!\w)))(?:{scale})(?: (?:{scale}))?)(?!\w)\.?)?"
        rf"(?:[ -]?(?:(?P<percent>%|(?:{_alternatives(PERCENT_WORDS)})(?!\w))"
        rf"|(?P<basis>(?:{_alternatives(BASIS_POINTS)})(?!\w))"
        rf"|(?:(?:de |of )?(?:us |u\.s\. )?(?P<currency_after>[$€£¥₹₩₽₺₪元円원]|(?:{currencies})(?!\w)))"
        rf"|(?P<measure>{_MEASURES})))?"
    )


@cache
def _word_pattern(language: LanguageCode) -> re.Pattern[str]:
    counted = _alternatives([*counting_words(language), *ordinal_words(language)])
    scale = _alternatives(scale_words(language))
    return re.compile(
        rf"(?<![\w'])(?P<words>(?:(?:{counted})(?!\w)|an?(?=[ -](?:{scale})(?!\w)))(?:(?:[ -]|[ -](?:and|und|et|y"
        rf"|e)[ -])(?:{counted}|{scale})(?!\w)){{0,8}})"
        rf"(?:[ -](?:(?P<percent>{_alternatives(PERCENT_WORDS)})(?!\w)"
        rf"|(?P<currency>{_alternatives(CURRENCY_WORDS)})(?!\w)|(?P<measure>{_MEASURES})))?"
    )
