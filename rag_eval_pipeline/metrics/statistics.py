"""Means over questions with what a reader needs to trust them: interval, method, counts, coverage.

A failure is never a number: it is counted and lowers the coverage. What has no value says why. Every random number
comes from a seed that is an argument, so the same scores give the same interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.bootstrap import RESAMPLES, SEED, bootstrap_intervals
from rag_eval_pipeline.metrics.clustered_bootstrap import ClusteredColumn, clustered_intervals
from rag_eval_pipeline.metrics.clusters import Values, effective_clusters, number_units, sums_by_unit
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, Interval, clustered_wilson_interval, wilson_interval

__all__ = [
    "CONFIDENCE",
    "RESAMPLES",
    "SEED",
    "Interval",
    "Scores",
    "Summary",
    "counted",
    "mean",
    "proportion",
    "summarise",
    "summarise_all",
]


@dataclass(frozen=True, slots=True)
class Summary:
    """One aggregate, and how far it can be trusted.

    Args:
        value: The mean or ratio; None when nothing was scored.
        confidence_interval: 95 %; None when there is no value or no honest interval (see `bootstrap_interval`).
        method: How the interval was made, with its parameters; None without one.
        n_scored: Questions behind the value.
        n_failed: Questions that should have a score and have none.
        n_skipped: Questions to which the measure does not apply; they do not lower the coverage.
        coverage: n_scored / (n_scored + n_failed); None when both are 0.
        reason: Why there is no value (`no_judge`, `all_failed`, ...); None when there is one.
        n_clusters: Documents (or other groups) that the interval counts instead of values; None where nothing is
            shared, or there is no interval.
    """

    value: float | None
    confidence_interval: Interval | None
    method: str | None
    n_scored: int
    n_failed: int
    n_skipped: int
    coverage: float | None
    reason: str | None
    n_clusters: int | None = None


class Scores(NamedTuple):
    """The scores of one metric, and what else is known of its questions.

    Args:
        values: One a question; None is a failure. Questions to which the metric does not apply are left out and
            counted in `skipped`.
        failed: Further failures that have no place in `values`.
        skipped: Questions left out.
        reason: Why there is no value, for the case that there is none; otherwise `all_failed` or `nothing_to_score`.
        clusters: A name a value (its document), where questions share one; independent where each has its own.
    """

    values: Sequence[float | None]
    failed: int = 0
    skipped: int = 0
    reason: str | None = None
    clusters: Sequence[str] | None = None


def summarise(
    values: Sequence[float | None],
    *,
    failed: int = 0,
    skipped: int = 0,
    reason: str | None = None,
    seed: int = SEED,
    clusters: Sequence[str] | None = None,
) -> Summary:
    """The mean of per-question scores; the arguments are those of `Scores` and the bootstrap's seed.

    Returns:
        Wilson's interval when every value is 0 or 1, else a bootstrap percentile interval; with clusters, that of the
        effective number of questions, and that over documents.

    Raises:
        ValueError: A value is NaN or infinite, a count is negative, or clusters are not one a value.
    """
    return summarise_all({"": Scores(values, failed, skipped, reason, clusters)}, seed=seed)[""]


def summarise_all(metrics: Mapping[str, Scores], *, seed: int = SEED) -> dict[str, Summary]:
    """The means of several metrics as `summarise` gives them one by one, in less time where there are many questions.

    Raises:
        ValueError: As `summarise`.
    """
    scored = {
        name: np.array([v for v in own.values if v is not None], dtype=np.float64) for name, own in metrics.items()
    }
    if not all(np.isfinite(values).all() for values in scored.values()):
        raise ValueError("expected finite scores; a failure is None")
    shared = {name: names for name, own in metrics.items() if (names := _shared(own)) is not None}
    made: dict[str, _Made] = {}
    graded: list[str] = []
    for name, values in scored.items():
        if values.size and _is_binary(values):
            made[name] = _wilson(values, shared.get(name))
        elif values.size:
            graded.append(name)
    alone, together = [n for n in graded if n not in shared], [n for n in graded if n in shared]
    intervals = bootstrap_intervals([scored[name] for name in alone], seed=seed)
    intervals += clustered_intervals([ClusteredColumn(scored[name], shared[name]) for name in together], seed=seed)
    for name, interval in zip((*alone, *together), intervals, strict=True):
        made[name] = _bootstrapped(interval, shared.get(name), seed)
    summaries = {}
    for name, own in metrics.items():
        values, n_failed = scored[name], own.failed + len(own.values) - scored[name].size
        if values.size == 0:
            summaries[name] = counted(None, 0, n_failed, own.skipped, reason=own.reason)
        else:
            summaries[name] = counted(mean(values), values.size, n_failed, own.skipped, **made[name]._asdict())
    return summaries


class _Made(NamedTuple):
    """An interval, how it was made, and of how many clusters."""

    interval: Interval | None
    method: str
    n_clusters: int | None


def _shared(scores: Scores) -> list[str] | None:
    """The cluster of each scored value; None where no two values share one, which are as good as independent."""
    if scores.clusters is None:
        return None
    if len(scores.clusters) != len(scores.values):
        raise ValueError(f"expected a cluster for each of {len(scores.values)} values, found {len(scores.clusters)}")
    names = [name for name, value in zip(scores.clusters, scores.values, strict=True) if value is not None]
    return names if len(set(names)) < len(names) else None


def _is_binary(values: Values) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _wilson(values: Values, clusters: Sequence[str] | None) -> _Made:
    if clusters is None:
        return _Made(wilson_interval(int(values.sum()), values.size), "wilson", None)
    interval, effective = clustered_wilson_interval(values, clusters)
    n_clusters = len(set(clusters))
    return _Made(interval, f"wilson, {n_clusters} clusters worth {effective:.1f} of {values.size}", n_clusters)


def _bootstrapped(interval: Interval | None, clusters: Sequence[str] | None, seed: int) -> _Made:
    if clusters is None:
        return _Made(interval, f"bootstrap percentile, {RESAMPLES} resamples, seed {seed}", None)
    sizes = sums_by_unit(np.ones(len(clusters)), number_units(clusters, len(clusters)))
    over = f"{sizes.size} clusters worth {effective_clusters(sizes):.1f}"
    return _Made(interval, f"bootstrap percentile, {RESAMPLES} resamples of {over}, widened, seed {seed}", sizes.size)


def proportion(successes: int, trials: int, *, failed: int = 0, skipped: int = 0, reason: str | None = None) -> Summary:
    """A share with Wilson's interval; no value when `trials` is 0. The other arguments are those of `summarise`."""
    if trials == 0:
        return counted(None, 0, failed, skipped, reason=reason)
    interval = wilson_interval(successes, trials)
    return counted(successes / trials, trials, failed, skipped, interval=interval, method="wilson")


