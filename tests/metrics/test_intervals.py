"""Means come with counts, coverage and an interval; intervals equal the published ones and count shared documents."""

import math
import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.intervals import (
    Column,
    Interval,
    Scores,
    Summary,
    bootstrap_intervals,
    clustered_wilson_interval,
    effective_clusters,
    mean,
    quantile_interval,
    resample_sums,
    summarise,
    summarise_all,
    wilson_interval,
)

# Five distinct values in 400 are resampled in another way.
COARSE = np.round(np.random.default_rng(1).beta(5, 2, 400) * 4) / 4 * 0.9


def test_mean_is_added_up_in_the_order_given():
    # 1e16 swallows each 1 that is added after it; a pairwise or compensated sum would not lose them.
    assert mean([1e16, 1.0, 1.0]) == 1e16 / 3
    assert mean([1.0, 1.0, 1e16]) == (1e16 + 2) / 3


def test_summary_of_binary_scores_has_wilsons_interval_and_of_graded_ones_a_bootstrap_interval():
    assert summarise([1.0, 0.0, 1.0, 1.0]) == Summary(0.75, wilson_interval(3, 4), "wilson", 4, 0, 0, 1.0, None)
    summary = summarise([0.5, 0.25, 1.0], seed=7, reason="no_judge")

    assert (summary.value, summary.reason) == (1.75 / 3, None)
    assert summary.method == "bootstrap percentile, 10000 resamples, seed 7"
    # Three times the lowest value has a probability of 1/27, more than 2.5 %; so has three times the highest.
    assert summary.confidence_interval == Interval(0.25, 1.0)


COUNTS = {
    #                                              values           failed, skipped   scored, failed, skipped, coverage, reason
    "failures elsewhere are added":                ([1.0, None],    2, 0,             (1, 3, 0, 1 / 4, None)),
    "skipped questions do not lower the coverage": ([1.0, 0.0],     0, 9,             (2, 0, 9, 1.0, None)),
    "nothing but failures":                        ([None, None],   0, 1,             (0, 2, 1, 0.0, "all_failed")),
    "nothing to score":                            ([],             0, 3,             (0, 0, 3, None, "nothing_to_score")),
}  # fmt: skip


@pytest.mark.parametrize(("values", "failed", "skipped", "expected"), COUNTS.values(), ids=COUNTS)
def test_summary_counts_every_question_once(values, failed, skipped, expected):
    found = summarise(values, failed=failed, skipped=skipped)

    assert (found.n_scored, found.n_failed, found.n_skipped, found.coverage, found.reason) == expected
    if found.reason:
        nothing = Summary(None, None, None, *expected[:4], "no_judge")
        assert summarise(values, failed=failed, skipped=skipped, reason="no_judge") == nothing


