"""Score runs against qrels: the one engine of `rag-eval score` and of evaluations.

A pass over the keys of a run finds the documents that may be judged, with a small lookup table per block of queries.
Nothing is sorted unless a ranking is out of order, and only ties that hold a judged document are resolved, by the bytes
of their ids, descending, as trec_eval sorts them.

As in trec_eval, a query that the run does not contain or that has no relevant document counts 0.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval.families import Measure
from rag_eval_pipeline.metrics.retrieval.measures import score_measure
from rag_eval_pipeline.metrics.retrieval.names import parse_measure
from rag_eval_pipeline.metrics.retrieval.rankings import (
    Documents,
    Floats,
    Hits,
    Ints,
    Keys,
    Qrels,
    Rankings,
    Run,
    concatenate_ranges,
    iterate_blocks,
    make_qrels,
)

SLOTS_PER_DOCUMENT = 32  # of a lookup table; 3 % of the unjudged documents then pass the table
SLOT_BITS = (10, 20)  # fewest and most; a table of 2^20 slots is 1 MB
_FACTOR = np.uint32(2654435761)  # 2^32 / golden ratio


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of a run, in the byte order of the query ids: the order in which trec_eval adds them up."""

    queries: Sequence[str]  # every query of the qrels
    measures: tuple[Measure, ...]  # what was scored
    values: tuple[NDArray[Any], ...]  # for each measure, the score of each query
    missing: tuple[str, ...]  # queries of the qrels that the run does not contain; they count 0
    nothing_relevant: tuple[str, ...]  # queries without a relevant document; they count 0
    unjudged: int  # how many queries of the run are not in the qrels; they are left out
    known_documents: int  # how many retrieved documents are judged for their query

    def summary(self, measure: Measure) -> float | int | None:
        """Return the mean, sum or geometric mean over all queries; None for a measure without one, or no query."""
        values = self.values[self.measures.index(measure)]
        kind = measure.family.summary
        if kind == "sum":
            return int(values.sum())
        if kind == "none" or not values.size:
            return None
        # A running sum adds one value after the other; np.sum adds pairwise, which changes the last bits.
        mean = float(np.cumsum(values, dtype=np.float64)[-1]) / values.size
        return math.exp(mean) if kind == "geometric" else mean


def score(run: Run | Iterable[Run], qrels: Qrels, measures: Sequence[Measure], *, level: int = 1) -> Scores:
    """Score every query by every measure.

    The run may come in parts, with each query in one of them. `level` is the lowest grade that counts as relevant.
    """
    n_retrieved = np.zeros(len(qrels.queries), np.int64)
    is_present = np.zeros(len(qrels.queries), bool)
    parts: list[Hits] = []
    unjudged = 0
    for part in [run] if isinstance(run, Run) else run:
        positions = qrels.positions(part.queries)
        is_judged = positions >= 0
        n_retrieved[positions[is_judged]] = np.diff(part.offsets)[is_judged]
        is_present[positions[is_judged]] = True
        unjudged += int((~is_judged).sum())
        parts.append(find_hits(part, qrels, positions))
    rankings = Rankings(n_retrieved, _join(parts), qrels.best_first, level=level)
    return Scores(
        qrels.queries,
        tuple(measures),
        tuple(score_measure(measure, rankings) for measure in measures),
        tuple(qrels.queries[place] for place in np.flatnonzero(~is_present).tolist()),
        tuple(qrels.queries[place] for place in np.flatnonzero(rankings.n_relevant == 0).tolist()),
        unjudged,
        sum(len(part.rank) for part in parts),
    )


def score_rankings(
    rankings: Iterable[tuple[Sequence[str], Mapping[str, int]]], measures: Iterable[str]
) -> list[dict[str, float] | None]:
    """Score rankings of document ids, each with its query's grades by document.

    Returns:
        For each query measure -> score, 0.0 where nothing was retrieved; None for a query without a relevant document.
    """
    given = list(rankings)
    parsed = [parse_measure(name) for name in measures]
    for ranking, _ in given:
        _check_ranking(ranking)
    codes: dict[str, int] = {}
    retrieved = [codes.setdefault(document, len(codes)) for ranking, _ in given for document in ranking]
    judged = [codes.setdefault(document, len(codes)) for _, grades in given for document in grades]
    lengths = [len(ranking) for ranking, _ in given]
    scores_by_rank = -np.concatenate([np.zeros(0), *map(np.arange, lengths)])
    queries = [f"{place:09d}" for place in range(len(given))]  # qrels sort them as text
    # Documents need no names: no two of a ranking have equal scores.
    run = Run(queries, np.cumsum([0, *lengths]), Documents(codes=np.array(retrieved, dtype=np.int64)), scores_by_rank)
    qrels = make_qrels(
        queries,
        np.repeat(np.arange(len(given)), [len(grades) for _, grades in given]),
        Documents(codes=np.array(judged, dtype=np.int64)),
        np.array([grade for _, grades in given for grade in grades.values()], dtype=np.int64),
    )
    scores = score(run, qrels, parsed)
    columns = {measure.name: values.tolist() for measure, values in zip(parsed, scores.values, strict=True)}
    skipped = set(scores.nothing_relevant)
    return [
        None if query in skipped else {name: float(column[place]) for name, column in columns.items()}
        for place, query in enumerate(queries)
    ]


