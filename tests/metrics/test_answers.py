"""Answers score as the scorers of SQuAD 2.0, MLQA, HotpotQA and rouge-score print, to the last digit."""

import json
from functools import reduce
from operator import add

import pytest

from rag_eval_pipeline.metrics.answers import (
    answer_scores,
    citation_scores,
    cited_facts,
    hotpot_answer,
    joint_score,
    joint_scores,
    rouge_l,
    score_answer,
    score_answer_in,
)
from rag_eval_pipeline.metrics.spans import Citation, Span

CASES = {
    #                                      answer               accepted                     exact, F1
    "equal but for article and case":     ("the Normans",       ["Normans"],                 1.0, 1.0),
    "the best accepted answer counts":    ("10th century",      ["911", "the 10th century"], 1.0, 1.0),
    # Two tokens shared: P = 2/4, R = 2/3, so F1 = (2 x 1/3) / (7/6) = 4/7.
    "half the tokens are right":          ("duke Rollo of Caen", ["duke Rollo Normandy"],    0.0, 4 / 7),
    # "new" is shared once only: P = 1/2, R = 1, so F1 = 1 / (3/2) = 2/3.
    "a repeated token counts once":       ("new new",           ["new"],                     0.0, 2 / 3),
    "an abstention where none was due":   ("",                  ["Normandy"],                0.0, 0.0),
    "an abstention where one was due":    ("",                  [],                          1.0, 1.0),
    "an answer where there is none":      ("Rollo",             [],                          0.0, 0.0),
    "punctuation alone is an abstention": ("...",               [],                          1.0, 1.0),
    "an article is no accepted answer":   ("",                  ["the", "Normandy"],         0.0, 0.0),
    "case, punctuation, spaces":          (" The  Norman's\tKing! ", ["normans king"],       1.0, 1.0),
    "only ASCII punctuation goes":        ("«Rollo» – duke",    ["«rollo»", "– duke"],       0.0, 4 / 5),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "exact", "f1"), CASES.values(), ids=CASES)
def test_squad_scores_against_the_best_accepted_answer(answer, accepted, exact, f1):
    assert score_answer(answer, accepted) == (exact, pytest.approx(f1, abs=1e-15))
    assert score_answer_in(answer, accepted, "en-GB") == score_answer(answer, accepted)


# Down to Hindi the last two of each are what MLQA's evaluation script gives.
MLQA = {
    "Chinese, a character too many":  ("zh", "1887年，在巴黎。", "1887年巴黎", 0.0, 0.888888888888889),
    "Chinese punctuation is dropped": ("zh", "巴黎", "巴黎。", 1.0, 1.0),
    "Chinese beside Latin":           ("zh", "iPhone 12 手机", "iPhone手机", 0.0, 0.8571428571428571),
    "German, an adjective's ending":  ("de", "Der große Turm", "ein großer Turm", 0.0, 0.5),
    "a German article":               ("de", "das Haus!", "Haus", 1.0, 1.0),
    "Vietnamese":                     ("vi", "cái nhà của tôi", "nhà tôi", 1.0, 1.0),
    "the Arabic article":             ("ar", "البيت الكبير", "بيت كبير", 1.0, 1.0),
    "Hindi's full stop":              ("hi", "ताज महल।", "ताज महल", 1.0, 1.0),
    # 3 of 4 and 3 of 3 characters: F1 = 6/7.
    "Japanese":                       ("ja", "東京都だ", "東京都", 0.0, 6 / 7),
    "Korean, by its words":           ("ko", "서울 타워", "서울", 0.0, 2 / 3),
    "no language, no articles":       (None, "the tower", "tower", 0.0, 2 / 3),
    "a region is no other language":  ("de-CH", "das Haus", "Haus", 1.0, 1.0),
    "an abstention where one is due": ("zh", "", "", 1.0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize(("language", "answer", "gold", "exact", "f1"), MLQA.values(), ids=MLQA)
def test_scores_by_the_rules_of_a_language(language, answer, gold, exact, f1):
    assert score_answer_in(answer, [gold] if gold else [], language) == (exact, pytest.approx(f1, rel=1e-15))


# Printed by rouge-score 0.1.2, rougeL without stemmer.
ROUGE = {
    "another order": ("The quick brown fox jumps over the lazy dog.", "A quick brown dog outran the lazy fox!", 0.47058823529411764),
    "a clause moved": ("It opened in 1887, under Ada Thorne.", "Ada Thorne opened it in 1887", 0.4615384615384615),
    "nothing shared": ("yes", "no", 0.0),
    "equal": ("Rollo", "Rollo", 1.0),
    "an underscore separates": ("a_b c", "a b c", 1.0),
    "full stops and commas separate": ("U.S. $1,000.50", "1,000 U.S. dollars", 0.4000000000000001),
    "a repetition": ("the the the", "the", 0.5),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "expected"), ROUGE.values(), ids=ROUGE)
def test_rouge_l_equals_rouge_score(answer, gold, expected):
    assert rouge_l(answer, [gold]) == expected


def test_rouge_l_takes_the_best_accepted_answer_and_is_absent_without_one():
    assert rouge_l("in the 10th century", ["911", "the 10th century"]) == 6 / 7
    assert rouge_l("", ["Rollo"]) == 0.0
    assert rouge_l("巴黎", ["巴黎。"]) == 1.0
    assert rouge_l("Rollo", []) is rouge_l("Rollo", ["..."]) is None


ANSWERS = {
    #                                        answer               gold            em   f1     precision recall
    "yes has no parts":                    ("yes it was",        "yes",          0.0, 0.0,   0.0,      0.0),
    "nor has no":                          ("no",                "no entry",     0.0, 0.0,   0.0,      0.0),
    "no answer is a single word":          ("No answer",         "noanswer",     0.0, 0.0,   0.0,      0.0),
    "no answer where nothing was gold": ("",                  "",             1.0, 0.0,   0.0,      0.0),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "em", "f1", "precision", "recall"), ANSWERS.values(), ids=ANSWERS)
