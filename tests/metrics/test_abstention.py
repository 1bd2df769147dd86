"""Declining is right where there is no answer; what nobody knows is no zero."""

import pytest

from rag_eval_pipeline.metrics.abstention import AbstentionCounts, AskedQuestion, abstention_rates, count_abstentions
from rag_eval_pipeline.metrics.intervals import wilson_interval


def test_questions_fall_into_four_quadrants_and_failures_apart():
    flags = [(False, False), (False, False), (False, True), (False, None), (True, True), (True, False), (True, None)]

    assert count_abstentions(AskedQuestion(*flag) for flag in flags) == AbstentionCounts(
        answerable_answered=2,
        answerable_abstained=1,
        answerable_failed=1,
        unanswerable_answered=1,
        unanswerable_abstained=1,
        unanswerable_failed=1,
    )


# 60 answerable: 50 answered, 6 declined, 4 failed; 40 unanswerable: 10 answered, 30 declined.
COUNTS = AbstentionCounts(50, 6, 4, 10, 30, 0)


def test_the_ratios_follow_from_the_quadrants():
    assert COUNTS.precision.value == 30 / 36
    assert COUNTS.recall.value == 30 / 40
    assert COUNTS.f1.value == 60 / (60 + 6 + 10)
    assert COUNTS.over_refusal_rate.value == 6 / 56
    assert COUNTS.false_answer_rate.value == 10 / 40
    assert COUNTS.abstention_rate.value == 36 / 96
    assert COUNTS.accuracy.value == (50 + 30) / 96


def test_every_question_is_scored_failed_or_skipped_in_every_ratio():
    counts = {
        name: (part.n_scored, part.n_failed, part.n_skipped)
        for name in (
            "precision",
            "recall",
            "f1",
            "over_refusal_rate",
            "false_answer_rate",
            "abstention_rate",
            "accuracy",
        )
        for part in [getattr(COUNTS, name)]
    }

    assert counts == {
        "precision": (36, 4, 60),  # a failed question might have been declined
        "recall": (40, 0, 60),
        "f1": (96, 4, 0),
        "over_refusal_rate": (56, 4, 40),
        "false_answer_rate": (40, 0, 60),
        "abstention_rate": (96, 4, 0),
        "accuracy": (96, 4, 0),
    }


ALL_ANSWERABLE = AbstentionCounts(answerable_answered=5, answerable_abstained=1)
ALL_UNANSWERABLE = AbstentionCounts(unanswerable_answered=2, unanswerable_abstained=2)
NONE_DECLINED = AbstentionCounts(answerable_answered=5, unanswerable_answered=3)
LOST = AbstentionCounts(answerable_answered=5, unanswerable_failed=2)

UNDEFINED = {
    "nothing was declined":              (NONE_DECLINED,      "precision",         "no_abstentions"),
    "every question has an answer":      (ALL_ANSWERABLE,     "recall",            "no_unanswerable_questions"),
    "F1 without unanswerable questions": (ALL_ANSWERABLE,     "f1",                "no_unanswerable_questions"),
    "all unanswerable questions failed": (LOST,               "recall",            "all_failed"),
    "no question has an answer":         (ALL_UNANSWERABLE,   "over_refusal_rate", "no_answerable_questions"),
    "nothing was asked":                 (AbstentionCounts(), "precision",         "no_abstentions"),
    "no false answers without questions": (ALL_ANSWERABLE,    "false_answer_rate", "no_unanswerable_questions"),
    "no accuracy of nothing":            (AbstentionCounts(), "accuracy",          "nothing_to_score"),
}  # fmt: skip


@pytest.mark.parametrize(("counts", "ratio", "reason"), UNDEFINED.values(), ids=UNDEFINED)
def test_a_ratio_of_nothing_has_a_reason_instead_of_a_value(counts, ratio, reason):
    summary = getattr(counts, ratio)

    assert (summary.value, summary.confidence_interval, summary.reason) == (None, None, reason)


def test_answering_every_unanswerable_question_is_a_recall_and_f1_of_zero():
    assert NONE_DECLINED.recall.value == NONE_DECLINED.f1.value == 0.0


# 4 unanswerable: 2 declined; 6 answerable: 1 declined, 1 failed.
ASKED = [
    AskedQuestion(*flags)
    for flags in [
        (True, True), (True, True), (True, False), (True, False),
        (False, True), (False, False), (False, False), (False, False), (False, False), (False, None),
    ]
]  # fmt: skip


def test_rates_of_questions_that_stand_alone_are_those_of_the_counts():
    rates = abstention_rates(ASKED)

    counts = count_abstentions(ASKED)
    assert rates == {name: getattr(counts, name) for name in rates}
    assert set(rates) == {
        "precision", "recall", "f1", "over_refusal_rate", "false_answer_rate", "abstention_rate", "accuracy",
    }  # fmt: skip


def test_f1_has_the_limits_of_the_share_it_grows_with():
    f1 = count_abstentions(ASKED).f1

    # 2 of the 5 questions that are unanswerable or were declined are both; F1 is 4/7.
    low, high = wilson_interval(2, 5)
    assert f1.value == 4 / 7  # 2 x 2/5 / (1 + 2/5)
    assert f1.confidence_interval == (2 * low / (1 + low), 2 * high / (1 + high))


def test_questions_that_share_documents_are_worth_less():
    shared = abstention_rates(ASKED, ["a", "a", "b", "b", "c", "c", "c", "d", "d", "d"])

    for name, alone in abstention_rates(ASKED).items():
        rate = shared[name]
        assert (rate.value, rate.n_scored, rate.n_failed, rate.n_skipped) == (
            alone.value, alone.n_scored, alone.n_failed, alone.n_skipped,
        )  # fmt: skip
        assert rate.confidence_interval[1] - rate.confidence_interval[0] >= (
            alone.confidence_interval[1] - alone.confidence_interval[0]
        )
    # Two documents of two unanswerable questions each, which agree with each other: worth two questions or fewer.
    assert shared["recall"].n_clusters == 2
    assert shared["recall"].confidence_interval == shared["false_answer_rate"].confidence_interval
