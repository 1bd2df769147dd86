"""Rank-biased precision: a reader goes on to the next document with a probability p."""

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.gains import gains_to_one
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, add_up, count_up

SOURCE = "Moffat and Zobel 2008"


def persistence(p: float, longest: int) -> Floats:
    """Powers of p, by multiplying on, at index rank - 1, one more than `longest`."""
    return np.multiply.accumulate(np.concatenate(([1.0], np.full(longest, p))))


def rank_biased_precision(standings: Standings, parameters: Parameters) -> Floats:
    """(1 - p) times the sum of gain * p^(rank - 1); gains are brought to [0, 1] where they are not."""
    p = parameters.named["p"]
    gain = gains_to_one(standings, parameters.gains)
    query, rank, _ = standings.placed
    weights = persistence(p, int(rank.max(initial=0)))
    return (1.0 - p) * add_up(query, gain * weights[rank - 1], standings.n)


def rank_biased_residual(standings: Standings, parameters: Parameters) -> Floats:
    """What unjudged documents, retrieved or beyond the ranking, could add; 0.0 where every retrieved one is judged."""
    p = parameters.named["p"]
    longest = int(standings.retrieved.max(initial=0))
    weights = persistence(p, longest)
    judged = standings.placed.where(standings.placed.grade >= 0)
    order = np.argsort(judged.rank, kind="stable")
    ends = np.searchsorted(judged.rank[order], np.arange(1, longest + 2))
    total = np.zeros(standings.n)
    for rank in range(1, longest + 1):
        added = np.where(standings.retrieved >= rank, weights[rank - 1], 0.0)
        added[judged.query[order[ends[rank - 1] : ends[rank]]]] = 0.0
        total += added
    unjudged = standings.retrieved > count_up(judged.query, standings.n)
    return np.where(unjudged, weights[standings.retrieved] + (1 - p) * total, 0.0)


def rank_biased_precision_at(standings: Standings, parameters: Parameters) -> Floats:
    """The same over the top k; gains are grades over the query's greatest, as Evret has them."""
    p = parameters.named["p"]
    highest = np.ones(standings.n, np.int64)
    np.maximum.at(highest, standings.judged.query, standings.judged.grade)
    near = standings.graded.where(standings.graded.rank <= parameters.k)
    weights = np.array([(1.0 - p) * p**rank for rank in range(int(near.rank.max(initial=0)))])
    gain = near.grade / highest[near.query]
    return np.minimum(add_up(near.query, weights[near.rank - 1] * gain, standings.n), 1.0)


FAMILIES = (
    Family(
        Metric(
            name="rbp",
            meaning="Gain that a reader of persistence 0.9 meets in the ranking.",
            source=f"{SOURCE}; trec_eval 10 m_rbp.c",
            needs=("ranking", "relevant", "grades"),
            levels=LEVELS,
        ),
        rank_biased_precision,
        trec="rbp",
        takes="pairs",
        named={"p": 0.9},
    ),
    Family(
        Metric(
            name="rbp_resid",
            meaning="What unjudged documents could add to rbp.",
            source=f"{SOURCE}; trec_eval 10 m_rbp_resid.c",
            needs=("ranking", "relevant", "judged_nonrelevant"),
            levels=LEVELS,
            direction="lower",
        ),
        rank_biased_residual,
        trec="rbp_resid",
        takes="pairs",
        named={"p": 0.9},
    ),
    Family(
        Metric(
            name="rbp@k",
            meaning="Gain that a reader of persistence 0.8 meets in the top k.",
            source=f"{SOURCE}; Evret",
            needs=("ranking", "relevant", "grades"),
            levels=LEVELS,
        ),
        rank_biased_precision_at,
        takes="cutoff",
        named={"p": 0.8},
    ),
)
