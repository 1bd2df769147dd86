"""A mean comes with its interval, its counts and its coverage; a failure is never a number."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.intervals import clustered_wilson_interval, wilson_interval
from rag_eval_pipeline.metrics.statistics import Interval, Scores, Summary, mean, proportion, summarise, summarise_all


def test_the_mean_is_added_up_in_the_order_given():
    # 1e16 swallows each 1 that is added after it, one at a time; a pairwise or compensated sum would not lose them.
    assert mean([1e16, 1.0, 1.0]) == 1e16 / 3
    assert mean([1.0, 1.0, 1e16]) == (1e16 + 2) / 3


def test_a_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        mean([])


def test_binary_scores_get_wilsons_interval():
    assert summarise([1.0, 0.0, 1.0, 1.0]) == Summary(
        value=0.75,
        confidence_interval=wilson_interval(3, 4),
        method="wilson",
        n_scored=4,
        n_failed=0,
        n_skipped=0,
        coverage=1.0,
        reason=None,
    )


def test_graded_scores_get_a_bootstrap_interval():
    summary = summarise([0.5, 0.25, 1.0], seed=7)

    assert summary.value == 1.75 / 3
    assert summary.method == "bootstrap percentile, 10000 resamples, seed 7"
    # Three times the lowest value has a probability of 1/27, more than 2.5 %; so has three times the highest.
    assert summary.confidence_interval == Interval(0.25, 1.0)


COUNTS = {
    #                                               values           failed, skipped   scored, failed, skipped, coverage
    "a None is a failure":                          ([1.0, None],    0, 0,             (1, 1, 0, 1 / 2)),
    "failures elsewhere are added":                 ([1.0, None],    2, 0,             (1, 3, 0, 1 / 4)),
    "what is skipped does not lower the coverage":  ([1.0, 0.0],     0, 9,             (2, 0, 9, 1.0)),
    "nothing but failures":                         ([None, None],   0, 1,             (0, 2, 1, 0.0)),
    "nothing to score":                             ([],             0, 3,             (0, 0, 3, None)),
}  # fmt: skip


@pytest.mark.parametrize(("values", "failed", "skipped", "expected"), COUNTS.values(), ids=COUNTS)
def test_every_question_is_counted_once(values, failed, skipped, expected):
    summary = summarise(values, failed=failed, skipped=skipped)

    assert (summary.n_scored, summary.n_failed, summary.n_skipped, summary.coverage) == expected


REASONS = {
    "all failed": (summarise([None]), "all_failed"),
    "nothing there": (summarise([], skipped=4), "nothing_to_score"),
    "the caller knows why": (summarise([None, None], reason="no_judge"), "no_judge"),
    "a proportion of nothing": (proportion(0, 0, skipped=2, reason="no_abstentions"), "no_abstentions"),
}


@pytest.mark.parametrize(("summary", "reason"), REASONS.values(), ids=REASONS)
def test_what_has_no_value_says_why(summary, reason):
    assert (summary.value, summary.confidence_interval, summary.method, summary.reason) == (None, None, None, reason)


def test_a_reason_is_for_missing_values_only():
    assert summarise([1.0], reason="no_judge").reason is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_is_a_finite_number(value):
    with pytest.raises(ValueError, match="finite"):
        summarise([0.5, value])


def test_counts_are_not_negative():
    with pytest.raises(ValueError, match="counts"):
        summarise([1.0], skipped=-1)


def test_scores_that_all_agree_have_no_interval():
    assert summarise([0.5, 0.5, 0.5]).method is None


def test_many_metrics_are_summarised_as_each_alone():
    rng = np.random.default_rng(5)
    metrics = {
        "graded": Scores([*rng.beta(5, 2, 60).tolist(), None], failed=1),
        "another of the same questions": Scores(rng.beta(2, 2, 60).tolist(), skipped=3),
        "fewer questions": Scores(rng.beta(2, 2, 40).tolist()),
        "binary": Scores(rng.integers(0, 2, 60).astype(float).tolist()),
        "nothing": Scores([None], reason="no_judge"),
        "by document": Scores(rng.beta(2, 2, 60).tolist(), clusters=[str(i // 3) for i in range(60)]),
    }

    together = summarise_all(metrics, seed=3)

    assert list(together) == list(metrics)
    for name, (values, failed, skipped, reason, clusters) in metrics.items():
        alone = summarise(values, failed=failed, skipped=skipped, reason=reason, seed=3, clusters=clusters)
        # Sums of the same resamples in another order: the last bits differ.
        assert together[name].confidence_interval == (
            None if alone.confidence_interval is None else pytest.approx(alone.confidence_interval, abs=1e-12)
        )
        assert (together[name].value, together[name].method, together[name].n_failed, together[name].reason) == (
            alone.value, alone.method, alone.n_failed, alone.reason,
        )  # fmt: skip


def test_questions_of_one_document_make_the_interval_of_a_share_wider():
    values = [1.0] * 60 + [0.0] * 40
    documents = [str(i // 10) for i in range(100)]  # six documents all right, four all wrong

    summary = summarise(values, clusters=documents)

    assert summary.method == "wilson, 10 clusters worth 6.8 of 100"
    assert summary.n_clusters == 10
    assert summary.confidence_interval == clustered_wilson_interval(np.array(values), documents)[0]


def test_questions_of_one_document_make_a_graded_interval_wider():
    values = np.repeat(np.random.default_rng(2).beta(2, 2, 20), 10)
    documents = [str(i // 10) for i in range(200)]

    alone, shared = summarise(values.tolist()), summarise(values.tolist(), clusters=documents)

    assert shared.method == "bootstrap percentile, 10000 resamples of 20 clusters worth 20.0, widened, seed 42"
    assert (alone.n_clusters, shared.n_clusters) == (None, 20)
    # Ten questions that all say the same are one: the width grows by sqrt(10) = 3.16, and by 2.093 / 1.960 x sqrt(20 / 19)
    # = 1.096 because there are twenty of them.
    ratio = np.diff(shared.confidence_interval)[0] / np.diff(alone.confidence_interval)[0]
    assert ratio == pytest.approx(math.sqrt(10) * 1.096, rel=0.1)


@pytest.mark.parametrize("values", [[1.0, 0.0, None, 1.0], [0.5, 0.25, None, 1.0]], ids=["binary", "graded"])
def test_documents_of_one_question_change_nothing(values):
    assert summarise(values, clusters=["d", "c", "b", "a"]) == summarise(values)


@pytest.mark.parametrize("values", [[1.0, 0.0, None], [0.5, 0.25, None]], ids=["binary", "graded"])
def test_each_value_needs_a_document(values):
    with pytest.raises(ValueError, match="cluster for each of 3"):
        summarise(values, clusters=["a", "b"])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=50), st.integers(0, 5))
def test_the_value_is_the_exact_share(values, failed):
    summary = summarise([float(value) for value in values], failed=failed)

    assert Fraction(summary.value).limit_denominator(100) == Fraction(sum(values), len(values))
    assert summary.confidence_interval.low <= summary.value <= summary.confidence_interval.high
