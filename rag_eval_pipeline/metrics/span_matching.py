"""Span accuracy of many answers at once: one row an answer, one column a measure.

Gold spans are matched in two ways. One to one, a predicted span serves one gold span, so that an answer cannot cite two
facts with one citation; and by the best match, as the specification has it, where it may serve several. A gold span
that nobody cited counts as 0. What a mean over answers needs is here; the mean is made in `statistics`.
Source: Citation Accuracy Evaluation 3.1 and 4.2, mended: a best match a span and not one in all, within a file and
page, half-open, tolerance towards gold.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.span_assignment import one_to_one
from rag_eval_pipeline.metrics.span_columns import Citation, SpanColumns, Whole, columns_of, file_numbers
from rag_eval_pipeline.metrics.span_coverage import Coverage, coverage
from rag_eval_pipeline.metrics.span_pairs import Pairs, Ratios, best_of_gold, pairs_of

TOLERANCE_CHARS = 10  # Citation Accuracy Evaluation 4.2, tolerance_chars
MIN_OVERLAP = 0.5  # its configuration: span_matching.min_overlap_threshold
GOOD_MATCH = 0.8  # its good_matches

SPAN_MEASURES = (
    "exact_jaccard", "tolerance_jaccard", "perfect_matches", "good_matches", "true_spans", "predicted_spans",
    "span_precision", "span_recall", "span_f1", "best_exact_jaccard", "best_tolerance_jaccard", "best_span_precision",
    "best_span_recall", "char_precision", "char_recall", "char_f1", "char_jaccard",
)  # fmt: skip
TOKEN_MEASURES = ("token_precision", "token_recall", "token_f1", "token_jaccard")
SPAN_COUNTS = frozenset({"perfect_matches", "good_matches", "true_spans", "predicted_spans"})  # sums, not means


@dataclass(frozen=True, slots=True)
class SpanScores:
    """What the spans of each answer come to, in counts and sums, one row an answer.

    Args:
        n_gold: Distinct gold spans.
        n_predicted: Distinct predicted spans.
        exact: Sum of the exact Jaccards of the matched pairs, one to one.
        tolerant: The same with tolerance.
        perfect: Matched pairs with an exact Jaccard of 1.
        good: Matched pairs with a tolerance Jaccard of at least 0.8.
        found: Matched pairs with a tolerance Jaccard of at least the least overlap.
        best_exact: Sum over the gold spans of the exact Jaccard of their best match.
        best_tolerant: The same with tolerance.
        best_found: Gold spans whose best match reaches the least overlap.
        right: Predicted spans that reach it with any gold span.
        characters: In the spans of all documents.
        tokens: Likewise, where the texts are known; see `with_tokens`.
        has_text: Whether every document that the answer or its gold cites has a text; None before that is known.
        matches: The matched pairs, as rows of the columns.
    """

    n_gold: Whole
    n_predicted: Whole
    exact: Ratios
    tolerant: Ratios
    perfect: Whole
    good: Whole
    found: Whole
    best_exact: Ratios
    best_tolerant: Ratios
    best_found: Whole
    right: Whole
    characters: Coverage
    matches: Pairs
    tokens: Coverage | None = None
    has_text: NDArray[np.bool_] | None = None

    def columns(self) -> dict[str, Ratios]:
        """(answers,) Scores by measure; NaN where an answer has none."""
        measured = _measures(self)
        nothing = (self.n_gold == 0) & (self.n_predicted == 0)
        columns = [np.where(nothing, np.nan, column) for column in measured]
        found = dict(zip(SPAN_MEASURES, columns, strict=True))
        if self.tokens is not None and self.has_text is not None:
            shared, gold, predicted = self.tokens
            unknown = ~self.has_text | ((gold == 0) & (predicted == 0))
            ratios = (
                (shared, predicted),
                (shared, gold),
                (2 * shared, gold + predicted),
                (shared, gold + predicted - shared),
            )
            for name, (part, whole) in zip(TOKEN_MEASURES, ratios, strict=True):
                found[name] = np.where(unknown, np.nan, _ratio(part, whole))
        return found

    def rows(self) -> list[dict[str, float]]:
        """One answer after the other: its scores by measure, without those that it has not."""
        columns = self.columns()
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [
            {name: value for name, value in zip(columns, row, strict=True) if value == value}  # NaN equals nothing
            for row in values
        ]


def score_spans(
    gold: Sequence[Iterable[Citation]],
    predicted: Sequence[Iterable[Citation]],
    *,
    tolerance: int = TOLERANCE_CHARS,
    min_overlap: float = MIN_OVERLAP,
) -> SpanScores:
    """The span accuracy of answers.

    Args:
        gold: The gold citations of each answer. A question whose gold citations are not known must not come here:
            everything that it cites would count as wrong.
        predicted: What each answer cites, in the same order of answers.
        tolerance: How far an end may be off, in characters.
        min_overlap: The tolerance Jaccard from which a span counts as found.

    Raises:
        ValueError: A citation with `end <= start` or a negative start, a negative tolerance, or sides of different
            length.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"expected predictions for {len(gold)} answers, found {len(predicted)}")
    gold, predicted = [tuple(own) for own in gold], [tuple(own) for own in predicted]
    files = file_numbers(gold, predicted)
    return score_columns(
        columns_of(gold, files), columns_of(predicted, files), len(gold), tolerance=tolerance, min_overlap=min_overlap
    )


