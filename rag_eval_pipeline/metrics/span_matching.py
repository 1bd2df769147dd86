"""Span accuracy: cited spans against gold spans, for many answers at once.

A predicted span serves a single gold span, and an uncited gold span counts as 0.

Source: Citation Accuracy Evaluation 3.1 and 4.2, with these corrections: spans match one to one, only within an answer,
a file, and a page if both sides name it, and ends are half-open. Tolerance moves each predicted end towards the gold
end instead of widening the prediction, which lowers perfect citations.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.spans import (
    Citation,
    Coverage,
    Ints,
    SpanColumns,
    TokenOffsets,
    measure_coverage,
    number_files,
    to_columns,
    to_token_numbers,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TOLERANCE_CHARS = 10  # Citation Accuracy Evaluation 4.2, tolerance_chars
MIN_OVERLAP = 0.5  # its min_overlap_threshold: the tolerant Jaccard from which a span counts as found
GOOD_MATCH = 0.8  # its good_matches
# The tolerant Jaccard decides which spans are matched, as in the specification. The exact one only breaks ties, so that
# a perfect citation is not given up for one that is merely within tolerance.
EXACT_WEIGHT = 1e-6
PAIRS_AT_ONCE = 65_536  # their columns fit into the processor's cache

SPAN_MEASURES = (
    "exact_jaccard", "tolerance_jaccard", "perfect_matches", "good_matches", "true_spans", "predicted_spans",
    "span_precision", "span_recall", "span_f1", "char_precision", "char_recall", "char_f1", "char_jaccard",
)  # fmt: skip
TOKEN_MEASURES = ("token_precision", "token_recall", "token_f1")
SPAN_COUNTS = frozenset({"perfect_matches", "good_matches", "true_spans", "predicted_spans"})  # summed, not averaged


class Pairs(NamedTuple):
    """Pairs of a gold and a predicted span that share a character, possibly only within tolerance."""

    gold: Ints  # row of the gold columns; ascending
    predicted: Ints  # row of the predicted columns; ascending within a gold row
    exact: Floats  # Jaccard in [0, 1]
    tolerant: Floats  # Jaccard after the predicted ends moved towards the gold ones; at least `exact`

    @property
    def weight(self) -> Floats:
        """What a matching maximises."""
        return self.tolerant + EXACT_WEIGHT * self.exact

    def take(self, rows: NDArray[np.intp] | Bools) -> "Pairs":
        """Select pairs by index or mask."""
        return Pairs(self.gold[rows], self.predicted[rows], self.exact[rows], self.tolerant[rows])


def find_pairs(gold: SpanColumns, predicted: SpanColumns, tolerance: int) -> Pairs:
    """Return every pair that shares a character after the predicted ends moved by up to `tolerance` characters."""
    parts = [_overlapping(gold, predicted, *rows, tolerance) for rows in _rows_of_same_document(gold, predicted)]
    if len(parts) == 1:
        return parts[0]
    nothing = np.empty(0, dtype=np.int64)
    parts.append(Pairs(nothing, nothing, nothing.astype(np.float64), nothing.astype(np.float64)))
    gold_rows, predicted_rows, exact, tolerant = zip(*parts, strict=True)
    return Pairs(*map(np.concatenate, (gold_rows, predicted_rows)), *map(np.concatenate, (exact, tolerant)))


def match_one_to_one(pairs: Pairs, n_gold: int, n_predicted: int) -> Pairs:
    """Keep the one-to-one matching with the largest total weight, in the order of the gold spans.

    Of the groups of spans that overlap only each other, those of one span on a side or two on both are matched in bulk,
    the others by the Hungarian method.
    """
    n_partners = np.bincount(pairs.gold, minlength=n_gold)[pairs.gold]
    n_rivals = np.bincount(pairs.predicted, minlength=n_predicted)[pairs.predicted]
    is_matched = (n_partners == 1) & (n_rivals == 1)
    rest = np.flatnonzero(~is_matched)
    if rest.size:
        is_matched[rest[_match_groups(pairs.take(rest))]] = True
    return pairs.take(is_matched)


def _rows_of_same_document(gold: SpanColumns, predicted: SpanColumns) -> Iterator[tuple[Ints, Ints]]:
    """Yield rows of gold and predicted spans of the same answer and file, up to `PAIRS_AT_ONCE` at a time."""
    if not gold.size or not predicted.size:
        return
    n_files = int(max(gold.file.max(), predicted.file.max())) + 1
    gold_key = gold.answer * n_files + gold.file
    predicted_key = predicted.answer * n_files + predicted.file
    starts = np.flatnonzero(np.concatenate(([True], gold_key[1:] != gold_key[:-1])))
    lengths = np.diff(np.append(starts, gold.size))
    first = np.repeat(np.searchsorted(predicted_key, gold_key[starts], "left"), lengths)
    counts = np.repeat(np.searchsorted(predicted_key, gold_key[starts], "right"), lengths) - first
    before = np.concatenate(([0], np.cumsum(counts)))
    row = 0
    while row < gold.size:
        # At least one gold span at a time, however many predicted spans its document has.
        stop = max(row + 1, int(np.searchsorted(before, before[row] + PAIRS_AT_ONCE, "right")) - 1)
        count = counts[row:stop]
        n_pairs = int(before[stop] - before[row])
        if n_pairs:
            others = np.arange(n_pairs) + np.repeat(first[row:stop] - (before[row:stop] - before[row]), count)
            yield np.repeat(np.arange(row, stop), count), others
        row = stop


def _overlapping(gold: SpanColumns, predicted: SpanColumns, rows: Ints, others: Ints, tolerance: int) -> Pairs:
    page, predicted_page = gold.page[rows], predicted.page[others]
    # Ends that move by the tolerance meet exactly where spans widened by it would.
    kept = np.flatnonzero(
        (predicted.start[others] - tolerance < gold.end[rows])
        & (predicted.end[others] + tolerance > gold.start[rows])
        & ((page == predicted_page) | (page == 0) | (predicted_page == 0))
    )
    rows, others = rows[kept], others[kept]
    start, end = gold.start[rows], gold.end[rows]
    cited_start, cited_end = predicted.start[others], predicted.end[others]
    moved_start = np.minimum(np.maximum(start, cited_start - tolerance), cited_start + tolerance)
    moved_end = np.minimum(np.maximum(end, cited_end - tolerance), cited_end + tolerance)
    shared_moved = np.minimum(end, moved_end) - np.maximum(start, moved_start)
    shared = np.maximum(np.minimum(end, cited_end) - np.maximum(start, cited_start), 0)
    length = end - start
    return Pairs(
        rows,
        others,
        shared / (length + (cited_end - cited_start) - shared),
        shared_moved / (length + (moved_end - moved_start) - shared_moved),
    )


def _match_groups(pairs: Pairs) -> Bools:
    group = _number_groups(pairs)
    n_groups = int(group.max()) + 1
    _, first_of_gold = np.unique(pairs.gold, return_index=True)
    _, first_of_predicted = np.unique(pairs.predicted, return_index=True)
    n_gold = np.bincount(group[first_of_gold], minlength=n_groups)
    n_predicted = np.bincount(group[first_of_predicted], minlength=n_groups)
    is_star = (n_gold == 1) | (n_predicted == 1)
    is_square = (n_gold == 2) & (n_predicted == 2)
    weight = pairs.weight
    is_matched = np.zeros(group.size, dtype=bool)
    for kind, match in ((is_star, _match_star), (is_square, _match_square)):
        rows = np.flatnonzero(kind[group])
        if rows.size:
            is_matched[rows] = match(pairs.take(rows), group[rows], weight[rows])
    rest = np.flatnonzero(~(is_star | is_square)[group])
    order = rest[np.argsort(group[rest], kind="stable")]
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if rest.size else ():
        is_matched[rows[_match_hungarian(pairs.gold[rows], pairs.predicted[rows], weight[rows])]] = True
    return is_matched


def _number_groups(pairs: Pairs) -> Ints:
    # Imported here, as below: these two take longer than most commands, and only citations need them.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    gold_names, gold = np.unique(pairs.gold, return_inverse=True)
    predicted_names, predicted = np.unique(pairs.predicted, return_inverse=True)
    n_spans = gold_names.size + predicted_names.size
    graph = coo_array((np.ones(gold.size, dtype=bool), (gold, predicted + gold_names.size)), shape=(n_spans, n_spans))
    _, labels = connected_components(graph, directed=False)
    return np.asarray(labels, dtype=np.int64)[gold]


def _match_star(_: Pairs, group: Ints, weight: Floats) -> Bools:
    """For groups with a single span on one side, pick the best pair; ties keep input order."""
    order = np.lexsort((-weight, group))  # stable
    is_best = np.zeros(group.size, dtype=bool)
    is_best[order[np.concatenate(([True], np.diff(group[order]) > 0))]] = True
    return is_best


def _match_square(pairs: Pairs, group: Ints, weight: Floats) -> Bools:
    """For 2x2 groups, pick the assignment with the higher total weight; ties keep input order."""
    n_groups = int(group.max()) + 1
    is_crossed = np.zeros(group.size, dtype=bool)
    for side in (pairs.gold, pairs.predicted):
        first = np.full(n_groups, np.iinfo(np.int64).max)
        np.minimum.at(first, group, side)
        is_crossed ^= side != first[group]
    totals = [np.bincount(group[way], weight[way], minlength=n_groups) for way in (~is_crossed, is_crossed)]
    is_straight: Bools = totals[0] >= totals[1]
    return is_crossed ^ is_straight[group]


def _match_hungarian(gold: Ints, predicted: Ints, weight: Floats) -> NDArray[np.intp]:
    from scipy.optimize import linear_sum_assignment

    gold_names, row = np.unique(gold, return_inverse=True)
    predicted_names, column = np.unique(predicted, return_inverse=True)
    weights = np.zeros((gold_names.size, predicted_names.size))
    weights[row, column] = weight
    place = np.full(weights.shape, -1)
    place[row, column] = np.arange(weight.size)
    found = place[linear_sum_assignment(weights, maximize=True)]
    return np.sort(found[found >= 0])


@dataclass(frozen=True, slots=True)
class SpanScores:
    """Counts and sums of each answer, one row per answer; sums are over the gold spans."""

    n_gold: Ints  # distinct gold spans
    n_predicted: Ints  # distinct predicted spans
    exact: Floats  # sum of the exact Jaccards of the one-to-one matches
    tolerant: Floats  # sum of their tolerant Jaccards
    n_perfect: Ints  # matches with an exact Jaccard of 1
    n_good: Ints  # matches with a tolerant Jaccard of at least `GOOD_MATCH`
    n_matched: Ints  # matches with a tolerant Jaccard of at least the minimum overlap
    characters: Coverage  # characters of all documents
    tokens: Coverage | None = None  # words of all documents; None before `add_tokens`
    # Whether every document that the answer or its gold cites has a text; None before `add_tokens`.
    has_text: Bools | None = None

    def columns(self) -> dict[str, Floats]:
        """Return scores by measure, NaN for an answer that has none: nothing was gold and nothing cited."""
        n_gold, n_predicted = self.n_gold, self.n_predicted
        shared, gold, predicted = self.characters
        measured = (
            _divide(self.exact, n_gold),
            _divide(self.tolerant, n_gold),
            self.n_perfect,
            self.n_good,
            n_gold,
            n_predicted,
            _divide(self.n_matched, n_predicted),
            _divide(self.n_matched, n_gold),
            _divide(2 * self.n_matched, n_gold + n_predicted),
            *_precision_recall_f1(self.characters),
            _divide(shared, gold + predicted - shared),
        )
        is_empty = (n_gold == 0) & (n_predicted == 0)
        columns = {
            name: np.where(is_empty, np.nan, column) for name, column in zip(SPAN_MEASURES, measured, strict=True)
        }
        if self.tokens is not None and self.has_text is not None:
            is_unknown = ~self.has_text | ((self.tokens.gold == 0) & (self.tokens.predicted == 0))
            for name, column in zip(TOKEN_MEASURES, _precision_recall_f1(self.tokens), strict=True):
                columns[name] = np.where(is_unknown, np.nan, column)
        return columns

    def rows(self) -> list[dict[str, float]]:
        """Return each answer's scores by measure, without those that it does not have."""
        columns = self.columns()
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [
            {name: value for name, value in zip(columns, row, strict=True) if value == value}  # NaN != NaN
            for row in values
        ]


