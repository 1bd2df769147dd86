"""The exact test of a night: did the runs of tonight score otherwise than the reference runs of the same system?

If nothing changed, it does not matter which of a unit's runs are called tonight's: every choice of k of its B + k runs
is equally likely, in each unit independently. A unit is a document with the questions that share it, or one question.
The statistic is the sum of tonight's scores. Its law given all scores is computed without random numbers: the laws of
the units are convolved. With one reference run and one run tonight this is McNemar's test; in general it is the
conditional test of matched sets.

Source: Mantel and Haenszel 1959; Breslow and Day 1980, 7 (conditional test of 1:M matched sets).
"""

import heapq
from functools import cache
from itertools import combinations
from math import comb
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.intervals import Interval, Units, Values

RUNS_MIN = 5  # of a unit, where there are as many; a unit with fewer scored runs is left out
# Scores are compared in steps that hold halves, thirds, quarters, fifths, sixths and eighths; the test of the rounded
# scores is exact. Very many questions are compared in coarser steps.
STEPS, COARSE_STEPS = 120, 12
FINE_QUESTIONS = 10_000
DIRECT_MAX = 256  # shorter laws are convolved directly
P_MIN = 1e-13  # what rounding leaves of a smaller p


class LabelTest(NamedTuple):
    """One-sided p of both sides, and the probability of the very sum that was seen."""

    low: float  # P(sum <= seen): small where scores fell
    high: float  # P(sum >= seen): small where scores rose
    at: float  # P(sum = seen)


class PairedRuns(NamedTuple):
    """Scores that are compared: those that count, with the unit of each question.

    Args:
        reference: (B, questions), NaN where a score does not count.
        current: (k, questions), likewise.
        units: (questions,) numbers from 0.
    """

    reference: Values
    current: Values
    units: Units

    @property
    def runs(self) -> Values:
        """The runs of both sides, those of the reference first."""
        return np.concatenate([self.reference, self.current])

    @property
    def is_pair(self) -> NDArray[np.bool_]:
        """Questions with a score on both sides."""
        counts = [np.count_nonzero(~np.isnan(runs), axis=0) for runs in (self.reference, self.current)]
        return np.asarray(np.minimum(*counts) > 0)

    def of(self, questions: NDArray[np.bool_]) -> "PairedRuns":
        """Return the same of some questions."""
        _, units = np.unique(self.units[questions], return_inverse=True)
        return PairedRuns(self.reference[:, questions], self.current[:, questions], units)

    @property
    def means(self) -> tuple[Values, Values]:
        """Each question's mean of the reference and of the current runs, over the pairs."""
        pairs = self.is_pair
        return np.nanmean(self.reference[:, pairs], axis=0), np.nanmean(self.current[:, pairs], axis=0)

    @property
    def fallen(self) -> NDArray[np.bool_]:
        """Questions whose every current score is below every reference score."""
        highest = np.where(np.isnan(self.current), -np.inf, self.current).max(axis=0)
        lowest = np.where(np.isnan(self.reference), np.inf, self.reference).min(axis=0)
        found: NDArray[np.bool_] = self.is_pair & (highest < lowest)
        return found

    @property
    def risen(self) -> NDArray[np.bool_]:
        """Questions whose every current score is above every reference score."""
        return PairedRuns(-self.reference, -self.current, self.units).fallen

    @property
    def is_beyond(self) -> bool:
        """Whether every current run's mean lies on one side of every reference run's."""
        pairs = self.is_pair
        reference, current = (_filled(runs[:, pairs]).mean(axis=1) for runs in (self.reference, self.current))
        return bool(current.max() < reference.min() or current.min() > reference.max())


