"""The functions of retrieval measures: scores of judged rankings; `families` has their names and rows.

Every measure equals trec_eval bit for bit where trec_eval has it, including its treatment of ties, unjudged documents
and negative grades.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.retrieval.families import Measure, Parameters
from rag_eval_pipeline.metrics.retrieval.rankings import (
    Floats,
    Ints,
    Rankings,
    apply_exactly,
    count_by_query,
    discounts,
    divide,
    iterate_by_ordinal,
    ordinals,
    running_sums,
    sum_by_query,
    top,
)

MIN_GEOMETRIC = 0.00001  # trec_eval's MIN_GEO_MEAN: a single 0 would make a geometric mean 0
INFAP_EPSILON = 0.00001  # trec_eval's
ERR_NEGLIGIBLE = 1e-10  # below this probability of reading on, Evret stops


# Counts


def _num_nonrel_judged_ret(rankings: Rankings, _: Parameters) -> Ints:
    grade = rankings.hits.grade
    return count_by_query(rankings.hits.query[(grade >= 0) & (grade < rankings.level)], rankings.n)


def _unjudged_at(rankings: Rankings, parameters: Parameters) -> Floats:
    """Share of the top k that is unjudged; if fewer documents were retrieved, the rest counts as judged."""
    is_judged = (rankings.hits.grade >= 0) & (rankings.hits.rank <= parameters.k)
    shown = np.minimum(rankings.n_retrieved, parameters.k)
    return (shown - count_by_query(rankings.hits.query[is_judged], rankings.n)) / parameters.k


def _relevance_string(rankings: Rankings, parameters: Parameters) -> NDArray[np.object_]:
    """The grades of the first documents in a row: `>` above 9, `-` not in the pool, `.` in the pool but unjudged."""
    length = int(parameters.numbers[0])
    strings = [["-"] * min(length, int(n)) for n in rankings.n_retrieved]
    near = rankings.hits.take(rankings.hits.rank <= length)
    for query, rank, grade in zip(*(column.tolist() for column in near), strict=True):
        strings[query][rank - 1] = "." if grade < 0 else ">" if grade > 9 else str(grade)
    return np.array(["".join(string) for string in strings], dtype=object)


# Success, recall, precision, reciprocal rank


def _all_hit_at(rankings: Rankings, parameters: Parameters) -> Floats:
    has_all = (rankings.n_relevant > 0) & (rankings.n_found_at(parameters.k) == rankings.n_relevant)
    return np.where(has_all, 1.0, 0.0)


def _r_precision_multiple(rankings: Rankings, parameters: Parameters) -> Floats:
    """Precision at a multiple of R; like trec_eval, add 0.9 to the multiple and truncate."""
    cutoff = (parameters.numbers[0] * rankings.n_relevant + 0.9).astype(np.int64)
    return divide(rankings.n_found_at_each(cutoff), cutoff)


def _reciprocal_rank(rankings: Rankings, _: Parameters) -> Floats:
    found = np.zeros(rankings.n)
    is_first = rankings.ordinal == 1
    found[rankings.relevant.query[is_first]] = 1.0 / rankings.relevant.rank[is_first]
    return found


def _reciprocal_rank_at(rankings: Rankings, parameters: Parameters) -> Floats:
    found = _reciprocal_rank(rankings, parameters)
    found[rankings.n_found_at(parameters.k) == 0] = 0.0
    return found


# Average and interpolated precision


def _average_precision_at(rankings: Rankings, parameters: Parameters) -> Floats:
    near = rankings.relevant_top(parameters.k)
    total = sum_by_query(near.query, rankings.precision[near.rows], rankings.n)
    return divide(total, rankings.n_relevant)


def _mean_interpolated_precision(rankings: Rankings, parameters: Parameters) -> Floats:
    """Mean interpolated precision over levels of recall, added up from the highest level down."""
    best = _best_later_precision(rankings)
    total = np.zeros(rankings.n)
    for fraction in sorted(parameters.numbers, reverse=True):
        total += _precision_at_recall(rankings, best, fraction)
    return total / len(parameters.numbers)


def _best_later_precision(rankings: Rankings) -> Floats:
    query = rankings.relevant.query
    best, found = np.zeros(rankings.n), np.empty(query.size)
    for chosen in iterate_by_ordinal(rankings.n_found[query] - rankings.ordinal + 1):
        best[query[chosen]] = np.maximum(best[query[chosen]], rankings.precision[chosen])
        found[chosen] = best[query[chosen]]
    return found


def _precision_at_recall(rankings: Rankings, best: Floats, fraction: float) -> Floats:
    """Return the best precision from where the fraction of the relevant documents is found; 0.0 if it never is."""
    # A fraction of 0 is reached before the first relevant document and has the best precision of all.
    wanted = np.maximum(_round_half_up(fraction * rankings.n_relevant), 1)
    is_reached = (rankings.n_found > 0) & (wanted <= rankings.n_found)
    first = np.cumsum(rankings.n_found) - rankings.n_found
    found = np.zeros(rankings.n)
    found[is_reached] = best[(first + wanted - 1)[is_reached]]
    return found


def _round_half_up(values: NDArray[np.floating]) -> Ints:
    """Round like C's lround, as trec_eval 10 does; earlier versions added 0.9 and truncated."""
    whole = np.trunc(values)
    rounded: Ints = (whole + (values - whole >= 0.5)).astype(np.int64)
    return rounded


