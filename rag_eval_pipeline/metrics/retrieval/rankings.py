"""Judged rankings: at which ranks the judged documents of each query are. Every measure is a function of these.

No measure needs the whole ranking, so neither scores nor ids are kept. Arrays over documents are ordered by query, and
within a query by rank, or by grade for the judgements.

Sums are made as trec_eval makes them, one addition after the other in rank order, because another order changes the
last bits: np.sum and np.add.reduceat add pairwise, np.bincount and np.cumsum do not. Logarithms are those of the math
module, since numpy's may differ in the last bit.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[Any] | slice  # an index, a mask or a slice

_discounts: Floats = np.array([math.inf])


class Hits(NamedTuple):
    """Retrieved documents that were judged.

    Args:
        query: Index of each document's query; ascending in `Rankings`.
        rank: From 1; ascending within a query in `Rankings`.
        grade: From the qrels.
    """

    query: Ints
    rank: Ints
    grade: Ints

    def take(self, rows: Rows) -> "Hits":
        """Select rows, keeping their order."""
        return Hits(self.query[rows], self.rank[rows], self.grade[rows])


class Judgements(NamedTuple):
    """Judged documents, retrieved or not: query (ascending) and grade (descending within a query)."""

    query: Ints
    grade: Ints


class Top(NamedTuple):
    """Which hits have at least a given rank, as rows of arrays parallel to the hits, and their queries."""

    rows: Rows
    query: Ints


def top(hits: Hits, k: int) -> Top:
    """Select the hits at rank k or better."""
    is_near = hits.rank <= k
    return Top(slice(None), hits.query) if is_near.all() else Top(is_near, hits.query[is_near])


class Rankings:
    """The judged documents of all queries of a run.

    Args:
        n_retrieved: (queries,) how many documents each query retrieved.
        hits: Judged documents that were retrieved, of any grade, in any order.
        judgements: All judged documents, in any order.
        level: Lowest grade that counts as relevant. Documents with a negative grade are in the pool but unjudged.
    """

    def __init__(self, n_retrieved: Ints, hits: Hits, judgements: Judgements, *, level: int = 1) -> None:
        self.n = n_retrieved.size
        self.n_retrieved = n_retrieved
        self.level = level
        self.hits = hits.take(sort_order(hits.query, hits.rank))
        order = sort_order(judgements.query, judgements.grade.max(initial=0) - judgements.grade)
        self.judgements = Judgements(judgements.query[order], judgements.grade[order])
        self._tops: dict[int, Top] = {}

    @cached_property
    def relevant(self) -> Hits:
        """The relevant documents that were retrieved."""
        return self.hits.take(self.hits.grade >= self.level)

    @cached_property
    def ordinal(self) -> Ints:
        """The position of each of `relevant` among the relevant documents of its query, from 1."""
        return ordinals(self.relevant.query, self.n)

    @cached_property
    def graded(self) -> Hits:
        """The retrieved documents of grade 1 and above, whatever the relevance level."""
        return self.relevant if self.level == 1 else self.hits.take(self.hits.grade >= 1)

    @cached_property
    def n_relevant(self) -> Ints:
        """How many relevant documents each query has, retrieved or not."""
        return count_by_query(self.judgements.query[self.judgements.grade >= self.level], self.n)

    @cached_property
    def n_nonrelevant(self) -> Ints:
        """How many documents of each query were judged not relevant, retrieved or not."""
        grade = self.judgements.grade
        return count_by_query(self.judgements.query[(grade >= 0) & (grade < self.level)], self.n)

    @cached_property
    def n_found(self) -> Ints:
        """How many relevant documents each query retrieved."""
        return count_by_query(self.relevant.query, self.n)

    @cached_property
    def precision(self) -> Floats:
        """Precision at the rank of each of `relevant`."""
        return self.ordinal / self.relevant.rank

    def relevant_top(self, k: int) -> Top:
        """Select the relevant documents at rank k or better."""
        if k not in self._tops:
            self._tops[k] = top(self.relevant, k)
        return self._tops[k]

    def graded_top(self, k: int) -> Top:
        """Select the documents of grade 1 and above at rank k or better."""
        return self.relevant_top(k) if self.level == 1 else top(self.graded, k)

    def n_found_at(self, k: int) -> Ints:
        """Count the relevant documents of each query at rank k or better."""
        return count_by_query(self.relevant_top(k).query, self.n)

    def n_found_at_each(self, k: Ints) -> Ints:
        """Count the relevant documents of each query at the query's own cutoff or better."""
        return count_by_query(self.relevant.query[self.relevant.rank <= k[self.relevant.query]], self.n)

    @cached_property
    def average_precision(self) -> Floats:
        """Sum of `precision` over the number of relevant documents of each query."""
        return divide(sum_by_query(self.relevant.query, self.precision, self.n), self.n_relevant)

    @cached_property
    def ideal(self) -> Hits:
        """The best possible ranking: all documents of grade 1 and above, best grade first."""
        chosen = self.judgements.grade >= 1
        query, grade = self.judgements.query[chosen], self.judgements.grade[chosen]
        return Hits(query, ordinals(query, self.n), grade)

    @cached_property
    def discounted(self) -> Floats:
        """Discounted gain of each of `graded`."""
        return self.graded.grade / discounts(self.graded.rank)

    @cached_property
    def ideal_discounted(self) -> Floats:
        """Discounted gain of each of `ideal`."""
        return self.ideal.grade / discounts(self.ideal.rank)