def _check_ranking(ranking: Sequence[str]) -> None:
    seen = set()
    for document in ranking:
        if document in seen:
            raise InputError("duplicate_document", "run", "each document once in a ranking", found=document)
        seen.add(document)


class Block(NamedTuple):
    """Some queries of a run, their rows in the order of scores."""

    starts: Ints  # first row of each query, counted within the block
    ends: Ints  # one past the last
    keys: Keys  # one per row
    scores: Floats  # one per row
    order: Ints | None  # position of each row in the run, counted from `first`; None if rows are in the run's order
    first: int  # the block's first row in the run

    def run_rows(self, rows: Ints) -> Ints:
        """Return where rows of the block are in the run."""
        return self.first + (rows if self.order is None else self.order[rows])


class _Scratch:
    """Arrays that every block overwrites; allocating them each time would cost half as much as the pass itself."""

    def __init__(self, rows: int) -> None:
        self.products = np.empty(rows, np.uint32)
        self.slots = np.empty(rows, np.intp)
        self.flags = np.empty(rows, bool)
        self.table = np.empty(1 << SLOT_BITS[1], bool)
        self.which = np.empty(1 << SLOT_BITS[1], np.int32)


def find_hits(run: Run, qrels: Qrels, positions: Ints) -> Hits:
    """Find the judged documents of a run and their ranks; higher scores first, ties by the ids' bytes, descending.

    `positions` are those of the run's queries in the qrels, -1 if not judged.
    """
    parts: list[Hits] = []
    ties: list[Ties] = []
    blocks = list(iterate_blocks(run.offsets))
    scratch = _Scratch(max((int(run.offsets[cut.stop] - run.offsets[cut.start]) for cut in blocks), default=0))
    for queries in blocks:
        block = _sort_block(run, queries, scratch)
        places = positions[queries]
        rows, query, judged = _find_judged_rows(block, places, run.documents, qrels, scratch)
        parts.append(Hits(places[query], rows - block.starts[query] + 1, qrels.grades[judged]))
        ties.append(find_ties(block, rows, query))
    hits = _join(parts)
    break_ties(hits.rank, ties, [part.rank.size for part in parts], run.documents)
    return hits


def _join(parts: Iterable[Hits]) -> Hits:
    nothing = Hits(*(np.zeros(0, np.int64) for _ in Hits._fields))
    return Hits(*(np.concatenate(columns) for columns in zip(nothing, *parts, strict=True)))


