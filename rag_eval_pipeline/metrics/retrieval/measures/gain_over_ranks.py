"""Gains averaged over the ranking: at relevant documents, at steps of the ideal gain, and by what stood before."""

import math

import numpy as np

from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval.definition import LEVELS, Family, Parameters
from rag_eval_pipeline.metrics.retrieval.gains import gained
from rag_eval_pipeline.metrics.retrieval.standings import Standings
from rag_eval_pipeline.metrics.retrieval.sums import Floats, add_up, count_up, each, running_sums, shares


def ndcg_at_relevant(standings: Standings, parameters: Parameters) -> Floats:
    """Mean of ndcg at each document with a gain; one that was not retrieved has that of the whole ranking."""
    found, ideal = gained(standings, parameters.gains)
    running, n_ideal = running_sums(found.query, found.discounted, standings.n), count_up(ideal.query, standings.n)
    best = running_sums(ideal.query, ideal.discounted, standings.n)
    gains = found.gain > 0
    query = found.query[gains]
    first = np.cumsum(n_ideal) - n_ideal
    here = best[first[query] + np.minimum(found.rank[gains], n_ideal[query]) - 1]
    total = add_up(query, running[gains] / here, standings.n)
    gain, whole = (add_up(part.query, part.discounted, standings.n) for part in (found, ideal))
    total += shares((n_ideal - count_up(query, standings.n)) * gain, whole)
    return np.where(total > 0, shares(total, n_ideal), 0.0)


def ndcg_at_steps(standings: Standings, parameters: Parameters) -> Floats:
    """Mean of ndcg where the ideal gain changes, and at the end when the ranking goes on for two ranks more."""
    found, ideal = gained(standings, parameters.gains)
    running = running_sums(found.query, found.discounted, standings.n)
    best = running_sums(ideal.query, ideal.discounted, standings.n)
    last = np.ones(ideal.query.size, bool)
    last[:-1] = (ideal.query[1:] != ideal.query[:-1]) | (ideal.gain[1:] != ideal.gain[:-1])
    query, rank = ideal.query[last], ideal.rank[last]
    # Query and rank as one number, which ascends as the two do.
    width = int(max(found.rank.max(initial=0), rank.max(initial=0))) + 1
    place = np.searchsorted(found.query * width + found.rank, query * width + rank, side="right") - 1
    seen = (place >= 0) & (np.append(found.query, -1)[place] == query)
    gain = np.where(seen, np.append(running, 0.0)[place], 0.0)
    total, steps = add_up(query, gain / best[last], standings.n), count_up(query, standings.n)
    n_ideal = count_up(ideal.query, standings.n)
    further = (n_ideal > 0) & (standings.retrieved > n_ideal + 1)
    whole = [add_up(part.query, part.discounted, standings.n) for part in (found, ideal)]
    total[further] += shares(whole[0], whole[1])[further]
    return np.where(standings.n_relevant > 0, shares(total, steps + further), 0.0)


def normalised_gain(standings: Standings, parameters: Parameters) -> Floats:
    """Gains discounted by how far the ranking lags behind the ideal one, over the sum of ideal gains."""
    found, ideal = gained(standings, parameters.gains)
    n_ideal = count_up(ideal.query, standings.n)
    cost = running_sums(ideal.query, np.maximum(ideal.gain, 1.0), standings.n)
    within = np.minimum(found.rank, n_ideal[found.query])
    first = np.cumsum(n_ideal) - n_ideal
    here = np.where(within > 0, np.append(cost, 0.0)[first[found.query] + within - 1], 0.0)
    lag = 2 + (here + (found.rank - within)) - running_sums(found.query, found.gain, standings.n)
    total = add_up(found.query, found.gain / each(math.log2, lag), standings.n)
    return shares(total, add_up(ideal.query, ideal.gain, standings.n))


def binary_gain(standings: Standings, _: Parameters) -> Floats:
    """Mean over relevant documents of 1 / log2(2 + non-relevant documents before it)."""
    query, rank, _grade = standings.relevant
    lag = (2 + rank - standings.ordinal).astype(np.float64)
    return shares(add_up(query, 1.0 / each(math.log2, lag), standings.n), standings.n_relevant)


def _metric(name: str, meaning: str, source: str) -> Metric:
    return Metric(name, meaning, f"trec_eval {source}", needs=("ranking", "relevant", "grades"), levels=LEVELS)


FAMILIES = (
    Family(
        _metric("ndcg_rel", "Mean of ndcg at each relevant document.", "m_ndcg_rel.c"),
        ndcg_at_relevant,
        trec="ndcg_rel",
        takes="pairs",
    ),
    Family(
        _metric("Rndcg", "Mean of ndcg where the ideal gain changes.", "m_Rndcg.c"),
        ndcg_at_steps,
        trec="Rndcg",
        takes="pairs",
    ),
    Family(
        _metric("G", "Gain discounted by the lag behind the ideal ranking.", "m_G.c"),
        normalised_gain,
        trec="G",
        takes="pairs",
    ),
    Family(
        _metric("binG", "Relevant documents discounted by the non-relevant ones before them.", "m_binG.c"),
        binary_gain,
        trec="binG",
    ),
)