def test_hotpot_answer(answer, gold, em, f1, precision, recall):
    assert hotpot_answer(answer, gold) == (em, pytest.approx(f1, abs=1e-15), precision, recall)


def cite(start, end, file_name="a.pdf"):
    return Citation(file_name, None, Span(start, end))


GOLD = [cite(0, 100), cite(200, 300)]
CITED = {
    #                                     cited                            em   precision recall
    "half of a fact is enough":         ([cite(0, 50), cite(190, 300)],    1.0, 1.0,      1.0),
    "less than half is not":            ([cite(0, 49), cite(200, 300)],    0.0, 1.0,      1 / 2),
    "two citations may hold one fact":  ([cite(0, 30), cite(60, 90), cite(200, 300)], 1.0, 1.0, 1.0),
    "one citation may hold two facts":  ([cite(0, 300)],                   1.0, 1.0,      1.0),
    "a citation beside the facts":      ([cite(0, 100), cite(120, 130)],   0.0, 1 / 2,    1 / 2),
    "another file":                     ([cite(0, 100, "b.pdf")],          0.0, 0.0,      0.0),
}  # fmt: skip


@pytest.mark.parametrize(("cited", "em", "precision", "recall"), CITED.values(), ids=CITED)
def test_cited_facts(cited, em, precision, recall):
    found = cited_facts(cited, GOLD)

    assert (found.em, found.precision, found.recall) == (em, precision, recall)


def test_answer_scores_have_a_key_per_metric():
    scores = answer_scores("the duke", ["duke Rollo", "the duke"], language="de")

    assert list(scores) == ["exact_match", "f1", "exact_match_in", "f1_in", "hotpot_em", "hotpot_f1", "rouge_l"]
    assert set(scores.values()) == {1.0}  # the best accepted answer counts in each
    assert answer_scores("", []) == {"exact_match": 1.0, "f1": 1.0}
    assert joint_scores("the duke", ["duke"], [], []) == joint_scores("", [], [cite(0, 5)], [cite(0, 5)]) == {}
    assert joint_scores("the duke", ["duke"], GOLD, GOLD) == {"joint_em": 1.0, "joint_f1": 1.0}


def test_citation_scores_have_spans_and_facts():
    (row,) = citation_scores([[cite(0, 10), cite(20, 30)]], [[cite(0, 12), cite(50, 60)]])

    assert row["exact_jaccard"] == (10 / 12) / 2
    assert row["facts_recall"] == row["facts_precision"] == 1 / 2


# Printed by hotpot_evaluate_v1.py for these predictions of the 40 questions.
PRINTED = {
    "em": 0.275, "f1": 0.47833333333333333, "prec": 0.5425, "recall": 0.5258333333333332,
    "sp_em": 0.25, "sp_f1": 0.6225288600288602, "sp_prec": 0.6816666666666668, "sp_recall": 0.6208333333333333,
    "joint_em": 0.05, "joint_f1": 0.2807663292589763, "joint_prec": 0.3597222222222222,
    "joint_recall": 0.30291666666666667,
}  # fmt: skip


def test_hotpot_means_of_real_questions_are_as_printed(benchmarks):
    scores = []
    for i, row in enumerate(json.loads((benchmarks / "hotpotqa" / "hotpot_sample.json").read_text())):
        gold, facts = row["answer"], row["supporting_facts"]
        wanted = [cite(10 * n, 10 * n + 10, title) for title, n in zip(facts["title"], facts["sent_id"], strict=True)]
        # Of five questions: right, too long, yes, missing, the first word.
        answer = [gold, f"{gold} of it", "yes", None, gold.split()[0]][i % 5]
        # Of four questions: right, one, one too many, and none or missing in turn.
        cited = [wanted, wanted[:1], [*wanted, cite(0, 10, "Elsewhere")], None if i % 8 == 3 else []][i % 4]
        parts = (
            None if answer is None else hotpot_answer(answer, gold),
            None if cited is None else cited_facts(cited, wanted),
        )
        scores.append((*parts, None if None in parts else joint_score(*parts)))

    names = [f"{prefix}{name}" for prefix in ("", "sp_", "joint_") for name in ("em", "f1", "prec", "recall")]
    flat = [[value for score in row for value in score or (0.0,) * 4] for row in scores]
    means = {name: reduce(add, column) / 40 for name, column in zip(names, zip(*flat, strict=True), strict=True)}
    # Products of three are multiplied in another order there; everything else is equal to the last bit.
    assert means == pytest.approx(PRINTED, abs=1e-15)
