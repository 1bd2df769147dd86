"""Declining is right where there is no answer; a failed answer is neither answered nor declined."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.abstention import AskedQuestion, abstention_rates, count_abstentions
from rag_eval_pipeline.metrics.intervals import wilson_interval

KINDS = [(False, False), (False, True), (False, None), (True, False), (True, True), (True, None)]


def asked(*counts):
    """As many questions of each kind, in the order of `KINDS`."""
    return [AskedQuestion(*kind) for kind, n in zip(KINDS, counts, strict=True) for _ in range(n)]


# 60 answerable: 50 answered, 6 declined, 4 failed; 40 unanswerable: 10 answered, 30 declined.
QUESTIONS = asked(50, 6, 4, 10, 30, 0)
RATES = {
    #                      value                    scored, failed, skipped
    "precision":          (30 / 36,                 (36, 4, 60)),  # a failed question might have been declined
    "recall":             (30 / 40,                 (40, 0, 60)),
    "f1":                 (60 / (60 + 6 + 10),      (96, 4, 0)),
    "over_refusal_rate":  (6 / 56,                  (56, 4, 40)),
    "false_answer_rate":  (10 / 40,                 (40, 0, 60)),
    "abstention_rate":    (36 / 96,                 (96, 4, 0)),
    "accuracy":           ((50 + 30) / 96,          (96, 4, 0)),
}  # fmt: skip


def test_abstention_rates_count_every_question_once():
    found = {
        name: (rate.value, (rate.n_scored, rate.n_failed, rate.n_skipped))
        for name, rate in abstention_rates(QUESTIONS).items()
    }

    assert found == RATES
    counts = count_abstentions(QUESTIONS)
    assert list(counts.values()) == [50, 6, 4, 10, 30, 0]
    assert list(counts) == [
        f"{kind}_{name}" for kind in ("answerable", "unanswerable") for name in ("answered", "abstained", "failed")
    ]


ALL_ANSWERABLE = asked(5, 1, 0, 0, 0, 0)
UNDEFINED = {
    "nothing was declined":               (asked(5, 0, 0, 3, 0, 0), "precision",    "no_abstentions"),
    "every question has an answer":       (ALL_ANSWERABLE,     "recall",            "no_unanswerable_questions"),
    "F1 without unanswerable questions":  (ALL_ANSWERABLE,     "f1",                "no_unanswerable_questions"),
    "all unanswerable questions failed":  (asked(5, 0, 0, 0, 0, 2), "recall",       "all_failed"),
    "all answerable questions failed":    (asked(0, 0, 1, 2, 2, 0), "over_refusal_rate", "all_failed"),
    "no accuracy of nothing":             ([],                 "accuracy",          "nothing_to_score"),
}  # fmt: skip


@pytest.mark.parametrize(("questions", "rate", "reason"), UNDEFINED.values(), ids=UNDEFINED)
def test_abstention_rate_of_nothing_has_a_reason(questions, rate, reason):
    summary = abstention_rates(questions)[rate]

    assert (summary.value, summary.confidence_interval, summary.reason) == (None, None, reason)


def test_abstention_f1_counts_failures_and_is_zero_if_nothing_was_declined():
    unknown, zero = abstention_rates(asked(5, 1, 2, 0, 0, 1))["f1"], abstention_rates(asked(5, 0, 0, 3, 0, 0))["f1"]

    assert (unknown.value, unknown.n_failed, unknown.n_skipped, unknown.coverage) == (None, 3, 6, 0.0)
    assert (zero.value, zero.n_scored) == (0.0, 8)


# 4 unanswerable: 2 declined; 6 answerable: 1 declined, 1 failed.
ASKED = [asked(0, 0, 0, 0, 2, 0), asked(0, 0, 0, 2, 0, 0), asked(0, 1, 0, 0, 0, 0), asked(4, 0, 1, 0, 0, 0)]
ASKED = [question for part in ASKED for question in part]


def test_abstention_rates_have_wilsons_interval():
    rates = abstention_rates(ASKED)

    assert (rates["recall"].confidence_interval, rates["recall"].method) == (wilson_interval(2, 4), "wilson")
    # 2 of the 5 questions that are unanswerable or were declined are both; F1 = 2 x 2/5 / (1 + 2/5).
    low, high = wilson_interval(2, 5)
    assert rates["f1"].value == 4 / 7
    assert rates["f1"].confidence_interval == (2 * low / (1 + low), 2 * high / (1 + high))


def test_abstention_rates_of_shared_documents_have_wider_intervals():
    shared = abstention_rates(ASKED, ["a", "a", "b", "b", "c", "c", "c", "d", "d", "d"])

    for name, alone in abstention_rates(ASKED).items():
        rate = shared[name]
        interval, method = rate.confidence_interval, rate.method
        assert replace(alone, confidence_interval=interval, method=method, n_clusters=rate.n_clusters) == rate
        assert interval.high - interval.low >= alone.confidence_interval.high - alone.confidence_interval.low
    # Two documents of two unanswerable questions each, which agree with each other.
    assert shared["recall"].n_clusters == 2
    assert shared["recall"].confidence_interval == shared["false_answer_rate"].confidence_interval