def _sort_block(run: Run, queries: slice, scratch: _Scratch) -> Block:
    bounds = run.offsets[queries.start : queries.stop + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    starts, ends = bounds[:-1] - first, bounds[1:] - first
    keys, scores = run.documents.keys[first:last], run.scores[first:last]
    rises = np.greater(scores[1:], scores[:-1], out=scratch.flags[: max(scores.size - 1, 0)])
    rises[starts[(starts > 0) & (starts < scores.size)] - 1] = False  # from one query to the next
    if not rises.any():
        return Block(starts, ends, keys, scores, None, first)
    order = np.lexsort((-scores, np.repeat(np.arange(starts.size), ends - starts)))
    return Block(starts, ends, keys[order], scores[order], order, first)


def _find_judged_rows(
    block: Block, places: Ints, documents: Documents, qrels: Qrels, scratch: _Scratch
) -> tuple[Ints, Ints, Ints]:
    lengths = np.where(places >= 0, qrels.offsets[places + 1] - qrels.offsets[places], 0)
    judged = concatenate_ranges(qrels.offsets[places], lengths)
    keys = qrels.documents.keys[judged]
    # Query of the block and key as one number; it ascends, since the qrels are ordered by query and key.
    wanted = (np.repeat(np.arange(places.size), lengths) << 32) | keys
    rows, guess = _find_candidates(block.keys, keys, scratch)
    query = np.searchsorted(block.ends, rows, side="right")
    chosen, place = _find_equal((query << 32) | block.keys[rows], wanted, guess)
    rows, query, judged = rows[chosen], query[chosen], judged[place]
    is_same = documents.equals(block.run_rows(rows), qrels.documents, judged)
    return rows[is_same], query[is_same], judged[is_same]


def _find_candidates(keys: Keys, judged: Keys, scratch: _Scratch) -> tuple[Ints, Ints]:
    """Find the rows whose document may be judged for a query of the block.

    Returns:
        The rows, and the judged document that each one is if it is any; -1 if several are possible.
    """
    if not judged.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    bits = min(max(int(SLOTS_PER_DOCUMENT * judged.size).bit_length(), SLOT_BITS[0]), SLOT_BITS[1])
    shift = np.uint32(32 - bits)
    judged_slots = ((judged * _FACTOR) >> shift).astype(np.intp)
    table, which = scratch.table[: 1 << bits], scratch.which
    table[:] = False
    order = np.arange(judged.size)
    table[judged_slots], which[judged_slots] = True, order
    which[judged_slots[which[judged_slots] != order]] = -1
    products, slots, flags = scratch.products[: keys.size], scratch.slots[: keys.size], scratch.flags[: keys.size]
    np.multiply(keys, _FACTOR, out=products)
    np.right_shift(products, shift, out=slots, casting="unsafe")
    rows = np.flatnonzero(table.take(slots, out=flags, mode="clip"))
    return rows, which[slots[rows]].astype(np.int64)


def _find_equal(have: Ints, wanted: Ints, guess: Ints) -> tuple[Ints, Ints]:
    """Return the indices into `have` and into `wanted` of every pair of equal numbers.

    `wanted` ascends. `guess` says where a number of `have` is in it if it is there at all; -1 if that is open, as for
    numbers that repeat.
    """
    sure = np.flatnonzero(guess >= 0)
    sure = sure[wanted[guess[sure]] == have[sure]]
    pairs = [(sure, guess[sure])]
    chosen = np.flatnonzero(guess < 0)
    place = np.searchsorted(wanted, have[chosen])
    while chosen.size:
        is_inside = place < wanted.size
        chosen, place = chosen[is_inside], place[is_inside]
        is_equal = wanted[place] == have[chosen]
        chosen, place = chosen[is_equal], place[is_equal]
        pairs.append((chosen, place))
        place = place + 1  # two judged documents of a query may have the same key, and either may be the one
    return np.concatenate([one for one, _ in pairs]), np.concatenate([one for _, one in pairs])


class Ties(NamedTuple):
    """Ties of a block that hold a hit."""

    hit: Ints  # which hits of the block are in a tie
    group: Ints  # their tie
    place: Ints  # the hit's current position in its tie, from 0
    lengths: Ints  # how many documents each tie has
    members: Ints  # their rows in the run, tie by tie


_NO_TIES = Ties(*(np.zeros(0, np.int64) for _ in Ties._fields))


def find_ties(block: Block, rows: Ints, query: Ints) -> Ties:
    """Find the ties that some rows of a block belong to; `query` is the query of each row."""
    scores = block.scores
    after = np.minimum(rows + 1, scores.size - 1)
    is_tied = ((rows > block.starts[query]) & (scores[rows - 1] == scores[rows])) | (
        (after < block.ends[query]) & (after > rows) & (scores[after] == scores[rows])
    )
    if not is_tied.any():
        return _NO_TIES
    # Rows with the score of the row above; an uninterrupted stretch of them is a tie.
    same = np.flatnonzero(scores[1:] == scores[:-1]) + 1
    place = np.minimum(np.searchsorted(block.starts, same), block.starts.size - 1)
    same = same[block.starts[place] != same]
    first = np.flatnonzero(np.diff(same, prepend=-1) != 1)
    starts, sizes = same[first] - 1, np.diff(np.append(first, same.size)) + 1
    hit = np.flatnonzero(is_tied)
    wanted, group = np.unique(np.searchsorted(starts, rows[hit], side="right") - 1, return_inverse=True)
    members = block.run_rows(concatenate_ranges(starts[wanted], sizes[wanted]))
    return Ties(hit, group, rows[hit] - starts[wanted][group], sizes[wanted], members)


def break_ties(ranks: Ints, ties: Sequence[Ties], n_hits: Sequence[int], documents: Documents) -> None:
    """Correct the ranks of tied hits in place, ordering each tie by document id.

    `ranks` are those of the hits of all blocks, `ties` and `n_hits` are by block, `documents` those of the run.
    """
    lengths = np.concatenate([np.zeros(0, np.int64), *(tie.lengths for tie in ties)])
    if not lengths.size:
        return
    members = np.concatenate([tie.members for tie in ties])
    order = documents.order_descending(np.repeat(np.arange(lengths.size), lengths), members)
    place = np.empty(members.size, np.int64)
    place[order] = np.arange(members.size)
    first_hit = np.cumsum([0, *n_hits[:-1]])
    first_group = np.cumsum([0, *(tie.lengths.size for tie in ties[:-1])])
    hit = np.concatenate([tie.hit + start for tie, start in zip(ties, first_hit, strict=True)])
    group = np.concatenate([tie.group + start for tie, start in zip(ties, first_group, strict=True)])
    old = (np.cumsum(lengths) - lengths)[group] + np.concatenate([tie.place for tie in ties])
    ranks[hit] += place[old] - old