# Preference: measures of judged documents only


def _binary_preference(rankings: Rankings, _: Parameters) -> Floats:
    query = rankings.relevant.query
    n_relevant, n_nonrelevant_above = rankings.n_relevant[query], _count_above(rankings)[0]
    most = np.minimum(rankings.n_nonrelevant[query], n_relevant)
    preferred = 1.0 - divide(np.minimum(n_nonrelevant_above, n_relevant), most)
    return divide(sum_by_query(query, preferred, rankings.n), rankings.n_relevant)


def _inferred_average_precision(rankings: Rankings, _: Parameters) -> Floats:
    query, rank = rankings.relevant.query, rankings.relevant.rank
    earlier, (nonrelevant, unjudged) = rankings.ordinal - 1, _count_above(rankings)
    above = np.maximum(rank - 1, 1).astype(np.float64)
    expected = 1.0 / (above + 1.0) + (above / (above + 1.0)) * ((earlier + nonrelevant + unjudged) / above) * (
        (earlier + INFAP_EPSILON) / (earlier + nonrelevant + 2 * INFAP_EPSILON)
    )
    expected[rank == 1] = 1.0
    return divide(sum_by_query(query, expected, rankings.n), rankings.n_relevant)


def _count_above(rankings: Rankings) -> tuple[Ints, Ints]:
    query, _, grade = rankings.hits
    is_relevant = grade >= rankings.level
    first = np.searchsorted(query, query)

    def count(chosen: np.ndarray) -> Ints:
        running = np.concatenate(([0], np.cumsum(chosen)))
        return (running[:-1] - running[first])[is_relevant]

    return count((grade >= 0) & ~is_relevant), count(grade < 0)


# Graded gain


class RankedGains(NamedTuple):
    """Documents with a gain: query (ascending), rank (ascending within it), gain, and gain / log2(rank + 1)."""

    query: Ints
    rank: Ints
    gain: Floats
    discounted: Floats


def _gains(rankings: Rankings, parameters: Parameters) -> tuple[RankedGains, RankedGains]:
    """Return the gains of the retrieved documents, and those of the best possible ranking; a gain may be negative."""
    gains = parameters.gains
    if not gains:
        found, ideal = rankings.graded, rankings.ideal
        return (
            RankedGains(found.query, found.rank, found.grade.astype(np.float64), rankings.discounted),
            RankedGains(ideal.query, ideal.rank, ideal.grade.astype(np.float64), rankings.ideal_discounted),
        )
    query, rank, grade = rankings.hits
    gain = _gain_of(grade, gains)
    has_gain = gain != 0
    query, rank, gain = query[has_gain], rank[has_gain], gain[has_gain]
    best = _gain_of(rankings.judgements.grade, gains)
    # trec_eval sorts gains by their difference cut to a whole number, so 3 and 3.5 come in any order; here they do not.
    order = np.lexsort((-best, rankings.judgements.query))
    order = order[best[order] > 0]
    ideal_query, ideal_gain = rankings.judgements.query[order], best[order]
    ideal_rank = ordinals(ideal_query, rankings.n)
    return (
        RankedGains(query, rank, gain, gain / discounts(rank)),
        RankedGains(ideal_query, ideal_rank, ideal_gain, ideal_gain / discounts(ideal_rank)),
    )


def _gain_of(grade: Ints, gains: Mapping[int, float]) -> Floats:
    found = np.maximum(grade, 0).astype(np.float64)
    for given, gain in gains.items():
        found[grade == given] = gain
    return found


