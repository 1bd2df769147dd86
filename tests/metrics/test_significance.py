"""Holm's correction, effect sizes, and what a benchmark can detect."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.significance import (
    Detection,
    Noise,
    detectable_drop,
    holm,
    holm_levels,
    needed_units,
    smallest_detectable_drop,
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


T_9, T_3, T_21 = 2.262157, 3.182446, 2.079614  # Student's t at 0.975
WORTH = 1600 / 420  # documents that 20 questions of one document and 20 of their own are worth: 40^2 / (20^2 + 20)


def test_standardised_difference_is_cohens_dz():
    # Mean 0.5, deviations -0.5, 0.5, -0.5, 0.5: variance 1/3.
    assert standardised_difference(np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx(0.5 / math.sqrt(1 / 3))
    assert standardised_difference(np.array([0.5, 0.5])) is standardised_difference(np.array([0.5])) is None


DROPS = {
    #                                      sizes of units,         metrics, smallest drop
    "2.2 points of 500":                  ([1] * 500,              12,      11 / 500),
    "the minimum effect":                 ([1] * 2000,             12,      0.01),
    "one metric needs fewer":             ([1] * 50,               1,       7 / 50),
    "as many units as are needed":        ([1] * 11,               12,      1.0),
    "no units":                           ([],                     12,      None),
    "the smallest documents fall first":  ([30, *[2] * 15],        12,      22 / 60),
    "ten documents, however large":       ([100] * 10,             12,      None),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "metrics", "expected"), DROPS.values(), ids=DROPS)
def test_smallest_detectable_drop(sizes, metrics, expected):
    assert smallest_detectable_drop(sizes, n_metrics=metrics, alpha=0.02, min_effect=0.01) == expected


def test_needed_units_grow_with_metrics_and_shared_noise():
    # 2^-k <= 0.01 / metrics: 2^-7 = 0.0078, 2^-10 = 0.00098 against 0.00125, 2^-11 = 0.00049 against 0.00083.
    assert [needed_units(n, alpha=0.02) for n in (1, 8, 12)] == [7, 10, 11]
    assert needed_units(12, alpha=0.02, noise=Noise(1.0, 5.0, 40.0)) == 11
    # t(8) at 0.01 is 2.896: k^2 >= 8.39 (k + 1 x min(20, k)) = 16.8 k first holds at k = 17.
    assert needed_units(1, alpha=0.02, noise=Noise(2.0, 20.0, 8.0)) == 17


DETECTED = {
    # Without noise 11 falls are enough; the normal limit for 12 metrics is 3.144: k >= 3.144 sqrt(k) first at 10.
    "a deterministic system": (500, {"flip_share": 0.0, "n_runs": 1, "n_documents": None}, Detection(11 / 500, 11 / 500)),
    # Noise of 500 x 0.02 / 2 x 1.2 = 6 squares: k >= 3.144 sqrt(6 + k) + 0.8416 sqrt(6) first holds at 18.
    "noise between runs": (500, {"flip_share": 0.02, "n_runs": 5, "n_documents": None}, Detection(11 / 500, 18 / 500)),
    "too few questions": (10, {"flip_share": 0.02, "n_runs": 5, "n_documents": None}, Detection(None, None)),
    "drops below the minimum effect": (5000, {"flip_share": 0.0, "n_runs": 1, "n_documents": None}, Detection(0.01, 0.01)),
}  # fmt: skip


@pytest.mark.parametrize(("n_questions", "arguments", "expected"), DETECTED.values(), ids=DETECTED)
def test_detectable_drop(n_questions, arguments, expected):
    found = detectable_drop(n_questions, n_metrics=12, alpha=0.02, min_effect=0.01, **arguments)

    assert found == expected


def test_detectable_drop_grows_where_few_documents_share_noise():
    known = {"flip_share": 0.02, "n_metrics": 12, "n_runs": 5, "alpha": 0.02, "min_effect": 0.01}

    few, many, alone = (detectable_drop(900, n_documents=n, **known).usually for n in (3, 300, None))

    assert few > many >= alone
