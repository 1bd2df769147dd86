"""Numbers as a reader expects them: a true minus, a dash for nothing, equal digits in a column."""

import pytest

from rag_eval_pipeline.report import text as numbers

CASES = {
    "a share": (numbers.number(0.12345), "0.123"),
    "a negative effect": (numbers.number(-0.5, 2), "−0.50"),
    "thousands": (numbers.number(12345.6, 0), "12,346"),
    "nothing": (numbers.number(None), "–"),
    "a share in percent": (numbers.percent(0.975), "97.5 %"),
    "a whole percent": (numbers.percent(1.0), "100 %"),
    "less than a cent": (numbers.dollars(0.0012), "$0.0012"),
    "as its column": (numbers.dollars(0.0, 4), "$0.0000"),
    "a second": (numbers.milliseconds(1340), "1.34 s"),
    "points without a minus of nothing": (numbers.points(-0.0001), "+0.0"),
}


@pytest.mark.parametrize(("shown", "text"), CASES.values(), ids=CASES)
def test_a_number_is_written(shown, text):
    assert shown == text


def test_a_column_has_the_digits_of_what_stands_in_it():
    assert numbers.money_digits([0.0012, None, 0.9]) == 4
    assert numbers.money_digits([0.0012, 3.5]) == 2
    assert numbers.money_digits([]) == 2
    assert numbers.latency_digits([3.2, 99.9]) == 1
    assert numbers.latency_digits([3.2, 1200.0]) == 0
