"""A mean comes with its interval, its counts and its coverage; a failure is never a number."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.statistics import (
    Interval,
    Summary,
    bootstrap_interval,
    mean,
    proportion,
    summarise,
    wilson_interval,
)

NEWCOMBE = {  # Newcombe 1998, Statistics in Medicine 17, table I, method 3
    "81 of 263": (81, 263, 0.2553, 0.3662),
    "15 of 148": (15, 148, 0.0624, 0.1605),
    "0 of 20": (0, 20, 0.0, 0.1611),
    "1 of 29": (1, 29, 0.0061, 0.1718),
}


@pytest.mark.parametrize(("successes", "trials", "low", "high"), NEWCOMBE.values(), ids=NEWCOMBE)
def test_wilson_intervals_are_the_published_ones(successes, trials, low, high):
    interval = wilson_interval(successes, trials)

    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_wilson_interval_holds_its_proportion_and_has_a_width(counts):
    successes, trials = counts
    interval = wilson_interval(successes, trials)

    assert 0.0 <= interval.low <= successes / trials <= interval.high <= 1.0
    assert interval.low < interval.high
    mirrored = wilson_interval(trials - successes, trials)
    assert interval.low == pytest.approx(1 - mirrored.high, abs=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_a_proportion_has_trials_and_at_most_as_many_successes(successes, trials):
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(successes, trials)


def test_the_mean_is_added_up_in_the_order_given():
    # 1e16 swallows each 1 that is added after it, one at a time; a pairwise or compensated sum would not lose them.
    assert mean([1e16, 1.0, 1.0]) == 1e16 / 3
    assert mean([1.0, 1.0, 1e16]) == (1e16 + 2) / 3


def test_a_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        mean([])


def test_binary_scores_get_wilsons_interval():
    assert summarise([1.0, 0.0, 1.0, 1.0]) == Summary(
        value=0.75,
        confidence_interval=wilson_interval(3, 4),
        method="wilson",
        n_scored=4,
        n_failed=0,
        n_skipped=0,
        coverage=1.0,
        reason=None,
    )


def test_graded_scores_get_a_bootstrap_interval():
    summary = summarise([0.5, 0.25, 1.0], seed=7)

    assert summary.value == 1.75 / 3
    assert summary.method == "bootstrap percentile, 10000 resamples, seed 7"
    # Three times the lowest value has a probability of 1/27, more than 2.5 %; so has three times the highest.
    assert summary.confidence_interval == Interval(0.25, 1.0)


COUNTS = {
    #                                               values           failed, skipped   scored, failed, skipped, coverage
    "a None is a failure":                          ([1.0, None],    0, 0,             (1, 1, 0, 1 / 2)),
    "failures elsewhere are added":                 ([1.0, None],    2, 0,             (1, 3, 0, 1 / 4)),
    "what is skipped does not lower the coverage":  ([1.0, 0.0],     0, 9,             (2, 0, 9, 1.0)),
    "nothing but failures":                         ([None, None],   0, 1,             (0, 2, 1, 0.0)),
    "nothing to score":                             ([],             0, 3,             (0, 0, 3, None)),
}  # fmt: skip


@pytest.mark.parametrize(("values", "failed", "skipped", "expected"), COUNTS.values(), ids=COUNTS)
def test_every_question_is_counted_once(values, failed, skipped, expected):
    summary = summarise(values, failed=failed, skipped=skipped)

    assert (summary.n_scored, summary.n_failed, summary.n_skipped, summary.coverage) == expected


REASONS = {
    "all failed": (summarise([None]), "all_failed"),
    "nothing there": (summarise([], skipped=4), "nothing_to_score"),
    "the caller knows why": (summarise([None, None], reason="no_judge"), "no_judge"),
    "a proportion of nothing": (proportion(0, 0, skipped=2, reason="no_abstentions"), "no_abstentions"),
}


@pytest.mark.parametrize(("summary", "reason"), REASONS.values(), ids=REASONS)
def test_what_has_no_value_says_why(summary, reason):
    assert (summary.value, summary.confidence_interval, summary.method, summary.reason) == (None, None, None, reason)


def test_a_reason_is_for_missing_values_only():
    assert summarise([1.0], reason="no_judge").reason is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_is_a_finite_number(value):
    with pytest.raises(ValueError, match="finite"):
        summarise([0.5, value])


def test_counts_are_not_negative():
    with pytest.raises(ValueError, match="counts"):
        summarise([1.0], skipped=-1)


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5], []], ids=["one value", "all the same", "none"])
def test_an_interval_of_zero_width_is_not_given(values):
    assert bootstrap_interval(values) is None
    assert summarise(values).method is None


GRADED = np.random.default_rng(1).beta(5, 2, 400)
COARSE = np.round(GRADED * 4) / 4 * 0.9  # five distinct values in 400: the other way of drawing


@pytest.mark.parametrize("values", [GRADED, COARSE], ids=["many distinct values", "few distinct values"])
def test_a_bootstrap_interval_is_the_normal_one_in_large_samples(values):
    standard_error = values.std() / math.sqrt(values.size)

    interval = bootstrap_interval(values)

    # Quantiles of 10,000 resamples are off by about 0.03 standard errors; four times that, and skewness.
    assert interval.low == pytest.approx(values.mean() - 1.96 * standard_error, abs=0.15 * standard_error)
    assert interval.high == pytest.approx(values.mean() + 1.96 * standard_error, abs=0.15 * standard_error)


@pytest.mark.parametrize("values", [GRADED, COARSE], ids=["many distinct values", "few distinct values"])
def test_the_same_seed_gives_the_same_interval(values):
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)


def test_another_seed_gives_another_interval():
    assert bootstrap_interval(GRADED, seed=3) != bootstrap_interval(GRADED, seed=4)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=50), st.integers(0, 5))
def test_the_value_is_the_exact_share(values, failed):
    summary = summarise([float(value) for value in values], failed=failed)

    assert Fraction(summary.value).limit_denominator(100) == Fraction(sum(values), len(values))
    assert summary.confidence_interval.low <= summary.value <= summary.confidence_interval.high
