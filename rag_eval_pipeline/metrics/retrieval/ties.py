"""Ties: documents of equal scores stand in the order of their ids' bytes, the greatest first, as trec_eval sorts them.

Only ties that hold a judged document are looked at, and those of a whole run are ordered at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.retrieval.documents import Documents, Keys
from rag_eval_pipeline.metrics.retrieval.runs import ranges
from rag_eval_pipeline.metrics.retrieval.sums import Floats, Ints


class Block(NamedTuple):
    """Some queries of a run, their rows in the order of scores.

    Args:
        starts: (queries,) first row of each, counted in the block.
        ends: (queries,) one past the last.
        keys: (rows,)
        scores: (rows,)
        rows: (rows,) place in the run, counted from `first`; None when rows stand as they stood there.
        first: The block's first row in the run.
    """

    starts: Ints
    ends: Ints
    keys: Keys
    scores: Floats
    rows: Ints | None
    first: int

    def run_rows(self, rows: Ints) -> Ints:
        """Where rows of the block stand in the run."""
        return self.first + (rows if self.rows is None else self.rows[rows])


class Ties(NamedTuple):
    """Ties of a block.

    Args:
        hit: Which hits of the block are in one.
        group: (hits in a tie,) in which.
        place: (hits in a tie,) where it stands there now, from 0.
        lengths: (groups,) how many documents each has.
        members: Their rows in the run, group by group.
    """

    hit: Ints
    group: Ints
    place: Ints
    lengths: Ints
    members: Ints


_NONE = Ties(*(np.zeros(0, np.int64) for _ in Ties._fields))


def find_ties(block: Block, rows: Ints, query: Ints) -> Ties:
    """The ties that some rows stand in.

    Args:
        block: Queries in the order of scores.
        rows: Of the block.
        query: Of the block, for each of them.
    """
    scores = block.scores
    after = np.minimum(rows + 1, scores.size - 1)
    tied = ((rows > block.starts[query]) & (scores[rows - 1] == scores[rows])) | (
        (after < block.ends[query]) & (after > rows) & (scores[after] == scores[rows])
    )
    if not tied.any():
        return _NONE
    # Rows that have the score of the row before; a stretch of them is a tie.
    same = np.flatnonzero(scores[1:] == scores[:-1]) + 1
    place = np.minimum(np.searchsorted(block.starts, same), block.starts.size - 1)
    same = same[block.starts[place] != same]
    first = np.flatnonzero(np.diff(same, prepend=-1) != 1)
    starts, sizes = same[first] - 1, np.diff(np.append(first, same.size)) + 1
    hit = np.flatnonzero(tied)
    wanted, group = np.unique(np.searchsorted(starts, rows[hit], side="right") - 1, return_inverse=True)
    members = block.run_rows(ranges(starts[wanted], sizes[wanted]))
    return Ties(hit, group, rows[hit] - starts[wanted][group], sizes[wanted], members)


def settle(ranks: Ints, ties: Sequence[Ties], hits: Sequence[int], documents: Documents) -> None:
    """Moves the ranks of hits that are in ties to where they stand by id.

    Args:
        ranks: Of the hits of all blocks, one block behind the other; changed in place.
        ties: Of each block.
        hits: How many hits each block has.
        documents: Of the run.
    """
    lengths = np.concatenate([np.zeros(0, np.int64), *(tie.lengths for tie in ties)])
    if not lengths.size:
        return
    members = np.concatenate([tie.members for tie in ties])
    order = documents.order_descending(np.repeat(np.arange(lengths.size), lengths), members)
    place = np.empty(members.size, np.int64)
    place[order] = np.arange(members.size)
    first_hit = np.cumsum([0, *hits[:-1]])
    first_group = np.cumsum([0, *(tie.lengths.size for tie in ties[:-1])])
    hit = np.concatenate([tie.hit + start for tie, start in zip(ties, first_hit, strict=True)])
    group = np.concatenate([tie.group + start for tie, start in zip(ties, first_group, strict=True)])
    old = (np.cumsum(lengths) - lengths)[group] + np.concatenate([tie.place for tie in ties])
    ranks[hit] += place[old] - old
