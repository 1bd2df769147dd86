"""One-to-one matching of spans: no span is matched twice, and the sum of Jaccards is the largest there is.

Spans fall into groups that overlap each other and no one else. One with a single span on a side is matched by its best
pair, one of two and two in the better of two ways; only what is left goes to the Hungarian method, a group at a time.
"""

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.span_columns import Whole
from rag_eval_pipeline.metrics.span_pairs import Pairs, Ratios


def one_to_one(pairs: Pairs, n_gold: int, n_predicted: int) -> Pairs:
    """The matched pairs, in the order of the gold spans.

    Args:
        pairs: Every pair that can be matched.
        n_gold: Rows of the gold columns.
        n_predicted: Rows of the predicted columns.
    """
    partners = np.bincount(pairs.gold, minlength=n_gold)[pairs.gold]
    rivals = np.bincount(pairs.predicted, minlength=n_predicted)[pairs.predicted]
    matched = (partners == 1) & (rivals == 1)
    open_rows = np.flatnonzero(~matched)
    if open_rows.size:
        matched[open_rows[_among(pairs.taken(open_rows))]] = True
    return pairs.taken(matched)


def _among(pairs: Pairs) -> NDArray[np.bool_]:
    """Which of the pairs are matched, of groups of three spans and more."""
    group = _groups(pairs)
    n_groups = int(group.max()) + 1
    _, first_of_gold = np.unique(pairs.gold, return_index=True)
    _, first_of_predicted = np.unique(pairs.predicted, return_index=True)
    n_gold = np.bincount(group[first_of_gold], minlength=n_groups)
    n_predicted = np.bincount(group[first_of_predicted], minlength=n_groups)
    is_star = (n_gold == 1) | (n_predicted == 1)
    is_square = (n_gold == 2) & (n_predicted == 2)
    weight = pairs.weight
    matched = np.zeros(group.size, dtype=bool)
    for kind, match in ((is_star, _best), (is_square, _straight_or_crossed)):
        rows = np.flatnonzero(kind[group])
        if rows.size:
            matched[rows] = match(pairs.taken(rows), group[rows], weight[rows])
    rest = np.flatnonzero(~(is_star | is_square)[group])
    order = rest[np.argsort(group[rest], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if rest.size else ():
        matched[rows[_hungarian(pairs.gold[rows], pairs.predicted[rows], weight[rows])]] = True
    return matched


def _best(_: Pairs, group: Whole, weight: Ratios) -> NDArray[np.bool_]:
    """The best pair of each group, the first among equals."""
    order = np.lexsort((-weight, group))  # stable
    best = np.zeros(group.size, dtype=bool)
    best[order[np.concatenate(([True], np.diff(group[order]) > 0))]] = True
    return best


def _straight_or_crossed(pairs: Pairs, group: Whole, weight: Ratios) -> NDArray[np.bool_]:
    """Of two spans on each side the better of the two ways; the first with the first among equals."""
    n_groups = int(group.max()) + 1
    crossed = np.zeros(group.size, dtype=bool)
    for side in (pairs.gold, pairs.predicted):
        first = np.full(n_groups, np.iinfo(np.int64).max)
        np.minimum.at(first, group, side)
        crossed ^= side != first[group]
    totals = [np.bincount(group[way], weight[way], minlength=n_groups) for way in (~crossed, crossed)]
    is_straight: NDArray[np.bool_] = totals[0] >= totals[1]
    return crossed ^ is_straight[group]


def _groups(pairs: Pairs) -> Whole:
    """(pairs,) Number of the group that each pair is in."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    gold_names, gold = np.unique(pairs.gold, return_inverse=True)
    predicted_names, predicted = np.unique(pairs.predicted, return_inverse=True)
    n_spans = gold_names.size + predicted_names.size
    graph = coo_array((np.ones(gold.size, dtype=bool), (gold, predicted + gold_names.size)), shape=(n_spans, n_spans))
    _, labels = connected_components(graph, directed=False)
    return np.asarray(labels, dtype=np.int64)[gold]


def _hungarian(gold: Whole, predicted: Whole, weight: Ratios) -> NDArray[np.intp]:
    """Which of the pairs of one group are matched."""
    from scipy.optimize import linear_sum_assignment

    gold_names, row = np.unique(gold, return_inverse=True)
    predicted_names, column = np.unique(predicted, return_inverse=True)
    weights = np.zeros((gold_names.size, predicted_names.size))
    weights[row, column] = weight
    place = np.full(weights.shape, -1)
    place[row, column] = np.arange(weight.size)
    found = place[linear_sum_assignment(weights, maximize=True)]
    return np.sort(found[found >= 0])
