"""Tokens in the spans of many answers: spans of characters become spans of token numbers, and are counted likewise.

A token belongs to a span that holds any of its characters. Token scores forgive an end inside a word and a cited full
stop; without the document's text there are none.
Source: Citation Accuracy Evaluation 3.1, token-level accuracy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.span_columns import LIMIT, SpanColumns, Whole
from rag_eval_pipeline.metrics.span_coverage import coverage
from rag_eval_pipeline.metrics.span_matching import SpanScores
from rag_eval_pipeline.text.tokens import iterate_tokens


class Tokens(NamedTuple):
    """Where the tokens of one text are, in order.

    Args:
        starts: (tokens,) First code point.
        ends: (tokens,) One past the last.
        length: Code points of the text.
    """

    starts: Whole
    ends: Whole
    length: int


def tokens_of(text: str) -> Tokens:
    """The words of a text, of any script."""
    places = np.array([word.span() for word in iterate_tokens(text)], dtype=np.int64).reshape(-1, 2)
    return Tokens(np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1]), len(text))


def with_tokens(
    scores: SpanScores,
    gold: SpanColumns,
    predicted: SpanColumns,
    files: Mapping[str, int],
    texts: Mapping[str, Tokens],
) -> SpanScores:
    """The scores with those of tokens.

    Args:
        scores: Of the columns.
        gold: As `score_columns` took them.
        predicted: Likewise.
        files: File name -> its number in the columns.
        texts: Tokens by file name; answers with a citation of any other file get no token scores.
    """
    n_answers = scores.n_gold.size
    by_number = {files[name]: tokens for name, tokens in texts.items() if name in files}
    has_text = np.ones(n_answers, dtype=bool)
    for side in (gold, predicted):
        without = ~np.isin(side.file, np.fromiter(by_number, dtype=np.int64, count=len(by_number)))
        has_text[side.answer[without]] = False
    tokens = coverage(_numbered(gold, by_number), _numbered(predicted, by_number), n_answers)
    return replace(scores, tokens=tokens, has_text=has_text)


def count_out_of_bounds(spans: SpanColumns, files: Mapping[str, int], texts: Mapping[str, Tokens]) -> int:
    """How many spans end behind the last character of their document; documents without a text do not count."""
    lengths = np.full(max(files.values(), default=-1) + 1, LIMIT, dtype=np.int64)
    for name, tokens in texts.items():
        if name in files:
            lengths[files[name]] = tokens.length
    return int((spans.end > lengths[spans.file]).sum()) if spans.size else 0


def _numbered(spans: SpanColumns, texts: Mapping[int, Tokens]) -> SpanColumns:
    """The spans in token numbers; those between tokens vanish, and pages do not count: offsets tell words apart."""
    first, last = np.zeros_like(spans.start), np.zeros_like(spans.end)
    for number, rows in _rows_by_file(spans.file):
        tokens = texts.get(number)
        if tokens is not None:
            first[rows] = np.searchsorted(tokens.ends, spans.start[rows], "right")
            last[rows] = np.searchsorted(tokens.starts, spans.end[rows], "left")
    touched = first < last
    kept = spans.taken(touched)
    return kept._replace(page=np.zeros_like(kept.page), start=first[touched], end=last[touched])


def _rows_by_file(file: Whole) -> Iterable[tuple[int, Whole]]:
    order = np.argsort(file, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(file[order]) > 0))) if file.size else ()
    for rows in np.split(order, starts[1:]) if len(starts) else ():
        yield int(file[rows[0]]), rows