def _ndcg_at(rankings: Rankings, parameters: Parameters) -> Floats:
    """Discounted gain of the top k over that of the best possible top k; the gain is the grade itself."""
    near, ideal = rankings.graded_top(parameters.k), top(rankings.ideal, parameters.k)
    gain = sum_by_query(near.query, rankings.discounted[near.rows], rankings.n)
    best = sum_by_query(ideal.query, rankings.ideal_discounted[ideal.rows], rankings.n)
    return divide(gain, best)


def _ndcg_at_relevant(rankings: Rankings, parameters: Parameters) -> Floats:
    """Mean of ndcg at each document with a gain; one that was not retrieved counts with ndcg of the whole ranking."""
    found, ideal = _gains(rankings, parameters)
    running, n_ideal = running_sums(found.query, found.discounted, rankings.n), count_by_query(ideal.query, rankings.n)
    best = running_sums(ideal.query, ideal.discounted, rankings.n)
    has_gain = found.gain > 0
    query = found.query[has_gain]
    first = np.cumsum(n_ideal) - n_ideal
    here = best[first[query] + np.minimum(found.rank[has_gain], n_ideal[query]) - 1]
    total = sum_by_query(query, running[has_gain] / here, rankings.n)
    gain, whole = (sum_by_query(part.query, part.discounted, rankings.n) for part in (found, ideal))
    total += divide((n_ideal - count_by_query(query, rankings.n)) * gain, whole)
    return np.where(total > 0, divide(total, n_ideal), 0.0)


def _ndcg_at_steps(rankings: Rankings, parameters: Parameters) -> Floats:
    """Mean of ndcg at the ranks where the ideal gain changes, and at the end if the ranking is two ranks longer."""
    found, ideal = _gains(rankings, parameters)
    running = running_sums(found.query, found.discounted, rankings.n)
    best = running_sums(ideal.query, ideal.discounted, rankings.n)
    is_last = np.ones(ideal.query.size, bool)
    is_last[:-1] = (ideal.query[1:] != ideal.query[:-1]) | (ideal.gain[1:] != ideal.gain[:-1])
    query, rank = ideal.query[is_last], ideal.rank[is_last]
    # Query and rank as a single number, which ascends as the two do.
    width = int(max(found.rank.max(initial=0), rank.max(initial=0))) + 1
    place = np.searchsorted(found.query * width + found.rank, query * width + rank, side="right") - 1
    is_there = (place >= 0) & (np.append(found.query, -1)[place] == query)
    gain = np.where(is_there, np.append(running, 0.0)[place], 0.0)
    total = sum_by_query(query, gain / best[is_last], rankings.n)
    steps, n_ideal = count_by_query(query, rankings.n), count_by_query(ideal.query, rankings.n)
    is_longer = (n_ideal > 0) & (rankings.n_retrieved > n_ideal + 1)
    whole = [sum_by_query(part.query, part.discounted, rankings.n) for part in (found, ideal)]
    total[is_longer] += divide(whole[0], whole[1])[is_longer]
    return np.where(rankings.n_relevant > 0, divide(total, steps + is_longer), 0.0)


def _normalised_gain(rankings: Rankings, parameters: Parameters) -> Floats:
    found, ideal = _gains(rankings, parameters)
    n_ideal = count_by_query(ideal.query, rankings.n)
    cost = running_sums(ideal.query, np.maximum(ideal.gain, 1.0), rankings.n)
    within = np.minimum(found.rank, n_ideal[found.query])
    first = np.cumsum(n_ideal) - n_ideal
    here = np.where(within > 0, np.append(cost, 0.0)[first[found.query] + within - 1], 0.0)
    lag = 2 + (here + (found.rank - within)) - running_sums(found.query, found.gain, rankings.n)
    total = sum_by_query(found.query, found.gain / apply_exactly(math.log2, lag), rankings.n)
    return divide(total, sum_by_query(ideal.query, ideal.gain, rankings.n))


def _binary_gain(rankings: Rankings, _: Parameters) -> Floats:
    query, rank, _grade = rankings.relevant
    lag = (2 + rank - rankings.ordinal).astype(np.float64)
    return divide(sum_by_query(query, 1.0 / apply_exactly(math.log2, lag), rankings.n), rankings.n_relevant)


# User models: a reader who goes on with some probability


