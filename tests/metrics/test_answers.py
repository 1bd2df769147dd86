"""Answers score as the scorer of SQuAD 2.0 prints, to the last digit."""

import pytest

from rag_eval_pipeline.metrics.answers import score_answer

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
