"""Answers score as the scorers of SQuAD 2.0, MLQA, HotpotQA and rouge-score print, to the last digit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.answers import (
    ProbedAnswer,
    answer_scores,
    best_threshold,
    citation_scores,
    cited_facts,
    hotpot_answer,
    hotpot_totals,
    joint_scores,
    rouge_l,
    score_answer,
    score_answer_in,
    squad_totals,
    supporting_facts,
)
from rag_eval_pipeline.metrics.spans import Citation, Span


def questions_of(path):
    articles = json.loads(path.read_text())["data"]
    return [question for article in articles for part in article["paragraphs"] for question in part["qas"]]


def scored(question, predictions):
    score = score_answer(predictions[question["id"]], [answer["text"] for answer in question["answers"]])
    return bool(question["answers"]), score


@pytest.mark.parametrize("system", ["bert", "match-lstm"])
def test_squad_totals_of_published_systems_are_as_printed(oracles, system):
    folder = oracles / "squad_em_f1"
    predictions = json.loads((folder / f"{system}.predictions.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())[system]
    questions = [question for question in questions_of(folder / "xquad.en.json") if question["id"] in predictions]

    assert squad_totals(scored(question, predictions) for question in questions) == expected


def test_squad_totals_and_thresholds_with_unanswerable_questions_are_as_printed(oracles, benchmarks):
    folder = oracles / "squad2_noanswer"
    predictions = json.loads((folder / "dev.predictions.json").read_text())
    probabilities = json.loads((folder / "dev.na_prob.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())["dev"]
    questions = questions_of(benchmarks / "squad2" / "dev-sample.json")
    by_id = {question["id"]: scored(question, predictions) for question in questions}

    assert squad_totals(by_id.values()) == expected["no_na_prob"]
    found = {}
    for measure, key_of_measure in (("exact_match", "best_exact"), ("f1", "best_f1")):
        probed = [
            ProbedAnswer(by_id[key][0], not predictions[key], getattr(by_id[key][1], measure), probability)
            for key, probability in probabilities.items()
        ]
        found[key_of_measure], found[f"{key_of_measure}_thresh"] = best_threshold(probed)
    assert found == {key: value for key, value in expected["with_na_prob"].items() if key.startswith("best_")}


CASES = {
    #                                      answer               accepted                     exact, F1
    "equal but for article and case":     ("the Normans",       ["Normans"],                 1.0, 1.0),
    "the best accepted answer counts":    ("10th century",      ["911", "the 10th century"], 1.0, 1.0),
    # Two tokens shared: P = 2/4, R = 2/3, so F1 = (2 x 1/3) / (7/6) = 4/7.
    "half the tokens are right":          ("duke Rollo of Caen", ["duke Rollo Normandy"],    0.0, 4 / 7),
    # "new" is shared once only: P = 1/2, R = 1, so F1 = 1 / (3/2) = 2/3.
    "a repeated token counts once":       ("new new",           ["new"],                     0.0, 2 / 3),
    "order is no matter for F1":          ("b c",               ["c b"],                     0.0, 1.0),
    "nothing shared":                     ("Rollo",             ["Normandy"],                0.0, 0.0),
    "an abstention where none was due":   ("",                  ["Normandy"],                0.0, 0.0),
    "an abstention where one was due":    ("",                  [],                          1.0, 1.0),
    "an answer where there is none":      ("Rollo",             [],                          0.0, 0.0),
    "punctuation alone is an abstention": ("...",               [],                          1.0, 1.0),
    "an article is no accepted answer":   ("",                  ["the", "Normandy"],         0.0, 0.0),
    "case, punctuation, spaces":          (" The  Norman's\tKing! ", ["normans king"],       1.0, 1.0),
    "an article inside a word stays":     ("theatre a la carte an", ["theatre la carte"],    1.0, 1.0),
    "only ASCII punctuation goes":        ("«Rollo» – duke",    ["«rollo»", "– duke"],       0.0, 4 / 5),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "exact", "f1"), CASES.values(), ids=CASES)
def test_squad_scores_against_the_best_accepted_answer(answer, accepted, exact, f1):
    assert score_answer(answer, accepted) == (exact, pytest.approx(f1, abs=1e-15))
    assert score_answer_in(answer, accepted, "en-GB") == score_answer(answer, accepted)


words = st.text("ab ,T", max_size=8)


@given(words, st.lists(words, max_size=3))
def test_scores_stay_in_range_and_an_exact_match_has_the_full_f1(answer, accepted):
    score = score_answer(answer, accepted)

    assert score.exact_match in (0.0, 1.0)
    assert 0.0 <= score.f1 <= 1.0
    assert score.f1 == 1.0 or score.exact_match == 0.0


# The last two of each are what MLQA's evaluation script gives.
MLQA = {
    "Chinese, a character too many":  ("zh", "1887年，在巴黎。", "1887年巴黎", 0.0, 0.888888888888889),
    "Chinese punctuation is dropped": ("zh", "巴黎", "巴黎。", 1.0, 1.0),
    "Chinese beside Latin":           ("zh", "iPhone 12 手机", "iPhone手机", 0.0, 0.8571428571428571),
    "German, an adjective's ending":  ("de", "Der große Turm", "ein großer Turm", 0.0, 0.5),
    "a German article":               ("de", "das Haus!", "Haus", 1.0, 1.0),
    "Spanish articles":               ("es", "«La casa» de los Ríos", "casa de Ríos", 1.0, 1.0),
    "Vietnamese":                     ("vi", "cái nhà của tôi", "nhà tôi", 1.0, 1.0),
    "the Arabic article":             ("ar", "البيت الكبير", "بيت كبير", 1.0, 1.0),
    "Hindi's full stop":              ("hi", "ताज महल।", "ताज महल", 1.0, 1.0),
}  # fmt: skip


OTHERS = {
    # 3 of 4 and 3 of 3 characters: F1 = 6/7.
    "Japanese":                       ("ja", "東京都だ", "東京都", 0.0, 6 / 7),
    "Thai, by its letters":           ("th", "ปารีส", "ปารีส", 1.0, 1.0),
    "Korean, by its words":           ("ko", "서울 타워", "서울", 0.0, 2 / 3),
    "no language, no articles":       (None, "the tower", "tower", 0.0, 2 / 3),
    "a region is no other language":  ("de-CH", "das Haus", "Haus", 1.0, 1.0),
    "an abstention where one is due": ("zh", "", "", 1.0, 1.0),
    "an answer where there is none":  ("zh", "巴黎", "", 0.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "answer", "gold", "exact", "f1"), [*MLQA.values(), *OTHERS.values()], ids=[*MLQA, *OTHERS]
)
def test_scores_by_the_rules_of_a_language(language, answer, gold, exact, f1):
    assert score_answer_in(answer, [gold] if gold else [], language) == (exact, pytest.approx(f1, rel=1e-15))


# Printed by rouge-score 0.1.2, rougeL without stemmer.
ROUGE = {
    "another order": ("The quick brown fox jumps over the lazy dog.", "A quick brown dog outran the lazy fox!", 0.47058823529411764),
    "a clause moved": ("It opened in 1887, under Ada Thorne.", "Ada Thorne opened it in 1887", 0.4615384615384615),
    "a hyphen separates": ("10th century", "in the 10th-century", 0.6666666666666666),
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
    "equal but for article and case":      ("the Normans",       "Normans",      1.0, 1.0,   1.0,      1.0),
    # Shared: duke, rollo. P = 2/4, R = 2/3, so F1 = (2 x 1/3) / (7/6) = 4/7.
    "half the tokens are right":           ("duke Rollo of Caen", "duke Rollo Normandy", 0.0, 4 / 7, 2 / 4, 2 / 3),
    "yes has no parts":                    ("yes it was",        "yes",          0.0, 0.0,   0.0,      0.0),
    "nor has no":                          ("no",                "no entry",     0.0, 0.0,   0.0,      0.0),
    "no answer is a single word":          ("No answer",         "noanswer",     0.0, 0.0,   0.0,      0.0),
    "yes is yes":                          ("Yes.",              "yes",          1.0, 1.0,   1.0,      1.0),
    "nothing shared":                      ("Rollo",             "Normandy",     0.0, 0.0,   0.0,      0.0),
    "no answer where nothing was gold": ("",                  "",             1.0, 0.0,   0.0,      0.0),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "em", "f1", "precision", "recall"), ANSWERS.values(), ids=ANSWERS)
def test_hotpot_answer(answer, gold, em, f1, precision, recall):
    assert hotpot_answer(answer, gold) == (em, pytest.approx(f1, abs=1e-15), precision, recall)


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


def test_hotpot_totals_of_real_questions_are_as_printed(benchmarks):
    questions = []
    for i, row in enumerate(json.loads((benchmarks / "hotpotqa" / "hotpot_sample.json").read_text())):
        gold = list(zip(row["supporting_facts"]["title"], row["supporting_facts"]["sent_id"], strict=True))
        answer, facts = predicted_answer(i, row["answer"]), predicted_facts(i, gold)
        questions.append(
            (
                None if answer is None else hotpot_answer(answer, row["answer"]),
                None if facts is None else supporting_facts(facts, gold),
            )
        )

    assert len(questions) == 40
    # Products of three are multiplied in another order there; everything else is equal to the last bit.
    assert hotpot_totals(questions) == pytest.approx(PRINTED, abs=1e-15)
    assert supporting_facts([("Ada", 0)] * 2, [("Ada", 0)]) == (1.0, 1.0, 1.0, 1.0)  # a fact twice is one


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