def pair_runs(reference: Values, current: Values, units: Units | None = None) -> PairedRuns:
    """Choose the scores that are compared.

    Within a unit a run counts if all of its questions that count were scored in it; the question or run that lacks the
    largest share of scores is left out first. Which run is tonight's plays no part in this.

    Args:
        reference: (B, questions) scores in [0, 1], NaN where there is none.
        current: (k, questions), likewise.
        units: (questions,) numbers from 0; by default each question is a unit.
    """
    n_questions = reference.shape[1]
    units = np.arange(n_questions) if units is None else units
    scores = np.concatenate([reference, current])
    scores[:, np.isnan(current).all(axis=0) | np.isnan(reference).all(axis=0)] = np.nan
    missing = np.isnan(scores)
    partly = missing.any(axis=0) & ~missing.all(axis=0)
    sizes = np.bincount(units)
    for unit in np.unique(units[partly & (sizes[units] > 1)]).tolist():
        columns = np.flatnonzero((units == unit) & ~missing.all(axis=0))
        scores[:, columns] = _complete(scores[:, columns])
    least = min(RUNS_MIN, len(scores))
    kept = ~np.isnan(scores)
    scores[:, kept.sum(axis=0) < least] = np.nan
    return PairedRuns(scores[: len(reference)], scores[len(reference) :], units)


def _complete(scores: Values) -> Values:
    """Leave out questions and runs of a unit until no score is missing."""
    questions = np.full(scores.shape[1], True)
    runs = np.full(scores.shape[0], True)
    while (gaps := np.isnan(scores[np.ix_(runs, questions)])).any():
        by_question, by_run = gaps.mean(axis=0), gaps.mean(axis=1)
        if by_question.max() >= by_run.max():
            questions[np.flatnonzero(questions)[by_question == by_question.max()]] = False
        else:
            runs[np.flatnonzero(runs)[by_run == by_run.max()]] = False
    found = np.full(scores.shape, np.nan)
    found[np.ix_(runs, questions)] = scores[np.ix_(runs, questions)]
    return found


class _Bags(NamedTuple):
    """Units with equally many runs that count: their runs' sums, the current ones last."""

    sums: Values  # (runs, units)
    k: int
    sizes: Values  # questions of each unit


def _bags(paired: PairedRuns) -> list[_Bags]:
    n_units = int(paired.units.max()) + 1 if paired.units.size else 0
    scores = paired.runs
    counted = paired.is_pair
    sums = np.stack([np.bincount(paired.units, np.nan_to_num(run), n_units) for run in scores])
    sizes = np.bincount(paired.units[counted], minlength=n_units).astype(np.float64)
    # In a unit all questions that count have the same runs.
    present = np.stack([np.bincount(paired.units[counted & ~np.isnan(run)], minlength=n_units) for run in scores]) > 0
    n_reference = len(paired.reference)
    patterns, which = np.unique(
        np.stack([present[:n_reference].sum(axis=0), present[n_reference:].sum(axis=0)]), axis=1, return_inverse=True
    )
    found = []
    for number, (b, k) in enumerate(patterns.T.tolist()):
        if b and k:
            units = np.flatnonzero(which.ravel() == number)
            order = np.argsort(~present[:, units], axis=0, kind="stable")[: b + k]  # the runs that count
            found.append(_Bags(sums[order, units].astype(np.float64), k, sizes[units]))
    return found


def label_test(paired: PairedRuns) -> LabelTest:
    """Return the p of both sides; 1 where no score differs between runs."""
    steps = STEPS if paired.units.size <= FINE_QUESTIONS else COARSE_STEPS
    laws: list[Values] = []
    seen = 0
    whole = PairedRuns(np.rint(paired.reference * steps), np.rint(paired.current * steps), paired.units)
    bags = _bags(whole)
    lifted = [(bag.sums - bag.sums.min(axis=0)).astype(np.int64) for bag in bags]
    step = int(np.gcd.reduce(np.concatenate([values.ravel() for values in lifted]))) if lifted else 0
    if step == 0:
        return LabelTest(1.0, 1.0, 1.0)
    for bag, values in zip(bags, lifted, strict=True):
        values //= step
        values = values[:, values.max(axis=0) > 0]
        seen += int(values[len(values) - bag.k :].sum())
        laws += _laws(values, bag.k)
    law = _law_of_sum(laws)
    low, high = float(law[: seen + 1].sum()), float(law[seen:].sum())
    return LabelTest(min(1.0, max(P_MIN, low)), min(1.0, max(P_MIN, high)), float(law[seen]))


