"""Context precision is RAGAS's; the verdicts may come from gold spans, ids or texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.context_precision import (
    context_overlap,
    context_precision,
    id_context_precision,
    id_context_recall,
    useful_by_span,
    useful_by_text,
)
from rag_eval_pipeline.metrics.span_columns import Citation, Span
from rag_eval_pipeline.metrics.spans import Overlap

CASES = {
    "all useful":             ([1, 1], (1 + 1) / (2 + 1e-10)),
    "the useful one last":    ([0, 0, 1], (1 / 3) / (1 + 1e-10)),
    "first and third":        ([1, 0, 1], (1 + 2 / 3) / (2 + 1e-10)),
    "none useful":            ([0, 0], 0.0),
    "nothing retrieved":      ([], None),
}  # fmt: skip


@pytest.mark.parametrize(("useful", "expected"), CASES.values(), ids=CASES)
def test_context_precision(useful, expected):
    assert context_precision([bool(one) for one in useful]) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_useful_passages_first_are_best(useful):
    score = context_precision(useful)

    assert 0.0 <= score < 1.0
    assert score <= context_precision(sorted(useful, reverse=True)) + 1e-12


def test_ids_count_once():
    assert id_context_precision(["a", "a", "b"], ["a", "c"]) == 1 / 2
    assert id_context_recall(["a", "a", "b"], ["a", "c"]) == 1 / 2
    assert id_context_precision([], ["a"]) is None
    assert id_context_recall(["a"], []) is None


def cite(start, end, file_name="a.pdf"):
    return Citation(file_name, None, Span(start, end))


def test_a_passage_is_useful_when_it_shares_a_character_with_a_gold_span():
    gold = [cite(10, 20), cite(0, 5, "b.pdf")]

    assert useful_by_span([cite(0, 10), cite(0, 11), cite(4, 9, "b.pdf"), cite(10, 20, "c.pdf")], gold) == [
        False, True, True, False,
    ]  # fmt: skip


def test_a_passage_is_useful_when_half_of_its_text_is_gold():
    assert useful_by_text(["the tower opened in 1887", "abcdefgh"], ["the tower opened in 1889", "abcd"]) == [
        True,
        True,
    ]
    assert useful_by_text(["abcdefghi"], ["abcd"]) == [False]
    assert useful_by_text(["abcd"], []) == [False]


def test_characters_of_what_was_retrieved():
    # a.pdf: gold 100, retrieved 80 of which 40 are gold; b.pdf: retrieved 20.
    shared = context_overlap([cite(60, 140), cite(60, 100), cite(0, 20, "b.pdf")], [cite(0, 100)])

    assert shared == Overlap(40, 100, 100)
    assert shared.jaccard == 40 / 160