def score_spans(
    gold: Sequence[Sequence[Citation]],
    predicted: Sequence[Sequence[Citation]],
    *,
    tolerance: int = TOLERANCE_CHARS,
    texts: Mapping[str, TokenOffsets] | None = None,
) -> SpanScores:
    """Score the citations of answers against the gold ones, in the same order.

    Leave out questions whose gold citations are unknown: everything they cite would count as wrong. `tolerance` is how
    far an end may be off, in characters. With tokens by file name, words are scored as well, except for answers that
    cite any other file.
    """
    files = number_files(gold, predicted)
    sides = to_columns(gold, files), to_columns(predicted, files)
    scores = score_columns(*sides, len(gold), tolerance=tolerance)
    return scores if texts is None else add_tokens(scores, *sides, files, texts)


def score_columns(
    gold: SpanColumns, predicted: SpanColumns, n_answers: int, *, tolerance: int = TOLERANCE_CHARS
) -> SpanScores:
    """Score columns that `sort_distinct` has ordered; other arguments are those of `score_spans`."""
    pairs = find_pairs(gold, predicted, tolerance)
    matches = match_one_to_one(pairs, gold.size, predicted.size)

    def count(answers: NDArray[np.intp] | Ints) -> Ints:
        return np.bincount(answers, minlength=n_answers)

    def add_up(values: Floats) -> Floats:
        # Without any row bincount would count instead of summing.
        return np.bincount(answer, values, minlength=n_answers).astype(np.float64)

    answer = gold.answer[matches.gold]
    return SpanScores(
        n_gold=count(gold.answer),
        n_predicted=count(predicted.answer),
        exact=add_up(matches.exact),
        tolerant=add_up(matches.tolerant),
        n_perfect=count(answer[matches.exact == 1.0]),
        n_good=count(answer[matches.tolerant >= GOOD_MATCH]),
        n_matched=count(answer[matches.tolerant >= MIN_OVERLAP]),
        characters=measure_coverage(gold, predicted, n_answers),
    )


