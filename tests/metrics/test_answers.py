"""Answers score as the scorer of SQuAD 2.0 prints, to the last digit."""

import pytest

from rag_eval_pipeline.metrics.answers import is_accepted, score_answer

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
    "a refusal is no letter A":           ("",                  ["A"],                       0.0, 0.0),
    "a letter that is an article":        ("a.",                ["A", "the"],                1.0, 1.0),
    # Scripts without spaces. Three of five characters: P = 3/5, R = 1, so F1 = 6/8.
    "each Japanese character is a word":  ("東京タワー",           ["タワー"],                    0.0, 3 / 4),
    "spaces and punctuation do not count": ("東京 都。",            ["「東京都」"],                 1.0, 1.0),
    # 2, 0, 2, 0 are one word: 5 tokens against 3, of which 2020 and 年 are shared: P = 2/5, R = 2/3.
    "words stay words among characters":  ("开幕于2020年",         ["2020年夏"],                 0.0, 1 / 2),
    "a Thai mark belongs to its letter":  ("ดี",                 ["ดี"],                       1.0, 1.0),
    "a language with spaces":             ("서울 타워",            ["타워"],                      0.0, 2 / 3),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "exact", "f1"), CASES.values(), ids=CASES)
def test_squad_scores_against_the_best_accepted_answer(answer, accepted, exact, f1):
    assert score_answer(answer, accepted) == (exact, pytest.approx(f1, abs=1e-15))


@pytest.mark.parametrize(
    ("answer", "accepted", "is_right"),
    [
        ("The unknown.", ["Unknown"], True),
        ("Known", ["Unknown"], False),
        (" != ", ["!="], True),  # the detector of refusals finds no word in it
        ("==", ["!="], False),
        (" ", ["!=", " "], False),
        ("", [], False),
    ],
)
def test_accepted_answer_may_have_no_words(answer, accepted, is_right):
    assert is_accepted(answer, accepted) == is_right
