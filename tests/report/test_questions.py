"""A word for how a question went, without any judge."""

import pytest

from rag_eval_pipeline.report.runs import QuestionRow

CASES = {
    #                                     status     abstained  EM    F1    impossible  word
    "equal to gold":                     ("ok",      False,     1.0,  1.0,  False,      "exact"),
    "some words of gold":                ("ok",      False,     0.0,  0.4,  False,      "partly"),
    "none of gold's words":              ("ok",      False,     0.0,  0.0,  False,      "wrong"),
    "abstained where it should":         ("ok",      True,      1.0,  1.0,  True,       "rightly"),
    "abstained where there is an answer": ("ok",      True,      0.0,  0.0,  False,      "refused"),
    "answered what has no answer":       ("ok",      False,     0.0,  0.0,  True,       "invented"),
    "the dataset is gone":               ("ok",      False,     0.0,  0.0,  None,       "wrong"),
    "no answer arrived":                 ("timeout", False,     None, None, False,      "failed"),
    "a recording of retrieval alone":    ("ok",      False,     None, None, False,      "unscored"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "abstained", "exact", "f1", "impossible", "word"), CASES.values(), ids=CASES)
def test_the_outcome_of_a_question(status, abstained, exact, f1, impossible, word):
    row = QuestionRow("0", "Who?", status, "She.", abstained, {"exact_match": exact, "f1": f1})

    assert row.outcome(is_impossible=impossible) == word
