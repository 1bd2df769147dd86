"""Answers are scored as the official SQuAD 2.0 scorer scores them, to its last printed digit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.answers import (
    AnswerScore,
    ProbedAnswer,
    ScoredQuestion,
    answer_f1,
    best_threshold,
    exact_match,
    normalise_answer,
    score_answer,
    squad_totals,
)


def questions_of(path):
    articles = json.loads(path.read_text())["data"]
    return [question for article in articles for part in article["paragraphs"] for question in part["qas"]]


def scored(question, predictions):
    score = score_answer(predictions[question["id"]], [answer["text"] for answer in question["answers"]])
    return ScoredQuestion(bool(question["answers"]), score)


def printed(totals):
    """The official scorer's keys and numbers."""
    parts = {"": totals.overall, "HasAns_": totals.has_answer, "NoAns_": totals.no_answer}
    return {
        f"{prefix}{key}": value
        for prefix, part in parts.items()
        if part is not None
        for key, value in part._asdict().items()
    }


@pytest.mark.parametrize("system", ["bert", "match-lstm"])
def test_two_published_systems_score_as_printed(oracles, system):
    folder = oracles / "squad_em_f1"
    predictions = json.loads((folder / f"{system}.predictions.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())[system]
    questions = [question for question in questions_of(folder / "xquad.en.json") if question["id"] in predictions]

    assert printed(squad_totals(scored(question, predictions) for question in questions)) == expected


def test_unanswerable_questions_score_as_printed(oracles, benchmarks):
    predictions = json.loads((oracles / "squad2_noanswer" / "dev.predictions.json").read_text())
    expected = json.loads((oracles / "squad2_noanswer" / "expected.json").read_text())["dev"]["no_na_prob"]
    questions = questions_of(benchmarks / "squad2" / "dev-sample.json")

    assert printed(squad_totals(scored(question, predictions) for question in questions)) == expected


def test_the_best_no_answer_threshold_is_as_printed(oracles, benchmarks):
    folder = oracles / "squad2_noanswer"
    predictions = json.loads((folder / "dev.predictions.json").read_text())
    probabilities = json.loads((folder / "dev.na_prob.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())["dev"]["with_na_prob"]
    by_id = {
        question["id"]: scored(question, predictions)
        for question in questions_of(benchmarks / "squad2" / "dev-sample.json")
    }

    found = {}
    for measure, key_of_measure in (("exact_match", "best_exact"), ("f1", "best_f1")):
        probed = [
            ProbedAnswer(by_id[key].has_answer, not predictions[key], getattr(by_id[key].score, measure), probability)
            for key, probability in probabilities.items()
        ]
        found[key_of_measure], found[f"{key_of_measure}_thresh"] = best_threshold(probed)

    assert found == {key: value for key, value in expected.items() if key.startswith("best_")}


NORMALISED = {
    "case, punctuation, article, spaces": (" The  Norman's\tKing! ", "normans king"),
    "an article inside a word stays": ("theatre a la carte an", "theatre la carte"),
    "punctuation joins what it separated": ("1,000-strong", "1000strong"),
    "only ASCII punctuation goes": ("«Rollo» – duke", "«rollo» – duke"),
    "nothing is left": ("The...", ""),
}


@pytest.mark.parametrize(("text", "expected"), NORMALISED.values(), ids=NORMALISED)
def test_normalisation(text, expected):
    assert normalise_answer(text) == expected


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
}  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "exact", "f1"), CASES.values(), ids=CASES)
def test_an_answer_is_scored_against_the_best_accepted_one(answer, accepted, exact, f1):
    assert exact_match(answer, accepted) == exact
    assert answer_f1(answer, accepted) == pytest.approx(f1, abs=1e-15)
    assert score_answer(answer, accepted) == AnswerScore(exact_match(answer, accepted), answer_f1(answer, accepted))


def test_totals_are_percentages_and_a_part_without_questions_has_none():
    totals = squad_totals([ScoredQuestion(True, AnswerScore(1.0, 1.0)), ScoredQuestion(True, AnswerScore(0.0, 0.5))])

    assert totals.overall == totals.has_answer == (50.0, 75.0, 2)
    assert totals.no_answer is None
    assert squad_totals([]) == (None, None, None)


def test_no_answers_have_no_best_threshold():
    assert best_threshold([]) is None


words = st.text("ab ,T", max_size=8)


@given(words, st.lists(words, max_size=3))
def test_scores_stay_in_range_and_an_exact_match_has_the_full_f1(answer, accepted):
    score = score_answer(answer, accepted)

    assert score.exact_match in (0.0, 1.0)
    assert 0.0 <= score.f1 <= 1.0
    assert score.f1 == 1.0 or score.exact_match == 0.0


@given(words, words)
def test_f1_is_symmetric_between_answer_and_gold(answer, gold):
    assert answer_f1(answer, [gold]) == answer_f1(gold, [answer])
