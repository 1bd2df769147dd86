"""Characters or tokens in the spans of many answers: in the gold ones, in the predicted ones, and in both.

A character counts once however often it is cited, and no set of characters is ever built: spans sorted by their start
give what each adds to those before it. What both hold is what each holds, less what they hold together.
"""

from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.span_columns import SpanColumns, Whole, packed


class Coverage(NamedTuple):
    """Sizes a side, one row an answer.

    Args:
        shared: (answers,) In both.
        gold: (answers,) In the gold spans.
        predicted: (answers,) In the predicted ones.
    """

    shared: Whole
    gold: Whole
    predicted: Whole


def coverage(gold: SpanColumns, predicted: SpanColumns, n_answers: int) -> Coverage:
    """The sizes of both sides and of what they share.

    Pages tell characters apart only in files where every citation of an answer carries one; otherwise the offset alone
    does.

    Args:
        gold: Of all answers.
        predicted: Likewise.
        n_answers: How many answers there are.
    """
    both = SpanColumns(*(np.concatenate(pair) for pair in zip(gold, predicted, strict=True)))
    if not both.size:
        none = np.zeros(n_answers, dtype=np.int64)
        return Coverage(none, none, none)
    # One line of characters for all places, one after the other.
    stride = int(both.end.max()) + 1
    before = _places(both, 2**62 // stride) * stride
    start, end = before + both.start, before + both.end
    n_gold, n_predicted, n_both = (
        _union(both.answer[side], start[side], end[side], n_answers)
        for side in (slice(gold.size), slice(gold.size, None), slice(None))
    )
    return Coverage(n_gold + n_predicted - n_both, n_gold, n_predicted)


def _places(spans: SpanColumns, most: int) -> Whole:
    """(n,) Number below `most` of the document of an answer, or of its page where all its citations there name one."""
    if not spans.page.any():
        return _numbered(packed((spans.answer, spans.file)), most)
    page = spans.page
    if not page.all():
        document = _numbered(packed((spans.answer, spans.file)), 0)
        without = np.zeros(int(document.max()) + 1, dtype=bool)
        without[document[page == 0]] = True
        page = np.where(without[document], 0, page)
    return _numbered(packed((spans.answer, spans.file, page)), most)


def _numbered(keys: list[Whole], most: int) -> Whole:
    """Equal numbers for equal keys: the key itself where it is below `most`, else counted from 0."""
    if len(keys) == 1:
        return keys[0] if keys[0].max() < most else np.unique(keys[0], return_inverse=True)[1].astype(np.int64)
    return np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1].astype(np.int64)


def _union(answer: Whole, start: Whole, end: Whole, n_answers: int) -> Whole:
    """(answers,) Size of the union of spans."""
    if not start.size:
        return np.zeros(n_answers, dtype=np.int64)
    order = np.argsort(start, kind="stable")  # which takes next to no time for what is in order already
    answer, start, end = answer[order], start[order], end[order]
    added = end.copy()
    added[0] -= start[0]
    added[1:] -= np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
    # Sums of whole numbers below 2**53 are exact in any order.
    return np.bincount(answer, np.maximum(added, 0), minlength=n_answers).astype(np.int64)
