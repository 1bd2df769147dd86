"""At a coarser level a page or document stands at the rank of its best passage."""

import pytest

from rag_eval_pipeline.metrics.retrieval import Passage, reduce_to_level, score_query

PASSAGES = [
    Passage("b.pdf", 2, "b2-1"),
    Passage("a.pdf", 1, "a1-1"),
    Passage("b.pdf", 2, "b2-2"),
    Passage("b.pdf", 1, "b1-1"),
]

LEVELS = {
    "passage": ["b2-1", "a1-1", "b2-2", "b1-1"],
    "page": ["b.pdf/2", "a.pdf/1", "b.pdf/1"],
    "document": ["b.pdf", "a.pdf"],
}


@pytest.mark.parametrize(("level", "expected"), LEVELS.items(), ids=LEVELS)
def test_units_stand_in_the_order_of_their_best_passage(level, expected):
    assert reduce_to_level(PASSAGES, level) == expected


def test_a_passage_without_a_page_has_no_rank_among_pages():
    assert reduce_to_level([Passage("a.pdf", 1), Passage("b.pdf")], "page") is None
    assert reduce_to_level([Passage("a.pdf", 1), Passage("b.pdf")], "document") == ["a.pdf", "b.pdf"]


def test_several_hops_count_any_of_them_their_share_or_all():
    scores = score_query(["a", "x", "b"], {"a": 1, "b": 1, "c": 1}, ["hit@3", "recall@3", "all_hit@3"])

    assert scores == {"hit@3": 1.0, "recall@3": 2 / 3, "all_hit@3": 0.0}