def _rank_biased_precision(rankings: Rankings, parameters: Parameters) -> Floats:
    """(1 - p) times the sum of gain * p^(rank - 1); gains outside [0, 1] are scaled into it."""
    p = parameters.named["p"]
    gain = _gains_in_unit_range(rankings, parameters.gains)
    query, rank, _ = rankings.hits
    weights = _powers(p, int(rank.max(initial=0)))
    return (1.0 - p) * sum_by_query(query, gain * weights[rank - 1], rankings.n)


def _rank_biased_residual(rankings: Rankings, parameters: Parameters) -> Floats:
    """What unjudged documents, retrieved or further down, could add; 0.0 if every retrieved document is judged."""
    p = parameters.named["p"]
    longest = int(rankings.n_retrieved.max(initial=0))
    weights = _powers(p, longest)
    judged = rankings.hits.take(rankings.hits.grade >= 0)
    order = np.argsort(judged.rank, kind="stable")
    ends = np.searchsorted(judged.rank[order], np.arange(1, longest + 2))
    total = np.zeros(rankings.n)
    for rank in range(1, longest + 1):
        added = np.where(rankings.n_retrieved >= rank, weights[rank - 1], 0.0)
        added[judged.query[order[ends[rank - 1] : ends[rank]]]] = 0.0
        total += added
    has_unjudged = rankings.n_retrieved > count_by_query(judged.query, rankings.n)
    return np.where(has_unjudged, weights[rankings.n_retrieved] + (1 - p) * total, 0.0)


def _rank_biased_precision_at(rankings: Rankings, parameters: Parameters) -> Floats:
    """Rank-biased precision of the top k; gains are grades over the query's highest grade, as in Evret."""
    p = parameters.named["p"]
    highest = np.ones(rankings.n, np.int64)
    np.maximum.at(highest, rankings.judgements.query, rankings.judgements.grade)
    near = rankings.graded.take(rankings.graded.rank <= parameters.k)
    weights = np.array([(1.0 - p) * p**rank for rank in range(int(near.rank.max(initial=0)))])
    gain = near.grade / highest[near.query]
    return np.minimum(sum_by_query(near.query, weights[near.rank - 1] * gain, rankings.n), 1.0)


def _expected_reciprocal_rank(rankings: Rankings, parameters: Parameters) -> Floats:
    """Sum over the top k of 1 / rank times the probability that the reader stops there.

    A document of grade g satisfies the reader with probability (2^g - 1) / 2^max_grade; higher grades count as
    `max_grade`.
    """
    highest = parameters.named["max_grade"]
    near = rankings.graded.take(rankings.graded.rank <= parameters.k)
    satisfied = (2.0 ** np.minimum(near.grade, highest) - 1) / 2.0**highest
    total, reading_on = np.zeros(rankings.n), np.ones(rankings.n)
    for chosen in iterate_by_ordinal(ordinals(near.query, rankings.n)):
        chosen = chosen[reading_on[near.query[chosen]] >= ERR_NEGLIGIBLE]
        query = near.query[chosen]
        total[query] += (1.0 / near.rank[chosen]) * satisfied[chosen] * reading_on[query]
        reading_on[query] *= 1.0 - satisfied[chosen]
    return np.minimum(total, 1.0)


def _powers(p: float, longest: int) -> Floats:
    return np.multiply.accumulate(np.concatenate(([1.0], np.full(longest, p))))


def _gains_in_unit_range(rankings: Rankings, gains: Mapping[int, float]) -> Floats:
    """Return the gain of each hit, scaled into [0, 1] for queries in which gains lie outside.

    The gains of a query are those of all grades from 0 to its highest, and those that were given. trec_eval does not
    initialise its minimum and maximum; here both begin at 0.
    """
    highest = np.zeros(rankings.n, np.int64)
    np.maximum.at(highest, rankings.judgements.query, rankings.judgements.grade)
    table = _gain_of(np.arange(int(highest.max(initial=0)) + 1), gains)
    low = np.minimum(np.minimum.accumulate(table)[highest], min(gains.values(), default=0.0))
    high = np.maximum(np.maximum.accumulate(table)[highest], max(gains.values(), default=0.0))
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    is_outside = (low < 0) | (high > 1)
    query, _, grade = rankings.hits
    gain = _gain_of(grade, gains)
    chosen = is_outside[query] & (grade >= 0)
    gain[chosen] = (gain[chosen] - low[query[chosen]]) / (high - low)[query[chosen]]
    return gain


# Sets: everything that was retrieved, whatever its order


def _set_precision(rankings: Rankings, _: Parameters) -> Floats:
    return divide(rankings.n_found, rankings.n_retrieved)


