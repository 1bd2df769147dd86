"""Answers, supporting facts and both together score as HotpotQA's official scorer prints them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.hotpot import (
    HotpotQuestion,
    HotpotScore,
    cited_facts,
    hotpot_answer,
    hotpot_totals,
    joint_score,
    supporting_facts,
)
from rag_eval_pipeline.metrics.span_columns import Citation, Span

ANSWERS = {
    #                                        answer               gold            em   f1     precision recall
    "equal but for article and case":      ("the Normans",       "Normans",      1.0, 1.0,   1.0,      1.0),
    # Shared: duke, rollo. P = 2/4, R = 2/3, so F1 = (2 x 1/3) / (7/6) = 4/7.
    "half the tokens are right":           ("duke Rollo of Caen", "duke Rollo Normandy", 0.0, 4 / 7, 2 / 4, 2 / 3),
    "yes has no parts":                    ("yes it was",        "yes",          0.0, 0.0,   0.0,      0.0),
    "nor has no":                          ("no",                "no entry",     0.0, 0.0,   0.0,      0.0),
    "no answer is a word of its own":      ("No answer",         "noanswer",     0.0, 0.0,   0.0,      0.0),
    "yes is yes":                          ("Yes.",              "yes",          1.0, 1.0,   1.0,      1.0),
    "nothing shared":                      ("Rollo",             "Normandy",     0.0, 0.0,   0.0,      0.0),
    "nothing said where nothing was gold": ("",                  "",             1.0, 0.0,   0.0,      0.0),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "em", "f1", "precision", "recall"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(answer, gold, em, f1, precision, recall):
    assert hotpot_answer(answer, gold) == (em, pytest.approx(f1, abs=1e-15), precision, recall)


A, B, C = ("Ada", 0), ("Ada", 1), ("Bell", 0)
FACTS = {
    "both facts":              ([A, B], [B, A],    1.0, 1.0, 1.0),
    "a fact twice is one":     ([A, A, B], [A, B], 1.0, 1.0, 1.0),
    "one of two":              ([A],    [A, B],    0.0, 1.0, 0.5),
    "one beside them":         ([A, B, C], [A, B], 0.0, 2 / 3, 1.0),
    "another sentence":        ([B],    [A],       0.0, 0.0, 0.0),
    "none":                    ([],     [A],       0.0, 0.0, 0.0),
    "none where none is gold": ([],     [],        1.0, 0.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize(("given_facts", "gold", "em", "precision", "recall"), FACTS.values(), ids=FACTS)
def test_supporting_facts(given_facts, gold, em, precision, recall):
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    assert supporting_facts(given_facts, gold) == (em, f1, precision, recall)


def test_both_together_are_products():
    # P = 1 x 1/2, R = 1/2 x 1, so F1 = 1/2.
    joint = joint_score(HotpotScore(1.0, 2 / 3, 1.0, 0.5), HotpotScore(0.0, 2 / 3, 0.5, 1.0))

    assert joint == (0.0, 0.5, 0.5, 0.5)


def predicted_answer(i, gold):
    """Of five questions: right, too long, yes, missing, the first word."""
    return [gold, f"{gold} of it", "yes", None, gold.split()[0]][i % 5]


def predicted_facts(i, gold):
    """Of four questions: right, one, one too many, and none or missing in turn."""
    return [gold, gold[:1], [*gold, ("Elsewhere", 0)], None if i % 8 == 3 else []][i % 4]


# Printed by hotpot_evaluate_v1.py for these predictions of the 40 questions.
PRINTED = {
    "em": 0.275, "f1": 0.47833333333333333, "prec": 0.5425, "recall": 0.5258333333333332,
    "sp_em": 0.25, "sp_f1": 0.6225288600288602, "sp_prec": 0.6816666666666668, "sp_recall": 0.6208333333333333,
    "joint_em": 0.05, "joint_f1": 0.2807663292589763, "joint_prec": 0.3597222222222222,
    "joint_recall": 0.30291666666666667,
}  # fmt: skip


def test_real_questions_score_as_the_official_scorer_prints(benchmarks):
    questions = []
    for i, row in enumerate(json.loads((benchmarks / "hotpotqa" / "hotpot_sample.json").read_text())):
        gold = list(zip(row["supporting_facts"]["title"], row["supporting_facts"]["sent_id"], strict=True))
        answer, facts = predicted_answer(i, row["answer"]), predicted_facts(i, gold)
        questions.append(
            HotpotQuestion(
                None if answer is None else hotpot_answer(answer, row["answer"]),
                None if facts is None else supporting_facts(facts, gold),
            )
        )

    totals = hotpot_totals(questions)

    names = [prefix + name for prefix in ("", "sp_", "joint_") for name in ("em", "f1", "prec", "recall")]
    values = [*totals.answer, *totals.facts, *totals.joint]
    # Products of three are multiplied in another order there; everything else is equal to the last bit.
    assert dict(zip(names, values, strict=True)) == pytest.approx(PRINTED, abs=1e-15)
    assert totals.total == 40


def test_what_is_missing_counts_in_the_number_of_questions():
    right = HotpotScore(1.0, 1.0, 1.0, 1.0)

    totals = hotpot_totals([HotpotQuestion(right, right), HotpotQuestion(right, None), HotpotQuestion(None, None)])

    assert (totals.answer.em, totals.facts.em, totals.joint.em) == (2 / 3, 1 / 3, 1 / 3)
    assert hotpot_totals([]) is None


def cite(start, end, file_name="a.pdf"):
    return Citation(file_name, None, Span(start, end))


GOLD = [cite(0, 100), cite(200, 300)]
CITED = {
    #                                     cited                            em   precision recall
    "every fact, nothing else":         ([cite(0, 100), cite(200, 300)],   1.0, 1.0,      1.0),
    "half of a fact is enough":         ([cite(0, 50), cite(190, 300)],    1.0, 1.0,      1.0),
    "less than half is not":            ([cite(0, 49), cite(200, 300)],    0.0, 1.0,      1 / 2),
    "two citations may hold one fact":  ([cite(0, 30), cite(60, 90), cite(200, 300)], 1.0, 1.0, 1.0),
    "one citation may hold two facts":  ([cite(0, 300)],                   1.0, 1.0,      1.0),
    "a citation beside the facts":      ([cite(0, 100), cite(120, 130)],   0.0, 1 / 2,    1 / 2),
    "another file":                     ([cite(0, 100, "b.pdf")],          0.0, 0.0,      0.0),
    "nothing cited":                    ([],                               0.0, 0.0,      0.0),
}  # fmt: skip


@pytest.mark.parametrize(("cited", "em", "precision", "recall"), CITED.values(), ids=CITED)
def test_citations_as_supporting_facts(cited, em, precision, recall):
    found = cited_facts(cited, GOLD)

    assert (found.em, found.precision, found.recall) == (em, precision, recall)


texts = st.text("ab yesno", max_size=8)


@given(texts, texts)
def test_scores_stay_in_range(answer, gold):
    score = hotpot_answer(answer, gold)

    assert all(0.0 <= value <= 1.0 for value in score)
    assert joint_score(score, score).f1 <= score.f1 + 1e-12
