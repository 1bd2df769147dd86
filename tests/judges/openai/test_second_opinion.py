"""A judge of words contradicts a model only where one of both must be wrong."""

import pytest

from rag_eval_pipeline.judges.judgement import Case, Claim, Correctness, Judgement, Support
from rag_eval_pipeline.judges.openai.second_opinion import judges_disagree

YES = Support("supported", 1.0)
NO = Support("not_found", 0.0)
ANSWERS = {
    #                                 impossible  model        words        disagree
    "the same":                      (False,     "correct",   "correct",   False),
    "the opposite":                  (False,     "correct",   "incorrect", True),
    "too strict":                    (False,     "incorrect", "correct",   True),
    "right or refused":              (False,     "correct",   "refused",   True),
    "two ways of not being right":   (False,     "incorrect", "refused",   False),
    "words are unsure":              (False,     "correct",   "unsure",    False),
    "the model is unsure":           (False,     "unsure",    "correct",   False),
    "both call declining right":     (True,      "correct",   "refused",   False),
    "declined or not":               (True,      "correct",   "incorrect", True),
}  # fmt: skip
CLAIMS = {
    #                                 model  words                          disagree
    "the same":                      (YES,   YES,                           False),
    "supported by words of nowhere": (YES,   Support("not_found", 0.1),     True),
    "supported by a paraphrase":     (YES,   Support("not_found", 0.5),     False),
    "word for word, and not found":  (NO,    Support("supported", 1.0),     True),
    "nearly, and not found":         (NO,    Support("supported", 0.8),     False),
    "neither finds it":              (NO,    Support("not_found", 0.0),     False),
    "one has nothing to compare":    (YES,   None,                          False),
}  # fmt: skip


def judged(verdict=None, by_citations=None, by_contexts=None, start=0):
    claims = (Claim(start, 5, (), by_citations, by_contexts),)
    return Judgement("1", "completed", verdict and Correctness(verdict, 0.0, ""), claims)


@pytest.mark.parametrize(("impossible", "model", "words", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_on_an_answer(impossible, model, words, expected):
    case = Case("1", "?", (), impossible, "x")

    assert judges_disagree(case, judged(model), judged(words)) is expected


@pytest.mark.parametrize("where", ["by_citations", "by_contexts"])
@pytest.mark.parametrize(("model", "words", "expected"), CLAIMS.values(), ids=CLAIMS)
def test_on_a_claim(model, words, expected, where):
    case = Case("1", "?", ("x",), False, "x")

    assert judges_disagree(case, judged(**{where: model}), judged(**{where: words})) is expected
    assert not judges_disagree(case, judged(**{where: model}), judged(**{where: words}, start=1))


def test_a_judge_that_failed_contradicts_nobody():
    assert not judges_disagree(Case("1", "?", ("x",), False, "x"), judged("correct"), Judgement("1", "failed"))
