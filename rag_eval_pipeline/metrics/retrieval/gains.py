"""Gains: what a document of each grade is worth, found and at best; by default its grade."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints, discounts, ordinals


class Gained(NamedTuple):
    """Documents with a gain: query (ascending), rank (ascending within it), gain, and gain / log2(rank + 1)."""

    query: Ints
    rank: Ints
    gain: Floats
    discounted: Floats


class Gains(NamedTuple):
    """Retrieved documents whose gain is not 0, and all judged ones whose gain is above 0 in the best order."""

    found: Gained
    ideal: Gained


def gained(standings: Standings, gains: Mapping[int, float]) -> Gains:
    """What was gained and what could have been.

    Args:
        standings: Of a run.
        gains: Grade -> gain for grades that do not gain their own number; may be 0, negative or for grade 0.
    """
    if not gains:
        found, ideal = standings.graded, standings.ideal
        return Gains(
            Gained(found.query, found.rank, found.grade.astype(np.float64), standings.discounted),
            Gained(ideal.query, ideal.rank, ideal.grade.astype(np.float64), standings.ideal_discounted),
        )
    query, rank, grade = standings.placed
    gain = gains_of(grade, gains)
    some = gain != 0
    query, rank, gain = query[some], rank[some], gain[some]
    best = gains_of(standings.judged.grade, gains)
    # trec_eval orders gains by their whole difference, so that 3 and 3.5 stand in no order; here in the right one.
    order = np.lexsort((-best, standings.judged.query))
    order = order[best[order] > 0]
    return Gains(
        Gained(query, rank, gain, gain / discounts(int(rank.max(initial=0)))[rank]),
        _ideal(standings.judged.query[order], best[order], standings.n),
    )


def gains_of(grade: Ints, gains: Mapping[int, float]) -> Floats:
    """The gain of each grade; 0.0 for negative grades, which nobody judged."""
    found = np.maximum(grade, 0).astype(np.float64)
    for given, gain in gains.items():
        found[grade == given] = gain
    return found


def gains_to_one(standings: Standings, gains: Mapping[int, float]) -> Floats:
    """The gain of each of `standings.placed`, brought to [0, 1] for a query in which gains exceed it.

    A query's gains are those of all grades from 0 to its highest, and those that were given. trec_eval leaves its
    minimum and maximum uninitialised; here both begin at 0.
    """
    highest = np.zeros(standings.n, np.int64)
    np.maximum.at(highest, standings.judged.query, standings.judged.grade)
    table = gains_of(np.arange(int(highest.max(initial=0)) + 1), gains)
    low = np.minimum(np.minimum.accumulate(table)[highest], min(gains.values(), default=0.0))
    high = np.maximum(np.maximum.accumulate(table)[highest], max(gains.values(), default=0.0))
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    outside = (low < 0) | (high > 1)
    query, _, grade = standings.placed
    gain = gains_of(grade, gains)
    chosen = outside[query] & (grade >= 0)
    gain[chosen] = (gain[chosen] - low[query[chosen]]) / (high - low)[query[chosen]]
    return gain


def _ideal(query: Ints, gain: Floats, n: int) -> Gained:
    rank = ordinals(query, n)
    return Gained(query, rank, gain, gain / discounts(int(rank.max(initial=0)))[rank])
