"""A threshold is broken by what is worse than it, not by what reaches it and not by what is missing."""

import pydantic
import pytest

from rag_eval_pipeline.metrics.thresholds import SPECIFIED, Breach, QualityThresholds, breaches, count_breaches

GOOD = {
    "tolerance_jaccard": 0.8, "citation_correctness": 0.7, "factual_consistency": 0.8,
    "hallucination_vs_citations": 0.1,
}  # fmt: skip

CASES = {
    "all reached exactly":       (GOOD, []),
    "nothing known":             ({}, []),
    "spans":                     (GOOD | {"tolerance_jaccard": 0.79}, ["span_accuracy"]),
    "too much is unsupported":   (GOOD | {"hallucination_vs_citations": 0.11}, ["hallucination_tolerance"]),
    "nothing is unsupported":    (GOOD | {"hallucination_vs_citations": 0.0}, []),
    "the last bit decides nothing": (GOOD | {"citation_correctness": 0.1 * 7 - 1e-16}, []),
    "several":                   (GOOD | {"citation_correctness": 0.5, "factual_consistency": 0.0},
                                  ["citation_validity", "answer_consistency"]),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "expected"), CASES.values(), ids=CASES)
def test_breaches(scores, expected):
    assert [breach.threshold for breach in breaches(scores, SPECIFIED)] == expected


def test_a_breach_says_what_was_found_and_what_was_allowed():
    assert breaches({"tolerance_jaccard": 0.5}, QualityThresholds(span_accuracy=0.9)) == [
        Breach("span_accuracy", "tolerance_jaccard", 0.5, 0.9)
    ]


def test_answers_are_counted_by_threshold():
    assert count_breaches([GOOD, GOOD | {"tolerance_jaccard": 0.0}, {}], SPECIFIED) == {
        "span_accuracy": 1,
        "citation_validity": 0,
        "answer_consistency": 0,
        "hallucination_tolerance": 0,
    }


def test_a_threshold_that_is_not_set_is_not_looked_at():
    assert breaches(dict.fromkeys(GOOD, 0.0), QualityThresholds(answer_consistency=0.8)) == [
        Breach("answer_consistency", "factual_consistency", 0.0, 0.8)
    ]


def test_a_threshold_is_a_share():
    with pytest.raises(pydantic.ValidationError):
        QualityThresholds(span_accuracy=80)
