"""Success: whether the top k holds a relevant document, or all of them."""

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats


def hit(standings: Standings, parameters: Parameters) -> Floats:
    """1.0 when any relevant document is in the top k, else 0.0; trec_eval calls it success, some call it recall."""
    return np.where(standings.within(parameters.k) > 0, 1.0, 0.0)


def all_hit(standings: Standings, parameters: Parameters) -> Floats:
    """1.0 when every relevant document is in the top k, else 0.0; always 0.0 when more than k are relevant, or none."""
    every = (standings.n_relevant > 0) & (standings.within(parameters.k) == standings.n_relevant)
    return np.where(every, 1.0, 0.0)


FAMILIES = (
    Family(
        Metric(
            name="hit@k",
            meaning="A relevant document is in the top k.",
            source="trec_eval m_success.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("hit_rate@k", "success@k"),
        ),
        hit,
        trec="success",
        takes="cutoff",
        defaults=(1, 5, 10),
    ),
    Family(
        Metric(
            name="all_hit@k",
            meaning="Every relevant document is in the top k.",
            source="not in trec_eval; for questions over several documents",
            needs=("ranking", "relevant"),
            levels=LEVELS,
        ),
        all_hit,
        takes="cutoff",
    ),
)
