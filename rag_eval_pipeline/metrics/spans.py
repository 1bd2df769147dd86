"""Spans of documents, half-open ranges of code points, as columns, and how many characters and words they cover.

The citations of many answers are the columns of one table, with one row per distinct place.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.text.tokens import iterate_tokens

Ints = NDArray[np.int64]

# Larger offsets and pages are clipped, because a system may cite [a.pdf:1:0-99999999999999999999].
MAX_OFFSET = 2**31 - 1


class Span(NamedTuple):
    """Characters `[start, end)` of one document."""

    start: int
    end: int


class Citation(NamedTuple):
    """A span of one document, either gold or cited by a system."""

    file_name: str  # exact basename of the document
    page: int | None  # 1-based page where the span starts; None when unknown
    span: Span  # offsets in the document's text


class Overlap(NamedTuple):
    """Sizes of two sets of characters and of their intersection; the ratios are None when both sets are empty."""

    shared: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float | None:
        """Share of the predicted characters that are gold."""
        return self._ratio(self.shared, self.predicted)

    @property
    def recall(self) -> float | None:
        """Share of the gold characters that are predicted."""
        return self._ratio(self.shared, self.gold)

    @property
    def jaccard(self) -> float | None:
        """Share of the characters of either set that are in both."""
        return self._ratio(self.shared, self.gold + self.predicted - self.shared)

    def _ratio(self, part: int, whole: int) -> float | None:
        if self.gold == 0 and self.predicted == 0:
            return None
        return part / whole if whole else 0.0


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the same characters as disjoint spans in order; touching spans become one."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def overlap(gold: Iterable[Span], predicted: Iterable[Span]) -> Overlap:
    """Count the characters of two sets of spans of one document; a character counts once per side."""
    left, right = merge_spans(gold), merge_spans(predicted)
    shared = i = j = 0
    while i < len(left) and j < len(right):
        shared += max(0, min(left[i].end, right[j].end) - max(left[i].start, right[j].start))
        if left[i].end <= right[j].end:
            i += 1
        else:
            j += 1
    return Overlap(shared, sum(end - start for start, end in left), sum(end - start for start, end in right))


class SpanColumns(NamedTuple):
    """Cited places, one row each: number of the answer, number of the file, 1-based page (0 when unknown), offsets."""

    answer: Ints
    file: Ints
    page: Ints
    start: Ints
    end: Ints

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.answer.size)

    def take(self, rows: NDArray[Any]) -> "SpanColumns":
        """Select rows by index or mask."""
        return SpanColumns(*(column[rows] for column in self))


def number_files(*sides: Iterable[Iterable[Citation]]) -> dict[str, int]:
    """Number the file names of all sides in sorted order, for `to_columns`."""
    names = {citation.file_name for side in sides for answer in side for citation in answer}
    return {name: number for number, name in enumerate(sorted(names))}


def to_columns(answers: Sequence[Iterable[Citation]], files: Mapping[str, int]) -> SpanColumns:
    """Turn the citations of each answer into sorted columns without repetitions."""
    rows = [
        (
            number,
            files[file_name],
            min(page or 0, MAX_OFFSET),
            min(span.start, MAX_OFFSET - 1),
            min(span.end, MAX_OFFSET),
        )
        for number, citations in enumerate(answers)
        for file_name, page, span in citations
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, len(SpanColumns._fields))
    return sort_distinct(SpanColumns(*(np.ascontiguousarray(column) for column in table.T)))


def sort_distinct(spans: SpanColumns) -> SpanColumns:
    """Sort rows by answer, file, page, start and end, and drop repetitions.

    Scores are computed in this order, so they do not depend on the order in which an answer cites.
    """
    if spans.size < 2:
        return spans
    keys = _pack((spans.answer, spans.file, spans.page, spans.start, spans.end))
    if len(keys) > 1 or not bool((keys[0][1:] >= keys[0][:-1]).all()):
        order = np.lexsort(tuple(reversed(keys))) if len(keys) > 1 else np.argsort(keys[0])
        keys, spans = [key[order] for key in keys], spans.take(order)
    is_new = np.ones(spans.size, dtype=bool)
    is_new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return spans if is_new.all() else spans.take(is_new)


def _pack(columns: Sequence[Ints]) -> list[Ints]:
    """Combine columns into as few 64-bit sort keys as their ranges allow: one sort costs a fifth of five."""
    keys: list[Ints] = []
    size = 0
    for column in columns:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if keys and size * width < 2**63:
            keys[-1] = keys[-1] * width + (column - low)
            size *= width
        else:
            keys.append(column - low if low else column)
            size = width
    return keys


class Coverage(NamedTuple):
    """Characters or tokens in both sides, in the gold spans and in the predicted ones, one row per answer."""

    shared: Ints
    gold: Ints
    predicted: Ints


def measure_coverage(gold: SpanColumns, predicted: SpanColumns, n_answers: int) -> Coverage:
    """Count the characters of both sides for each answer; a character counts once however often it is cited.

    Pages distinguish characters only in files where every citation of the answer names one. Elsewhere the offset alone
    identifies a character.
    """
    both = SpanColumns(*(np.concatenate(pair) for pair in zip(gold, predicted, strict=True)))
    if not both.size:
        none = np.zeros(n_answers, dtype=np.int64)
        return Coverage(none, none, none)
    # Every document of every answer gets a separate range on one long line of characters.
    stride = int(both.end.max()) + 1
    before = _number_places(both, 2**62 // stride) * stride
    start, end = before + both.start, before + both.end
    n_gold, n_predicted, n_both = (
        _union_size(both.answer[side], start[side], end[side], n_answers)
        for side in (slice(gold.size), slice(gold.size, None), slice(None))
    )
    return Coverage(n_gold + n_predicted - n_both, n_gold, n_predicted)


def _number_places(spans: SpanColumns, limit: int) -> Ints:
    """Number each answer's documents below `limit`, or their pages where all citations of the document name one."""
    if not spans.page.any():
        return _number_keys(_pack((spans.answer, spans.file)), limit)
    page = spans.page
    if not page.all():
        document = _number_keys(_pack((spans.answer, spans.file)), 0)
        lacks_page = np.zeros(int(document.max()) + 1, dtype=bool)
        lacks_page[document[page == 0]] = True
        page = np.where(lacks_page[document], 0, page)
    return _number_keys(_pack((spans.answer, spans.file, page)), limit)


