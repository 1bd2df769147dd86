"""Means over questions with what a reader needs to trust them: interval, method, counts, coverage.

A failure is never a number: it is counted and lowers the coverage. What has no value says why. Every random number
comes from a seed that is an argument, so the same scores give the same interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95  # Evaluation Data Formats, statistical_analysis.confidence_level
RESAMPLES = 10_000
SEED = 42  # Evaluation Data Formats, evaluation_parameters.random_seed
# Drawing counts of distinct values beats drawing questions when values are few: 24x at 7,000 questions, 1,300x at
# 100,000. It loses above about one distinct value in 40 questions.
QUESTIONS_PER_DISTINCT_VALUE = 40
DRAWS_AT_ONCE = 2_000_000  # 32 MB of indices and values; more brings no speed

Values = NDArray[np.float64]


class Interval(NamedTuple):
    """Lower and upper limit, in the unit of the value."""

    low: float
    high: float


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
    """

    value: float | None
    confidence_interval: Interval | None
    method: str | None
    n_scored: int
    n_failed: int
    n_skipped: int
    coverage: float | None
    reason: str | None


def summarise(
    values: Sequence[float | None],
    *,
    failed: int = 0,
    skipped: int = 0,
    reason: str | None = None,
    seed: int = SEED,
) -> Summary:
    """The mean of per-question scores.

    Args:
        values: One a question; None is a failure. Questions to which the measure does not apply are left out and
            counted in `skipped`.
        failed: Further failures that have no place in `values`.
        skipped: Questions left out.
        reason: Why there is no value, for the case that there is none; otherwise `all_failed` or `nothing_to_score`.
        seed: Of the bootstrap.

    Returns:
        Wilson's interval when every value is 0 or 1, else a bootstrap percentile interval.

    Raises:
        ValueError: A value is NaN or infinite, or a count is negative.
    """
    scored = np.array([value for value in values if value is not None], dtype=np.float64)
    n_failed = failed + len(values) - scored.size
    if not np.isfinite(scored).all():
        raise ValueError("expected finite scores; a failure is None")
    if scored.size == 0:
        return counted(None, 0, n_failed, skipped, reason=reason)
    value = mean(scored)
    if np.isin(scored, (0.0, 1.0)).all():
        interval: Interval | None = wilson_interval(int(scored.sum()), scored.size)
        method = "wilson"
    else:
        interval = bootstrap_interval(scored, seed=seed)
        method = f"bootstrap percentile, {RESAMPLES} resamples, seed {seed}"
    return counted(value, scored.size, n_failed, skipped, interval=interval, method=method)


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


def wilson_interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a proportion, in [0, 1]; never of zero width.

    Raises:
        ValueError: No trials, or successes outside [0, trials].

    Source: Wilson 1927; Newcombe 1998, method 3.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"expected 0 <= successes <= trials and a trial, found {successes} of {trials}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # At the ends the formula gives the limit exactly, the arithmetic only nearly.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Interval(low, high)


def bootstrap_interval(
    values: Sequence[float] | Values,
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Percentile interval of the mean over resamples of the values.

    Returns:
        None when fewer than two values differ: every resample is the same, and a width of zero would claim certainty.
    """
    sample = np.asarray(values, dtype=np.float64)
    distinct, counts = np.unique(sample, return_counts=True)
    if distinct.size < 2:
        return None
    rng = np.random.default_rng(seed)
    if distinct.size * QUESTIONS_PER_DISTINCT_VALUE < sample.size:
        means = rng.multinomial(sample.size, counts / sample.size, size=resamples) @ distinct / sample.size
    else:
        means = np.empty(resamples)
        step = max(1, DRAWS_AT_ONCE // sample.size)
        for start in range(0, resamples, step):
            stop = min(start + step, resamples)
            means[start:stop] = sample[rng.integers(0, sample.size, (stop - start, sample.size))].mean(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(low), float(high))
