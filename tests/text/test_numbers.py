"""A number is read by what it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.text.numbers import NumberIndex, quantities


def match(gold, answer):
    (wanted,) = quantities(gold)
    return NumberIndex(quantities(answer)).match(wanted, 0.01)


NUMBERS = {
    #                                    text                               (value, unit)
    "thousands":                        ("1,577",                               [(1577, "")]),
    "a scale word":                     ("$1.2 billion",                        [(1.2e9, "currency")]),
    "a short scale":                    ("1.2bn",                               [(1.2e9, "")]),
    "millions of a currency":           ("$5m",                                 [(5e6, "currency")]),
    "metres are no millions":           ("5m tall",                             [(5, "")]),
    "basis points":                     ("45 bps",                              [(0.45, "%")]),
    "a loss in brackets":               ("$(546)",                              [(-546, "currency")]),
    "a remark in brackets":             ("(3.14) and (1,546)",                  [(3.14, ""), (1546, "")]),
    "a count in brackets":              ("(546)",                               [(546, "")]),
    "a minus":                          ("-5%",                                 [(-5, "%")]),
    "a range has no minus":             ("5-10 percent",                        [(5, ""), (10, "%")]),
    "a range of percentages":           ("50%–60%, 5$-10$",                     [(50, "%"), (60, "%"), (5, "currency"), (10, "currency")]),
    "a minus after a currency":         ("$-5",                                 [(-5, "currency")]),
    "millions after a sharp s":         ("Herr Weiß said 5M users",             [(5e6, "")]),
    "a half year is no year":           ("H2 20 people",                        [(20, "")]),
    "words":                            ("twenty-five percent",                 [(25, "%")]),
    "words with a scale":               ("three hundred and five thousand",     [(305000, "")]),
    "a hundred":                        ("a hundred dollars",                   [(100, "currency")]),
    "an ordinal":                       ("the 21st",                            [(21, "")]),
    "an ordinal word":                  ("the twelfth",                         [(12, "")]),
    "lakhs and crores":                 ("12,34,567 and 3 crore",               [(1234567, ""), (3e7, "")]),
    "inside a word":                    ("B2B",                                 []),
    "a version":                        ("1.2.3",                               []),
    "a list":                           ("1,2,3",                               [(1, ""), (2, ""), (3, "")]),
    "the mark of a note":               ("1887³",                               [(1887, "")]),
    "a key of forty digits":            ("1" * 40,                              []),
    "a mixed number":                   ("2½ and 3 1/4",                        [(2.5, ""), (3.25, "")]),
    "a date and a share are not mixed": ("1/2, 9/11 and 3 1/2/2024",            [(1, ""), (2, ""), (9, ""), (11, ""), (3, ""), (2024, "")]),
    "hours and minutes":                ("1 hour and 30 minutes",               [(90, "")]),
    "lengths apart":                    ("5 km or 300 m",                       [(5, ""), (300, "")]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_number_has_a_value_and_a_unit(text, expected):
    found = quantities(text)

    assert [(quantity.value, quantity.unit) for quantity in found] == expected


DATES = {
    "day first":             ("12 March 2021",             (2021, 3, 12)),
    "month first":           ("March 12, 2021",            (2021, 3, 12)),
    "with an ordinal":       ("the 1st of May 2020",       (2020, 5, 1)),
    "ISO":                   ("2021-03-12",                (2021, 3, 12)),
    "a month of a year":     ("in March 2021",             (2021, 3, None)),
    "a day of a year":       ("on May 5",                  (None, 5, 5)),
    "after a sharp s":       ("Strauß was born on May 5",  (None, 5, 5)),
    "American order":        ("3/4/2021",                  (2021, 3, 4)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), DATES.values(), ids=DATES)
def test_day_month_and_year_are_one_date(text, expected):
    (found,) = quantities(text)

    assert found.date[:3] == expected


def test_verb_is_no_month():
    (found,) = quantities("You may 5 times ask.")

    assert (found.date, found.value) == (None, 5)


def test_years_are_told_from_amounts():
    years = [quantities(text) for text in ("1998", "FY98", "Q2 1998", "fiscal year 1998", "the 1998 report")]
    amounts = [quantities(text)[0] for text in ("1,998", "$1998", "1998 million", "1998%", "2500")]

    assert [(found.is_year, found.value) for (found,) in years] == [(True, 1998)] * 5
    assert not any(found.is_year for found in amounts)


MATCHES = {
    #                                              gold                 answer                        match
    "Fahrenheit for Celsius":                     ("25 °C",             "77 °F",                      "yes"),
    "Celsius for Fahrenheit, below zero":         ("14 °F",             "-10 °C",                     "yes"),
    "another temperature":                        ("25 °C",             "80 °F",                      "no"),
    "degrees without a scale":                    ("25",                "77 °F",                      "no"),
    "two dozen":                                  ("24",                "two dozen",                  "yes"),
    "half a dozen":                               ("half a dozen",      "6",                          "yes"),
    "dozens":                                     ("12",                "dozens",                     "no"),
    "the same":                                   ("1,577",             "1577",                       "yes"),
    "another scale":                              ("$1.2 billion",      "1,200 million dollars",      "yes"),
    "thousands left out":                         ("$1,577.00",         "$1.577 billion",             "yes"),
    "an amount that looks like a year":           ("1577",              "$1,577 million",             "yes"),
    "a round year is no amount":                  ("2000",              "$2 billion",                 "no"),
    "half a unit of the last digit":              ("4.5%",              "4.46%",                      "yes"),
    "zeros of decimals are written":              ("4.50%",             "4.46%",                      "rounding"),
    "one percent off":                            ("1,000",             "1,010",                      "rounding"),
    "one percent of an exact price":              ("$2.50",             "$2.53",                      "rounding"),
    "zeros that say nothing":                     ("$2.50",             "$2.5",                       "yes"),
    "a count that is one off":                    ("112",               "113",                        "rounding"),
    "another length in the same unit":            ("150 km",            "151 km",                     "rounding"),
    "a length in another unit":                   ("5 miles",           "8 km",                       "yes"),
    "rounded to a thousand":                      ("14,032 people",     "14,000",                     "yes"),
    "rounded in another scale":                   ("$1,577 million",    "$1.58 billion",              "yes"),
    "near in another scale":                      ("$1,577 million",    "$1.57 billion",              "rounding"),
    "a fraction in words":                        ("25%",               "a quarter",                  "yes"),
    "two thirds":                                 ("two-thirds",        "66.7%",                      "yes"),
    "half":                                       ("half",              "50 percent of them",         "yes"),
    "a half more":                                ("2.5 hours",         "two and a half hours",       "yes"),
    "a third party":                              ("33%",               "a third party",              "no"),
    "a quarter of an hour":                       ("25%",               "a quarter of an hour",       "no"),
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
    "a year in words":                            ("1984",              "nineteen eighty-four",       "yes"),
    "a loss or a remark in brackets":             ("-1,546",            "(1,546)",                    "yes"),
    "leading zeros make a code":                  ("00731",             "731",                        "no"),
    "a code is no number":                        ("731",               "code 00731",                 "no"),
    "the same code":                              ("00731",             "code 00731",                 "yes"),
    "9 March or 3 September":                     ("9 March 2024",      "03/09/2024",                 "day and month"),
    "3 September or 9 March":                     ("3 September 2024",  "03/09/2024",                 "day and month"),
    "a date written alike":                       ("03/09/2024",        "on 03/09/2024",              "yes"),
    "a date with one reading":                    ("9 March 2024",      "09/03/2024 or 13/03/2024",   "day and month"),
    "another unit":                               ("2.3 km",            "2.3 miles",                  "unit"),
    "a unit converted":                           ("2.3 km",            "2,300 metres",               "yes"),
    "a unit that is left out":                    ("2.3 km",            "2.3",                        "yes"),
    "a unit of a thousandth":                     ("3 mg",              "3 g",                        "unit"),
    "another unit of a thousandth":               ("3 mg",              "0.003 g",                    "yes"),
    "power is not energy":                        ("5 kWh",             "5 kW",                       "unit"),
    "nautical miles":                             ("12 nautical miles", "12 miles",                   "unit"),
    "the unit of a number like a year left out":  ("1500 metres",       "1500",                       "yes"),
    "the currency of such a number left out":     ("€2000",             "2000",                       "yes"),
    "a year is no percentage":                    ("1500%",             "in 1500",                    "no"),
    "a date has no unit":                         ("1998 metres",       "3 May 1998",                 "no"),
    "hours and minutes":                          ("90 minutes",        "1 hour and 30 minutes",      "yes"),
    "minutes of another hour":                    ("30 minutes",        "1 hour 30 minutes",          "no"),
    "a mixed number":                             ("2.5 km",            "2½ km",                      "yes"),
    "hours are no days":                          ("7.1 hours",         "7.1 days",                   "unit"),
    "a metre race is no year":                    ("1500 metres",       "1,500 m",                    "yes"),
    "another currency":                           ("€5",                "$5",                         "unit"),
    "dollars by another name":                    ("$5 million",        "USD 5m",                     "yes"),
    "pounds are money or weight":                 ("5 lb",              "5 pounds",                   "yes"),
    "morning and afternoon":                      ("10 a.m.",           "10 pm",                      "unit"),
    "a percentage is no length":                  ("5%",                "5 km",                       "unit"),
    "a lower bound":                              ("42",                "at least 42",                "bound"),
    "a lower bound as a sign":                    ("42",                ">42",                        "bound"),
    "a lower bound after it":                     ("42",                "42 or more",                 "bound"),
    "an upper bound":                             ("42",                "no more than 42",            "bound"),
    "no less than it":                            ("more than 42",      "no less than 42",            "yes"),
    "the other bound":                            ("more than 5",       "less than 5",                "bound"),
    "the same bound":                             ("more than 5",       "over 5",                     "yes"),
    "an estimate without its bound":              ("over 14,000",       "14,000",                     "yes"),
    "before a year":                              ("1990",              "before 1990",                "bound"),
    "about a count":                              ("42",                "~42",                        "bound"),
    "about a round number":                       ("40,000",            "about 40,000",               "yes"),
    "denied":                                     ("42",                "not 42 but 43",              "denial"),
    "what is said instead":                       ("43",                "not 42 but 43",              "yes"),
    "not until":                                  ("1887",              "It was not lit until 1887.", "yes"),
    "one of two":                                 ("42",                "42 or 43",                   "alternative"),
    "one of many":                                ("1800",              "1799, 1800 and 1801",        "list"),
    "beside the answer":                          ("1800",              "in 1950 [1800]",             "bracket"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "answer", "expected"), MATCHES.values(), ids=MATCHES)
def test_numbers_match_by_value(gold, answer, expected):
    assert match(gold, answer) == expected


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.577 million euros", [(1577e6, "currency")]), ("1,5 %", [(1.5, "%")]), ("3.5", [])],
)
def test_decimal_comma_is_never_guessed(text, expected):
    found = quantities(text, decimal_comma=True)

    assert [(quantity.value, quantity.unit) for quantity in found] == expected
