"""Reciprocal rank: how far down the first relevant document stands."""

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats


def reciprocal_rank(standings: Standings, _: Parameters) -> Floats:
    """1 / rank of the first relevant document; 0.0 when none was retrieved."""
    found = np.zeros(standings.n)
    first = standings.ordinal == 1
    found[standings.relevant.query[first]] = 1.0 / standings.relevant.rank[first]
    return found


def reciprocal_rank_at(standings: Standings, parameters: Parameters) -> Floats:
    """The same; 0.0 when none is in the top k."""
    found = reciprocal_rank(standings, parameters)
    found[standings.within(parameters.k) == 0] = 0.0
    return found


FAMILIES = (
    Family(
        Metric(
            name="mrr",
            meaning="Reciprocal of the rank of the first relevant document in the ranking.",
            source="trec_eval m_recip_rank.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("rr",),
        ),
        reciprocal_rank,
        trec="recip_rank",
    ),
    Family(
        Metric(
            name="mrr@k",
            meaning="Reciprocal of the rank of the first relevant document in the top k.",
            source="trec_eval m_recip_rank.c; the cutoff as in MS MARCO",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("rr@k",),
        ),
        reciprocal_rank_at,
        takes="cutoff",
    ),
)
