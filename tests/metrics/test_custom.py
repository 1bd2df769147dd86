"""A custom metric gives a number of its range, a record with one, or nothing; errors name metric and question."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation
from rag_eval_pipeline.metrics.custom import AnsweredQuestion, MetricInfo, QuestionMetric, Range, score_question
from rag_eval_pipeline.metrics.spans import Citation, Span
from tests.conftest import REPOSITORY

QUESTION = AnsweredQuestion(
    query_id="q7", question="Who?", accepted_answers=("She",), is_impossible=False, relevant_documents=("a.pdf",),
    gold_citations=(), metadata={}, answer="She.", text="She.", is_abstention=False, citations=(), passages=(),
    latency_ms=4.0, total_tokens=0, scores={"f1": 1.0},
)  # fmt: skip


def metric(score, low=0.0, high=1.0):
    info = MetricInfo(
        "kindness", "Of a test.", "here", ("answer",), ("question",), range=Range(low, high), category="answers"
    )
    return QuestionMetric(info, score)


def record(**more):
    given = {"evaluation_id": "e1", "target_event_id": "q7", "evaluator_name": "kindness",
             "timestamp": "2026-11-22T00:00:00Z"}  # fmt: skip
    return Evaluation.model_validate(given | more)


def fail(_):
    raise RuntimeError("no network\nat all")


@pytest.fixture(scope="module")
def documented():
    """The metrics of the documentation, by their names."""
    text = (REPOSITORY / "docs" / "how-to" / "custom-metric.md").read_text()
    names = {}
    exec("".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), names)
    return names


def test_metric_of_the_documentation_works(documented):
    assert score_question(documented["BREVITY"], QUESTION).value == 1.0
    assert score_question(documented["BREVITY"], dataclasses.replace(QUESTION, text="word " * 40)).value == 0.5


# Printed by rouge-score 0.1.2, rougeL without stemmer.
ROUGE = {
    "another order": ("The quick brown fox jumps over the lazy dog.", "A quick brown dog outran the lazy fox!", 0.47058823529411764),
    "a clause moved": ("It opened in 1887, under Ada Thorne.", "Ada Thorne opened it in 1887", 0.4615384615384615),
    "nothing shared": ("yes", "no", 0.0),
    "equal": ("Rollo", "Rollo", 1.0),
    "an abstention": ("", "Rollo", 0.0),
    "full stops and commas separate": ("U.S. $1,000.50", "1,000 U.S. dollars", 0.4000000000000001),
    "a repetition": ("the the the", "the", 0.5),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "expected"), ROUGE.values(), ids=ROUGE)
def test_documented_rouge_l_is_that_of_rouge_score(answer, gold, expected, documented):
    asked = dataclasses.replace(QUESTION, text=answer, accepted_answers=("...", gold))

    assert score_question(documented["ROUGE_L"], asked).value == pytest.approx(expected, abs=1e-15)


# The mean that hotpot_evaluate_v1.py prints for these predictions of the 40 questions.
def test_documented_joint_f1_is_that_of_hotpotqa(documented, benchmarks):
    scores = []
    for i, row in enumerate(json.loads((benchmarks / "hotpotqa" / "hotpot_sample.json").read_text())):
        gold, facts = row["answer"], zip(*row["supporting_facts"].values(), strict=True)
        wanted = [Citation(title, None, Span(10 * n, 10 * n + 10)) for title, n in facts]
        # Of five questions: right, too long, yes, missing, the first word.
        answer = [gold, f"{gold} of it", "yes", "", gold.split()[0]][i % 5]
        # Of four questions: right, one, one too many, and none.
        cited = [wanted, wanted[:1], [*wanted, Citation("Elsewhere", None, Span(0, 10))], []][i % 4]
        asked = dataclasses.replace(
            QUESTION, text=answer, accepted_answers=(gold,), gold_citations=wanted, citations=cited
        )
        scores.append(score_question(documented["JOINT_F1"], asked).value)

    assert sum(scores) / 40 == pytest.approx(0.2807663292589763, abs=1e-15)


GOOD = {
    "a number":                  (lambda q: 0.5,              0.5),
    "a number of numpy's":       (lambda q: np.float32(0.25), 0.25),
    "nothing where it is not meant": (lambda q: None,         None),
    "what others found":         (lambda q: q.scores["f1"],   1.0),
    "a record":                  (lambda q: record(score=0.5, explanation="Kind enough."), 0.5),
    "a record without a score":  (lambda q: record(explanation="Not meant."), None),
}  # fmt: skip


@pytest.mark.parametrize(("score", "expected"), GOOD.values(), ids=GOOD)
def test_score(score, expected):
    found = score_question(metric(score), QUESTION)

    assert found.value == expected
    assert found.record == (score(QUESTION) if isinstance(score(QUESTION), Evaluation) else None)


BAD = {
    "it raises":         (fail,                   "metric_raised"),
    "not a number":      (lambda q: math.nan,     "bad_metric_score"),
    "too large for a float": (lambda q: 10**400,  "bad_metric_score"),
    "too long to print": (lambda q: 10**5000,     "bad_metric_score"),
    "above its range":   (lambda q: 1.001,        "bad_metric_score"),
    "a text":            (lambda q: "0.5",        "bad_metric_score"),
    "a category":        (lambda q: record(score="kind"), "bad_metric_score"),
    "a failed record":   (lambda q: record(error={"type": "Timeout", "message": "too\nslow"}), "metric_raised"),
}  # fmt: skip


@pytest.mark.parametrize(("score", "code"), BAD.values(), ids=BAD)
def test_what_is_no_score_names_metric_and_question(score, code):
    with pytest.raises(InputError, match=rf"^metric kindness, question q7: expected .*\[{code}\]\.$"):
        score_question(metric(score), QUESTION)