def _number_keys(keys: list[Ints], limit: int) -> Ints:
    """Give equal keys equal numbers: the key itself where all are below `limit`, otherwise counted from 0."""
    if len(keys) == 1:
        return keys[0] if keys[0].max() < limit else np.unique(keys[0], return_inverse=True)[1].astype(np.int64)
    return np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1].astype(np.int64)


def _union_size(answer: Ints, start: Ints, end: Ints, n_answers: int) -> Ints:
    if not start.size:
        return np.zeros(n_answers, dtype=np.int64)
    order = np.argsort(start, kind="stable")  # nearly free when the rows are in order already
    answer, start, end = answer[order], start[order], end[order]
    added = end.copy()
    added[0] -= start[0]
    added[1:] -= np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    # Sums of whole numbers below 2**53 are exact in any order.
    return np.bincount(answer, np.maximum(added, 0), minlength=n_answers).astype(np.int64)


class TokenOffsets(NamedTuple):
    """Where the tokens of a text start and end, and the length of the text in code points."""

    starts: Ints
    ends: Ints
    length: int


def find_tokens(text: str) -> TokenOffsets:
    """Locate the words of a text in any script."""
    places = np.array([word.span() for word in iterate_tokens(text)], dtype=np.int64).reshape(-1, 2)
    return TokenOffsets(np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1]), len(text))


def to_token_numbers(spans: SpanColumns, texts: Mapping[int, TokenOffsets]) -> SpanColumns:
    """Replace character offsets by token numbers; spans without a token vanish, and pages are not needed."""
    first, last = np.zeros_like(spans.start), np.zeros_like(spans.end)
    order = np.argsort(spans.file, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(spans.file[order])) + 1) if spans.size else ():
        tokens = texts.get(int(spans.file[rows[0]]))
        if tokens is not None:
            first[rows] = np.searchsorted(tokens.ends, spans.start[rows], "right")
            last[rows] = np.searchsorted(tokens.starts, spans.end[rows], "left")
    touches = first < last
    kept = spans.take(touches)
    return kept._replace(page=np.zeros_like(kept.page), start=first[touches], end=last[touches])
