"""Scores are brought to one scale before they are added up; what did not complete has no weight."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation
from rag_eval_pipeline.metrics.evaluation_scores import SCALES, Scale, normalised, summary_score


def evaluation(name, score=None, **more):
    given = {"evaluation_id": name, "target_event_id": "evt", "evaluator_name": name, "score": score}
    return Evaluation.model_validate(given | {"timestamp": datetime(2024, 1, 15, tzinfo=UTC)} | more)


FAILED = {"status": "failed", "error": {"type": "E", "message": "m"}}
# The specification's example: toxicity 0.05 is good.
THREE = [evaluation("factual_accuracy", 0.92), evaluation("relevance", 0.88), evaluation("toxicity", 0.05)]
WEIGHTS = {"factual_accuracy": 0.5, "relevance": 0.3, "toxicity": 0.2}

SCORES = {
    #                                     score        scale                                            expected
    "a share":                          (0.85,        Scale(),                                         0.85),
    "a share of something bad":         (0.05,        Scale(better="lower"),                           0.95),
    "four of five stars":               (4,           Scale(1, 5),                                     0.75),
    "no stars lost":                    (0,           Scale(0, 10, "lower"),                           1.0),
    "passed":                           (True,        None,                                            1.0),
    "passed, whatever the range":       (True,        Scale(0, 10),                                    1.0),
    "a hallucination, which is bad":    (True,        Scale(better="lower"),                           0.0),
    "a category":                       ("good",      Scale(0, 4, categories={"bad": 0, "good": 3}),   0.75),
    "below zero":                       (-1,          Scale(-1, 1),                                    0.0),
}  # fmt: skip


@pytest.mark.parametrize(("score", "scale", "expected"), SCORES.values(), ids=SCORES)
def test_normalised(score, scale, expected):
    assert normalised(score, scale, "e") == expected


BAD = {
    #                                          score     scale                            code
    "a number on no scale":                  (0.5,      None,                            "no_scale"),
    "a category on no scale":                ("good",   None,                            "no_scale"),
    "a category that nobody declared":       ("fine",   Scale(categories={"good": 1}),   "unknown_category"),
    "a category where none is declared":     ("fine",   Scale(),                         "unknown_category"),
    "a number outside the scale":            (1.01,     Scale(),                         "score_out_of_range"),
    "a category outside the scale":          ("good",   Scale(categories={"good": 3}),   "score_out_of_range"),
}  # fmt: skip


@pytest.mark.parametrize(("score", "scale", "code"), BAD.values(), ids=BAD)
def test_a_score_without_a_meaning_is_refused(score, scale, code):
    with pytest.raises(InputError) as caught:
        normalised(score, scale, "mine")

    assert (caught.value.code, caught.value.file) == (code, "mine")


METHODS = {
    # 0.5 * 0.92 + 0.3 * 0.88 + 0.2 * (1 - 0.05) = 0.46 + 0.264 + 0.19
    "weighted_average": 0.914,
    # (0.92 + 0.88 + 0.95) / 3 = 2.75 / 3
    "simple_average": 2.75 / 3,
    # Relevance; toxicity's 0.05 would be the least of the raw scores.
    "minimum": 0.88,
}


@pytest.mark.parametrize(("method", "expected"), METHODS.items())
def test_summary_of_the_specifications_example(method, expected):
    summary = summary_score(THREE, method, weights=WEIGHTS)

    assert summary.value == pytest.approx(expected, abs=1e-15)
    assert (summary.coverage, summary.left_out, summary.reason) == (1.0, (), None)


def test_weights_are_shared_out_among_those_that_completed():
    # Relevance failed: (0.46 + 0.19) / 0.7
    summary = summary_score([THREE[0], evaluation("relevance", **FAILED), THREE[2]], "weighted_average", weights=WEIGHTS)  # fmt: skip

    assert summary.value == pytest.approx(0.65 / 0.7, abs=1e-15)
    assert summary.weights == pytest.approx({"factual_accuracy": 5 / 7, "toxicity": 2 / 7})
    assert summary.coverage == pytest.approx(0.7)
    assert [tuple(left) for left in summary.left_out] == [("relevance", "failed")]


@pytest.mark.parametrize("method", METHODS)
def test_a_failure_counts_as_nothing_not_as_zero(method):
    rest = [evaluation("quality", **FAILED), evaluation("length", status="skipped"), evaluation("coherence", explanation="x")]  # fmt: skip
    weights = dict.fromkeys(SCALES, 1)

    with_them = summary_score([*THREE, *rest], method, weights=weights)
    alone = summary_score(rest, method, weights=weights)

    assert with_them.value == summary_score(THREE, method, weights=weights).value
    assert with_them.coverage == 0.5
    assert (alone.value, alone.reason, alone.coverage) == (None, "nothing_completed", 0.0)
    assert [left.reason for left in alone.left_out] == ["failed", "skipped", "no_score"]


def test_those_that_completed_may_weigh_nothing():
    summary = summary_score(THREE[:1], "weighted_average", weights={"factual_accuracy": 0})

    assert (summary.value, summary.reason, summary.coverage) == (None, "no_weight", None)


REFUSED = {
    "an evaluator without a weight":   ((THREE, "weighted_average", {"relevance": 1}),               "missing_weight"),
    "no weights":                      ((THREE, "weighted_average", None),                           "missing_weight"),
    "a negative weight":               ((THREE, "weighted_average", WEIGHTS | {"toxicity": -0.2}),   "bad_weight"),
    "a weight that is no number":      ((THREE, "weighted_average", WEIGHTS | {"toxicity": float("nan")}), "bad_weight"),
    "an evaluator twice":              ((THREE[:1] * 2, "simple_average", None),                     "duplicate_evaluator"),
    "a method of somebody's own":      ((THREE, "custom", None),                                     "unknown_method"),
    "an evaluator without a scale":    (([evaluation("mine", 0.5)], "simple_average", None),         "no_scale"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(arguments, code):
    evaluations, method, weights = arguments

    with pytest.raises(InputError) as caught:
        summary_score(evaluations, method, weights=weights)
    assert caught.value.code == code


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.data())
def test_a_summary_lies_between_the_least_and_the_greatest(scores, data):
    names = list(SCALES)[: len(scores)]
    weights = {name: data.draw(st.floats(0.01, 100)) for name in names}
    evaluations = [evaluation(name, score) for name, score in zip(names, scores, strict=True)]

    values = [summary_score(evaluations, method, weights=weights).value for method in METHODS]

    assert all(min(scores) - 1e-12 <= value <= max(scores) + 1e-12 for value in values)
    assert values[2] == min(scores)


def test_a_scale_has_two_ends():
    with pytest.raises(ValueError, match="low < high"):
        Scale(1, 1)
