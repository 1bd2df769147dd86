"""The smallest drops that one night, or a week, finds four times of five.

A drop is modelled as steady questions that lose all they scored, for good, while the others waver as before. What the
fallen ones add to the statistic of `run_labels` has a known law; what the others add is normal, with the variance
between the reference runs. No random numbers are drawn. The power is within about 0.1 of that of simulated nights.

A night is found at its first look and again with its rerun; further reruns find a little more. A week is found by the
watch.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import ceil, comb, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.declines import BET_MAX, EXPONENTS
from rag_eval_pipeline.metrics.distributions import normal_cdf, normal_quantile
from rag_eval_pipeline.metrics.intervals import Units, Values
from rag_eval_pipeline.metrics.verdict_rules import FIRST_LOOK, Budget

POWER = 0.8
NIGHTS = 7

GRID = 12  # steps of a score: halves, thirds, quarters and sixths are whole numbers of them
QUARTER = 0.25  # of a step: what the grid of the sums costs on average, chosen on simulated nights
REACH = 12.0  # standard deviations beyond which the noise does not lift a fallen question
Z_MAX = 9.0
NORMAL = normal_quantile((np.arange(100) + 0.5) / 100)  # equally likely values
TINY = 1e-18  # stands for no noise


class Limits(NamedTuple):
    """What one metric must reach, after Holm's first step; levels are one-sided."""

    first_look: float
    decision: float  # of the night and its rerun together
    alert_at: float  # evidence of the watch
    min_effect: float

    @classmethod
    def of(cls, budget: Budget, n_metrics: int, min_effect: float) -> "Limits":
        """Return the limits of so many metrics that are compared together."""
        return cls(FIRST_LOOK / n_metrics, budget.level(2) / n_metrics, n_metrics / budget.a, min_effect)


class Reference(NamedTuple):
    """What a metric's reference runs, or an assumption, say of its noise."""

    n_runs: int
    n_questions: int
    losses: NDArray[np.int64]  # of the questions that can fall, in steps, in the order in which they fall
    units: Units  # their documents
    noises: Sequence[float]  # equally likely variances of a run's sum, in squared steps
    step: float = 1.0  # as a share of the range

    def with_more(self, questions: int) -> "Reference":
        """Return the same with more questions, and documents, of the same kind."""
        factor, n = 1 + questions / self.n_questions, max(1, self.losses.size)
        size = ceil(factor * self.losses.size)
        again = np.arange(size) // n * (int(self.units.max(initial=0)) + 1)
        return self._replace(
            n_questions=self.n_questions + questions,
            losses=np.resize(self.losses, size),
            units=np.resize(self.units, size) + again,
            noises=[factor * noise for noise in self.noises],
        )


def assumed_reference(sizes: Sequence[int], share: float, n_runs: int) -> Reference:
    """Return the noise of right and wrong answers of which a share differs between two runs.

    Three times that share of the questions waver, each with a chance of being right anywhere from 0 to 1; `sizes` are
    the questions of each document.
    """
    units = np.repeat(np.arange(len(sizes)), sizes)
    n, wavering = units.size, 3 * share
    counts = n * wavering + normal_quantile([1 / 6, 1 / 2, 5 / 6]) * sqrt(n * wavering * (1 - wavering))
    noises = (np.maximum(counts, TINY) / 6).tolist()  # a chance from 0 to 1 has a variance of 1/6 on average
    return Reference(n_runs, n, np.ones(n, dtype=np.int64), units[_order(n)], noises)


def reference_of(scores: Values, units: Units) -> Reference:
    """Return what a metric's reference runs say; more is better.

    Args:
        scores: (runs, questions) in [0, 1], NaN where there is none; at least two runs.
        units: (questions,) numbers of their documents.
    """
    counted = ~np.isnan(scores).any(axis=0)
    scores, units = scores[:, counted], units[counted]
    means = scores.mean(axis=0)
    sums = np.stack([np.bincount(units, run) for run in scores - means])
    step = (int(np.gcd.reduce(np.rint(GRID * scores).astype(np.int64), axis=None)) or GRID) / GRID
    losses = np.rint(means / step).astype(np.int64)
    order = _order(means.size)
    order = order[np.argsort(np.ptp(scores, axis=0)[order] > 0, kind="stable")]  # steady ones first
    order = order[losses[order] > 0]
    noise = float((sums**2).sum()) / (len(scores) - 1) / step**2
    return Reference(len(scores), means.size, losses[order], units[order], [max(noise, TINY)], step)