def add_tokens(
    scores: SpanScores,
    gold: SpanColumns,
    predicted: SpanColumns,
    files: Mapping[str, int],
    texts: Mapping[str, TokenOffsets],
) -> SpanScores:
    """Add word scores to the scores of the same columns; a word belongs to a span that holds any of its characters.

    Source: Citation Accuracy Evaluation 3.1, token-level accuracy.
    """
    n_answers = scores.n_gold.size
    by_number = {files[name]: tokens for name, tokens in texts.items() if name in files}
    has_text = np.ones(n_answers, dtype=bool)
    for side in (gold, predicted):
        is_known = np.isin(side.file, np.fromiter(by_number, dtype=np.int64, count=len(by_number)))
        has_text[side.answer[~is_known]] = False
    tokens = measure_coverage(to_token_numbers(gold, by_number), to_token_numbers(predicted, by_number), n_answers)
    return replace(scores, tokens=tokens, has_text=has_text)


def _precision_recall_f1(covered: Coverage) -> tuple[Floats, Floats, Floats]:
    shared, gold, predicted = covered
    return _divide(shared, predicted), _divide(shared, gold), _divide(2 * shared, gold + predicted)


def _divide(part: Floats | Ints, whole: Ints) -> Floats:
    return np.divide(part, whole, out=np.zeros(whole.size), where=whole > 0)
