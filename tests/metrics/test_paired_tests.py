"""The field's paired tests equal scipy's, and the exact ones equal enumeration."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.paired_tests import mcnemar_test, paired_t_test, permutation_test, wilcoxon_test

CONTINUOUS = np.random.default_rng(1).normal(0.3, 1.0, 14)
GRADED = np.round(np.random.default_rng(2).normal(0.05, 0.3, 300), 1)  # with zeros and ties
MANY = np.random.default_rng(3).normal(0.05, 1.0, 3000)


@pytest.mark.parametrize("differences", [CONTINUOUS, GRADED, MANY], ids=["continuous", "graded", "many"])
def test_the_t_test_is_scipys(differences):
    peer = scipy.stats.ttest_rel(differences, np.zeros(differences.size))

    found = paired_t_test(differences)

    assert (found.statistic, found.p_value) == (pytest.approx(peer.statistic), pytest.approx(peer.pvalue))


def test_an_exact_wilcoxon_test_is_scipys():
    peer = scipy.stats.wilcoxon(CONTINUOUS, method="exact")

    found = wilcoxon_test(CONTINUOUS)

    assert (found.statistic, found.p_value) == (peer.statistic, pytest.approx(peer.pvalue))
    assert found.method == "Wilcoxon (Pratt), exact"


def test_a_wilcoxon_test_of_many_is_scipys_normal_one():
    differences = np.round(MANY, 2)  # with zeros and ties
    peer = scipy.stats.wilcoxon(differences, zero_method="pratt", method="asymptotic")

    found = wilcoxon_test(differences)

    assert (found.statistic, found.p_value) == (pytest.approx(peer.statistic), pytest.approx(peer.pvalue))
    assert found.method == "Wilcoxon (Pratt), normal"


def test_zeros_and_ties_are_counted_exactly_in_a_wilcoxon_test():
    # Ranks with the zero: 1, then 2.5, 2.5, 4; signed +2.5, +2.5, -4. Of eight sums of signs only +-9 is beyond 1,
    # and +-4, +-4, +-1 reach it as well: all 8 are at least 1 in size.
    assert wilcoxon_test(np.array([0.0, 0.1, 0.1, -0.3])).p_value == 1.0
    # All three up: 2 of 8.
    assert wilcoxon_test(np.array([0.0, 0.1, 0.1, 0.3])).p_value == 2 / 8


def test_a_permutation_test_is_scipys_when_all_are_counted():
    peer = scipy.stats.permutation_test(
        (CONTINUOUS[:10],), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )

    found = permutation_test(CONTINUOUS[:10], seed=1)

    assert (found.p_value, found.method) == (pytest.approx(peer.pvalue), "sign flips, exact")


def test_a_permutation_test_of_many_draws():
    found = permutation_test(MANY[:400], seed=5)

    assert found.method == "sign flips, 19999 at random, seed 5"
    # In large samples it is the normal test of the mean over its root mean square.
    z = MANY[:400].sum() / np.sqrt((MANY[:400] ** 2).sum())
    assert found.p_value == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), abs=0.02)


@pytest.mark.parametrize(("fell", "rose"), [(0, 0), (5, 5), (1, 9), (40, 22), (0, 30)])
def test_mcnemars_test_is_scipys_binomial_test(fell, rose):
    expected = scipy.stats.binomtest(fell, fell + rose).pvalue if fell + rose else 1.0

    assert mcnemar_test(fell, rose).p_value == pytest.approx(expected)


@given(st.integers(0, 30), st.integers(0, 30))
def test_on_binary_scores_the_permutation_test_is_mcnemars(fell, rose):
    differences = np.array([-1.0] * fell + [1.0] * rose + [0.0])

    assert permutation_test(differences, seed=1).p_value == pytest.approx(mcnemar_test(fell, rose).p_value)


@pytest.mark.parametrize(
    "test", [paired_t_test, wilcoxon_test, lambda d: permutation_test(d, seed=1)], ids=["t", "wilcoxon", "permutation"]
)
@given(differences=st.lists(st.integers(-5, 5), min_size=3, max_size=15))
def test_p_does_not_depend_on_the_sign(test, differences):
    there, back = test(np.array(differences) / 5), test(-np.array(differences) / 5)

    assert (there is None and back is None) or there.p_value == pytest.approx(back.p_value)


def test_differences_without_a_spread_have_no_t_test():
    assert paired_t_test(np.array([0.5, 0.5])) is None
    assert paired_t_test(np.array([0.5])) is None


def test_where_nothing_moved_there_are_no_ranks():
    assert wilcoxon_test(np.zeros(4)) is None


def test_there_is_something_to_test():
    with pytest.raises(ValueError, match="at least one"):
        permutation_test(np.array([]), seed=1)
    with pytest.raises(ValueError, match="counts of 0 or more"):
        mcnemar_test(-1, 2)
