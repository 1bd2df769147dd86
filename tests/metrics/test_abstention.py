"""Declining is right where there is no answer; a failed answer is neither answered nor declined."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.abstention import AbstentionCounts, AskedQuestion, abstention_rates, count_abstentions
from rag_eval_pipeline.metrics.intervals import wilson_interval


def test_count_abstentions():
    flags = [(False, False), (False, False), (False, True), (False, None), (True, True), (True, False), (True, None)]

    assert count_abstentions(AskedQuestion(*flag) for flag in flags) == AbstentionCounts(2, 1, 1, 1, 1, 1)


# 60 answerable: 50 answered, 6 declined, 4 failed; 40 unanswerable: 10 answered, 30 declined.
COUNTS = AbstentionCounts(50, 6, 4, 10, 30, 0)
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


@pytest.mark.parametrize(("rate", "value", "counts"), [(name, *row) for name, row in RATES.items()], ids=RATES)
def test_abstention_rate_counts_every_question_once(rate, value, counts):
    found = getattr(COUNTS, rate)

    assert (found.value, (found.n_scored, found.n_failed, found.n_skipped)) == (value, counts)


ALL_ANSWERABLE = AbstentionCounts(answerable_answered=5, answerable_abstained=1)
ALL_UNANSWERABLE = AbstentionCounts(unanswerable_answered=2, unanswerable_abstained=2)
NONE_DECLINED = AbstentionCounts(answerable_answered=5, unanswerable_answered=3)
LOST = AbstentionCounts(answerable_answered=5, unanswerable_failed=2)

UNDEFINED = {
    "nothing was declined":               (NONE_DECLINED,      "precision",         "no_abstentions"),
    "every question has an answer":       (ALL_ANSWERABLE,     "recall",            "no_unanswerable_questions"),
    "F1 without unanswerable questions":  (ALL_ANSWERABLE,     "f1",                "no_unanswerable_questions"),
    "all unanswerable questions failed":  (LOST,               "recall",            "all_failed"),
    "no question has an answer":          (ALL_UNANSWERABLE,   "over_refusal_rate", "no_answerable_questions"),
    "all answerable questions failed":    (replace(ALL_UNANSWERABLE, answerable_failed=1), "over_refusal_rate", "all_failed"),
    "no false answers without questions": (ALL_ANSWERABLE,     "false_answer_rate", "no_unanswerable_questions"),
    "no accuracy of nothing":             (AbstentionCounts(), "accuracy",          "nothing_to_score"),
}  # fmt: skip


@pytest.mark.parametrize(("counts", "rate", "reason"), UNDEFINED.values(), ids=UNDEFINED)
def test_abstention_rate_of_nothing_has_a_reason(counts, rate, reason):
    summary = getattr(counts, rate)

    assert (summary.value, summary.confidence_interval, summary.reason) == (None, None, reason)
    assert NONE_DECLINED.recall.value == NONE_DECLINED.f1.value == 0.0


# 4 unanswerable: 2 declined; 6 answerable: 1 declined, 1 failed.
ASKED = [
    AskedQuestion(*flags)
    for flags in [
        (True, True), (True, True), (True, False), (True, False),
        (False, True), (False, False), (False, False), (False, False), (False, False), (False, None),
    ]
]  # fmt: skip


def test_abstention_rates_without_shared_documents_are_those_of_the_counts():
    rates = abstention_rates(ASKED)

    counts = count_abstentions(ASKED)
    assert rates == {name: getattr(counts, name) for name in RATES}
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
