"""Set measures: all that was retrieved, without regard to its order."""

import numpy as np

from rag_eval_pipeline.metrics.registry import UNBOUNDED, Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, shares


def set_precision(standings: Standings, _: Parameters) -> Floats:
    """Relevant and retrieved over retrieved; 0.0 where nothing was retrieved."""
    return shares(standings.n_found, standings.retrieved)


def set_recall(standings: Standings, _: Parameters) -> Floats:
    """Relevant and retrieved over relevant."""
    return shares(standings.n_found, standings.n_relevant)


def set_relative_precision(standings: Standings, _: Parameters) -> Floats:
    """Relevant and retrieved over the most that it could be."""
    return shares(standings.n_found, np.minimum(standings.retrieved, standings.n_relevant))


def set_average_precision(standings: Standings, _: Parameters) -> Floats:
    """Precision of the set times its recall."""
    found = standings.n_found.astype(np.float64)
    return shares(found * found, standings.retrieved.astype(np.float64) * standings.n_relevant)


def set_f(standings: Standings, parameters: Parameters) -> Floats:
    """Weighted harmonic mean of the set's precision and recall.

    Args:
        standings: Of a run.
        parameters: One number, the weight of recall.
    """
    weight = parameters.numbers[0]
    precision, recall = set_precision(standings, parameters), set_recall(standings, parameters)
    return shares((weight + 1.0) * precision * recall, weight * precision + recall)


def utility(standings: Standings, parameters: Parameters) -> Floats:
    """What the set is worth, by the number of documents of each kind.

    Args:
        standings: Of a run.
        parameters: Worth of a document that is relevant and retrieved, not relevant and retrieved, relevant and not
            retrieved, and neither; the last counts from a collection of no documents, as trec_eval without -N.
    """
    a, b, c, d = parameters.numbers
    found, retrieved, relevant = standings.n_found, standings.retrieved, standings.n_relevant
    worth: Floats = a * found + b * (retrieved - found) + c * (relevant - found) + d * (found - retrieved - relevant)
    return worth


def _metric(name: str, meaning: str, source: str) -> Metric:
    return Metric(name, meaning, f"trec_eval {source}", needs=("ranking", "relevant"), levels=LEVELS)


FAMILIES = (
    Family(
        _metric("set_P", "Share of the retrieved documents that is relevant.", "m_set_P.c"),
        set_precision,
        trec="set_P",
    ),
    Family(
        _metric("set_relative_P", "Precision of the set over the best that is possible.", "m_set_rel_P.c"),
        set_relative_precision,
        trec="set_relative_P",
    ),
    Family(
        _metric("set_recall", "Share of the relevant documents that was retrieved.", "m_set_recall.c"),
        set_recall,
        trec="set_recall",
    ),
    Family(
        _metric("set_map", "Precision of the set times its recall.", "m_set_map.c"),
        set_average_precision,
        trec="set_map",
    ),
    Family(
        _metric("set_F", "Weighted harmonic mean of the set's precision and recall.", "m_set_F.c"),
        set_f,
        trec="set_F",
        takes="numbers",
        defaults=(1.0,),
    ),
    Family(
        Metric(
            name="utility",
            meaning="Worth of the set: by default relevant less non-relevant documents.",
            source="trec_eval m_utility.c",
            needs=("ranking", "relevant"),
            levels=LEVELS,
            range=UNBOUNDED,
        ),
        utility,
        trec="utility",
        takes="numbers",
        defaults=(1.0, -1.0, 0.0, 0.0),
    ),
)
