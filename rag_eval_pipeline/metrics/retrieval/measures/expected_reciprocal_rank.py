"""Expected reciprocal rank: where a reader stops who is satisfied by a document with a probability by its grade."""

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, by_ordinal, ordinals

NEGLIGIBLE = 1e-10  # a reader who goes on so seldom is followed no further; Evret's limit


def expected_reciprocal_rank(standings: Standings, parameters: Parameters) -> Floats:
    """Sum over the top k of 1 / rank, times the probability that the reader stops there.

    Args:
        standings: Of a run.
        parameters: k, and `max_grade`: a document of that grade or above satisfies with (2^g - 1) / 2^g.
    """
    top = parameters.named["max_grade"]
    near = standings.graded.where(standings.graded.rank <= parameters.k)
    satisfied = (2.0 ** np.minimum(near.grade, top) - 1) / 2.0**top
    total, going_on = np.zeros(standings.n), np.ones(standings.n)
    for chosen in by_ordinal(ordinals(near.query, standings.n)):
        chosen = chosen[going_on[near.query[chosen]] >= NEGLIGIBLE]
        query = near.query[chosen]
        total[query] += (1.0 / near.rank[chosen]) * satisfied[chosen] * going_on[query]
        going_on[query] *= 1.0 - satisfied[chosen]
    return np.minimum(total, 1.0)


FAMILIES = (
    Family(
        Metric(
            name="err@k",
            meaning="Expected reciprocal rank at which a reader is satisfied in the top k; grades up to 4.",
            source="Chapelle and others 2009; Evret",
            needs=("ranking", "relevant", "grades"),
            levels=LEVELS,
        ),
        expected_reciprocal_rank,
        takes="cutoff",
        named={"max_grade": 4},
    ),
)
