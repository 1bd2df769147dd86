"""Resamples: one distribution whichever way they are drawn, the same numbers from the same seed, bounded memory."""

import tracemalloc

import numpy as np
import pytest

from rag_eval_pipeline.metrics.resampling import distinct_rows, resampled_sums

RNG = np.random.default_rng(1)
TABLES = {
    "few distinct values": RNG.integers(0, 3, (500, 1)) / 2,
    "many distinct values": RNG.random((50, 1)),
    "several columns": RNG.random((50, 3)),
    "few distinct rows": RNG.integers(0, 2, (500, 2)) / 1.0,
    "one row": np.array([[0.5, 2.0]]),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_sums_have_the_mean_and_the_covariance_of_drawn_rows(table):
    sums = resampled_sums(table, seed=2, resamples=20_000)

    # n draws of a row: n times its mean, n times its covariance. Twenty thousand resamples are off by 1 % of it.
    n_rows, n_columns = table.shape
    expected = n_rows * np.cov(table.T, bias=True).reshape(n_columns, n_columns)
    error = np.sqrt(np.diag(expected) / 20_000)
    assert np.abs(sums.mean(axis=0) - table.sum(axis=0)).max() <= 4 * error.max() + 1e-9
    assert np.cov(sums.T).reshape(n_columns, n_columns) == pytest.approx(expected, abs=0.05 * np.diag(expected).max())


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_same_seed_draws_the_same_resamples(table):
    assert np.array_equal(resampled_sums(table, seed=3, resamples=50), resampled_sums(table, seed=3, resamples=50))


def test_columns_together_see_the_resamples_that_each_sees_alone():
    table = TABLES["several columns"]

    together = resampled_sums(table, seed=4, resamples=200)

    for column in range(3):
        assert together[:, [column]] == pytest.approx(resampled_sums(table[:, [column]], seed=4, resamples=200))


def test_fewer_resamples_are_the_first_of_more():
    # 60,000 rows are drawn 33 resamples at a time: the seams show nowhere.
    table = np.random.default_rng(5).random((60_000, 1))

    assert np.array_equal(resampled_sums(table, seed=6, resamples=80)[:40], resampled_sums(table, seed=6, resamples=40))


@pytest.mark.parametrize("n_columns", [1, 20])
def test_memory_does_not_grow_with_the_resamples(n_columns):
    table = np.random.default_rng(7).random((30_000, n_columns))

    tracemalloc.start()
    resampled_sums(table, seed=8, resamples=300)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # 300 x 30,000 indices and weights at once would be 108 MB.
    assert peak < 60e6


def test_rows_are_counted():
    distinct = distinct_rows(np.array([[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]]))

    assert (distinct.rows.tolist(), distinct.counts.tolist()) == ([[0.0, 2.0], [1.0, 2.0]], [1, 2])
    assert not distinct.are_few
