"""Intervals without random numbers: the published ones, none of zero width, wider where questions share documents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from rag_eval_pipeline.metrics.intervals import clustered_wilson_interval, quantile_interval, wilson_interval

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


def test_the_effective_number_of_questions_is_what_the_design_effect_leaves():
    # Six documents of ten questions all right, four all wrong. Deviations from 0.6 add up to 4 or -6 a document:
    # variance 10/9 x (6 x 16 + 4 x 36) / 100^2 = 0.02667; independent questions: 0.24. So 9.0 questions, and by
    # t(9) = 2.262157 instead of 1.959964: 9 x 0.750668 = 6.756.
    _, effective = clustered_wilson_interval(np.repeat([1.0, 0.0], [60, 40]), [str(i // 10) for i in range(100)])

    assert effective == pytest.approx(9.0 * (1.959964 / 2.262157) ** 2, abs=1e-4)


def test_one_large_document_beside_small_ones_is_worth_two():
    # Twenty questions of one document, four of their own: 24^2 / (20^2 + 4) is less than two. Half of each is right:
    # deviations of 0 and four halves, variance 2/1 x 1 / 24^2, 72 questions; by t(1) = 12.706205: 72 x 0.023794.
    values = np.array([1.0, 0.0] * 12)

    _, effective = clustered_wilson_interval(values, ["long"] * 20 + ["a", "b", "c", "d"])

    assert effective == pytest.approx(72 * (1.959964 / 12.706205) ** 2, abs=1e-4)


def test_where_all_questions_agree_the_documents_are_counted():
    interval, effective = clustered_wilson_interval(np.ones(100), [str(i // 10) for i in range(100)])

    assert (interval, effective) == (wilson_interval(10, 10), 10.0)


def test_a_single_document_is_one_question():
    interval, effective = clustered_wilson_interval(np.array([1.0, 0.0, 1.0, 0.0]), ["a"] * 4)

    assert effective == 1.0
    assert interval.low < 0.06
    assert interval.high > 0.94


def test_documents_that_are_more_alike_than_chance_are_worth_no_more_than_their_questions():
    _, effective = clustered_wilson_interval(np.tile([1.0, 0.0], 50), [str(i // 2) for i in range(100)])

    assert effective == 100


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_a_share_over_documents_of_one_question_has_wilsons_interval(values):
    interval, effective = clustered_wilson_interval(np.array(values, dtype=float), [str(i) for i in range(len(values))])

    assert (interval, effective) == (wilson_interval(sum(values), len(values)), len(values))


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abcdef")), min_size=1, max_size=60))
def test_a_clustered_interval_holds_its_share_and_has_a_width(questions):
    values = np.array([value for value, _ in questions], dtype=float)

    interval, effective = clustered_wilson_interval(values, [name for _, name in questions])

    assert 0.0 <= interval.low <= values.mean() <= interval.high <= 1.0
    assert interval.low < interval.high
    assert 1.0 <= effective <= len(questions)


def test_a_medians_limits_are_the_order_statistics_that_counting_gives():
    # Of 20 coins at most 5 show heads in 21,700 of 2**20 cases (0.0207), at most 6 in 60,460 (0.058): the 6th and,
    # from the other end, the 15th. Of 100 at most 39 in 0.0176, at most 40 in 0.028: the 40th and the 61st.
    assert quantile_interval(np.arange(100, 0, -1.0), 0.5) == (40, 61)
    assert quantile_interval(np.arange(1, 21.0), 0.5) == (6, 15)


@pytest.mark.parametrize(("quantile", "least"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_too_few_values_have_no_limits_of_a_quantile(quantile, least):
    assert quantile_interval(np.arange(1.0, least), quantile) is None
    assert quantile_interval(np.arange(1.0, least + 1), quantile) is not None


@given(st.integers(6, 600), st.sampled_from([0.1, 0.5, 0.9, 0.95]))
def test_the_limits_of_a_quantile_hold_it_as_often_as_they_say_and_are_the_nearest_that_do(n, quantile):
    interval = quantile_interval(np.arange(1.0, n + 1), quantile)
    if interval is None:
        return
    low, high = (int(limit) for limit in interval)
    below = binom(n, quantile).cdf

    assert below(low - 1) <= 0.025 < below(low)
    assert below(high - 2) < 0.975 <= below(high - 1)