def score_columns(
    gold: SpanColumns,
    predicted: SpanColumns,
    n_answers: int,
    *,
    tolerance: int = TOLERANCE_CHARS,
    min_overlap: float = MIN_OVERLAP,
) -> SpanScores:
    """The same of columns that `distinct` has ordered; arguments and errors as in `score_spans`."""
    pairs = pairs_of(gold, predicted, tolerance)
    matches = one_to_one(pairs, gold.size, predicted.size)
    best = best_of_gold(pairs)
    found = pairs.tolerant >= min_overlap
    right = np.zeros(predicted.size, dtype=bool)
    right[pairs.predicted[found]] = True

    def counted(rows: NDArray[np.intp] | Whole) -> Whole:
        return np.bincount(rows, minlength=n_answers)

    def summed(own: Pairs, values: Ratios) -> Ratios:
        # Without any row numpy would count instead of summing.
        return np.bincount(gold.answer[own.gold], values, minlength=n_answers).astype(np.float64)

    owner = gold.answer[matches.gold]
    return SpanScores(
        n_gold=counted(gold.answer),
        n_predicted=counted(predicted.answer),
        exact=summed(matches, matches.exact),
        tolerant=summed(matches, matches.tolerant),
        perfect=counted(owner[matches.exact == 1.0]),
        good=counted(owner[matches.tolerant >= GOOD_MATCH]),
        found=counted(owner[matches.tolerant >= min_overlap]),
        best_exact=summed(best, best.exact),
        best_tolerant=summed(best, best.tolerant),
        best_found=counted(gold.answer[best.gold[best.tolerant >= min_overlap]]),
        right=counted(predicted.answer[right]),
        characters=coverage(gold, predicted, n_answers),
        matches=matches,
    )


def _measures(scores: SpanScores) -> tuple[NDArray[np.float64] | Whole, ...]:
    """The columns of `SPAN_MEASURES`."""
    n_gold, n_predicted = scores.n_gold, scores.n_predicted
    shared, gold, predicted = scores.characters
    return (
        _ratio(scores.exact, n_gold),
        _ratio(scores.tolerant, n_gold),
        scores.perfect,
        scores.good,
        n_gold,
        n_predicted,
        _ratio(scores.found, n_predicted),
        _ratio(scores.found, n_gold),
        _ratio(2 * scores.found, n_gold + n_predicted),
        _ratio(scores.best_exact, n_gold),
        _ratio(scores.best_tolerant, n_gold),
        _ratio(scores.right, n_predicted),
        _ratio(scores.best_found, n_gold),
        _ratio(shared, predicted),
        _ratio(shared, gold),
        _ratio(2 * shared, gold + predicted),
        _ratio(shared, gold + predicted - shared),
    )


def _ratio(part: NDArray[np.float64] | Whole, whole: Whole) -> Ratios:
    """Part / whole; 0.0 of nothing."""
    return np.divide(part, whole, out=np.zeros(whole.size), where=whole > 0)
