"""Preference: what holds of judged documents only, where many were never judged."""

import math
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, LOWEST_GEOMETRIC, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints, add_up, each, shares

EPSILON = 0.00001  # trec_eval's INFAP_EPSILON


class Before(NamedTuple):
    """How many stand before each relevant document that was found: not relevant, and in the pool but unjudged."""

    nonrelevant: Ints
    unjudged: Ints


def before(standings: Standings) -> Before:
    """What stands before each relevant document."""
    query, _, grade = standings.placed
    relevant = grade >= standings.level
    first = np.searchsorted(query, query)

    def counted(chosen: np.ndarray) -> Ints:
        running = np.concatenate(([0], np.cumsum(chosen)))
        return (running[:-1] - running[first])[relevant]

    return Before(counted((grade >= 0) & ~relevant), counted(grade < 0))


def binary_preference(standings: Standings, _: Parameters) -> Floats:
    """Share of the R first non-relevant documents that stand behind each relevant one, R being the relevant ones."""
    query = standings.relevant.query
    relevant, nonrelevant = standings.n_relevant[query], before(standings).nonrelevant
    most = np.minimum(standings.n_nonrelevant[query], relevant)
    preferred = 1.0 - shares(np.minimum(nonrelevant, relevant), most)
    return shares(add_up(query, preferred, standings.n), standings.n_relevant)


def log_binary_preference(standings: Standings, parameters: Parameters) -> Floats:
    """Logarithm of `binary_preference`, of which the geometric mean is made; of 0.00001 where it is less."""
    return each(math.log, np.maximum(binary_preference(standings, parameters), LOWEST_GEOMETRIC))


def inferred_average_precision(standings: Standings, _: Parameters) -> Floats:
    """Average precision as a sample of judgements lets expect it; negative grades are in the pool and not judged."""
    query, rank = standings.relevant.query, standings.relevant.rank
    earlier, (nonrelevant, unjudged) = standings.ordinal - 1, before(standings)
    above = np.maximum(rank - 1, 1).astype(np.float64)
    expected = 1.0 / (above + 1.0) + (above / (above + 1.0)) * ((earlier + nonrelevant + unjudged) / above) * (
        (earlier + EPSILON) / (earlier + nonrelevant + 2 * EPSILON)
    )
    expected[rank == 1] = 1.0
    return shares(add_up(query, expected, standings.n), standings.n_relevant)


FAMILIES = (
    Family(
        Metric(
            name="bpref",
            meaning="Share of judged non-relevant documents that stand behind the relevant ones.",
            source="Buckley and Voorhees 2004; trec_eval m_bpref.c",
            needs=("ranking", "relevant", "judged_nonrelevant"),
            levels=LEVELS,
        ),
        binary_preference,
        trec="bpref",
    ),
    Family(
        Metric(
            name="gm_bpref",
            meaning="Geometric mean of bpref; a query counts at least 0.00001.",
            source="trec_eval m_gm_bpref.c",
            needs=("ranking", "relevant", "judged_nonrelevant"),
            levels=LEVELS,
        ),
        log_binary_preference,
        trec="gm_bpref",
        summary="geometric",
        shown="summary",
    ),
    Family(
        Metric(
            name="infAP",
            meaning="Average precision as expected from a sample of judgements.",
            source="Yilmaz and Aslam 2006; trec_eval m_infap.c",
            needs=("ranking", "relevant", "judged_nonrelevant"),
            levels=LEVELS,
        ),
        inferred_average_precision,
        trec="infAP",
    ),
)
