"""Discounted cumulative gain: grades are gains, and each counts the less the further down it stands."""

from rag_eval_pipeline.metrics.registry import COUNT, Metric
from rag_eval_pipeline.metrics.retrieval.definition import CUTOFFS, LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.gains import gained
from rag_eval_pipeline.metrics.retrieval.standings import Standings, top
from rag_eval_pipeline.metrics.retrieval.sums import Floats, add_up, shares


def dcg(standings: Standings, parameters: Parameters) -> Floats:
    """Sum of gain / log2(rank + 1) over the ranking."""
    found = gained(standings, parameters.gains).found
    return add_up(found.query, found.discounted, standings.n)


def ideal_dcg(standings: Standings, parameters: Parameters) -> Floats:
    """The same of the best possible ranking."""
    ideal = gained(standings, parameters.gains).ideal
    return add_up(ideal.query, ideal.discounted, standings.n)


def ndcg(standings: Standings, parameters: Parameters) -> Floats:
    """`dcg` over `ideal_dcg`; 0.0 where nothing has a gain."""
    return shares(dcg(standings, parameters), ideal_dcg(standings, parameters))


def ndcg_at(standings: Standings, parameters: Parameters) -> Floats:
    """The same of the top k over the best possible top k; the gain is the grade itself."""
    near, ideal = standings.graded_top(parameters.k), top(standings.ideal, parameters.k)
    gain = add_up(near.query, standings.discounted[near.chosen], standings.n)
    best = add_up(ideal.query, standings.ideal_discounted[ideal.chosen], standings.n)
    return shares(gain, best)


FAMILIES = (
    Family(
        Metric(
            name="ndcg",
            meaning="Discounted gain of the ranking over that of the best possible order.",
            source="Jarvelin and Kekalainen 2002; trec_eval m_ndcg.c",
            needs=("ranking", "relevant", "grades"),
            levels=LEVELS,
        ),
        ndcg,
        trec="ndcg",
        takes="pairs",
    ),
    Family(
        Metric(
            name="ndcg@k",
            meaning="Discounted gain of the top k over that of the best possible order.",
            source="Jarvelin and Kekalainen 2002; trec_eval m_ndcg_cut.c",
            needs=("ranking", "relevant", "grades"),
            levels=LEVELS,
        ),
        ndcg_at,
        trec="ndcg_cut",
        takes="cutoff",
        defaults=CUTOFFS,
    ),
    Family(
        Metric(
            name="dcg",
            meaning="Discounted gain of the ranking.",
            source="Jarvelin and Kekalainen 2002; trec_eval m_ndcg.c",
            needs=("ranking", "relevant", "grades"),
            levels=LEVELS,
            range=COUNT,
        ),
        dcg,
        trec="dcg",
        takes="pairs",
    ),
    Family(
        Metric(
            name="ideal_dcg",
            meaning="Discounted gain of the best possible order.",
            source="Jarvelin and Kekalainen 2002; trec_eval m_ndcg.c",
            needs=("relevant", "grades"),
            levels=LEVELS,
            direction="neither",
            range=COUNT,
        ),
        ideal_dcg,
        trec="ideal_dcg",
        takes="pairs",
    ),
)
