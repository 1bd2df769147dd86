"""A custom metric gives a number of its range or nothing; errors name metric and question."""

import dataclasses
import math
import re

import numpy as np
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.custom import AnsweredQuestion, MetricInfo, QuestionMetric, Range, score_question
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


def fail(_):
    raise RuntimeError("no network\nat all")


def test_metric_of_the_documentation_works():
    text = (REPOSITORY / "docs" / "how-to" / "custom-metric.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}

    exec(example, names)

    assert score_question(names["BREVITY"], QUESTION) == 1.0
    assert score_question(names["BREVITY"], dataclasses.replace(QUESTION, text="word " * 40)) == 0.5


GOOD = {
    "a number":                  (lambda q: 0.5,              0.5),
    "a number of numpy's":       (lambda q: np.float32(0.25), 0.25),
    "nothing where it is not meant": (lambda q: None,         None),
    "what others found":         (lambda q: q.scores["f1"],   1.0),
}  # fmt: skip


@pytest.mark.parametrize(("score", "expected"), GOOD.values(), ids=GOOD)
def test_score(score, expected):
    assert score_question(metric(score), QUESTION) == expected


BAD = {
    "it raises":         (fail,                   "metric_raised"),
    "not a number":      (lambda q: math.nan,     "bad_metric_score"),
    "too large for a float": (lambda q: 10**400,  "bad_metric_score"),
    "too long to print": (lambda q: 10**5000,     "bad_metric_score"),
    "above its range":   (lambda q: 1.001,        "bad_metric_score"),
    "a text":            (lambda q: "0.5",        "bad_metric_score"),
}  # fmt: skip


@pytest.mark.parametrize(("score", "code"), BAD.values(), ids=BAD)
def test_what_is_no_score_names_metric_and_question(score, code):
    with pytest.raises(InputError, match=rf"^metric kindness, question q7: expected .*\[{code}\]\.$"):
        score_question(metric(score), QUESTION)
