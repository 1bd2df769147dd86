"""Rankings that are given as ids, as evaluations have them: scored by the engine of `rag-eval score`."""

import math

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval.scoring import rank_by_score, score_rankings

RANKINGS = {
    "higher scores first": ([("a", 0.1), ("b", 0.3), ("c", 0.2)], ["b", "c", "a"]),
    "equal scores by id, descending": ([("a", 1.0), ("c", 1.0), ("b", 1.0)], ["c", "b", "a"]),
    "upper case sorts below lower case, as bytes do": ([("B", 1.0), ("a", 1.0)], ["a", "B"]),
    "characters of two bytes sort above those of one": ([("z", 1.0), ("é", 1.0)], ["é", "z"]),
    "outside the basic plane last, unlike in UTF-16": ([("\uffee", 1.0), ("\U0001f600", 1.0)], ["\U0001f600", "\uffee"]),
    "scores that differ in the ninth digit are no tie": ([("b", 1.0), ("a", 1.000000001)], ["a", "b"]),
    "minus zero is zero": ([("a", 0.0), ("b", -0.0)], ["b", "a"]),
    "infinite scores are scores": ([("a", -math.inf), ("b", 0.0), ("c", math.inf)], ["c", "b", "a"]),
    "nothing retrieved": ([], []),
}  # fmt: skip


@pytest.mark.parametrize(("scored", "expected"), RANKINGS.values(), ids=RANKINGS)
def test_rank_by_score_sorts_as_trec_eval(scored, expected):
    assert rank_by_score(scored) == expected


BAD = {
    "NaN": (lambda: rank_by_score([("a", 1.0), ("b", math.nan)]), "bad_score"),
    "a document twice with scores": (lambda: rank_by_score([("a", 1.0), ("a", 2.0)]), "duplicate_document"),
    "a document twice in a ranking": (lambda: score_rankings([(["a", "b", "a"], {"a": 1})], ["mrr"]), "duplicate_document"),
    "an unknown measure": (lambda: score_rankings([], ["bleu@5"]), "unknown_measure"),
}  # fmt: skip


@pytest.mark.parametrize(("work", "code"), BAD.values(), ids=BAD)
def test_rankings_refuse(work, code):
    with pytest.raises(InputError) as error:
        work()

    assert error.value.code == code


def test_score_rankings_keeps_the_order_of_queries():
    given = [
        (["x", "b"], {"b": 1}),  # rank 2
        ([], {"a": 2}),  # nothing retrieved: a zero
        (["a"], {"a": 0, "b": -1}),  # nothing relevant: no score
        (["a"], {}),
        # Grades below 1 are not relevant: only "good" at rank 3 counts, (2 / log2(4)) / (2 / log2(2)).
        (["negative", "zero", "good"], {"negative": -1, "zero": 0, "good": 2}),
    ]

    assert score_rankings(given, ["RR", "ndcg@3"]) == [
        {"mrr": 1 / 2, "ndcg@3": 1 / math.log2(3)},
        {"mrr": 0.0, "ndcg@3": 0.0},
        None,
        None,
        {"mrr": 1 / 3, "ndcg@3": 1 / 2},
    ]
    assert score_rankings([], ["mrr"]) == []


def test_documents_need_no_valid_unicode():
    assert score_rankings([(["\ud800", "b"], {"b": 1})], ["mrr"]) == [{"mrr": 1 / 2}]
