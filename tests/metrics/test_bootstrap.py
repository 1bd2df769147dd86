"""Bootstrap intervals: exact where resamples can be listed, scipy's and the normal ones elsewhere, by seed."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.bootstrap import (
    acceleration,
    bca_interval,
    bootstrap_interval,
    bootstrap_intervals,
    percentile_interval,
)
from rag_eval_pipeline.metrics.intervals import Interval

GRADED = np.random.default_rng(1).beta(5, 2, 400)
COARSE = np.round(GRADED * 4) / 4 * 0.9  # five distinct values in 400: the other way of drawing
KINDS = pytest.mark.parametrize("kind", ["percentile", "bca"])
VALUES = pytest.mark.parametrize("values", [GRADED, COARSE], ids=["many distinct values", "few distinct values"])


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5, 0.5], []], ids=["one value", "all the same", "none"])
def test_an_interval_of_zero_width_is_not_given(values):
    assert bootstrap_interval(values) is None
    assert bootstrap_intervals([np.array(values)]) == [None]


@KINDS
@VALUES
def test_a_bootstrap_interval_is_the_normal_one_in_large_samples(values, kind):
    standard_error = values.std() / math.sqrt(values.size)

    interval = bootstrap_interval(values, kind=kind)

    # Quantiles of 10,000 resamples are off by about 0.03 standard errors; four times that, and skewness.
    assert interval.low == pytest.approx(values.mean() - 1.96 * standard_error, abs=0.15 * standard_error)
    assert interval.high == pytest.approx(values.mean() + 1.96 * standard_error, abs=0.15 * standard_error)


@KINDS
@VALUES
def test_the_same_seed_gives_the_same_interval(values, kind):
    assert bootstrap_interval(values, seed=3, kind=kind) == bootstrap_interval(values, seed=3, kind=kind)


def test_another_seed_gives_another_interval():
    assert bootstrap_interval(GRADED, seed=3) != bootstrap_interval(GRADED, seed=4)


def test_the_numbers_of_a_seed_stay_what_they_are():
    # Fixed, so that a change of how resamples are drawn is seen: published intervals would move with it.
    rng = np.random.default_rng(42)
    drawn = rng.integers(0, 5, (10_000, 5))
    values = np.array([0.1, 0.2, 0.4, 0.8, 0.9])

    assert bootstrap_interval(values) == percentile_interval(values[drawn].mean(axis=1))


@pytest.mark.parametrize("kind", ["percentile", "BCa"])
@pytest.mark.parametrize("n", [12, 40])
def test_intervals_are_scipys(kind, n):
    values = np.random.default_rng(n).gamma(0.5, 1.0, n)  # skewed: the two kinds differ by half a standard error
    # scipy draws the same indices from the same seed, so that the two see the same resamples.
    peer = scipy.stats.bootstrap((values,), np.mean, n_resamples=10_000, method=kind, rng=7, batch=2000)

    interval = bootstrap_interval(values, kind=kind.lower(), seed=7)

    assert interval == (
        pytest.approx(peer.confidence_interval.low, rel=1e-9),
        pytest.approx(peer.confidence_interval.high, rel=1e-9),
    )


def test_the_acceleration_is_the_jackknifes():
    values = np.random.default_rng(2).gamma(0.5, 1.0, 30)
    left_out = np.array([np.delete(values, i).mean() for i in range(30)])
    moved = left_out.mean() - left_out

    assert acceleration(values - values.mean()) == pytest.approx((moved**3).sum() / (6 * (moved**2).sum() ** 1.5))


def test_bca_of_resamples_that_lie_evenly_is_the_percentile_interval():
    means = np.arange(1001) / 1000

    assert bca_interval(means, 0.5, np.array([-1.0, 1.0])) == pytest.approx(percentile_interval(means))


def test_bca_of_resamples_on_one_side_is_still_an_interval():
    interval = bca_interval(np.arange(1.0, 101.0), 0.0, np.array([-1.0, 1.0]))

    assert 1.0 <= interval.low <= interval.high <= 100.0


@KINDS
@given(
    values=st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0]), min_size=2, max_size=30),
    seed=st.integers(0, 100),
)
def test_an_interval_holds_the_mean(kind, values, seed):
    interval = bootstrap_interval(values, seed=seed, resamples=500, kind=kind)

    assert interval is None or interval.low - 1e-12 <= np.mean(values) <= interval.high + 1e-12


def test_documents_are_drawn_whole():
    values, documents = [1.0, 0.5, 0.0, 0.25, 0.25, 0.25, 0.6], ["a", "a", "b", "c", "c", "c", "d"]
    sums = {"a": (1.5, 2), "b": (0.0, 1), "c": (0.75, 3), "d": (0.6, 1)}
    drawn = [[sums[name] for name in names] for names in product("abcd", repeat=4)]
    ratios = sorted(sum(s for s, _ in draw) / sum(n for _, n in draw) for draw in drawn)  # 256 resamples

    interval = bootstrap_interval(values, clusters=documents, resamples=40_000)

    # The lowest and highest 2.5 % of 256 are six; drawing 40,000 may slip one resample either way.
    assert ratios[4] <= interval.low <= ratios[8]
    assert ratios[-9] <= interval.high <= ratios[-5]


def test_many_alike_documents_are_drawn_by_kind():
    # 400 documents of two questions, three kinds: both right, one, none. By the linearised ratio the standard error
    # is that of 400 document means.
    kinds = np.repeat([0, 1, 2], [100, 100, 200])
    values = np.concatenate([[float(kind > 0), float(kind > 1)] for kind in kinds]) * 0.9
    documents = [str(i // 2) for i in range(800)]

    interval = bootstrap_interval(values, clusters=documents)

    half = 1.96 * (kinds * 0.45).std() / math.sqrt(400)
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.05)


@pytest.mark.parametrize("kind", ["percentile", "bca"])
def test_documents_of_one_question_change_nothing(kind):
    names = [f"z{400 - i}" for i in range(400)]

    assert bootstrap_interval(GRADED, clusters=names, kind=kind) == bootstrap_interval(GRADED, kind=kind)


def test_documents_with_equal_means_have_no_interval():
    assert bootstrap_interval([0.0, 1.0, 1.0, 0.0], clusters=["a", "a", "b", "b"]) is None


def test_columns_together_have_the_intervals_of_each_alone():
    columns = [GRADED, COARSE, GRADED**2, GRADED[:50], np.full(20, 0.5), np.array([])]

    together = bootstrap_intervals(columns, seed=5, resamples=1000)

    alone = [bootstrap_interval(column, seed=5, resamples=1000) for column in columns]
    assert [interval is None for interval in together] == [False] * 4 + [True] * 2
    assert [Interval(*interval) for interval in together[:4]] == [pytest.approx(interval) for interval in alone[:4]]
