"""Latency and resources of a run, by the specification's names; a statistic without measurements is None."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_eval_pipeline.metrics.intervals import SEED, Column, Interval, bootstrap_intervals, quantile_interval

PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
RESAMPLES = 2_000  # no two latencies are equal, so each is drawn separately: 0.2 s for 10,000 questions


@dataclass(frozen=True, slots=True)
class LatencyStats:
    """Latency of the answered questions in milliseconds; percentiles are Hyndman and Fan's type 7, numpy's default."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    min: float | None
    max: float | None
    n: int
    reason: str | None


def latency_stats(latencies_ms: Sequence[float]) -> LatencyStats:
    """Return statistics of the answered questions; time-outs, which have the limit's latency, are left out."""
    if len(latencies_ms) == 0:
        return LatencyStats(None, None, None, None, None, None, 0, "no_latencies")
    p50, p95, p99 = np.percentile(latencies_ms, tuple(PERCENTILES.values()), method="linear").tolist()
    mean = math.fsum(latencies_ms) / len(latencies_ms)
    return LatencyStats(mean, p50, p95, p99, min(latencies_ms), max(latencies_ms), len(latencies_ms), None)


def latency_intervals(latencies_ms: Sequence[float], *, seed: int = SEED) -> dict[str, Interval | None]:
    """Return 95 % intervals of the mean (bootstrap) and the percentiles; None where there are too few measurements."""
    values = np.asarray(latencies_ms, dtype=np.float64)
    if values.size == 0:
        return dict.fromkeys(("mean", *PERCENTILES))
    quantiles = {name: quantile_interval(values, percent / 100) for name, percent in PERCENTILES.items()}
    return {"mean": bootstrap_intervals([Column(values)], seed=seed, resamples=RESAMPLES)[0], **quantiles}


def resource_usage(samples: Sequence[float]) -> dict[str, float | None]:
    """Return mean, peak and spread (divided by n) of a resource over the samples of a run, in their unit."""
    if len(samples) == 0:
        return dict.fromkeys(("mean", "peak", "std"))
    mean = math.fsum(samples) / len(samples)
    std = math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / len(samples))
    return {"mean": mean, "peak": max(samples), "std": std}
