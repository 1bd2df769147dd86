"""Interpolated precision: the best precision at a level of recall or beyond it."""

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints, by_ordinal

ELEVEN = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def best_from(standings: Standings) -> Floats:
    """Of each relevant document that was found the best precision at it or at a later one."""
    query = standings.relevant.query
    best, found = np.zeros(standings.n), np.empty(query.size)
    for chosen in by_ordinal(standings.n_found[query] - standings.ordinal + 1):
        best[query[chosen]] = np.maximum(best[query[chosen]], standings.precision[chosen])
        found[chosen] = best[query[chosen]]
    return found


def nearest(values: NDArray[np.floating]) -> Ints:
    """The nearest whole numbers, halves upwards, as C's lround; trec_eval before version 10 added 0.9 and cut."""
    whole = np.trunc(values)
    rounded: Ints = (whole + (values - whole >= 0.5)).astype(np.int64)
    return rounded


def at_recall(standings: Standings, best: Floats, fraction: float) -> Floats:
    """The best precision where the fraction of the relevant documents is found, 0.0 where that is never."""
    # The fraction 0 is reached before the first relevant document, and has the precision of the best one.
    wanted = np.maximum(nearest(fraction * standings.n_relevant), 1)
    reached = (standings.n_found > 0) & (wanted <= standings.n_found)
    first = np.cumsum(standings.n_found) - standings.n_found
    found = np.zeros(standings.n)
    found[reached] = best[(first + wanted - 1)[reached]]
    return found


def interpolated_precision(standings: Standings, parameters: Parameters) -> Floats:
    """`at_recall` of one fraction."""
    return at_recall(standings, best_from(standings), parameters.numbers[0])


def mean_interpolated_precision(standings: Standings, parameters: Parameters) -> Floats:
    """Mean of `at_recall` over fractions, added from the greatest one down."""
    best = best_from(standings)
    total = np.zeros(standings.n)
    for fraction in sorted(parameters.numbers, reverse=True):
        total += at_recall(standings, best, fraction)
    return total / len(parameters.numbers)


FAMILIES = (
    Family(
        Metric(
            name="iprec_at_recall",
            meaning="Best precision at a level of recall or beyond it.",
            source="trec_eval 10 m_iprec_at_recall.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
        ),
        interpolated_precision,
        trec="iprec_at_recall",
        takes="fraction",
        defaults=ELEVEN,
    ),
    Family(
        Metric(
            name="11pt_avg",
            meaning="Mean of the interpolated precision at eleven levels of recall.",
            source="trec_eval 10 m_11pt_avg.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
        ),
        mean_interpolated_precision,
        trec="11pt_avg",
        takes="numbers",
        defaults=ELEVEN,
    ),
)
