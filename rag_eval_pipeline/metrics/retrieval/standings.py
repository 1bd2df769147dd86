"""Where the judged documents of each query stand in its ranking: all that a measure sees.

No measure needs the whole ranking, so neither scores nor ids are here. Arrays over documents are ordered by query, and
within a query by rank, or by grade for the judgements.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.retrieval.sums import (
    Floats,
    Ints,
    add_up,
    ascending,
    count_up,
    discounts,
    ordinals,
    shares,
)


class Placed(NamedTuple):
    """Documents that were retrieved.

    Args:
        query: Index of each document's query; ascending.
        rank: From 1; ascending within a query.
        grade: From the qrels.
    """

    query: Ints
    rank: Ints
    grade: Ints

    def where(self, chosen: np.ndarray | slice) -> "Placed":
        """Some of them, in the same order."""
        return Placed(self.query[chosen], self.rank[chosen], self.grade[chosen])


class Top(NamedTuple):
    """Which documents stand at a rank or better, to take of arrays that lie beside them, and their queries."""

    chosen: np.ndarray | slice
    query: Ints


def top(placed: Placed, k: int) -> Top:
    """Those at rank k or better."""
    near = placed.rank <= k
    return Top(slice(None), placed.query) if near.all() else Top(near, placed.query[near])


class Judged(NamedTuple):
    """Documents that were judged, retrieved or not: query (ascending) and grade (descending within a query)."""

    query: Ints
    grade: Ints


class Standings:
    """The judged documents of all queries of a run.

    Args:
        retrieved: (queries,) how many documents each query retrieved.
        placed: Judged documents that were retrieved, of any grade, in any order.
        judged: All judged documents, in any order.
        level: Least grade that counts as relevant. Negative grades are in the pool, but not judged.
    """

    def __init__(self, retrieved: Ints, placed: Placed, judged: Judged, *, level: int = 1) -> None:
        self.n = retrieved.size
        self.retrieved = retrieved
        self.level = level
        self.placed = placed.where(ascending(placed.query, placed.rank))
        order = ascending(judged.query, judged.grade.max(initial=0) - judged.grade)
        self.judged = Judged(judged.query[order], judged.grade[order])

    @cached_property
    def relevant(self) -> Placed:
        """Retrieved documents of the relevance level and above."""
        return self.placed.where(self.placed.grade >= self.level)

    @cached_property
    def ordinal(self) -> Ints:
        """The place of each of `relevant` among the relevant documents of its query, from 1."""
        return ordinals(self.relevant.query, self.n)

    @cached_property
    def graded(self) -> Placed:
        """Retrieved documents of grade 1 and above, whatever the relevance level."""
        return self.relevant if self.level == 1 else self.placed.where(self.placed.grade >= 1)

    @cached_property
    def n_relevant(self) -> Ints:
        """Relevant documents of each query, retrieved or not."""
        return count_up(self.judged.query[self.judged.grade >= self.level], self.n)

    @cached_property
    def n_nonrelevant(self) -> Ints:
        """Documents of each query that were judged and found not relevant, retrieved or not."""
        grade = self.judged.grade
        return count_up(self.judged.query[(grade >= 0) & (grade < self.level)], self.n)

    @cached_property
    def n_found(self) -> Ints:
        """Relevant documents of each query that were retrieved."""
        return count_up(self.relevant.query, self.n)

    @cached_property
    def precision(self) -> Floats:
        """Precision at each of `relevant`."""
        return self.ordinal / self.relevant.rank

    @cached_property
    def _tops(self) -> dict[int, "Top"]:
        return {}

    def top(self, k: int) -> "Top":
        """Relevant documents at rank k or better."""
        if k not in self._tops:
            self._tops[k] = top(self.relevant, k)
        return self._tops[k]

    def within(self, k: int) -> Ints:
        """How many relevant documents of each query stand at rank k or better."""
        return count_up(self.top(k).query, self.n)

    def graded_top(self, k: int) -> "Top":
        """Documents of grade 1 and above at rank k or better."""
        return self.top(k) if self.level == 1 else top(self.graded, k)

    def within_each(self, k: Ints) -> Ints:
        """The same with a cutoff of its own for each query."""
        return count_up(self.relevant.query[self.relevant.rank <= k[self.relevant.query]], self.n)

    @cached_property
    def average_precision(self) -> Floats:
        """Sum of `precision` over the number of relevant documents, of each query."""
        return shares(add_up(self.relevant.query, self.precision, self.n), self.n_relevant)

    @cached_property
    def ideal(self) -> Placed:
        """The best possible ranking: documents of grade 1 and above, best grade first."""
        chosen = self.judged.grade >= 1
        query, grade = self.judged.query[chosen], self.judged.grade[chosen]
        return Placed(query, ordinals(query, self.n), grade)

    @cached_property
    def discounted(self) -> Floats:
        """Discounted gain of each of `graded`."""
        return self.graded.grade / discounts(int(self.graded.rank.max(initial=0)))[self.graded.rank]

    @cached_property
    def ideal_discounted(self) -> Floats:
        """Discounted gain of each of `ideal`."""
        return self.ideal.grade / discounts(int(self.ideal.rank.max(initial=0)))[self.ideal.rank]


def standings_of(rankings: Iterable[tuple[Sequence[str], Mapping[str, int]]], *, level: int = 1) -> Standings:
    """Standings of rankings that are given as ids.

    Args:
        rankings: Of each query its documents in rank order, each once, and document -> grade.
        level: Least grade that counts as relevant.
    """
    retrieved: list[int] = []
    placed: list[tuple[int, int, int]] = []
    judged: list[tuple[int, int]] = []
    for query, (ranking, grades) in enumerate(rankings):
        retrieved.append(len(ranking))
        placed += [
            (query, rank, grades[document]) for rank, document in enumerate(ranking, start=1) if document in grades
        ]
        judged += [(query, grade) for grade in grades.values()]
    columns = np.array(placed, dtype=np.int64).reshape(-1, 3).T
    pool = np.array(judged, dtype=np.int64).reshape(-1, 2).T
    return Standings(np.array(retrieved, dtype=np.int64), Placed(*columns), Judged(*pool), level=level)
