"""Spans of characters in a document's text, and how much two sets of them share.

Spans are half-open `[start, end)` in Unicode code points. Everything is interval arithmetic on merged spans: a
character counts once however often it is cited, and no set of characters is ever built. Two empty sets have no score
(None); one empty set against a non-empty one scores 0.0, because to leave it out of a mean would reward an answer that
cites nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rag_eval_pipeline.metrics.span_columns import Span, check
from rag_eval_pipeline.text.tokens import iterate_tokens

__all__ = [
    "Overlap",
    "Span",
    "char_f1",
    "char_precision",
    "char_recall",
    "check",
    "dice",
    "jaccard",
    "merge",
    "overlap",
    "token_overlap",
    "token_precision",
    "token_recall",
    "tokens_in",
]


class Overlap(NamedTuple):
    """Sizes of two sets and of what they share, in characters or tokens; the ratios follow from these three."""

    shared: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float | None:
        """Shared / predicted; 0.0 when nothing was predicted, None when nothing was gold either."""
        return self.ratio(self.shared, self.predicted)

    @property
    def recall(self) -> float | None:
        """Shared / gold; 0.0 when nothing was gold, None when nothing was predicted either."""
        return self.ratio(self.shared, self.gold)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall; None when both sets are empty."""
        return self.dice

    @property
    def dice(self) -> float | None:
        """2 x shared / (gold + predicted), which is F1 in one division; None when both sets are empty."""
        return self.ratio(2 * self.shared, self.gold + self.predicted)

    @property
    def jaccard(self) -> float | None:
        """Shared / union; None when both sets are empty."""
        return self.ratio(self.shared, self.gold + self.predicted - self.shared)

    def ratio(self, part: int, whole: int) -> float | None:
        """Part / whole in [0, 1], by the rule for empty sets that the module states."""
        if self.gold == 0 and self.predicted == 0:
            return None
        return part / whole if whole else 0.0


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same characters as disjoint spans in order; spans that touch become one.

    Raises:
        ValueError: A span with `end <= start`, or a negative start.
    """
    merged: list[Span] = []
    for span in sorted(check(span) for span in spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(Span(span.start, span.end))
    return merged


def overlap(gold: Iterable[Span], predicted: Iterable[Span]) -> Overlap:
    """How many characters are in the gold spans, in the predicted ones, and in both.

    Raises:
        ValueError: A span with `end <= start`, or a negative start.
    """
    left, right = merge(gold), merge(predicted)
    shared = i = j = 0
    while i < len(left) and j < len(right):
        shared += max(0, min(left[i].end, right[j].end) - max(left[i].start, right[j].start))
        if left[i].end <= right[j].end:
            i += 1
        else:
            j += 1
    return Overlap(shared, sum(end - start for start, end in left), sum(end - start for start, end in right))


def token_overlap(gold: Iterable[Span], predicted: Iterable[Span], text: str) -> Overlap:
    """How many tokens of a text are in the gold spans, in the predicted ones, and in both.

    A token is a word of `text.tokens` and belongs to a span that holds any of its characters.

    Args:
        gold: Spans of one document.
        predicted: The same for the answer's citations.
        text: The document's text, which the spans count in.

    Raises:
        ValueError: A span with `end <= start`, or a negative start.
    """
    tokens = [Span(*word.span()) for word in iterate_tokens(text)]
    return overlap(tokens_in(merge(gold), tokens), tokens_in(merge(predicted), tokens))


def tokens_in(spans: Iterable[Span], tokens: Sequence[Span]) -> list[Span]:
    """For each span of characters the span of token numbers that it touches; spans between tokens vanish."""
    starts = [token.start for token in tokens]
    ends = [token.end for token in tokens]
    touched = (Span(bisect_right(ends, span.start), bisect_left(starts, span.end)) for span in spans)
    return [span for span in touched if span.start < span.end]


def jaccard(gold: Iterable[Span], predicted: Iterable[Span]) -> float | None:
    """Share of characters in both sets of spans among characters in either.

    Args:
        gold: Spans of one document, in any order; overlaps are merged, so a character counts once.
        predicted: The same for the answer's citations.

    Returns:
        A ratio in [0, 1]. None when both are empty: nothing was to be cited and nothing was, which is not a perfect
        score and must not lift a mean.

    Raises:
        ValueError: A span with `end <= start`, or a negative start.

    Source: Citation Accuracy Evaluation 3.1, Jaccard, on intervals instead of sets of characters.
    """
    return overlap(gold, predicted).jaccard


def dice(gold: Iterable[Span], predicted: Iterable[Span]) -> float | None:
    """Twice the shared characters over the characters of both sets, in [0, 1]; None when both are empty.

    Source: Citation Accuracy Evaluation 3.1, Sorensen-Dice. Equal to `char_f1`.
    """
    return overlap(gold, predicted).dice


def char_precision(gold: Iterable[Span], predicted: Iterable[Span]) -> float | None:
    """Share of the predicted characters that are gold, in [0, 1]; None when both sets are empty."""
    return overlap(gold, predicted).precision


def char_recall(gold: Iterable[Span], predicted: Iterable[Span]) -> float | None:
    """Share of the gold characters that were predicted, in [0, 1]; None when both sets are empty."""
    return overlap(gold, predicted).recall


def char_f1(gold: Iterable[Span], predicted: Iterable[Span]) -> float | None:
    """Harmonic mean of character precision and recall, in [0, 1]; None when both sets are empty."""
    return overlap(gold, predicted).f1


def token_precision(gold: Iterable[Span], predicted: Iterable[Span], text: str) -> float | None:
    """Share of the predicted tokens that are gold, in [0, 1]; None when neither set holds a token of the text."""
    return token_overlap(gold, predicted, text).precision


def token_recall(gold: Iterable[Span], predicted: Iterable[Span], text: str) -> float | None:
    """Share of the gold tokens that were predicted, in [0, 1]; None when neither set holds a token of the text."""
    return token_overlap(gold, predicted, text).recall
