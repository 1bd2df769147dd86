"""Runs and qrels as arrays: queries, where the rows of each begin, documents, and scores or grades.

Both are checked when they are made: no document twice for a query, no score that is not a number. What is here can be
scored without another look at it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval.documents import Documents
from rag_eval_pipeline.metrics.retrieval.standings import Judged
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints, ascending

BLOCK_ROWS = 1 << 16  # rows at a time: a block and what is made of it stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rankings of queries, or of some of the queries of a greater run.

    Args:
        queries: Their ids, each once, in any order.
        offsets: (queries + 1,) the rows of query i are those from offsets[i] to offsets[i + 1].
        documents: (rows,)
        scores: (rows,) higher is better; rows need not be sorted.
        source: File or other name, for messages.

    Raises:
        InputError: `bad_score` for NaN, `duplicate_document`.
    """

    queries: Sequence[str]
    offsets: Ints
    documents: Documents
    scores: Floats
    source: str = "run"

    def __post_init__(self) -> None:
        check_numbers(self)
        check_distinct(self.queries, self.offsets, self.documents, self.source)


@dataclass(frozen=True, slots=True, eq=False)
class Qrels:
    """Judgements: queries in the order of their ids' bytes, and a query's documents in the order of their keys.

    `qrels_of` puts any rows into this order and checks them.

    Args:
        queries: Their ids.
        offsets: As a run's.
        documents: (rows,)
        grades: (rows,)
        best_first: Query and grade of every row, the best grades of a query first.
        index: Where each query stands.
    """

    queries: Sequence[str]
    offsets: Ints
    documents: Documents
    grades: Ints
    best_first: Judged
    index: Mapping[str, int]

    def positions(self, queries: Sequence[str]) -> Ints:
        """Where queries stand in these; -1 for one that does not."""
        return np.fromiter(map(self.index.get, queries, repeat(-1)), np.int64, len(queries))


def qrels_of(
    queries: Sequence[str], query: Ints, documents: Documents, grades: NDArray[np.integer], *, source: str = "qrels"
) -> Qrels:
    """Judgements of rows in any order.

    Args:
        queries: Ids of queries, each once.
        query: (rows,) index into `queries`.
        documents: (rows,)
        grades: (rows,)
        source: File or other name, for messages.

    Raises:
        InputError: `duplicate_document`.
    """
    by_name = sorted(range(len(queries)), key=queries.__getitem__)  # code points are in the order of UTF-8's bytes
    place = np.empty(len(queries), np.int64)
    place[by_name] = np.arange(len(queries))
    query = place[query]
    order = np.argsort((query << 32) | documents.keys)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(query, minlength=len(queries)))))
    names = [queries[index] for index in by_name]
    ordered = documents.rows(order)
    check_distinct(names, offsets, ordered, source)
    index = {name: place for place, name in enumerate(names)}
    query, grade = query[order], np.asarray(grades, dtype=np.int64)[order]
    best = ascending(query, grade.max(initial=0) - grade)
    return Qrels(names, offsets, ordered, grade, Judged(query[best], grade[best]), index)


def run_from_scores(run: Mapping[str, Mapping[str, float]], *, source: str = "run") -> Run:
    """A run of query -> document -> score; errors as `Run`."""
    names = [document for scored in run.values() for document in scored]
    scores = [score for scored in run.values() for score in scored.values()]
    lengths = [len(scored) for scored in run.values()]
    return Run(
        list(run), np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), Documents.named(names),
        np.array(scores, dtype=np.float64), source,
    )  # fmt: skip


def qrels_from_grades(qrels: Mapping[str, Mapping[str, int]], *, source: str = "qrels") -> Qrels:
    """Judgements of query -> document -> grade."""
    names = [document for graded in qrels.values() for document in graded]
    grades = np.array([grade for graded in qrels.values() for grade in graded.values()], dtype=np.int64)
    query = np.repeat(np.arange(len(qrels)), [len(graded) for graded in qrels.values()])
    return qrels_of(list(qrels), query, Documents.named(names), grades, source=source)


def blocks(offsets: Ints) -> Iterator[slice]:
    """Slices of queries with some BLOCK_ROWS rows each; a query is never cut."""
    start, n = 0, offsets.size - 1
    while start < n:
        end = int(np.searchsorted(offsets, offsets[start] + BLOCK_ROWS, side="right")) - 1
        end = min(max(end, start + 1), n)
        yield slice(start, end)
        start = end


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """start, start + 1, ... of each range, one behind the other."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)


def check_numbers(run: Run) -> None:
    """Refuses a score that is not a number.

    Raises:
        InputError: `bad_score`.
    """
    with np.errstate(invalid="ignore"):
        total = run.scores.sum()
    # A sum is NaN when a part is, and when it holds both infinities; it takes no mask of all rows.
    if np.isnan(total) and (bad := np.flatnonzero(np.isnan(run.scores))).size:
        document = run.documents.name(int(bad[0]))
        query = run.queries[int(np.searchsorted(run.offsets, bad[0], side="right")) - 1]
        raise InputError(
            "bad_score",
            run.source,
            f"a number as the score of {document!r} for query {query!r}",
            found=float("nan"),
        )


def check_distinct(queries: Sequence[str], offsets: Ints, documents: Documents, source: str) -> None:
    """Refuses a document that stands twice for a query: recall could exceed 1.

    Raises:
        InputError: `duplicate_document`.
    """
    for block in blocks(offsets):
        bounds = offsets[block.start : block.stop + 1]
        for place in _suspects(documents.keys[bounds[0] : bounds[-1]], bounds - bounds[0]):
            start, end = int(bounds[place]), int(bounds[place + 1])
            repeated = documents.repeated(start, end)
            if repeated is not None:
                raise InputError(
                    "duplicate_document", source, f"each document once for query {queries[block.start + place]!r}",
                    found=repeated,
                )  # fmt: skip


def _suspects(keys: NDArray[np.uint32], offsets: Ints) -> list[int]:
    """The queries of a block in which two documents have one key."""
    lengths = np.diff(offsets)
    if lengths.size and lengths[0] and (lengths == lengths[0]).all():
        # Rows of one length sort three times as fast as what follows.
        table = np.sort(keys.reshape(lengths.size, -1), axis=1)
        twice = np.flatnonzero((table[:, 1:] == table[:, :-1]).any(axis=1))
        return list(map(int, twice))
    query = np.repeat(np.arange(lengths.size), lengths)
    both = np.sort((query << 32) | keys)
    return list(map(int, np.unique(both[1:][both[1:] == both[:-1]] >> 32)))
