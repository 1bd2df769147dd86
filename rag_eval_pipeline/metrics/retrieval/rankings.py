"""Runs and qrels as arrays, and the judged rankings that every measure is a function of.

Documents are compared by 32-bit keys, codes or hashes of their ids. The arrays of `Rankings` are ordered by query, and
within a query by rank, or by grade for the judgements.

Sums are made as trec_eval makes them, one addition after the other in rank order, because another order changes the
last bits: np.sum and np.add.reduceat add pairwise, np.bincount and np.cumsum do not. Logarithms are those of the math
module, since numpy's may differ in the last bit.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[Any] | slice  # an index, a mask or a slice

_discounts: Floats = np.array([math.inf])


class Hits(NamedTuple):
    """Retrieved documents that were judged: query, rank from 1, and grade of each."""

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
    """The judged documents of all queries of a run; those of a negative grade are in the pool but unjudged."""

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


Keys = NDArray[np.uint32]

BLOCK_ROWS = 1 << 16  # a block of rows and what is made of it stay in the processor's cache
HASHED_AT_ONCE = 1 << 16  # ids
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_SHIFT = np.uint64(29)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)  # masks that keep n bytes of a word


class Documents:
    """One document per row, given by its id or by a code in [0, 2^32).

    `ids` are an Arrow array of strings without nulls, or a list of strings. Codes are in the order of the bytes of the
    ids that they stand for.
    """

    def __init__(self, ids: Any = None, *, codes: NDArray[np.integer[Any]] | None = None) -> None:
        self.ids = pa.array(ids, type=pa.string()) if isinstance(ids, Sequence) else ids
        self.keys = hash_ids(self.ids) if codes is None else np.ascontiguousarray(codes, dtype=np.uint32)

    def equals(self, rows: Ints, other: "Documents", other_rows: Ints) -> NDArray[np.bool_]:
        """Compare documents of equal keys row by row."""
        if self.ids is None or not rows.size:
            return np.ones(rows.size, bool)
        equal = pc.equal(self.ids.take(pa.array(rows)), other.ids.take(pa.array(other_rows)))
        found: NDArray[np.bool_] = equal.to_numpy(zero_copy_only=False)
        return found

    def order_descending(self, group: Ints, rows: Ints) -> Ints:
        """Return the indices that sort rows by group, and within a group by the bytes of the id, descending."""
        if self.ids is None:
            return np.lexsort((-self.keys[rows].astype(np.int64), group))
        table = pa.table({"group": group, "id": self.ids.take(pa.array(rows))})
        order: Ints = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("id", "descending")]).to_numpy()
        return order.astype(np.int64, copy=False)

    def name(self, row: int) -> str:
        """Return the id of a row, or its code."""
        return str(self.keys[row] if self.ids is None else self.ids[row].as_py())

    def take(self, rows: Ints) -> "Documents":
        """Select rows by index."""
        if self.ids is None:
            return Documents(codes=self.keys[rows])
        found = copy(self)
        found.ids, found.keys = self.ids.take(pa.array(rows)), self.keys[rows]
        return found

    def find_repeated(self, start: int, end: int) -> str | None:
        """Return a document that occurs twice in the rows from start to end."""
        seen: set[str] = set()
        for name in map(self.name, range(start, end)):
            if name in seen:
                return name
            seen.add(name)
        return None


def hash_ids(array: Any) -> Keys:
    """Hash the bytes of each id of an Arrow array of strings without nulls."""
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.zeros(0, np.uint32)
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    keys = np.empty(len(array), np.uint32)
    for start in range(0, len(array), HASHED_AT_ONCE):
        block = offsets[start : start + HASHED_AT_ONCE + 1]
        # Eight more bytes, so that a whole word can be read at every byte.
        text = np.concatenate((data[block[0] : block[-1]], np.zeros(8, np.uint8)))
        keys[start : start + block.size - 1] = _hash_block(text, block - block[0])
    return keys


def _hash_block(text: NDArray[np.uint8], offsets: Ints) -> Keys:
    words = np.ndarray((text.size - 7,), dtype="<u8", buffer=text, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    mixed = lengths.astype(np.uint64) * _FACTOR
    shortest, longest = int(lengths.min()), int(lengths.max())
    for done in range(0, longest, 8):
        rows = slice(None) if done < shortest else np.flatnonzero(lengths > done)
        word = words[starts[rows] + done] & _FIRST_BYTES[np.minimum(lengths[rows] - done, 8)]
        part = (mixed[rows] ^ word) * _FACTOR
        mixed[rows] = part ^ (part >> _SHIFT)
    mixed *= _FACTOR
    return (mixed >> np.uint64(32)).astype(np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rankings of queries, or of some of the queries of a larger run.

    Raises:
        InputError: `bad_score` for NaN, `duplicate_document`.
    """

    queries: Sequence[str]  # their ids, each once, in any order
    offsets: Ints  # (queries + 1,) the rows of query i are those from offsets[i] to offsets[i + 1]
    documents: Documents  # one per row
    scores: Floats  # one per row; higher is better, and rows need not be sorted
    source: str = "run"  # file or other name, for messages

    def __post_init__(self) -> None:
        check_distinct(self.queries, self.offsets, self.documents, self.source)
        with np.errstate(invalid="ignore"):
            total = self.scores.sum()
        # A sum is NaN if any part is, and needs no mask of all rows. It is also NaN if it adds both infinities.
        if np.isnan(total) and (bad := np.flatnonzero(np.isnan(self.scores))).size:
            document = self.documents.name(int(bad[0]))
            query = self.queries[int(np.searchsorted(self.offsets, bad[0], side="right")) - 1]
            raise InputError(
                "bad_score", self.source, f"a number as the score of {document!r} for query {query!r}",
                found=float("nan"),
            )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Qrels:
    """Judgements; `make_qrels` puts rows into the required order and checks them."""

    queries: Sequence[str]  # query ids in the order of their bytes
    offsets: Ints  # as in a run
    documents: Documents  # one per row, in the order of their keys within a query
    grades: Ints  # one per row
    best_first: Judgements  # query and grade of every row, the best grades of a query first
    index: Mapping[str, int]  # query id -> position

    def positions(self, queries: Sequence[str]) -> Ints:
        """Return the position of each query, -1 for one that was not judged."""
        return np.fromiter(map(self.index.get, queries, repeat(-1)), np.int64, len(queries))