def test_summaries_together_equal_each_alone():
    rng = np.random.default_rng(5)
    metrics = {
        "graded": Scores([*rng.beta(5, 2, 60).tolist(), None], failed=1),
        "another of the same questions": Scores(rng.beta(2, 2, 60).tolist(), skipped=3),
        "fewer questions": Scores(rng.beta(2, 2, 40).tolist()),
        "binary": Scores(rng.integers(0, 2, 60).astype(float).tolist()),
        "many rows, few distinct": Scores(COARSE.tolist()),
        "by document, few distinct": Scores(
            np.tile([0.2, 0.2, 0.4, 0.4], 1000).tolist(), clusters=[str(n // 2) for n in range(4000)]
        ),
        "by other documents": Scores(rng.beta(2, 2, 60).tolist(), clusters=[str(i % 20) for i in range(60)]),
        "by document": Scores(rng.beta(2, 2, 60).tolist(), clusters=[str(i // 3) for i in range(60)]),
    }

    together = summarise_all(metrics, seed=3)

    for name, (values, failed, skipped, reason, clusters) in metrics.items():
        alone = summarise(values, failed=failed, skipped=skipped, reason=reason, seed=3, clusters=clusters)
        # Sums of the same resamples in another order: the last bits differ.
        interval = together[name].confidence_interval
        assert interval == pytest.approx(alone.confidence_interval, abs=1e-12)
        assert replace(together[name], confidence_interval=alone.confidence_interval) == alone


def test_summary_counts_documents():
    shares, names = [1.0] * 60 + [0.0] * 40, [str(i // 10) for i in range(100)]  # of ten documents six are all right
    graded = np.repeat(np.random.default_rng(2).beta(2, 2, 20), 10).tolist()

    share = summarise(shares, clusters=names)
    alone, shared = summarise(graded), summarise(graded, clusters=[str(i // 10) for i in range(200)])

    assert (share.method, share.n_clusters) == ("wilson, 10 clusters worth 6.8 of 100", 10)
    assert share.confidence_interval == clustered_wilson_interval(np.array(shares), names)[0]
    assert shared.method == "bootstrap percentile, 10000 resamples of 20 clusters worth 20.0, widened, seed 42"
    assert (alone.n_clusters, shared.n_clusters) == (None, 20)
    # Ten questions that all say the same are one: the width grows by sqrt(10), and by 2.093 / 1.960 x sqrt(20 / 19) =
    # 1.096 because there are twenty of them.
    ratio = np.diff(shared.confidence_interval)[0] / np.diff(alone.confidence_interval)[0]
    assert ratio == pytest.approx(math.sqrt(10) * 1.096, rel=0.1)


def test_summary_ignores_documents_of_one_question():
    for values in ([1.0, 0.0, None, 1.0], [0.5, 0.25, None, 1.0]):
        assert summarise(values, clusters=["d", "c", "b", "a"]) == summarise(values)


NEWCOMBE = {  # Newcombe 1998, Statistics in Medicine 17, table I, method 3
    (81, 263): (0.2553, 0.3662),
    (15, 148): (0.0624, 0.1605),
    (0, 20): (0.0, 0.1611),
    (1, 29): (0.0061, 0.1718),
}


def test_wilson_interval_is_the_published_one():
    for (successes, trials), published in NEWCOMBE.items():
        assert tuple(round(limit, 4) for limit in wilson_interval(successes, trials)) == published


EFFECTIVE = {
    # Six documents of ten questions all right, four all wrong. Deviations from 0.6 add up to 4 or -6 a document:
    # variance 10/9 x (6 x 16 + 4 x 36) / 100^2 = 0.02667; independent questions: 0.24. So 9 questions, by t(9).
    "by the design effect": (np.repeat([1.0, 0.0], [60, 40]), [str(i // 10) for i in range(100)], 9 * (1.959964 / 2.262157) ** 2),
    # Twenty questions of one document, four of their own: 24^2 / (20^2 + 4) is less than two. Half of each is right:
    # deviations of 0 and four halves, variance 2/1 x 1 / 24^2, 72 questions; by t(1).
    "one large document is worth two": (np.array([1.0, 0.0] * 12), ["long"] * 20 + list("abcd"), 72 * (1.959964 / 12.706205) ** 2),
    "documents where all agree": (np.ones(100), [str(i // 10) for i in range(100)], 10),
    "a single document": (np.array([1.0, 0.0, 1.0, 0.0]), ["a"] * 4, 1),
    "at most the questions": (np.tile([1.0, 0.0], 50), [str(i // 2) for i in range(100)], 100),
}  # fmt: skip


@pytest.mark.parametrize(("values", "documents", "expected"), EFFECTIVE.values(), ids=EFFECTIVE)
def test_clustered_wilson_interval_counts_effective_questions(values, documents, expected):
    interval, effective = clustered_wilson_interval(values, documents)

    assert effective == pytest.approx(expected, abs=1e-4)
    if float(effective).is_integer():
        share = round(float(values.mean()) * effective, 6)
        expected = wilson_interval(int(share), int(effective)) if share.is_integer() else interval
        assert interval == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abcdef")), min_size=1, max_size=60))
def test_clustered_wilson_interval_holds_its_share_and_has_a_width(questions):
    values = np.array([value for value, _ in questions], dtype=float)

    interval, effective = clustered_wilson_interval(values, [name for _, name in questions])

    assert 0.0 <= interval.low <= values.mean() <= interval.high <= 1.0
    assert interval.low < interval.high
    assert 1.0 <= effective <= len(questions)


def test_quantile_interval_is_two_of_the_values_and_needs_enough():
    # Of 20 coins at most 5 show heads in 21,700 of 2**20 cases (0.0207), at most 6 in 60,460 (0.058): the 6th and,
    # from the other end, the 15th. Of 100 at most 39 in 0.0176, at most 40 in 0.028: the 40th and the 61st.
    assert quantile_interval(np.arange(100, 0, -1.0), 0.5) == (40, 61)
    assert quantile_interval(np.arange(1, 21.0), 0.5) == (6, 15)
    for quantile, least in ((0.5, 6), (0.95, 72), (0.99, 368)):
        assert quantile_interval(np.arange(1.0, least), quantile) is None
        assert quantile_interval(np.arange(1.0, least + 1), quantile) is not None


def bootstrap_interval(values, *, clusters=None, **options):
    return bootstrap_intervals([Column(np.asarray(values, float), clusters)], **options)[0]


@pytest.mark.parametrize("n", [5, 40])
def test_bootstrap_interval_is_scipys(n):
    values = np.random.default_rng(n).gamma(0.5, 1.0, n)
    # scipy draws the same indices from the same seed.
    peer = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", random_state=np.random.default_rng(7), batch=2000
    )

    assert bootstrap_interval(values, seed=7) == pytest.approx(tuple(peer.confidence_interval), rel=1e-9)
    assert bootstrap_interval(values, seed=8) != bootstrap_interval(values, seed=7)


CONSTANT = {
    "one value": ([0.5], None),
    "all the same": ([0.5, 0.5, 0.5], None),
    "documents of equal means": ([0.0, 1.0, 1.0, 0.0], ["a", "a", "b", "b"]),
    "one document": ([0.1, 0.7, 0.3], ["a"] * 3),
}


@pytest.mark.parametrize(("values", "clusters"), CONSTANT.values(), ids=CONSTANT)
def test_bootstrap_interval_of_zero_width_is_none(values, clusters):
    assert bootstrap_interval(values, clusters=clusters) is None


def test_bootstrap_interval_draws_whole_documents():
    # Ten times a share, so that no limit is cut at 1.
    values, documents = [10.0, 5.0, 0.0, 2.5, 2.5, 2.5, 6.0], ["a", "a", "b", "c", "c", "c", "d"]
    sums = {"a": (15.0, 2), "b": (0.0, 1), "c": (7.5, 3), "d": (6.0, 1)}
    drawn = [[sums[name] for name in names] for names in product("abcd", repeat=4)]
    ratios = sorted(sum(s for s, _ in draw) / sum(n for _, n in draw) for draw in drawn)  # 256 resamples

    interval = bootstrap_interval(values, clusters=documents, resamples=40_000)

    # Documents of 2, 1, 3 and 1 questions are worth 49 / 15: wider by t over the normal quantile, and by n over n - 1.
    worth, centre = 49 / 15, 28.5 / 7
    width = scipy.stats.t.ppf(0.975, worth - 1) / 1.959964 * math.sqrt(worth / (worth - 1))
    low, high = (centre + (limit - centre) / width for limit in interval)
    # The lowest and highest 2.5 % of 256 are six; drawing 40,000 may slip one resample either way.
    assert ratios[4] - 1e-6 <= low <= ratios[8] + 1e-6
    assert ratios[-9] - 1e-6 <= high <= ratios[-5] + 1e-6


def test_bootstrap_interval_of_few_documents_is_cut_for_shares_only():
    values, clusters = np.array([0.97, 0.99, 1.0, 0.9, 0.2, 0.1]), ["a", "a", "b", "b", "c", "c"]

    share, tenfold = bootstrap_intervals([Column(values, clusters), Column(10 * values, clusters)])

    assert share == (0.0, 1.0)  # three documents that differ say little
    assert tenfold.low < 0.0 < 10.0 < tenfold.high


RNG = np.random.default_rng(1)
TABLES = {
    "few distinct values": RNG.integers(0, 3, (500, 1)) / 2,
    "many distinct values": RNG.random((50, 1)),
    "several columns": RNG.random((50, 3)),
    "few distinct rows": RNG.integers(0, 2, (500, 2)) / 1.0,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_resampled_sums_have_the_mean_and_covariance_of_drawn_rows(table):
    sums = resample_sums(table, seed=2, resamples=20_000)

    # n draws of a row: n times its mean, n times its covariance. Twenty thousand resamples are off by 1 % of it.
    n_rows, n_columns = table.shape
    expected = n_rows * np.cov(table.T, bias=True).reshape(n_columns, n_columns)
    error = np.sqrt(np.diag(expected) / 20_000)
    assert np.abs(sums.mean(axis=0) - table.sum(axis=0)).max() <= 4 * error.max() + 1e-9
    assert np.cov(sums.T).reshape(n_columns, n_columns) == pytest.approx(expected, abs=0.05 * np.diag(expected).max())
    assert np.array_equal(sums, resample_sums(table, seed=2, resamples=20_000))


def test_resampled_sums_are_drawn_in_parts_without_seams():
    # 60,000 rows are drawn 33 resamples at a time.
    table = np.random.default_rng(5).random((60_000, 1))

    assert np.array_equal(resample_sums(table, seed=6, resamples=80)[:40], resample_sums(table, seed=6, resamples=40))


@pytest.mark.parametrize("n_columns", [1, 20])
def test_resampled_sums_take_bounded_memory(n_columns):
    table = np.random.default_rng(7).random((30_000, n_columns))

    tracemalloc.start()
    resample_sums(table, seed=8, resamples=300)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 20e6  # all weights at once would take 72 MB, and their indices 36 MB


def test_effective_clusters_of_unequal_size_are_fewer():
    assert effective_clusters(np.array([5.0, 5.0, 5.0])) == 3
    assert effective_clusters(np.array([8.0, 1.0, 1.0])) == 100 / 66
