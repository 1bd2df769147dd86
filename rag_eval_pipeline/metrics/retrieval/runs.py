"""Runs and qrels as arrays: queries, where the rows of each begin, documents, and scores or grades.

Both are checked when they are made: a document occurs once per query, and every score is a number.

Documents are compared by 32-bit keys. Codes of a shared vocabulary are their own keys. Otherwise the key is a hash of
the id, and documents with equal keys are compared by id before they count as equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval.rankings import Floats, Ints, Judgements, sort_order

Keys = NDArray[np.uint32]

BLOCK_ROWS = 1 << 16  # a block of rows and what is made of it stay in the processor's cache
HASHED_AT_ONCE = 1 << 16  # ids
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_SHIFT = np.uint64(29)
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)  # masks that keep n bytes of a word


class Documents:
    """One document per row; made by `from_codes` or `from_ids`.

    Args:
        keys: One per row.
        names: Arrow array of ids, by row or by code; None if codes are in the order of their ids' bytes.
        is_coded: Keys are codes, so documents with equal keys are equal.
    """

    def __init__(self, keys: Keys, names: Any, *, is_coded: bool) -> None:
        self.keys = keys
        self.is_coded = is_coded
        self._names = names

    @classmethod
    def from_codes(cls, codes: NDArray[np.integer[Any]], vocabulary: Any = None) -> "Documents":
        """Make documents of codes in [0, 2^32) from a vocabulary that run and qrels share.

        Args:
            codes: One per row.
            vocabulary: Ids by code, as a list or Arrow array; None if codes are in the order of their ids' bytes.
        """
        if isinstance(vocabulary, Sequence):
            vocabulary = pa.array(vocabulary, type=pa.string())
        return cls(np.ascontiguousarray(codes, dtype=np.uint32), vocabulary, is_coded=True)

    @classmethod
    def from_ids(cls, ids: Any) -> "Documents":
        """Make documents of ids: a list of strings, or an Arrow array of strings or binaries without nulls."""
        array = pa.array(ids, type=pa.string()) if isinstance(ids, Sequence) else ids
        return cls(hash_ids(array), array, is_coded=False)

    def equals(self, rows: Ints, other: "Documents", other_rows: Ints) -> NDArray[np.bool_]:
        """Compare documents of equal keys row by row."""
        if self.is_coded or not rows.size:
            return np.ones(rows.size, bool)
        equal = pc.equal(self._names.take(pa.array(rows)), other._names.take(pa.array(other_rows)))
        found: NDArray[np.bool_] = equal.to_numpy(zero_copy_only=False)
        return found

    def order_descending(self, group: Ints, rows: Ints) -> Ints:
        """Return the indices that sort rows by group, and within a group by the bytes of the id, descending."""
        if self._names is None:
            return np.lexsort((-self.keys[rows].astype(np.int64), group))
        names = self._names.take(pa.array(self.keys[rows] if self.is_coded else rows))
        table = pa.table({"group": group, "name": names})
        order: Ints = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("name", "descending")]).to_numpy()
        return order.astype(np.int64, copy=False)

    def name(self, row: int) -> str:
        """Return the id of a row, or its code if ids are unknown."""
        if self._names is None:
            return str(self.keys[row])
        found = self._names[int(self.keys[row]) if self.is_coded else row].as_py()
        return found.decode(errors="backslashreplace") if isinstance(found, bytes) else str(found)

    def take(self, rows: Ints) -> "Documents":
        """Select rows by index."""
        names = self._names if self.is_coded else self._names.take(pa.array(rows))
        return Documents(self.keys[rows], names, is_coded=self.is_coded)

    def find_repeated(self, start: int, end: int) -> str | None:
        """Return a document that occurs twice in the rows from start to end."""
        seen: set[str] = set()
        for row in range(start, end):
            name = self.name(row)
            if name in seen:
                return name
            seen.add(name)
        return None


def hash_ids(array: Any) -> Keys:
    """Hash the bytes of each id of an Arrow array of strings or binaries without nulls."""
    width = np.int64 if str(array.type).startswith("large") else np.int32
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.zeros(0, np.uint32)
    offsets = np.frombuffer(offsets_buffer, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
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

    Args:
        queries: Their ids, each once, in any order.
        offsets: (queries + 1,) the rows of query i are those from offsets[i] to offsets[i + 1].
        documents: One per row.
        scores: One per row; higher is better, and rows need not be sorted.
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
        self._check_scores()
        check_distinct(self.queries, self.offsets, self.documents, self.source)

    def _check_scores(self) -> None:
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
    """Judgements; `make_qrels` puts rows into the required order and checks them.

    Args:
        queries: Query ids in the order of their bytes.
        offsets: As in a run.
        documents: One per row, in the order of their keys within a query.
        grades: One per row.
        best_first: Query and grade of every row, the best grades of a query first.
        index: Query id -> position.
    """

    queries: Sequence[str]
    offsets: Ints
    documents: Documents
    grades: Ints
    best_first: Judgements
    index: Mapping[str, int]

    def positions(self, queries: Sequence[str]) -> Ints:
        """Return the position of each query, -1 for one that was not judged."""
        return np.fromiter(map(self.index.get, queries, repeat(-1)), np.int64, len(queries))


def make_qrels(
    queries: Sequence[str], query: Ints, documents: Documents, grades: NDArray[np.integer], *, source: str = "qrels"
) -> Qrels:
    """Make qrels of rows in any order.

    Args:
        queries: Ids of queries, each once.
        query: Index into `queries`, one per row.
        documents: One per row.
        grades: One per row.
        source: File or other name, for messages.

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
    return Run(list(run), offsets, Documents.from_ids(names), np.array(scores, dtype=np.float64), source)


def qrels_from_dict(qrels: Mapping[str, Mapping[str, int]], *, source: str = "qrels") -> Qrels:
    """Make qrels of query -> document -> grade."""
    names = [document for graded in qrels.values() for document in graded]
    grades = np.array([grade for graded in qrels.values() for grade in graded.values()], dtype=np.int64)
    query = np.repeat(np.arange(len(qrels)), [len(graded) for graded in qrels.values()])
    return make_qrels(list(qrels), query, Documents.from_ids(names), grades, source=source)


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
    """Refuse a document that occurs twice for a query, since recall could then exceed 1.

    Raises:
        InputError: `duplicate_document`.
    """
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
