"""Performance of a run: latency, resources and what the API calls cost, by the specification's names.

A statistic without measurements is None with a reason, and sums say how many of their parts were not reported.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.intervals import SEED, Interval, bootstrap_interval, quantile_interval

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


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """A resource over the samples of a run, in their unit; `std` is the spread of the samples (divided by n)."""

    mean: float | None
    peak: float | None
    std: float | None
    n: int
    reason: str | None


class CallUsage(NamedTuple):
    """Tokens, requests (retries included) and cost of one answer; None where they are not known."""

    total_tokens: int | None = None
    requests: int = 1
    cost_usd: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ApiUsage:
    """Sums over a run of what was reported, None if nothing was; answers missing from a sum are counted."""

    total_tokens: int | None
    total_requests: int
    estimated_cost_usd: float | None
    n_without_tokens: int
    n_without_cost: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


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
    return {"mean": bootstrap_interval(values, seed=seed, resamples=RESAMPLES), **quantiles}


def resource_usage(samples: Sequence[float]) -> ResourceUsage:
    """Return statistics of one resource; all None with reason `no_samples` if nothing was sampled."""
    if len(samples) == 0:
        return ResourceUsage(None, None, None, 0, "no_samples")
    mean = math.fsum(samples) / len(samples)
    std = math.sqrt(math.fsum((sample - mean) ** 2 for sample in samples) / len(samples))
    return ResourceUsage(mean, max(samples), std, len(samples), None)


def api_usage(calls: Iterable[CallUsage]) -> ApiUsage:
    """Add up tokens, requests and cost."""
    counted = list(calls)
    columns = zip(*counted, strict=True) if counted else [()] * len(CallUsage._fields)
    tokens, requests, costs, prompts, completions = ([n for n in column if n is not None] for column in columns)
    return ApiUsage(
        total_tokens=sum(tokens) if tokens else None,
        total_requests=sum(requests),
        estimated_cost_usd=math.fsum(costs) if costs else None,
        n_without_tokens=len(counted) - len(tokens),
        n_without_cost=len(counted) - len(costs),
        prompt_tokens=sum(prompts) if prompts else None,
        completion_tokens=sum(completions) if completions else None,
    )
