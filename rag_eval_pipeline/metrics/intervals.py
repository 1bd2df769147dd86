"""Confidence intervals that need no random numbers: Wilson's for shares, Student's for paired differences.

None of them ever has a width of zero: questions that all agree are evidence, not certainty.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.clusters import (
    Values,
    cluster_spread,
    count_units,
    effective_clusters,
    number_units,
    sums_by_unit,
)

CONFIDENCE = 0.95  # Evaluation Data Formats, statistical_analysis.confidence_level


class Interval(NamedTuple):
    """Lower and upper limit, in the unit of the value."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a proportion, in [0, 1]; never of zero width.

    Raises:
        ValueError: No trials, or successes outside [0, trials].

    Source: Wilson 1927; Newcombe 1998, method 3.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"expected 0 <= successes <= trials and a trial, found {successes} of {trials}")
    interval = _score_interval(successes / trials, trials, confidence)
    # At the ends the formula gives the limit exactly, the arithmetic only nearly.
    return Interval(0.0 if successes == 0 else interval.low, 1.0 if successes == trials else interval.high)


def clustered_wilson_interval(
    values: Values, clusters: Sequence[str], confidence: float = CONFIDENCE
) -> tuple[Interval, float]:
    """Wilson's interval of a share whose questions share documents, and the number of questions they are worth.

    The questions count as n / design effect, the variance between documents over that of independent questions; by
    Student's t instead of the normal where documents are few. Where all questions agree the effect cannot be seen, and
    the documents are counted.

    Args:
        values: (questions,), each 0 or 1; one or more.
        clusters: A name a question.
        confidence: Of the interval.

    Returns:
        The interval, and the effective number of questions: at most n, at least 1.

    Source: Franco, Little, Louis and Slud 2019, who find Wilson's form with the effective number best among seven; Kish
    1965 for the design effect; Korn and Graubard 1998 for t.
    """
    units = number_units(clusters, len(values))
    n_questions, n_units = len(values), count_units(units)
    if n_units == n_questions:
        return wilson_interval(int(values.sum()), n_questions, confidence), float(n_questions)
    share = float(values.mean())
    if share in (0.0, 1.0) or n_units == 1:
        effective = float(n_units)
    else:
        from scipy.special import stdtrit

        spread = cluster_spread(values, units)
        # One large document beside many small ones is worth two, not the number of them all.
        worth = max(2.0, effective_clusters(sums_by_unit(np.ones(n_questions), units)))
        variance = worth / (worth - 1) * float(spread @ spread) / n_questions**2
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        few = (z / float(stdtrit(worth - 1, (1 + confidence) / 2))) ** 2
        # Documents that are more alike than chance make it larger than n: that is luck, not information.
        wide = share * (1 - share) / variance if variance else math.inf
        effective = max(1.0, min(wide * few, n_questions))
    interval = _score_interval(share, effective, confidence)
    return Interval(0.0 if share == 0 else interval.low, 1.0 if share == 1 else interval.high), effective


def quantile_interval(values: Values, quantile: float, confidence: float = CONFIDENCE) -> Interval | None:
    """An interval of a quantile between two of the values themselves, whatever their distribution.

    It holds the quantile at least as often as `confidence` says, because ranks are whole numbers: how many of n values
    lie below it is binomial.

    Args:
        values: One or more, finite.
        quantile: Such as 0.95.
        confidence: Of the interval.

    Returns:
        None where there are too few values for a limit on both sides: below 6 for the median, 72 for 0.95, 368 for
        0.99, at 95 % confidence.

    Source: David and Nagaraja 2003, Order Statistics, 7.1; Hahn and Meeker 1991, 5.2.
    """
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    below = bdtr(np.arange(ordered.size), ordered.size, quantile)  # so many values or fewer are less than the quantile
    tail = (1 - confidence) / 2
    low = int(np.searchsorted(below, tail, side="right")) - 1
    high = int(np.searchsorted(below, 1 - tail, side="left"))
    return Interval(float(ordered[low]), float(ordered[high])) if low >= 0 and high < ordered.size else None


def _score_interval(share: float, trials: float, confidence: float) -> Interval:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))
