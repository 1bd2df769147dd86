"""Measures of the same questions are drawn together over their documents, and few documents make a wide interval."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from rag_eval_pipeline.metrics.bootstrap import bootstrap_interval
from rag_eval_pipeline.metrics.clustered_bootstrap import ClusteredColumn, clustered_intervals
from rag_eval_pipeline.metrics.clusters import effective_clusters

RNG = np.random.default_rng(11)
DOCUMENTS = [f"d{number % 17}" for number in range(68)]
COLUMNS = {
    "graded":                              ClusteredColumn(RNG.beta(5, 2, 68), DOCUMENTS),
    "another of the same questions":       ClusteredColumn(RNG.beta(2, 2, 68), DOCUMENTS),
    "of fewer questions":                  ClusteredColumn(RNG.beta(2, 2, 34), DOCUMENTS[:34]),
    "as many questions, other documents":  ClusteredColumn(RNG.beta(2, 2, 68), [f"d{n // 4}" for n in range(68)]),
    "documents of unlike size": ClusteredColumn(RNG.beta(2, 2, 68), [f"d{int(n**0.5)}" for n in range(68)]),
    "few distinct documents":              ClusteredColumn(np.tile([0.2, 0.2, 0.4, 0.4], 1000), [str(n // 2) for n in range(4000)]),
    "every score the same":                ClusteredColumn(np.full(68, 0.5), DOCUMENTS),
    "every document the same":             ClusteredColumn(np.tile([0.2, 0.4], 34), [str(n // 2) for n in range(68)]),
    "one document":                        ClusteredColumn(RNG.beta(2, 2, 68), ["d"] * 68),
}  # fmt: skip
NONE = {"every score the same", "every document the same", "one document"}


def t_quantile(freedom):
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_gets_the_percentiles_that_it_has_alone_widened_by_its_documents(name):
    intervals = clustered_intervals(list(COLUMNS.values()), seed=3, resamples=500)

    values, clusters = COLUMNS[name]
    alone = bootstrap_interval(values, seed=3, resamples=500, clusters=clusters)
    found = intervals[list(COLUMNS).index(name)]
    assert (found is None) == (alone is None) == (name in NONE)
    if found is not None:
        sizes = np.unique(clusters, return_counts=True)[1]
        n = sizes.sum() ** 2 / (sizes**2).sum()
        width = t_quantile(n - 1) / NormalDist().inv_cdf(0.975) * math.sqrt(n / (n - 1))
        mean = values.mean()
        # Sums of the same resamples in another order: the last bits differ.
        expected = (mean - (mean - alone.low) * width, mean + (alone.high - mean) * width)
        assert found == pytest.approx(expected, abs=1e-12)


def test_many_documents_are_not_widened():
    values, clusters = COLUMNS["few distinct documents"]

    [found] = clustered_intervals([COLUMNS["few distinct documents"]], resamples=500)

    alone = bootstrap_interval(values, resamples=500, clusters=clusters)
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.001)


def test_shares_stay_shares_and_other_scores_are_not_cut():
    values = np.array([0.97, 0.99, 1.0, 0.9, 0.2, 0.1])
    clusters = ["a", "a", "b", "b", "c", "c"]

    share, tenfold = clustered_intervals([ClusteredColumn(values, clusters), ClusteredColumn(10 * values, clusters)])

    assert (share.low, share.high) == (0.0, 1.0)  # three documents that differ say little
    assert tenfold.low < 0.0 < 10.0 < tenfold.high


EFFECTIVE = {
    #                           sizes                    effective number
    "all alike":                ([5, 5, 5],               3.0),
    "one document":             ([7],                     1.0),
    "one large, two of one":    ([8, 1, 1],               100 / 66),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "expected"), EFFECTIVE.values(), ids=EFFECTIVE)
def test_documents_of_unlike_size_count_less(sizes, expected):
    assert effective_clusters(np.array(sizes, dtype=float)) == pytest.approx(expected, rel=1e-15)
