"""Performance statistics have the specification's names; without measurements they are None with a reason."""

import pytest

from rag_eval_pipeline.metrics.performance import LatencyStats, latency_intervals, latency_stats, resource_usage


def test_latency_percentiles_interpolate_linearly():
    stats = latency_stats([400.0, 100.0, 300.0, 200.0])

    # Rank (n - 1) x p from 0: 1.5, 2.85 and 2.97 among 100, 200, 300, 400.
    expected = LatencyStats(250.0, 250.0, pytest.approx(385.0), pytest.approx(397.0), 100.0, 400.0, 4, None)
    assert stats == expected
    assert latency_stats([7.0]) == LatencyStats(7.0, 7.0, 7.0, 7.0, 7.0, 7.0, 1, None)


def test_statistics_without_measurements_have_a_reason():
    assert latency_stats([]) == LatencyStats(None, None, None, None, None, None, 0, "no_latencies")
    assert resource_usage([]) == {"mean": None, "peak": None, "std": None}


def test_latency_intervals_need_enough_measurements():
    latencies = [float(ms) for ms in range(1, 101)]

    limits = latency_intervals(latencies)

    assert limits["p50"] == (40, 61)
    assert limits["p95"] == (90, 100)  # Binomial(100, 0.95): at most 89 in 0.0115, 90 in 0.028; at most 98 in 0.963
    assert limits["p99"] is None  # 368 are needed
    assert limits["mean"][0] < 50.5 < limits["mean"][1]
    assert latency_intervals([]) == latency_intervals([7.0]) == dict.fromkeys(("mean", "p50", "p95", "p99"))


def test_resource_usage_divides_the_spread_by_n():
    # Mean 5; squared distances 9, 1, 1, 1, 0, 0, 4, 16: sum 32, over 8 is 4.
    assert resource_usage([2, 4, 4, 4, 5, 5, 7, 9]) == {"mean": 5.0, "peak": 9, "std": 2.0}
