"""Numbers written as words, and the words beside a number that scale it or give its unit; folded, by language.

Words of the configured language and of English are known; those of the others are left alone, as `sei` is six in
Italian and a verb in Portuguese.
"""

import re
from collections.abc import Callable
from functools import cache

from rag_eval_pipeline.judges.lexical.settings import LanguageCode

_COUNTED: dict[LanguageCode, str] = {
    # from zero on, then twenty, thirty ...
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen / twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "null eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn "
    "siebzehn achtzehn neunzehn / zwanzig dreissig vierzig funfzig sechzig siebzig achtzig neunzig",
    "fr": "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
    "dix-huit dix-neuf / vingt trente quarante cinquante soixante soixante-dix quatre-vingts quatre-vingt-dix",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis "
    "diecisiete dieciocho diecinueve / veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici "
    "sedici diciassette diciotto diciannove / venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "pt": "zero um dois tres quatro cinco seis sete oito nove dez onze doze treze quatorze quinze dezesseis "
    "dezessete dezoito dezenove / vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "nl": "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien "
    "zeventien achttien negentien / twintig dertig veertig vijftig zestig zeventig tachtig negentig",
}

_ORDINALS: dict[LanguageCode, dict[str, int]] = {
    "en": {
        word: value
        for value, word in enumerate(
            """
            first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
            fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
            """.split(),  # noqa: SIM905  # as lines of words
            start=1,
        )
    }
    | {"thirtieth": 30, "fortieth": 40, "fiftieth": 50, "hundredth": 100},
}

_SCALES: dict[LanguageCode, dict[str, float]] = {
    "en": {
        "hundred": 1e2, "thousand": 1e3, "thousands": 1e3, "million": 1e6, "millions": 1e6, "mn": 1e6, "mln": 1e6,
        "mm": 1e6, "billion": 1e9, "billions": 1e9, "bn": 1e9, "bln": 1e9, "trillion": 1e12, "trillions": 1e12,
        "tn": 1e12, "lakh": 1e5, "lakhs": 1e5, "crore": 1e7, "crores": 1e7,
    },
    "de": {
        "hundert": 1e2, "tausend": 1e3, "tsd": 1e3, "million": 1e6, "millionen": 1e6, "mio": 1e6, "milliarde": 1e9,
        "milliarden": 1e9, "mrd": 1e9, "billion": 1e12, "billionen": 1e12, "bio": 1e12,
    },
    "fr": {
        "cent": 1e2, "cents": 1e2, "mille": 1e3, "million": 1e6, "millions": 1e6, "milliard": 1e9, "milliards": 1e9,
        "md": 1e9, "mds": 1e9, "mrd": 1e9, "billion": 1e12, "billions": 1e12,
    },
    "es": {"mil": 1e3, "millon": 1e6, "millones": 1e6, "billon": 1e12, "billones": 1e12},
    "it": {"mila": 1e3, "mille": 1e3, "milione": 1e6, "milioni": 1e6, "miliardo": 1e9, "miliardi": 1e9, "mld": 1e9},
    "pt": {"mil": 1e3, "milhao": 1e6, "milhoes": 1e6, "bilhao": 1e9, "bilhoes": 1e9, "trilhoes": 1e12},
    "nl": {"duizend": 1e3, "miljoen": 1e6, "mln": 1e6, "miljard": 1e9, "mld": 1e9, "mrd": 1e9, "biljoen": 1e12},
    "ru": {
        "тыс": 1e3, "тысяча": 1e3, "тысячи": 1e3, "тысяч": 1e3, "млн": 1e6, "миллион": 1e6, "миллиона": 1e6,
        "миллионов": 1e6, "млрд": 1e9, "миллиард": 1e9, "миллиарда": 1e9, "миллиардов": 1e9,
    },
    "pl": {"tys": 1e3, "tysiecy": 1e3, "mln": 1e6, "miliona": 1e6, "milionow": 1e6, "mld": 1e9, "miliardow": 1e9},
    "tr": {"bin": 1e3, "milyon": 1e6, "milyar": 1e9, "trilyon": 1e12},
    "hi": {"हजार": 1e3, "लाख": 1e5, "करोड़": 1e7, "करोड": 1e7},
    "ar": {"ألف": 1e3, "آلاف": 1e3, "مليون": 1e6, "مليار": 1e9},
}  # fmt: skip

# Written without a space after the digits, in texts of any language: no other language has these signs.
SIGN_SCALES = {
    "百万": 1e6, "千万": 1e7, "十亿": 1e9, "万": 1e4, "萬": 1e4, "億": 1e8, "亿": 1e8, "兆": 1e12, "千": 1e3,
    "만": 1e4, "억": 1e8, "조": 1e12,
}  # fmt: skip

PERCENT_WORDS = (
    "percentage points", "percentage point", "percent", "per cent", "pct", "prozentpunkte", "prozent", "v.h.",
    "pour cent", "por ciento", "per cento", "por cento", "procent", "процентов", "процента", "процент", "yüzde",
    "パーセント", "퍼센트", "प्रतिशत",
)  # fmt: skip
BASIS_POINTS = ("basis points", "basis point", "bps", "basispunkte")
CURRENCY_WORDS = (
    "dollars", "dollar", "usd", "euros", "euro", "eur", "pounds", "gbp", "sterling", "yen", "jpy", "yuan", "renminbi",
    "rmb", "cny", "rupees", "rupee", "inr", "rs", "francs", "francos", "franken", "chf", "rubles", "rub", "руб",
    "рублей", "dolares", "cents", "won", "krw", "reais", "brl", "cad", "aud", "zloty", "lira", "円", "元", "원",
)  # fmt: skip


@cache
def counting_words(language: LanguageCode) -> dict[str, int]:
    """Value of each word for a number below a hundred."""
    words: dict[str, int] = {}
    for known in dict.fromkeys((language, "en") if language in _COUNTED else ("en",)):
        small, tens = _COUNTED[known].split(" / ")
        found = {word: value for value, word in enumerate(small.split())}
        found |= {word: 20 + 10 * place for place, word in enumerate(tens.split())}
        if known == "de":
            for unit in "ein zwei drei vier funf sechs sieben acht neun".split():  # noqa: SIM905  # as the others
                for ten in tens.split():
                    found[f"{unit}und{ten}"] = (1 if unit == "ein" else found[unit]) + found[ten]
        words = found | words
    return words


@cache
def ordinal_words(language: LanguageCode) -> dict[str, int]:
    """Value of each ordinal word."""
    return _ORDINALS.get(language, {}) | _ORDINALS["en"]


def in_digits(text: str, language: LanguageCode) -> str:
    """A text with numbers of two words in digits, `thirty-one` as 31, so that both spellings are one word."""
    return _two_words(language).sub(_digits(language), text)


@cache
def _two_words(language: LanguageCode) -> re.Pattern[str]:
    counted = counting_words(language)
    tens = "|".join(word for word, value in counted.items() if value >= 20 and value % 10 == 0)
    units = "|".join(word for word, value in counted.items() if 0 < value < 10)
    return re.compile(rf"\b({tens})[ -]({units})\b", re.IGNORECASE)


@cache
def _digits(language: LanguageCode) -> Callable[[re.Match[str]], str]:
    counted = counting_words(language)
    return lambda match: str(counted[match[1].lower()] + counted[match[2].lower()])


def scale_words(language: LanguageCode) -> dict[str, float]:
    """Factor of each word that scales the number before it; the language's own meaning wins, as of `billion`."""
    return _SCALES["en"] | _SCALES.get(language, {})
