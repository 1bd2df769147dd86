"""Holm's correction and effect sizes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.significance import (
    holm,
    holm_levels,
    standardised_difference,
)


def test_holm_steps_down_and_never_below_the_one_before():
    # Sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1 (raised to the one before).
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 0.2), max_size=8), st.sampled_from([0.01, 0.05]))
def test_holm_levels_reject_what_holm_rejects(p_values, alpha):
    levels = holm_levels(p_values, alpha)

    rejected = [p_value <= level for p_value, level in zip(p_values, levels, strict=True)]
    assert rejected == [corrected <= alpha for corrected in holm(p_values)]


def test_standardised_difference_is_cohens_dz():
    # Mean 0.5, deviations -0.5, 0.5, -0.5, 0.5: variance 1/3.
    assert standardised_difference(np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx(0.5 / math.sqrt(1 / 3))
    assert standardised_difference(np.array([0.5, 0.5])) is standardised_difference(np.array([0.5])) is None
