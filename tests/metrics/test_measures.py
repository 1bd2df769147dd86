"""A measure's score follows from where the relevant documents stand, and from nothing else."""

from math import log2

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.measures import DEFAULT_MEASURES, RelevantRanks, parse_measure

# Three relevant documents: the one of grade 1 at rank 2, the one of grade 3 at rank 4, the one of grade 2 not found.
FOUND = RelevantRanks(ranks=(2, 4), grades=(1, 3), ideal=(3, 2, 1))

SCORES = {
    "hit@1": 0.0,
    "hit@3": 1.0,
    "all_hit@10": 0.0,
    "recall@1": 0.0,
    "recall@3": 1 / 3,
    "recall@5": 2 / 3,
    "precision@1": 0.0,
    "precision@3": 1 / 3,
    "precision@5": 2 / 5,
    "precision@10": 2 / 10,
    "mrr": 1 / 2,
    "mrr@1": 0.0,
    "mrr@2": 1 / 2,
    "map@1": 0.0,
    "map@3": (1 / 2) / 3,
    "map@5": (1 / 2 + 2 / 4) / 3,
    "map": (1 / 2 + 2 / 4) / 3,
    "ndcg@1": 0.0,
    "ndcg@3": (1 / log2(3)) / (3 / log2(2) + 2 / log2(3) + 1 / log2(4)),
    "ndcg@5": (1 / log2(3) + 3 / log2(5)) / (3 / log2(2) + 2 / log2(3) + 1 / log2(4)),
    "ndcg": (1 / log2(3) + 3 / log2(5)) / (3 / log2(2) + 2 / log2(3) + 1 / log2(4)),
}


@pytest.mark.parametrize(("name", "expected"), SCORES.items(), ids=SCORES)
def test_a_score_is_the_arithmetic_of_its_definition(name, expected):
    assert parse_measure(name).score(FOUND) == expected


def test_the_ideal_order_is_cut_at_k_too():
    # Only the grade 2 document is found, at rank 1; the best possible top 1 holds the grade 3 one.
    assert parse_measure("ndcg@1").score(RelevantRanks((1,), (2,), (3, 2))) == 2 / 3


def test_all_hit_needs_every_relevant_document():
    both = RelevantRanks((1, 3), (1, 1), (1, 1))

    assert [parse_measure(f"all_hit@{k}").score(both) for k in (1, 2, 3)] == [0.0, 0.0, 1.0]


def test_nothing_found_is_zero_in_every_measure():
    nothing = RelevantRanks((), (), (1,))

    assert {parse_measure(name).score(nothing) for name in (*DEFAULT_MEASURES, "map", "ndcg", "mrr@10")} == {0.0}


def test_a_name_is_read_without_regard_to_case_and_written_one_way():
    assert [parse_measure(name).name for name in ("nDCG@10", "RR", "MAP", "All_Hit@3")] == [
        "ndcg@10",
        "mrr",
        "map",
        "all_hit@3",
    ]


def test_a_measure_carries_the_name_that_trec_eval_prints():
    names = ("hit@5", "recall@5", "precision@5", "ndcg@5", "map@5", "mrr", "map", "ndcg", "all_hit@5", "mrr@5")

    assert [parse_measure(name).trec_name for name in names] == [
        "success_5",
        "recall_5",
        "P_5",
        "ndcg_cut_5",
        "map_cut_5",
        "recip_rank",
        "map",
        "ndcg",
        None,
        None,
    ]


def test_the_meaning_names_the_cutoff_or_the_whole_ranking():
    assert parse_measure("recall@5").meaning == "Share of the relevant documents in the top 5."
    assert parse_measure("mrr").meaning == "Reciprocal of the rank of the first relevant document in the ranking."


UNKNOWN = {
    "no such measure": "bleu@5",
    "a cutoff of zero": "hit@0",
    "a cutoff with a leading zero": "hit@05",
    "a cutoff is needed": "recall",
    "no cutoff after the sign": "ndcg@",
    "trec_eval's way of writing": "P.5",
    "nothing": "",
}


@pytest.mark.parametrize("name", UNKNOWN.values(), ids=UNKNOWN)
def test_a_name_that_is_no_measure_is_refused(name):
    with pytest.raises(InputError) as error:
        parse_measure(name)

    assert error.value.code == "unknown_measure"
