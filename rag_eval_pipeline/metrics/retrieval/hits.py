"""Hits: the retrieved documents that were judged, and their ranks.

One pass over a run's keys finds what may be judged: a small table a block of queries, so that the pass stays in the
processor's cache. Only what it finds is looked at again; nothing is sorted unless a ranking is out of order.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.retrieval.documents import Documents, Keys
from rag_eval_pipeline.metrics.retrieval.runs import Qrels, Run, blocks, ranges
from rag_eval_pipeline.metrics.retrieval.sums import Ints
from rag_eval_pipeline.metrics.retrieval.ties import Block, Ties, find_ties, settle

SLOTS_PER_DOCUMENT = 32  # of a table: 3 % of what was not judged is looked at again
SLOT_BITS = (10, 20)  # fewest and most; a table of 2^20 slots is 1 MB
_FACTOR = np.uint32(2654435761)  # 2^32 / golden ratio


class Hits(NamedTuple):
    """Retrieved documents that were judged.

    Args:
        query: Index into the queries of the qrels.
        rank: From 1: higher scores first, equal scores by id, the greatest bytes first.
        grade: From the qrels.
    """

    query: Ints
    rank: Ints
    grade: Ints


class _Scratch:
    """Arrays that every block writes anew; to take them from the system for each cost half as much as the pass itself.

    Args:
        rows: Of the longest block.
    """

    def __init__(self, rows: int) -> None:
        self.products = np.empty(rows, np.uint32)
        self.slots = np.empty(rows, np.intp)
        self.flags = np.empty(rows, bool)
        self.table = np.empty(1 << SLOT_BITS[1], bool)
        self.which = np.empty(1 << SLOT_BITS[1], np.int32)


class _Found(NamedTuple):
    """Rows of a block that were judged, the query of the block of each, and its row in the qrels."""

    rows: Ints
    query: Ints
    judged: Ints


def find_hits(run: Run, qrels: Qrels, positions: Ints) -> Hits:
    """The hits of a run, or of a part of one.

    Args:
        run: Rankings.
        qrels: Judgements.
        positions: Of each query of the run where it stands in the qrels; -1 for one that does not.
    """
    if run.documents.is_exact != qrels.documents.is_exact:
        raise ValueError("expected documents of run and qrels by codes of one vocabulary, or both by id")
    parts: list[Hits] = []
    ties: list[Ties] = []
    cuts = list(blocks(run.offsets))
    scratch = _Scratch(max((int(run.offsets[cut.stop] - run.offsets[cut.start]) for cut in cuts), default=0))
    for queries in cuts:
        block = _ordered(run, queries, scratch)
        places = positions[queries]
        found = _judged_rows(block, places, run.documents, qrels, scratch)
        ranks = found.rows - block.starts[found.query] + 1
        parts.append(Hits(places[found.query], ranks, qrels.grades[found.judged]))
        ties.append(find_ties(block, found.rows, found.query))
    hits = joined(parts)
    settle(hits.rank, ties, [part.rank.size for part in parts], run.documents)
    return hits


def joined(parts: Iterable[Hits]) -> Hits:
    """Hits of several parts."""
    nothing = Hits(*(np.zeros(0, np.int64) for _ in Hits._fields))
    return Hits(*(np.concatenate(columns) for columns in zip(nothing, *parts, strict=True)))


def _judged_rows(block: Block, places: Ints, documents: Documents, qrels: Qrels, scratch: _Scratch) -> _Found:
    lengths = np.where(places >= 0, qrels.offsets[places + 1] - qrels.offsets[places], 0)
    judged = ranges(qrels.offsets[places], lengths)
    keys = qrels.documents.keys[judged]
    # Query of the block and key as one number: ascends, since the qrels are ordered by query and key.
    wanted = (np.repeat(np.arange(places.size), lengths) << 32) | keys
    rows, guess = _maybe_judged(block.keys, keys, scratch)
    query = np.searchsorted(block.ends, rows, side="right")
    chosen, place = _equal((query << 32) | block.keys[rows], wanted, guess)
    rows, query, judged = rows[chosen], query[chosen], judged[place]
    if not documents.is_exact:
        same = documents.same(block.run_rows(rows), qrels.documents, judged)
        rows, query, judged = rows[same], query[same], judged[same]
    return _Found(rows, query, judged)


def _ordered(run: Run, queries: slice, scratch: _Scratch) -> Block:
    bounds = run.offsets[queries.start : queries.stop + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    starts, ends = bounds[:-1] - first, bounds[1:] - first
    keys, scores = run.documents.keys[first:last], run.scores[first:last]
    rises = np.greater(scores[1:], scores[:-1], out=scratch.flags[: max(scores.size - 1, 0)])
    border = starts[(starts > 0) & (starts < scores.size)] - 1
    rises[border] = False
    if not rises.any():
        return Block(starts, ends, keys, scores, None, first)
    order = np.lexsort((-scores, np.repeat(np.arange(starts.size), ends - starts)))
    return Block(starts, ends, keys[order], scores[order], order, first)


def _maybe_judged(keys: Keys, judged: Keys, scratch: _Scratch) -> tuple[Ints, Ints]:
    """Rows whose document may be judged for some query of the block, and which it then is; -1 for one of several."""
    if not judged.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    bits = min(max(int(SLOTS_PER_DOCUMENT * judged.size).bit_length(), SLOT_BITS[0]), SLOT_BITS[1])
    shift = np.uint32(32 - bits)
    own = ((judged * _FACTOR) >> shift).astype(np.intp)
    table, which = scratch.table[: 1 << bits], scratch.which
    table[:] = False
    order = np.arange(judged.size)
    table[own], which[own] = True, order
    which[own[which[own] != order]] = -1
    products, slots, flags = scratch.products[: keys.size], scratch.slots[: keys.size], scratch.flags[: keys.size]
    np.multiply(keys, _FACTOR, out=products)
    np.right_shift(products, shift, out=slots, casting="unsafe")
    rows = np.flatnonzero(table.take(slots, out=flags, mode="clip"))
    return rows, which[slots[rows]].astype(np.int64)


def _equal(have: Ints, wanted: Ints, guess: Ints) -> tuple[Ints, Ints]:
    """Indices into `have` and into `wanted` of equal numbers, every pair of them.

    Args:
        have: Any numbers.
        wanted: Ascending; one that repeats has a guess of -1.
        guess: Where a number of `have` is in `wanted`, if it is there at all; -1 where that is open.
    """
    sure = np.flatnonzero(guess >= 0)
    sure = sure[wanted[guess[sure]] == have[sure]]
    pairs = [(sure, guess[sure])]
    chosen = np.flatnonzero(guess < 0)
    place = np.searchsorted(wanted, have[chosen])
    while chosen.size:
        inside = place < wanted.size
        chosen, place = chosen[inside], place[inside]
        equal = wanted[place] == have[chosen]
        chosen, place = chosen[equal], place[equal]
        pairs.append((chosen, place))
        place = place + 1  # two judged documents of a query may have one key; either of them may be the one
    return np.concatenate([one for one, _ in pairs]), np.concatenate([one for _, one in pairs])