def _set_recall(rankings: Rankings, _: Parameters) -> Floats:
    return divide(rankings.n_found, rankings.n_relevant)


def _set_average_precision(rankings: Rankings, _: Parameters) -> Floats:
    found = rankings.n_found.astype(np.float64)
    return divide(found * found, rankings.n_retrieved.astype(np.float64) * rankings.n_relevant)


def _set_f(rankings: Rankings, parameters: Parameters) -> Floats:
    """Weighted harmonic mean of the set's precision and recall; the parameter is the weight of recall."""
    weight = parameters.numbers[0]
    precision, recall = _set_precision(rankings, parameters), _set_recall(rankings, parameters)
    return divide((weight + 1.0) * precision * recall, weight * precision + recall)


def _utility(rankings: Rankings, parameters: Parameters) -> Floats:
    """Value of the set.

    The parameters are the value of a document that is relevant and retrieved, not relevant but retrieved, relevant but
    not retrieved, and neither. The last kind is counted in a collection of no documents, as trec_eval does without -N.
    """
    a, b, c, d = parameters.numbers
    found, retrieved, relevant = rankings.n_found, rankings.n_retrieved, rankings.n_relevant
    value: Floats = a * found + b * (retrieved - found) + c * (relevant - found) + d * (found - retrieved - relevant)
    return value


SCORES: dict[str, Callable[[Rankings, Parameters], NDArray[Any]]] = {
    "map": lambda rankings, _: rankings.average_precision,
    "map@k": _average_precision_at,
    "gm_map": lambda rankings, _: apply_exactly(math.log, np.maximum(rankings.average_precision, MIN_GEOMETRIC)),
    "num_q": lambda rankings, _: np.ones(rankings.n, np.int64),
    "num_ret": lambda rankings, _: rankings.n_retrieved,
    "num_rel": lambda rankings, _: rankings.n_relevant,
    "num_rel_ret": lambda rankings, _: rankings.n_found,
    "num_nonrel_judged_ret": _num_nonrel_judged_ret,
    "unjudged@k": _unjudged_at,
    "relstring": _relevance_string,
    "ndcg": lambda *given: divide(*(sum_by_query(part.query, part.discounted, given[0].n) for part in _gains(*given))),
    "ndcg@k": _ndcg_at,
    "err@k": _expected_reciprocal_rank,
    "ndcg_rel": _ndcg_at_relevant,
    "Rndcg": _ndcg_at_steps,
    "G": _normalised_gain,
    "binG": _binary_gain,
    "iprec_at_recall": lambda rankings, its: _precision_at_recall(
        rankings, _best_later_precision(rankings), its.numbers[0]
    ),
    "11pt_avg": _mean_interpolated_precision,
    "precision@k": lambda rankings, its: rankings.n_found_at(its.k) / its.k,  # of k, even if fewer came
    "relative_precision@k": lambda rankings, its: divide(
        rankings.n_found_at(its.k), np.minimum(rankings.n_relevant, its.k)
    ),
    "rprec": lambda rankings, _: divide(rankings.n_found_at_each(rankings.n_relevant), rankings.n_relevant),
    "Rprec_mult": _r_precision_multiple,
    "bpref": _binary_preference,
    "gm_bpref": lambda *given: apply_exactly(math.log, np.maximum(_binary_preference(*given), MIN_GEOMETRIC)),
    "infAP": _inferred_average_precision,
    "rbp": _rank_biased_precision,
    "rbp_resid": _rank_biased_residual,
    "rbp@k": _rank_biased_precision_at,
    "recall@k": lambda rankings, its: divide(rankings.n_found_at(its.k), rankings.n_relevant),
    "mrr": _reciprocal_rank,
    "mrr@k": _reciprocal_rank_at,
    "set_P": _set_precision,
    "set_relative_P": lambda rankings, _: divide(
        rankings.n_found, np.minimum(rankings.n_retrieved, rankings.n_relevant)
    ),
    "set_recall": _set_recall,
    "set_map": _set_average_precision,
    "set_F": _set_f,
    "utility": _utility,
    "hit@k": lambda rankings, its: np.where(rankings.n_found_at(its.k) > 0, 1.0, 0.0),
    "all_hit@k": _all_hit_at,
}
"""Built-in families by name; a function returns one score per query, 0.0 for a query that retrieved nothing."""


def score_measure(measure: Measure, rankings: Rankings) -> NDArray[Any]:
    """Return the score of each query."""
    score = measure.family.score or SCORES[measure.family.metric.name]
    return score(rankings, measure.parameters)