def sum_by_query(query: Ints, values: Floats, n: int) -> Floats:
    """Add up each query's values in the order given; 0.0 for a query without any."""
    # Without values bincount ignores the weights and counts in integers.
    return np.bincount(query, weights=values, minlength=n).astype(np.float64, copy=False)


def count_by_query(query: Ints, n: int) -> Ints:
    """Count how often each query occurs."""
    return np.bincount(query, minlength=n)


def ordinals(query: Ints, n: int) -> Ints:
    """Number the elements of each query from 1; `query` ascends."""
    ends = np.cumsum(count_by_query(query, n))
    starts = np.concatenate(([0], ends[:-1])) if n else ends
    return np.arange(1, query.size + 1) - starts[query]


def iterate_by_ordinal(ordinal: Ints) -> Iterator[Ints]:
    """Yield the indices of the first elements of all queries, then of the second ones, and so on."""
    order = np.argsort(ordinal, kind="stable")
    ends = np.cumsum(np.bincount(ordinal)) if ordinal.size else np.zeros(0, np.int64)
    yield from (order[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True))


def running_sums(query: Ints, values: Floats, n: int) -> Floats:
    """Return each query's sum up to and including each element; `query` ascends."""
    total = np.zeros(n)
    found = np.empty(values.size)
    for chosen in iterate_by_ordinal(ordinals(query, n)):
        total[query[chosen]] += values[chosen]
        found[chosen] = total[query[chosen]]
    return found


def discounts(rank: Ints) -> Floats:
    """Return log2(rank + 1) of each rank."""
    global _discounts
    highest = int(rank.max(initial=0))
    if highest >= _discounts.size:
        size = max(2 * _discounts.size, highest + 1)
        _discounts = np.array([math.inf, *(math.log2(rank + 1) for rank in range(1, size))])
    return _discounts[rank]


def sort_order(first: Ints, second: Ints) -> Rows:
    """Return what sorts pairs of numbers, neither of which is negative; equal pairs may come in any order."""
    # One number per pair sorts four times as fast as two columns, and often ascends already.
    width = int(second.max(initial=0)) + 1
    if int(first.max(initial=0)) >= np.iinfo(np.int64).max // width:
        return np.lexsort((second, first))
    both = first * width + second
    return slice(None) if (both[1:] >= both[:-1]).all() else np.argsort(both)


def apply_exactly(function: Callable[[float], float], values: Floats) -> Floats:
    """Apply a function of the math module value by value."""
    return np.array([function(value) for value in values.tolist()], dtype=np.float64)


def divide(part: Ints | Floats, whole: Ints | Floats) -> Floats:
    """Return part / whole, 0.0 where the whole is 0."""
    found = np.zeros(part.shape)
    np.divide(part, whole, out=found, where=whole != 0)
    return found