@cache
def _choices(runs: int, k: int) -> NDArray[np.int64]:
    """Return (choices, k): every choice of k runs."""
    return np.array(list(combinations(range(runs), k)), dtype=np.int64).reshape(comb(runs, k), k)


def _laws(values: NDArray[np.int64], k: int) -> list[Values]:
    """Return each unit's law of the sum of k of its runs; `values` are (runs, units) from 0."""
    choices = _choices(len(values), k)
    lengths = np.sort(values, axis=0)[len(values) - k :].sum(axis=0) + 1
    sums = (values[choices, unit].sum(axis=1) for unit in range(values.shape[1]))
    return [np.bincount(one, minlength=n) / len(choices) for one, n in zip(sums, lengths.tolist(), strict=True)]


def _law_of_sum(laws: list[Values]) -> Values:
    """Convolve laws, the two shortest first."""
    heap = [(law.size, number, law) for number, law in enumerate(laws)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        _, _, one = heapq.heappop(heap)
        _, _, other = heapq.heappop(heap)
        both = _convolve(one, other)
        heapq.heappush(heap, (both.size, number, both))
        number += 1
    return heap[0][2]


def _convolve(one: Values, other: Values) -> Values:
    size = one.size + other.size - 1
    if one.size <= DIRECT_MAX:
        return np.convolve(one, other)
    length = 1 << (size - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(one, length) * np.fft.rfft(other, length), length)[:size]
    return np.maximum(found, 0.0)


def change_interval(paired: PairedRuns, level: float, *, with_doubt: bool = False) -> Interval:
    """Return the changes of the mean that the test would not reject at a one-sided level, by its normal limit.

    A change is tested by subtracting it from every current score; mean and variance of the statistic are those of the
    drawn labels.

    Args:
        with_doubt: Add one unit of average size that rose by the whole range and one that fell by it, so that "nothing
            changed" is evidence and not certainty.

    Source: Hartigan 1969 for intervals from tests of shifted differences; Bonett and Price 2012 for the two units.
    """
    critical = -NormalDist().inv_cdf(level)
    reach = sure = 0.0  # the statistic is sure - reach x change, its variance c0 - 2 c1 x change + c2 x change^2
    c0 = c1 = c2 = 0.0
    bags = _bags(paired)
    if with_doubt and bags:
        b, k = len(paired.reference), len(paired.current)
        size = float(np.concatenate([bag.sizes for bag in bags]).mean())
        bags.append(_Bags(size * np.array([[0.0, 1.0]] * b + [[1.0, 0.0]] * k), k, np.full(2, size)))
    for bag in bags:
        m, k = len(bag.sums), bag.k
        share = k * (m - k) / m
        moved = bag.sums[m - k :].sum(axis=0) - k * bag.sums.mean(axis=0)
        sure += float(moved.sum())
        reach += share * float(bag.sizes.sum())
        factor = share / (m - 1)
        c0 += factor * float(((bag.sums - bag.sums.mean(axis=0)) ** 2).sum())
        c1 += factor * float((bag.sizes * moved).sum())
        c2 += factor * share * float((bag.sizes**2).sum())
    a, b_, c = reach**2 - critical**2 * c2, reach * sure - critical**2 * c1, sure**2 - critical**2 * c0
    if a <= 0:  # too few units to reject any change
        return Interval(-1.0, 1.0)
    half = max(0.0, b_**2 - a * c) ** 0.5
    return Interval(max(-1.0, (b_ - half) / a), min(1.0, (b_ + half) / a))


def _filled(runs: Values) -> Values:
    """Replace missing scores by the question's mean over the runs of its side."""
    means = np.nanmean(runs, axis=0)
    return np.where(np.isnan(runs), means, runs)