def make_qrels(
    queries: Sequence[str], query: Ints, documents: Documents, grades: NDArray[np.integer], *, source: str = "qrels"
) -> Qrels:
    """Make qrels of rows in any order; `query` is each row's index into `queries`.

    Raises:
        InputError: `duplicate_document`.
    """
    by_name = sorted(range(len(queries)), key=queries.__getitem__)  # code points sort like the bytes of UTF-8
    place = np.empty(len(queries), np.int64)
    place[by_name] = np.arange(len(queries))
    query = place[query]
    order = np.argsort((query << 32) | documents.keys)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(query, minlength=len(queries)))))
    names = [queries[index] for index in by_name]
    ordered = documents.take(order)
    check_distinct(names, offsets, ordered, source)
    index = {name: place for place, name in enumerate(names)}
    query, grade = query[order], np.asarray(grades, dtype=np.int64)[order]
    best = sort_order(query, grade.max(initial=0) - grade)
    return Qrels(names, offsets, ordered, grade, Judgements(query[best], grade[best]), index)


def run_from_dict(run: Mapping[str, Mapping[str, float]], *, source: str = "run") -> Run:
    """Make a run of query -> document -> score; errors are those of `Run`."""
    names = [document for scored in run.values() for document in scored]
    scores = [score for scored in run.values() for score in scored.values()]
    offsets = np.cumsum([0, *map(len, run.values())], dtype=np.int64)
    return Run(list(run), offsets, Documents(names), np.array(scores, dtype=np.float64), source)


def qrels_from_dict(qrels: Mapping[str, Mapping[str, int]], *, source: str = "qrels") -> Qrels:
    """Make qrels of query -> document -> grade."""
    names = [document for graded in qrels.values() for document in graded]
    grades = np.array([grade for graded in qrels.values() for grade in graded.values()], dtype=np.int64)
    query = np.repeat(np.arange(len(qrels)), [len(graded) for graded in qrels.values()])
    return make_qrels(list(qrels), query, Documents(names), grades, source=source)


def iterate_blocks(offsets: Ints) -> Iterator[slice]:
    """Yield slices of whole queries with about `BLOCK_ROWS` rows each."""
    start, n = 0, offsets.size - 1
    while start < n:
        end = int(np.searchsorted(offsets, offsets[start] + BLOCK_ROWS, side="right")) - 1
        end = min(max(end, start + 1), n)
        yield slice(start, end)
        start = end


def concatenate_ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return start, start + 1, ... of each range, one after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)


def check_distinct(queries: Sequence[str], offsets: Ints, documents: Documents, source: str) -> None:
    """Refuse a document that occurs twice for a query, since recall could then exceed 1."""
    for block in iterate_blocks(offsets):
        bounds = offsets[block.start : block.stop + 1]
        for place in _queries_with_equal_keys(documents.keys[bounds[0] : bounds[-1]], bounds - bounds[0]):
            repeated = documents.find_repeated(int(bounds[place]), int(bounds[place + 1]))
            if repeated is not None:
                raise InputError(
                    "duplicate_document", source, f"each document once for query {queries[block.start + place]!r}",
                    found=repeated,
                )  # fmt: skip


def _queries_with_equal_keys(keys: Keys, offsets: Ints) -> list[int]:
    lengths = np.diff(offsets)
    if lengths.size and lengths[0] and (lengths == lengths[0]).all():
        # Rankings of equal length are rows of a table, which sort three times as fast.
        table = np.sort(keys.reshape(lengths.size, -1), axis=1)
        return list(map(int, np.flatnonzero((table[:, 1:] == table[:, :-1]).any(axis=1))))
    query = np.repeat(np.arange(lengths.size), lengths)
    both = np.sort((query << 32) | keys)
    return list(map(int, np.unique(both[1:][both[1:] == both[:-1]] >> 32)))
