"""Corrected p values by hand, and against scipy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from rag_eval_pipeline.metrics.corrections import benjamini_hochberg, holm

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


BH = {
    # Sorted 0.005 x 4/1, 0.01 x 4/2, 0.03 x 4/3, 0.04 x 4/4.
    "step up, and never above the one behind": ([0.01, 0.04, 0.03, 0.005], [0.02, 0.04, 0.04, 0.02]),
    "at most one": ([1.0, 0.9], [1.0, 1.0]),
    "a single p is itself": ([0.04], [0.04]),
    "none": ([], []),
}


@pytest.mark.parametrize(("p_values", "expected"), BH.values(), ids=BH)
def test_benjamini_hochberg(p_values, expected):
    assert benjamini_hochberg(p_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_benjamini_hochberg_is_scipys_and_never_above_holms(p_values):
    corrected = benjamini_hochberg(p_values)

    assert corrected == pytest.approx(false_discovery_control(p_values).tolist())
    assert all(own <= strict + 1e-15 for own, strict in zip(corrected, holm(p_values), strict=True))
