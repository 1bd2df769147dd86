"""Equivalence needs evidence: two tests against the margin, and no evidence is none."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from rag_eval_pipeline.metrics.equivalence import equivalence_test, is_inside
from rag_eval_pipeline.metrics.intervals import Interval

DIFFERENCES = np.random.default_rng(1).normal(0.002, 0.1, 400)


def test_it_is_the_larger_of_two_one_sided_t_tests():
    found = equivalence_test(DIFFERENCES, 0.02)

    above = ttest_1samp(DIFFERENCES, -0.02, alternative="greater").pvalue
    below = ttest_1samp(DIFFERENCES, 0.02, alternative="less").pvalue
    assert (found.p_above_lower, found.p_below_upper) == (pytest.approx(above), pytest.approx(below))
    assert found.p_value == max(found.p_above_lower, found.p_below_upper)


def test_at_half_of_5_percent_it_decides_as_the_95_percent_t_interval():
    for margin in np.linspace(0.005, 0.03, 26):
        low, high = ttest_1samp(DIFFERENCES, 0).confidence_interval(0.95)
        assert (equivalence_test(DIFFERENCES, margin).p_value < 0.025) == is_inside(Interval(low, high), margin)


def test_few_questions_show_no_equivalence_although_no_difference_is_seen():
    few = np.array([0.1, -0.1, 0.05, -0.05])

    assert ttest_1samp(few, 0).pvalue == 1.0
    assert equivalence_test(few, 0.02).p_value > 0.3


def test_differences_without_a_spread_show_nothing():
    assert equivalence_test(np.zeros(500), 0.02) is None
    assert equivalence_test(np.array([0.1]), 0.02) is None


@pytest.mark.parametrize(
    ("interval", "inside"),
    [((-0.019, 0.019), True), ((-0.02, 0.0), False), ((0.0, 0.02), False), ((0.03, 0.04), False)],
)
def test_an_interval_that_reaches_the_margin_is_not_inside(interval, inside):
    assert is_inside(Interval(*interval), 0.02) is inside


@pytest.mark.parametrize("margin", [0.0, -0.02])
def test_a_margin_is_above_0(margin):
    with pytest.raises(ValueError, match="margin above 0"):
        equivalence_test(DIFFERENCES, margin)
