"""Measures are found by every name in use, and score what their definitions say."""

from math import log2

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.retrieval.engine import score_rankings
from rag_eval_pipeline.metrics.retrieval.families import FAMILIES
from rag_eval_pipeline.metrics.retrieval.names import NICKNAMES, TREC_ORDER, parse_measure, parse_measures

# Three relevant documents: grade 1 at rank 2, grade 3 at rank 4, grade 2 not found. Rank 1 was judged not relevant,
# rank 3 was never judged.
RANKING = ["no", "one", "unknown", "three"]
GRADES = {"one": 1, "two": 2, "three": 3, "no": 0}
IDEAL = 3 / log2(2) + 2 / log2(3) + 1 / log2(4)

SCORES = {
    "hit@3": 1.0,
    "all_hit@10": 0.0,
    "recall@3": 1 / 3,
    "precision@5": 2 / 5,
    "mrr": 1 / 2,
    "mrr@1": 0.0,
    "mrr@2": 1 / 2,
    "map@3": (1 / 2) / 3,
    "ndcg@3": (1 / log2(3)) / IDEAL,
    "ndcg(1=4,3=0)": (4 / log2(3)) / (4 / log2(2) + 2 / log2(3)),
    "ndcg(2=1)": (1 / log2(3) + 3 / log2(5)) / (3 / log2(2) + 1 / log2(3) + 1 / log2(4)),
    "err@10": 1 / 2 * (1 / 16) + 1 / 4 * (7 / 16) * (15 / 16),
    "err(max_grade=3)@10": 1 / 2 * (1 / 8) + 1 / 4 * (7 / 8) * (7 / 8),
    "rbp@3": (1 - 0.8) * 0.8 * (1 / 3),
    "rbp(p=0.5)@10": 0.5 * 0.5 * (1 / 3) + 0.5 * 0.5**3 * (3 / 3),
    "set_F(2)": 3 * (2 / 4) * (2 / 3) / (2 * (2 / 4) + 2 / 3),
    "unjudged@3": 1 / 3,
}


def test_measures_are_the_arithmetic_of_their_definitions():
    assert score_rankings([(RANKING, GRADES)], SCORES) == [SCORES]
    assert score_rankings([(["a", "x", "b"], {"a": 1, "b": 1})], ["all_hit@3"]) == [{"all_hit@3": 1.0}]


def test_scores_are_in_the_range_of_their_row():
    for family in FAMILIES:
        if family.printed != "text" and family.summary != "geometric":
            info = family.metric
            name = f"{info.name}_0.50" if family.takes == "fraction" else info.name.replace("@k", "@3")
            for ranking in (RANKING, []):
                ((score,),) = (row.values() for row in score_rankings([(ranking, {**GRADES, "e": -1})], [name]))
                assert info.range.low <= score <= info.range.high, name


OTHER_NAMES = {
    "nDCG@10": "ndcg@10",
    "RR": "mrr",
    "All_Hit@3": "all_hit@3",
    "Success@5": "hit@5",
    "P_7": "precision@7",
    "ndcg_cut_10": "ndcg@10",
    "recip_rank": "mrr",
    "rbp(p=0.8)@10": "rbp@10",
    "err(max_grade=5)@10": "err(max_grade=5)@10",
    "iprec_at_recall.0.1": "iprec_at_recall_0.10",
}


def test_other_names_are_understood():
    assert {other: parse_measure(other).name for other in OTHER_NAMES} == OTHER_NAMES
    assert [parse_measure(name).name for name in OTHER_NAMES.values()] == [*OTHER_NAMES.values()]


UNKNOWN = [
    "", "bleu@5", "hit@0", "hit@05", "recall", "ndcg@", "P.5,10", "official", "ndcg_cut.23.4", "P.-5", "ndcg.p=3",
    "utility.1,2", "map.5", "rbp(p=1)@10", "rbp(p=0)@10", "err(max_grade=1.5)@10", "err(p=0.5)@10",
]  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_name_of_no_measure_is_refused(name):
    with pytest.raises(InputError) as error:
        parse_measure(name)

    assert error.value.code == "unknown_measure"


def labels(*names):
    return [measure.label for measure in parse_measures(names)]


def test_trec_parameters_are_several_measures_in_its_order():
    assert labels("ndcg@3", "recall.20", "P.10,5", "P_5") == ["P_5", "P_10", "recall_20", "ndcg@3"]
    assert labels("iprec_at_recall..5,0.1") == ["iprec_at_recall_0.10", "iprec_at_recall_0.50"]
    assert labels("ndcg.1=3,2=9", "rbp.p=0.5") == ["ndcg_1=3,2=9", "rbp_p=0.5"]
    assert labels("success") == ["success_1", "success_5", "success_10"]
    assert labels("precision@5", "recall.20") == ["recall_20", "precision@5"]  # ours come last


def test_print_order_and_nicknames_cover_all_trec_measures():
    known = {family.trec for family in FAMILIES} - {None}

    assert set(TREC_ORDER) == known
    assert all(set(names) <= known for names in NICKNAMES.values())
