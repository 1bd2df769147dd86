"""The exact p counts every assignment of signs once, whichever way it counts."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from rag_eval_pipeline.metrics.exact_permutation import exact_sign_flip_p, whole_multiples


def enumerated(differences):
    observed = abs(sum(differences))
    tie = 1e-9 * sum(map(abs, differences))
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - tie for total in sums) / len(sums)


GRIDS = {
    "binary against five runs": st.integers(-5, 5).map(lambda fifths: fifths / 5),
    "reciprocal ranks": st.tuples(st.integers(1, 10), st.integers(1, 10)).map(
        lambda ranks: 1 / ranks[0] - 1 / ranks[1]
    ),
    "anything": st.floats(-1, 1).filter(lambda d: d == 0 or abs(d) > 1e-3),
}


@pytest.mark.parametrize("values", GRIDS.values(), ids=GRIDS)
@given(data=st.data())
def test_it_equals_enumeration(values, data):
    differences = data.draw(st.lists(values, min_size=1, max_size=9))

    assert exact_sign_flip_p(np.array(differences)) == pytest.approx(enumerated(differences), abs=1e-12)


@given(st.lists(st.floats(-1, 1), max_size=12))
def test_it_does_not_depend_on_the_sign_or_the_order(differences):
    there = exact_sign_flip_p(np.array(differences))

    assert exact_sign_flip_p(-np.array(differences[::-1])) == pytest.approx(there, rel=1e-12)


@pytest.mark.parametrize(("worse", "better"), [(16, 4), (11, 0), (30, 22), (400, 300), (1500, 0)])
def test_on_binary_scores_it_is_the_exact_mcnemar_test(worse, better):
    differences = np.array([-1.0] * worse + [1.0] * better + [0.0] * 100)

    assert (
        exact_sign_flip_p(differences)
        == pytest.approx(binomtest(worse, worse + better, alternative="greater").pvalue, rel=1e-9)
        or worse > 1000
    )  # 2^-1500 is no double


def test_thirty_differences_of_any_size_are_counted_by_halves():
    # All positive: only the observed assignment reaches the sum.
    assert exact_sign_flip_p(np.random.default_rng(1).random(30)) == 2.0**-30


def test_sums_that_tie_but_for_rounding_are_ties_in_either_way_of_counting():
    # The tenths have a step, with pi they have none; in either case many assignments reach the observed sum exactly.
    tenths = [0.1] * 4 + [-0.1] * 2 + [0.3, 0.7]
    without_a_step = [*tenths, math.pi / 10, -math.pi / 10]

    assert whole_multiples(np.abs(tenths)) is not None
    assert whole_multiples(np.abs(without_a_step)) is None
    assert exact_sign_flip_p(np.array(tenths)) == enumerated(tenths)
    assert exact_sign_flip_p(np.array(without_a_step)) == enumerated(without_a_step)


def test_nothing_changed_is_a_p_of_one():
    assert exact_sign_flip_p(np.zeros(5)) == 1.0
    assert exact_sign_flip_p(np.array([])) == 1.0


def test_too_many_different_differences_are_left_to_chance():
    assert exact_sign_flip_p(np.random.default_rng(4).normal(size=41)) is None


STEPS = {
    "fifths, as rounding leaves them":  ([0.2, 0.6000000000000001, 0.39999999999999997], [1, 3, 2]),
    "the step itself is no difference": ([0.6, 1.0], [3, 5]),
    "reciprocal ranks over five":       ([1 / 10, 1 / 15], [3, 2]),
    "one size":                         ([0.37, 0.37], [1, 1]),
    "no common step":                   ([1.0, math.sqrt(2)], None),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "expected"), STEPS.values(), ids=STEPS)
def test_sizes_are_multiples_of_their_step(sizes, expected):
    multiples = whole_multiples(np.array(sizes))

    assert (None if multiples is None else multiples.tolist()) == expected