def _order(n: int) -> NDArray[np.int64]:
    """Return an order without a pattern that is always the same (multiplicative hashing of the squares)."""
    return np.argsort(np.arange(n, dtype=np.uint64) ** 2 * 2_654_435_761 % 2**32, kind="stable")


def smallest_drop(reference: Reference, power: Callable[[int], float]) -> float | None:
    """Return the smallest drop, as a share of the range, with a `power` of 80 %; None if there is none."""
    most, high = reference.losses.size, 1
    while high < most and power(high) < POWER:
        high *= 2
    tried = range(high // 2 + 1, min(high, most) + 1)
    place = bisect_left(tried, POWER, key=power)
    if place == len(tried):
        return None
    return float(reference.losses[: tried[place]].sum()) * reference.step / reference.n_questions


def night_power(reference: Reference, limits: Limits, fallen: int) -> float:
    """Return the chance that a night and its rerun confirm the fall of so many questions."""
    b = reference.n_runs
    laws = [_law(reference, fallen, k) for k in (1, 2)]
    lost = int(reference.losses[:fallen].sum())
    beyond = lost - limits.min_effect * reference.n_questions / reference.step + 1e-6
    correlation = sqrt((1 / 2 + 1 / b) / (1 + 1 / b))  # of the night alone with the night and its rerun
    powers = []
    for noise in reference.noises:
        first, both = (
            min(_rejected_up_to(law, sqrt(noise * k * b / (b + k)), level), beyond / sqrt(noise * (1 / k + 1 / b)))
            for k, law, level in zip((1, 2), laws, (limits.first_look, limits.decision), strict=True)
        )
        flagged = normal_quantile(normal_cdf(NORMAL) * normal_cdf(first))
        powers.append(normal_cdf(first) * normal_cdf((both - correlation * flagged) / sqrt(1 - correlation**2)).mean())
    return float(np.mean(powers))


def week_power(reference: Reference, limits: Limits, fallen: int) -> float:
    """Return the chance that the watch alerts within seven nights of the fall of so many questions.

    Each night is compared with the frozen reference; the comparison with all nights, which the watch makes as well,
    adds little to it.
    """
    b = reference.n_runs
    law = _law(reference, fallen, 1)
    needed = log(limits.alert_at / 2)  # the evidence of the quiet nights before is about 1
    powers = []
    for noise in reference.noises:
        sd = sqrt(noise * b / (b + 1))
        ones = law[: int(REACH * sd) + 2]
        for luck in NORMAL[5::10].tolist():  # of the reference, which all nights share
            z = (NORMAL + luck / sqrt(b)) / sqrt(1 + 1 / b)
            p = np.maximum(normal_cdf(z[:, np.newaxis] - np.arange(ones.size) / sd) @ ones, TINY)
            p = np.maximum(
                p, normal_cdf(normal_quantile(p) * sqrt(1 + 1 / b) + 1 / sqrt(b))
            )  # as `watch.bet` allows for that luck
            bets = np.log(np.minimum(BET_MAX, (EXPONENTS * p[:, np.newaxis] ** (EXPONENTS - 1)).mean(axis=1)))
            powers.append(normal_cdf((NIGHTS * bets.mean() - needed) / sqrt(NIGHTS * max(float(bets.var()), TINY))))
    return float(np.mean(powers))


def _law(reference: Reference, fallen: int, k: int) -> Values:
    """Return the law of the sum of k runs of the fallen questions, drawn from the reference runs and k since."""
    lost = np.bincount(reference.units[:fallen], reference.losses[:fallen]).astype(np.int64)
    b = reference.n_runs
    chances = np.array([comb(b, j) * comb(k, k - j) for j in range(k + 1)]) / comb(b + k, k)
    size = 1 << (k * int(lost.sum())).bit_length()
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for loss, count in zip(*np.unique(lost[lost > 0], return_counts=True), strict=True):
        one = np.zeros(size)
        one[np.arange(k + 1) * loss] = chances
        product *= np.fft.rfft(one) ** count
    return np.maximum(np.fft.irfft(product, size), 0.0)


def _rejected_up_to(law: Values, sd: float, level: float) -> float:
    """Return the largest standardised noise of the questions that did not fall with which the test still rejects."""
    law = law[: int(REACH * sd) + 2]
    places = (QUARTER - np.arange(law.size)) / sd
    low, high = -Z_MAX, Z_MAX
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if float(law @ normal_cdf(middle + places)) <= level else (low, middle)
    return low
