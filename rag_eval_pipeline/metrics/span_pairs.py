"""Gold and predicted spans that can mean the same place, pair by pair, with their Jaccards.

A pair stands in one answer and one file and, where both name a page, on one page. Tolerance moves each end of the
predicted span towards the gold one, which can only bring them closer; the specification's code widens the prediction,
and a perfect citation of 51 characters falls to 0.72.
Source: Citation Accuracy Evaluation 4.2, mended.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.span_columns import SpanColumns, Whole

Ratios = NDArray[np.float64]
# Tolerance decides which spans belong together, as in the specification; exactness decides among equals, so that a
# perfect citation is not traded for one that is only within tolerance. Small enough to count only then.
EXACT_WEIGHT = 1e-6
PAIRS_AT_ONCE = 65_536  # their columns stay in the processor's cache: half the time of four million at once


class Pairs(NamedTuple):
    """Pairs that share a character, perhaps by tolerance alone.

    Args:
        gold: (pairs,) Row of the gold columns; ascending.
        predicted: (pairs,) Row of the predicted columns; ascending within a gold row.
        exact: (pairs,) Jaccard in [0, 1].
        tolerant: (pairs,) Jaccard after the ends were moved; above 0, at least `exact`.
    """

    gold: Whole
    predicted: Whole
    exact: Ratios
    tolerant: Ratios

    @property
    def weight(self) -> Ratios:
        """What a matching makes large."""
        return self.tolerant + EXACT_WEIGHT * self.exact

    def taken(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> "Pairs":
        """The pairs of an index or a mask."""
        return Pairs(self.gold[rows], self.predicted[rows], self.exact[rows], self.tolerant[rows])


def pairs_of(gold: SpanColumns, predicted: SpanColumns, tolerance: int) -> Pairs:
    """Every pair that shares a character after its ends were moved.

    Args:
        gold: As `distinct` orders them.
        predicted: Likewise.
        tolerance: How far an end is moved at most, in characters.

    Raises:
        ValueError: A negative tolerance.
    """
    if tolerance < 0:
        raise ValueError(f"expected a tolerance of 0 or more characters, found {tolerance}")
    parts = [_sharing(gold, predicted, rows, others, tolerance) for rows, others in _same_document(gold, predicted)]
    if len(parts) == 1:
        return parts[0]
    nothing = np.empty(0, dtype=np.int64)
    parts.append(Pairs(nothing, nothing, nothing.astype(np.float64), nothing.astype(np.float64)))
    gold_rows, predicted_rows, exact, tolerant = zip(*parts, strict=True)
    return Pairs(*map(np.concatenate, (gold_rows, predicted_rows)), *map(np.concatenate, (exact, tolerant)))


def best_of_gold(pairs: Pairs) -> Pairs:
    """For each gold span that has one its best pair, the first among equals; a predicted span may serve several."""
    if not pairs.gold.size:
        return pairs
    weight = pairs.weight
    starts = np.flatnonzero(np.concatenate(([True], pairs.gold[1:] != pairs.gold[:-1])))
    lengths = np.diff(np.append(starts, pairs.gold.size))
    is_best = weight == np.repeat(np.maximum.reduceat(weight, starts), lengths)
    rows = np.flatnonzero(is_best)
    owner = pairs.gold[rows]
    return pairs.taken(rows[np.concatenate(([True], owner[1:] != owner[:-1]))])


def _same_document(gold: SpanColumns, predicted: SpanColumns) -> Iterator[tuple[Whole, Whole]]:
    """Rows of gold and predicted spans of one answer and file, some pairs at a time."""
    if not gold.size or not predicted.size:
        return
    n_files = int(max(gold.file.max(), predicted.file.max())) + 1
    wanted = gold.answer * n_files + gold.file
    given = predicted.answer * n_files + predicted.file
    starts = np.flatnonzero(np.concatenate(([True], wanted[1:] != wanted[:-1])))
    lengths = np.diff(np.append(starts, gold.size))
    first = np.repeat(np.searchsorted(given, wanted[starts], "left"), lengths)
    counts = np.repeat(np.searchsorted(given, wanted[starts], "right"), lengths) - first
    before = np.concatenate(([0], np.cumsum(counts)))
    row = 0
    while row < gold.size:
        # At least one gold span at a time, however many predicted ones its document has.
        stop = max(row + 1, int(np.searchsorted(before, before[row] + PAIRS_AT_ONCE, "right")) - 1)
        own = counts[row:stop]
        n_pairs = int(before[stop] - before[row])
        if n_pairs:
            others = np.arange(n_pairs) + np.repeat(first[row:stop] - (before[row:stop] - before[row]), own)
            yield np.repeat(np.arange(row, stop), own), others
        row = stop


def _sharing(gold: SpanColumns, predicted: SpanColumns, rows: Whole, others: Whole, tolerance: int) -> Pairs:
    page, given_page = gold.page[rows], predicted.page[others]
    # Moved ends meet exactly where spans that are widened by the tolerance do.
    kept = np.flatnonzero(
        (predicted.start[others] - tolerance < gold.end[rows])
        & (predicted.end[others] + tolerance > gold.start[rows])
        & ((page == given_page) | (page == 0) | (given_page == 0))
    )
    rows, others = rows[kept], others[kept]
    start, end, given_start, given_end = (
        gold.start[rows],
        gold.end[rows],
        predicted.start[others],
        predicted.end[others],
    )
    moved_start = np.minimum(np.maximum(start, given_start - tolerance), given_start + tolerance)
    moved_end = np.minimum(np.maximum(end, given_end - tolerance), given_end + tolerance)
    within = np.minimum(end, moved_end) - np.maximum(start, moved_start)
    shared = np.maximum(np.minimum(end, given_end) - np.maximum(start, given_start), 0)
    length = end - start
    return Pairs(
        rows,
        others,
        shared / (length + (given_end - given_start) - shared),
        within / (length + (moved_end - moved_start) - within),
    )