def counted(
    value: float | None,
    scored: int,
    failed: int,
    skipped: int,
    *,
    interval: Interval | None = None,
    method: str | None = None,
    n_clusters: int | None = None,
    reason: str | None = None,
) -> Summary:
    """A summary whose coverage and reason follow from its counts.

    Raises:
        ValueError: A count is negative.
    """
    if min(scored, failed, skipped) < 0:
        raise ValueError(f"expected counts of 0 or more, found scored={scored}, failed={failed}, skipped={skipped}")
    return Summary(
        value=value,
        confidence_interval=interval,
        method=None if interval is None else method,
        n_scored=scored,
        n_failed=failed,
        n_skipped=skipped,
        coverage=scored / (scored + failed) if scored + failed else None,
        reason=None if value is not None else reason or ("all_failed" if failed else "nothing_to_score"),
        n_clusters=None if interval is None else n_clusters,
    )


def mean(values: Sequence[float] | Values) -> float:
    """Arithmetic mean, added up in the order given: trec_eval's last bit depends on it.

    Raises:
        ValueError: No values.
    """
    if len(values) == 0:
        raise ValueError("expected at least one value")
    # np.sum adds pairwise and Python's sum compensates from 3.12 on; a running sum does neither.
    return float(np.cumsum(np.asarray(values, dtype=np.float64))[-1]) / len(values)
