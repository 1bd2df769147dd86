"""A number is read by what it means, in the words of the configured language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.lexical.figures import Figures
from rag_eval_pipeline.judges.lexical.languages import LANGUAGES
from rag_eval_pipeline.judges.lexical.measures import measure_of
from rag_eval_pipeline.judges.lexical.quantities import Quantity, quantities

NUMBERS = {
    #                                    language  text                               (value, unit)
    "thousands":                        ("en", "1,577",                               [(1577, "")]),
    "a scale word":                     ("en", "$1.2 billion",                        [(1.2e9, "currency")]),
    "a short scale":                    ("en", "1.2bn",                               [(1.2e9, "")]),
    "millions of a currency":           ("en", "$5m",                                 [(5e6, "currency")]),
    "metres are no millions":           ("en", "5m tall",                             [(5, "")]),
    "basis points":                     ("en", "45 bps",                              [(0.45, "%")]),
    "a loss in brackets":               ("en", "$(546)",                              [(-546, "currency")]),
    "a loss with a comma":              ("en", "(1,546)",                             [(-1546, "")]),
    "a count in brackets":              ("en", "(546)",                               [(546, "")]),
    "a minus":                          ("en", "-5%",                                 [(-5, "%")]),
    "a range has no minus":             ("en", "5-10 percent",                        [(5, ""), (10, "%")]),
    "words":                            ("en", "twenty-five percent",                 [(25, "%")]),
    "words with a scale":               ("en", "three hundred and five thousand",     [(305000, "")]),
    "a hundred":                        ("en", "a hundred dollars",                   [(100, "currency")]),
    "an ordinal":                       ("en", "the 21st",                            [(21, "")]),
    "an ordinal word":                  ("en", "the twelfth",                         [(12, "")]),
    "lakhs and crores":                 ("en", "12,34,567 and 3 crore",               [(1234567, ""), (3e7, "")]),
    "inside a word":                    ("en", "B2B",                                 []),
    "a version":                        ("en", "1.2.3",                               []),
    "a list":                           ("en", "1,2,3",                               [(1, ""), (2, ""), (3, "")]),
    "the mark of a note":               ("en", "1887³",                               [(1887, "")]),
    "a key of forty digits":            ("en", "1" * 40,                              []),
    "German":                           ("de", "1.577 Mio. Euro",                     [(1577e6, "currency")]),
    "a German decimal comma":           ("de", "1,5 Mrd. €",                          [(1.5e9, "currency")]),
    "a decimal point is not guessed":   ("de", "3.5",                                 []),
    "German words":                     ("de", "fünfundzwanzig Prozent",              [(25, "%")]),
    "French":                           ("fr", "12 milliards et 5 pour cent",         [(12e9, ""), (5, "%")]),
    "Spanish":                          ("es", "3,5 millones",                        [(3.5e6, "")]),
    "Italian":                          ("it", "2 miliardi",                          [(2e9, "")]),
    "Portuguese":                       ("pt", "dois mil",                            [(2000, "")]),
    "Dutch":                            ("nl", "4 miljoen",                           [(4e6, "")]),
    "Russian, thousands apart":         ("ru", "1 577 млн рублей",                    [(1577e6, "currency")]),
    "Polish":                           ("pl", "7 tys.",                              [(7000, "")]),
    "Turkish":                          ("tr", "3 milyon",                            [(3e6, "")]),
    "Chinese, between characters":      ("zh", "共3.5万家",                            [(35000, "")]),
    "Japanese, two scales":             ("ja", "1億2000万円",                          [(1.2e8, "currency")]),
    "Korean":                           ("ko", "5만",                                 [(50000, "")]),
    "Arabic digits":                    ("ar", "٣ مليون",                             [(3e6, "")]),
    "Devanagari digits":                ("hi", "५ लाख",                               [(500000, "")]),
}  # fmt: skip


@pytest.mark.parametrize(("language", "text", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_a_number_has_a_value_and_a_unit(language, text, expected):
    found = read(text, language)

    assert [(quantity.value, quantity.unit) for quantity in found] == expected


UNITS = {
    #                          wanted               given                    found
    "another unit":           ("2.3 miles",         "2.3 km",                "no"),
    "another of time":        ("7.1 days",          "7.1 hours",             "no"),
    "another dimension":      ("5 days",            "5 metres",              "no"),
    "the same, converted":    ("66 cm",             "0.66 m",                "yes"),
    "miles in kilometres":    ("2.3 miles",         "3.7 km",                "yes"),
    "a year of months":       ("12 months",         "one year",              "yes"),
    "short and long":         ("11 cm",             "11 centimetres",        "yes"),
    "in words":               ("thirty-one years",  "31 yrs, 31 years",      "yes"),
    "none on one side":       ("2.3",               "2.3 km",                "yes"),
    "none on the other":      ("2.3 km",            "2.3",                   "yes"),
    "millimetres":            ("891 mm",            "0.891 metres",          "yes"),
    "no year with a unit":    ("1500 metres",       "1.5 km",                "yes"),
    "an amount as a year":    ("1500 metres",       "1500",                  "yes"),
    "areas":                  ("2 hectares",        "20,000 square metres",  "yes"),
    "areas are no lengths":   ("150 square metres", "150 metres",            "no"),
    "speeds":                 ("80 km per hour",    "50 mph",                "yes"),
    "a speed is no length":   ("80 km",             "80 km/h",               "no"),
    "a rate of something":    ("5 m/s",             "5 feet",                "yes"),
    "the fifth":              ("the 5th day",       "5 hours",               "yes"),
    "millions of a currency": ("$5 mm",             "$5 million",            "yes"),
    "below zero":             ("-5 metres",         "5 m",                   "sign"),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "given_text", "found"), UNITS.values(), ids=UNITS)
def test_units_count_where_both_sides_have_one(wanted, given_text, found):
    assert Figures(read(given_text)).match(read(wanted)[0], 0.01) == found


@given(st.floats(0.1, 1e4), st.sampled_from(["mm", "cm", "metres", "km", "miles", "feet"]), st.sampled_from(["mm", "cm", "metres", "km", "yards"]))  # fmt: skip
def test_a_length_is_itself_in_any_unit(value, one, other):
    metres = value * measure_of(one).factor
    given_text = f"{metres / measure_of(other).factor:.12f} {other}"

    assert Figures(read(given_text)).match(read(f"{value:.12f} {one}")[0], 1e-6) == "yes"


DATES = {
    "day first":             ("en", "12 March 2021",             (2021, 3, 12)),
    "month first":           ("en", "March 12, 2021",            (2021, 3, 12)),
    "with an ordinal":       ("en", "the 1st of May 2020",       (2020, 5, 1)),
    "ISO":                   ("en", "2021-03-12",                (2021, 3, 12)),
    "a month of a year":     ("en", "in March 2021",             (2021, 3, None)),
    "a day of a year":       ("en", "on May 5",                  (None, 5, 5)),
    "American order":        ("en", "3/4/2021",                  (2021, 3, 4)),
    "European order":        ("fr", "3/4/2021",                  (2021, 4, 3)),
    "German":                ("de", "am 3. März 2021",           (2021, 3, 3)),
    "German in numbers":     ("de", "12.03.2021",                (2021, 3, 12)),
    "French":                ("fr", "le 1er août 2019",          (2019, 8, 1)),
    "Spanish":               ("es", "12 de marzo de 2021",       (2021, 3, 12)),
    "Russian":               ("ru", "5 мая 2020",                (2020, 5, 5)),
    "Chinese":               ("zh", "于2021年3月12日",            (2021, 3, 12)),
    "Korean":                ("ko", "2021년 3월 12일",            (2021, 3, 12)),
}  # fmt: skip


@pytest.mark.parametrize(("language", "text", "expected"), DATES.values(), ids=DATES)
def test_day_month_and_year_are_one_date(language, text, expected):
    (found,) = read(text, language)

    assert found.date == expected


def test_a_verb_is_no_month():
    (found,) = read("You may 5 times ask.")

    assert (found.date, found.value) == (None, 5)


@pytest.mark.parametrize("text", ["1998", "FY98", "Q2 1998", "fiscal year 1998", "the 1998 report"])
def test_years_are_years(text):
    (found,) = read(text)

    assert (found.is_year, found.value) == (True, 1998)


@pytest.mark.parametrize("text", ["1,998", "$1998", "1998 million", "1998%", "2500"])
def test_amounts_are_no_years(text):
    assert not read(text)[0].is_year


MATCHES = {
    #                                              gold                 answer                        match
    "the same":                                   ("1,577",             "1577",                       "yes"),
    "another scale":                              ("$1.2 billion",      "1,200 million dollars",      "yes"),
    "thousands left out":                         ("$1,577.00",         "$1.577 billion",             "yes"),
    "an amount that looks like a year":           ("1577",              "$1,577 million",             "yes"),
    "a round year is no amount":                  ("2000",              "$2 billion",                 "no"),
    "half a unit of the last digit":              ("4.5%",              "4.46%",                      "yes"),
    "zeros of decimals are not significant":      ("4.50%",             "4.46%",                      "yes"),
    "one percent off":                            ("1,000",             "1,010",                      "yes"),
    "more than one percent off":                  ("1,000",             "1,011",                      "no"),
    "a bare integer under ten is exact":          ("3",                 "3.4",                        "no"),
    "a percentage and a fraction":                ("45%",               "0.45",                       "yes"),
    "a fraction and a percentage":                ("0.45",              "45 percent",                 "yes"),
    "a percentage has no thousands":              ("5%",                "5,000",                      "no"),
    "a currency is no percentage":                ("$45",               "45%",                        "no"),
    "years are equal":                            ("1998",              "in 1998",                    "yes"),
    "years are not near":                         ("1998",              "in 1999",                    "no"),
    "a year in a date":                           ("1998",              "3 May 1998",                 "yes"),
    "a date in two spellings":                    ("3 May 1998",        "1998-05-03",                 "yes"),
    "a day of a month":                           ("May 1998",          "3 May 1998",                 "yes"),
    "a month has no day":                         ("3 May 1998",        "in May 1998",                "no"),
    "a date is not its year":                     ("3 May 1998",        "in 1998",                    "no"),
    "a day is no count":                          ("3",                 "3 May 1998",                 "no"),
    "a sign":                                     ("$(546)",            "$546",                       "sign"),
    "basis points":                               ("45 bps",            "0.45%",                      "yes"),
    "words":                                      ("two",               "2 children",                 "yes"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "expected"), MATCHES.values(), ids=MATCHES)
def test_numbers_match_by_value(gold, answer, expected):
    (wanted,) = read(gold)

    assert Figures(read(answer)).match(wanted, 0.01) == expected


@given(
    gold=st.integers(1, 10**7),
    answer=st.integers(1, 10**7),
    scale=st.sampled_from([("", "thousand"), ("thousand", "million"), ("million", "billion")]),
)
def test_matching_does_not_depend_on_the_scale_of_both(gold, answer, scale):
    low, high = (match(f"{gold:,}.5 {word}", f"{answer:,}.5 {word}") for word in scale)

    assert low == high


@given(value=st.integers(10, 10**6), scale=st.sampled_from(["thousand", "million", "billion"]))
def test_either_side_may_lack_its_scale(value, scale):
    assert match(f"{value:,}.5", f"{value:,}.5 {scale}") == "yes"
    assert match(f"{value:,}.5 {scale}", f"{value:,}.5") == "yes"


@given(values=st.lists(st.integers(1, 10**6), max_size=5), gold=st.integers(1, 10**6))
def test_a_number_is_found_wherever_it_stands(values, gold):
    text = "; ".join(f"{value:,}.5" for value in [*values, gold])

    assert match(f"{gold:,}.5", text) == "yes"


def read(text: str, language: str = "en") -> list[Quantity]:
    return quantities(text, language, decimal_comma=LANGUAGES[language].decimal_comma)


def match(gold: str, answer: str) -> str:
    (wanted,) = read(gold)
    return Figures(read(answer)).match(wanted, 0.01)
