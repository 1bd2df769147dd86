"""The paired test counts sign assignments: by hand where they are few, against exact tests where they are many."""

import hashlib
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from rag_eval_pipeline.metrics.significance import (
    comparison_seed,
    difference_interval,
    holm,
    paired_differences,
    sign_flip_p_values,
    smallest_detectable_drop,
)


def column(*differences):
    return np.array([differences], dtype=float).T


def test_a_difference_is_tonight_minus_the_mean_of_the_baseline():
    differences = paired_differences([1.0, 0.5], [[0.0, 0.5], [1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])

    assert differences.tolist() == [1 / 4, -0.125]


def test_runs_that_agree_differ_by_exactly_nothing():
    # In doubles the mean of six times 0.7 is not 0.7.
    assert paired_differences([0.7, 0.1, 1 / 3], [[0.7, 0.1, 1 / 3]] * 6).tolist() == [0.0, 0.0, 0.0]


def test_a_question_that_failed_in_any_run_is_no_pair():
    differences = paired_differences([1.0, None, 1.0], [[1.0, 1.0, None], [1.0, 1.0, 1.0]])

    assert np.isnan(differences).tolist() == [False, True, True]


def test_runs_are_over_the_same_questions():
    with pytest.raises(ValueError, match="shorter"):
        paired_differences([1.0, 1.0], [[1.0]])
    with pytest.raises(ValueError, match="at least one baseline"):
        paired_differences([1.0], [])


@pytest.mark.parametrize("direction", [1, -1], ids=["rise", "drop"])
def test_p_is_the_share_of_sign_assignments_that_reach_as_far(direction):
    differences = [0.5, 0.25, 0.25, -0.125, 0.5]
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in product((1, -1), repeat=5)]
    exact = sum(total >= sum(differences) for total in sums) / 32  # 2 of 32: all as they are, or the -0.125 flipped

    [p_value] = sign_flip_p_values(column(*differences) * direction, seed=1)

    assert exact == 2 / 32
    assert p_value == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000))


@pytest.mark.parametrize(("worse", "better"), [(16, 4), (11, 0), (30, 22)])
def test_on_binary_scores_it_is_the_exact_mcnemar_test(worse, better):
    exact = binomtest(worse, worse + better, alternative="greater").pvalue
    differences = column(*[-1.0] * worse, *[1.0] * better, *[0.0] * 100)

    [p_value] = sign_flip_p_values(differences, seed=2)

    assert p_value == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000) + 1 / 20_000)


def test_no_assignment_as_extreme_is_still_not_a_p_of_zero():
    assert sign_flip_p_values(column(*[-1.0] * 40), seed=3) == [1 / 20_000]


def test_nothing_changed_is_a_p_of_one():
    assert sign_flip_p_values(np.zeros((50, 2)), seed=4) == [1.0, 1.0]


def test_a_metric_without_pairs_has_no_p():
    differences = np.array([[0.5, np.nan], [0.5, np.nan]])

    assert sign_flip_p_values(differences, seed=5)[1] is None


def test_differences_that_tie_but_for_rounding_are_ties():
    # Five questions up a tenth and five down: the observed sum is 0 but for rounding, so p is that of a sum of 0:
    # (1 + C(10,5) / 2^10) / 2 = 0.623.
    [p_value] = sign_flip_p_values(column(*[0.1] * 5, *[-0.1] * 5), seed=6)

    assert p_value == pytest.approx((1 + 252 / 1024) / 2, abs=0.014)


def test_the_same_seed_gives_the_same_p():
    differences = np.random.default_rng(1).normal(0.1, 1, (80, 3))

    assert sign_flip_p_values(differences, seed=7) == sign_flip_p_values(differences, seed=7)
    assert sign_flip_p_values(differences, seed=7) != sign_flip_p_values(differences, seed=8)


def test_one_sign_matrix_serves_all_metrics():
    differences = column(*np.random.default_rng(2).normal(0.2, 1, 60))

    first, second = sign_flip_p_values(np.hstack([differences, -3 * differences]), seed=9)

    assert first == second


def test_questions_of_one_document_are_flipped_together():
    # Twelve questions fell, in three documents: p is 2^-3, not 2^-12.
    names = [name for name in "abc" for _ in range(4)]

    [p_value] = sign_flip_p_values(column(*[-1.0] * 12), seed=10, clusters=names)

    assert p_value == pytest.approx(1 / 8, abs=0.01)


def test_each_question_needs_a_cluster():
    with pytest.raises(ValueError, match="cluster for each of 3"):
        sign_flip_p_values(column(1, 1, 1), seed=1, clusters=["a"])


HOLM = {
    # Sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 (raised to the one before).
    "step down, and never below the one before": ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
    "at most one": ([0.9, 0.8], [1.0, 1.0]),
    "a single p is itself": ([0.04], [0.04]),
    "none": ([], []),
}


@pytest.mark.parametrize(("p_values", "expected"), HOLM.values(), ids=HOLM)
def test_holm(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_only_raises_and_keeps_the_order(p_values):
    corrected = holm(p_values)

    assert all(before <= after <= 1 for before, after in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)


def test_the_interval_of_no_change_still_has_a_width():
    # Eight zeros, +1 and -1: mean 0, variance 2/9, standard error sqrt(2/90); t(9) at 97.5 % is 2.262157.
    interval = difference_interval(np.zeros(8))

    half = 2.262157 * math.sqrt(2 / 90)
    assert interval == (pytest.approx(-half, abs=1e-6), pytest.approx(half, abs=1e-6))


def test_the_pseudo_questions_are_as_far_apart_as_scores_can_be():
    narrow, wide = difference_interval(np.zeros(8)), difference_interval(np.zeros(8), value_range=4.0)

    assert wide.high == pytest.approx(4 * narrow.high)


def test_the_interval_is_taken_between_clusters():
    # Clusters sum to 0.4, -0.4, and the pseudo-questions to 1, -1: squares 2.32; G = 4, n = 6; t(3) is 3.182446.
    interval = difference_interval(np.array([0.2, 0.2, -0.2, -0.2]), clusters=["a", "a", "b", "b"])

    assert interval.high == pytest.approx(3.182446 * math.sqrt(4 / 3 * 2.32 / 36), abs=1e-6)


def test_clusters_of_one_question_are_no_clusters():
    differences = np.random.default_rng(3).normal(0, 0.3, 40)

    assert difference_interval(differences, clusters=[str(i) for i in range(40)]) == pytest.approx(
        difference_interval(differences)
    )


DROPS = {
    #                              units, metrics, smallest drop
    "22 points of 50":            (50,    12,      11 / 50),
    "5.5 points of 200":          (200,   12,      11 / 200),
    "2.2 points of 500":          (500,   12,      11 / 500),
    "the minimum effect rules":   (2000,  12,      0.01),
    "one metric needs fewer":     (50,    1,       7 / 50),
    "more units than there are":  (10,    12,      None),
    "no units":                   (0,     12,      None),
}  # fmt: skip


@pytest.mark.parametrize(("units", "metrics", "expected"), DROPS.values(), ids=DROPS)
def test_the_smallest_drop_that_can_be_flagged(units, metrics, expected):
    assert smallest_detectable_drop(units, n_metrics=metrics, alpha=0.02, min_effect=0.01) == expected


def test_the_seed_follows_from_the_comparison():
    digest = hashlib.sha256(b"squad2/bm25\nrun_1\nrun_2").digest()

    assert comparison_seed("squad2/bm25", ["run_1", "run_2"]) == int.from_bytes(digest[:8], "big")
