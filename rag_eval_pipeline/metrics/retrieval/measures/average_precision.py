"""Average precision: precision at every relevant document, and what is made of it."""

import math

import numpy as np

from rag_eval_pipeline.metrics.registry import UNBOUNDED, Metric
from rag_eval_pipeline.metrics.retrieval.definition import CUTOFFS, LEVELS, LOWEST_GEOMETRIC, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, add_up, each, shares


def average_precision(standings: Standings, _: Parameters) -> Floats:
    """Precision at each relevant document, summed and divided by the number of all relevant documents."""
    return standings.average_precision


def average_precision_at(standings: Standings, parameters: Parameters) -> Floats:
    """The same over the top k; still divided by the number of all relevant documents."""
    near = standings.top(parameters.k)
    total = add_up(near.query, standings.precision[near.chosen], standings.n)
    return shares(total, standings.n_relevant)


def log_average_precision(standings: Standings, _: Parameters) -> Floats:
    """Logarithm of average precision, of which the geometric mean is made; of 0.00001 where it is less."""
    return each(math.log, np.maximum(standings.average_precision, LOWEST_GEOMETRIC))


def smoothed_average_precision(standings: Standings, _: Parameters) -> Floats:
    """Log odds of a relevant document, by the sum of precisions."""
    total = add_up(standings.relevant.query, standings.precision, standings.n)
    return each(math.log, (1.0 + total) / (1.0 + standings.n_relevant - total))


FAMILIES = (
    Family(
        Metric(
            name="map",
            meaning="Mean of the precision at each relevant document of the ranking.",
            source="trec_eval m_map.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("average_precision", "ap"),
        ),
        average_precision,
        trec="map",
    ),
    Family(
        Metric(
            name="map@k",
            meaning="Mean of the precision at each relevant document of the top k.",
            source="trec_eval m_map_cut.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            aliases=("average_precision@k", "ap@k"),
        ),
        average_precision_at,
        trec="map_cut",
        takes="cutoff",
        defaults=CUTOFFS,
    ),
    Family(
        Metric(
            name="gm_map",
            meaning="Geometric mean of average precision; a query counts at least 0.00001.",
            source="trec_eval m_gm_map.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
        ),
        log_average_precision,
        trec="gm_map",
        summary="geometric",
        shown="summary",
    ),
    Family(
        Metric(
            name="yaap",
            meaning="Smoothed average precision: log odds of a relevant document.",
            source="Robertson 2012; trec_eval m_yaap.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            range=UNBOUNDED,
        ),
        smoothed_average_precision,
        trec="yaap",
    ),
)
