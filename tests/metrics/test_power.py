"""Power equals the published values; what can be flagged at all follows from the number of questions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm, t, ttest_1samp

from rag_eval_pipeline.metrics.power import (
    minimum_detectable_effect,
    needed_questions,
    needed_units,
    paired_power,
    smallest_detectable_drop,
)


def test_power_is_the_published_one():
    # Faul et al. 2007 (G*Power) and R's pwr.t.test: dz 0.5, 34 pairs, alpha 0.05 two-sided.
    assert paired_power(0.5, 1.0, 34) == pytest.approx(0.8077775, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.05, 0.02 / 12])
@pytest.mark.parametrize("n_questions", [2, 5, 30, 1000, 10_000])
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0, 3.9, 4.1, 5.9, 12.0])
def test_power_is_the_integral_over_the_spread_that_a_sample_may_have(shift, n_questions, alpha):
    # Given the sample's spread, t is normal; its distribution is taken at 20,000 quantiles.
    quantiles = (np.arange(20_000) + 0.5) / 20_000
    spreads = np.sqrt(chi2.ppf(quantiles, n_questions - 1) / (n_questions - 1))
    limit = t.ppf(1 - alpha / 2, n_questions - 1)
    expected = (norm.cdf(shift - limit * spreads) + norm.cdf(-shift - limit * spreads)).mean()

    assert paired_power(shift / math.sqrt(n_questions), 1.0, n_questions, alpha=alpha) == pytest.approx(
        expected, abs=1e-5
    )


def test_needed_questions_are_the_published_ones():
    # R: pwr.t.test(d = 0.5, power = 0.8, type = "paired") gives n = 33.37.
    assert needed_questions(0.5, 1.0) == 34


def test_no_effect_is_found_at_the_rate_of_alpha():
    assert paired_power(0.0, 0.3, 50, alpha=0.02) == pytest.approx(0.02)


def test_no_number_of_questions_shows_no_effect():
    assert needed_questions(0.0, 1.0) is None


def test_in_large_samples_the_smallest_effect_is_the_normal_one():
    # (1.959964 + 0.841621) x 0.3 / sqrt(10,000)
    assert minimum_detectable_effect(0.3, 10_000) == pytest.approx(2.801585 * 0.003, rel=2e-4)


@given(st.floats(0.01, 2.0), st.integers(3, 500), st.sampled_from([0.05, 0.02 / 12]))
def test_the_smallest_effect_has_the_power_asked_for(spread, n_questions, alpha):
    effect = minimum_detectable_effect(spread, n_questions, alpha=alpha)

    assert paired_power(effect, spread, n_questions, alpha=alpha) == pytest.approx(0.8, abs=1e-6)
    assert needed_questions(effect * 1.0001, spread, alpha=alpha) <= n_questions


def test_power_is_what_a_simulation_finds():
    samples = np.random.default_rng(1).normal(0.4, 1.0, (4000, 30))

    found = (ttest_1samp(samples, 0, axis=1).pvalue <= 0.05).mean()

    power = paired_power(0.4, 1.0, 30)
    assert found == pytest.approx(power, abs=4 * math.sqrt(power * (1 - power) / 4000))


@pytest.mark.parametrize(("spread", "n_questions"), [(0.0, 10), (-1.0, 10), (1.0, 1)])
def test_power_needs_a_spread_and_two_questions(spread, n_questions):
    with pytest.raises(ValueError, match="spread above 0 and two questions"):
        paired_power(0.1, spread, n_questions)


DROPS = {
    #                                      sizes of units,         metrics, smallest drop
    "22 points of 50":                    ([1] * 50,               12,      11 / 50),
    "5.5 points of 200":                  ([1] * 200,              12,      11 / 200),
    "2.2 points of 500":                  ([1] * 500,              12,      11 / 500),
    "the minimum effect rules":           ([1] * 2000,             12,      0.01),
    "one metric needs fewer":             ([1] * 50,               1,       7 / 50),
    "more units than there are":          ([1] * 10,               12,      None),
    "no units":                           ([],                     12,      None),
    "11 documents of 5 out of 100":       ([5] * 100,              12,      55 / 500),
    "the smallest documents fall first":  ([30, *[2] * 15],        12,      22 / 60),
    "ten documents, however large":       ([100] * 10,             12,      None),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "metrics", "expected"), DROPS.values(), ids=DROPS)
def test_the_smallest_drop_that_can_be_flagged(sizes, metrics, expected):
    assert smallest_detectable_drop(sizes, n_metrics=metrics, alpha=0.02, min_effect=0.01) == expected


# 2^-k <= 0.01 / metrics: 2^-7 = 0.0078, 2^-10 = 0.00098 against 0.00125, 2^-11 = 0.00049 against 0.00083.
@pytest.mark.parametrize(("metrics", "units"), [(1, 7), (8, 10), (12, 11)])
def test_how_many_units_must_fall(metrics, units):
    assert needed_units(metrics, alpha=0.02) == units
