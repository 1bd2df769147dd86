"""Recall: the share of the relevant documents that was found."""

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import CUTOFFS, LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, shares


def recall(standings: Standings, parameters: Parameters) -> Floats:
    """Share of the relevant documents that are in the top k; 0.0 where there are none."""
    return shares(standings.within(parameters.k), standings.n_relevant)


FAMILIES = (
    Family(
        Metric(
            name="recall@k",
            meaning="Share of the relevant documents in the top k.",
            source="trec_eval m_recall.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("r@k",),
        ),
        recall,
        trec="recall",
        takes="cutoff",
        defaults=CUTOFFS,
    ),
)
