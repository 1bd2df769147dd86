"""Scores equal what the official scorers printed, to the last bit; `bench/oracles.py` reads and aggregates both."""

import json

import pytest

from bench import oracles as official
from rag_eval_pipeline.metrics.answers import score_without_marks

SCORERS = {
    "SQuAD": (official.squad, 34),
    "ai-rag-chat-evaluator": (lambda folder: official.published_run(folder / "ai-rag-chat-evaluator"), 9),
}


@pytest.mark.parametrize(("compare", "values"), SCORERS.values(), ids=SCORERS)
def test_scores_equal_official_output(compare, values, oracles):
    check(compare(oracles), values)


# Interpolated precision is compared at 0 and 1 only: trec_eval 9, which pytrec_eval contains, turns fractions of recall
# into ranks otherwise than trec_eval 10, whose published output `retrieval/test_score_command.py` compares.
def test_scores_equal_pytrec_eval():
    check(official.pytrec_eval(), 1809)


def test_answers_without_marks_have_the_official_scores(oracles):
    folder = oracles / "squad_em_f1"
    questions = official.squad_questions(folder / "xquad.en.json")
    for path in folder.glob("*.predictions.json"):
        predictions = json.loads(path.read_text())
        as_is = official.squad_scored(questions, predictions)
        assert official.squad_scored(questions, predictions, score_without_marks) == as_is


def check(found, values):
    compared = list(found)

    assert {one.file: one.differing for one in compared} == {one.file: [] for one in compared}
    assert sum(len(one.theirs) for one in compared) == values
