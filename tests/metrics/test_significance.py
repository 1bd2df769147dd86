"""The paired test counts sign assignments: by hand where they are few, against exact tests where they are many."""

import hashlib
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from rag_eval_pipeline.metrics.exact_permutation import exact_sign_flip_p
from rag_eval_pipeline.metrics.significance import (
    comparison_seed,
    needed_flips,
    paired_differences,
    sign_flip_p_values,
    unit_sums,
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
    with pytest.raises(ValueError, match="expected 2 scores"):
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


def test_the_seed_follows_from_the_comparison():
    digest = hashlib.sha256(b"squad2/bm25\nrun_1\nrun_2").digest()

    assert comparison_seed("squad2/bm25", ["run_1", "run_2"]) == int.from_bytes(digest[:8], "big")


def test_clusters_of_one_question_have_the_same_p_as_none():
    differences = np.random.default_rng(3).normal(0.1, 1, (50, 2))

    singletons = sign_flip_p_values(differences, seed=11, clusters=[f"z{50 - i}" for i in range(50)])

    assert singletons == sign_flip_p_values(differences, seed=11)


@given(st.lists(st.sampled_from([-1.0, -0.4, 0.0, 0.2, 0.6]), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_p_does_not_depend_on_the_sign(differences, seed):
    there = sign_flip_p_values(column(*differences), seed=seed, flips=200)
    back = sign_flip_p_values(-column(*differences), seed=seed, flips=200)

    # A sum of 0 has no direction; it is reached from either side.
    assert there == back or abs(sum(differences)) < 1e-9


@pytest.mark.parametrize("n_moved", [15, 40, 300], ids=lambda n: f"{n} questions moved")
def test_drawn_signs_estimate_the_exact_p(n_moved):
    scores = np.random.default_rng(n_moved).integers(-5, 6, n_moved) / 5 + 0.1
    scores[-1] -= 0.1 * n_moved  # a fall, but no sure one

    [p_value] = sign_flip_p_values(scores[:, np.newaxis], seed=12)

    exact = exact_sign_flip_p(scores)
    assert p_value == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000) + 1 / 20_000)


def test_a_documents_differences_are_added_up_in_the_order_of_its_first_question():
    assert unit_sums(column(1, 2, 4, 8), ["b", "a", "b", "a"]).tolist() == [[5.0], [10.0]]


FLIPS = {
    "nineteen thousand are enough for twelve":            (12, 0.02, 19_999),
    "and for twenty, to the last":                        (20, 0.02, 19_999),
    "twenty-one metrics need more: 10 x 21 / 0.01":       (21, 0.02, 20_999),
    "all of a night: 10 x 360 / 0.01":                    (360, 0.02, 359_999),
}  # fmt: skip


@pytest.mark.parametrize(("n_metrics", "alpha", "expected"), FLIPS.values(), ids=FLIPS)
def test_flips_resolve_a_tenth_of_the_limit(n_metrics, alpha, expected):
    assert needed_flips(n_metrics, alpha=alpha) == expected
