"""Precision: the share of what was retrieved that is relevant, at a rank or at as many ranks as there are relevant."""

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import CUTOFFS, LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, shares


def precision(standings: Standings, parameters: Parameters) -> Floats:
    """Share of the top k that is relevant; divides by k even where fewer were retrieved."""
    return standings.within(parameters.k) / parameters.k


def relative_precision(standings: Standings, parameters: Parameters) -> Floats:
    """Precision over the best possible precision at k: over k or the number of relevant documents, the smaller one."""
    return shares(standings.within(parameters.k), np.minimum(standings.n_relevant, parameters.k))


def r_precision(standings: Standings, _: Parameters) -> Floats:
    """Precision at rank R, the number of relevant documents; divides by R even where fewer were retrieved."""
    return shares(standings.within_each(standings.n_relevant), standings.n_relevant)


def r_precision_at(standings: Standings, parameters: Parameters) -> Floats:
    """Precision at a multiple of R; trec_eval adds 0.9 to the multiple and cuts the rest off."""
    cutoff = (parameters.numbers[0] * standings.n_relevant + 0.9).astype(np.int64)
    return shares(standings.within_each(cutoff), cutoff)


FAMILIES = (
    Family(
        Metric(
            name="precision@k",
            meaning="Share of the top k that is relevant.",
            source="trec_eval m_P.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("p@k",),
        ),
        precision,
        trec="P",
        takes="cutoff",
        defaults=CUTOFFS,
    ),
    Family(
        Metric(
            name="relative_precision@k",
            meaning="Precision in the top k over the best that is possible there.",
            source="trec_eval m_rel_P.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
        ),
        relative_precision,
        trec="relative_P",
        takes="cutoff",
        defaults=CUTOFFS,
    ),
    Family(
        Metric(
            name="rprec",
            meaning="Precision at rank R, the number of relevant documents.",
            source="Buckley and Voorhees 2005; trec_eval m_Rprec.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("r_precision",),
        ),
        r_precision,
        trec="Rprec",
    ),
    Family(
        Metric(
            name="Rprec_mult",
            meaning="Precision at a multiple of R, the number of relevant documents.",
            source="trec_eval m_Rprec_mult.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
        ),
        r_precision_at,
        trec="Rprec_mult",
        takes="fraction",
        defaults=(0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0),
    ),
)
