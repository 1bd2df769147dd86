"""Effect sizes by hand."""

import math

import numpy as np
import pytest

from rag_eval_pipeline.metrics.effects import odds_ratio, rank_biserial, standardised_difference

DZ = {
    # Mean 0.5, deviations -0.5, 0.5, -0.5, 0.5: variance 1/3.
    "by hand":            ([0.0, 1.0, 0.0, 1.0], 0.5 / math.sqrt(1 / 3)),
    "down":               ([0.0, -1.0, 0.0, -1.0], -0.5 / math.sqrt(1 / 3)),
    "without a spread":   ([0.5, 0.5], None),
    "a single question":  ([0.5], None),
}  # fmt: skip


@pytest.mark.parametrize(("differences", "expected"), DZ.values(), ids=DZ)
def test_the_standardised_difference(differences, expected):
    assert standardised_difference(np.array(differences)) == (None if expected is None else pytest.approx(expected))


RANKS = {
    # Ranks 1, 2, 3 of sizes 1, 2, 3: (1 + 3 - 2) / 6.
    "by hand":           ([1.0, -2.0, 3.0, 0.0], 2 / 6),
    "all rose":          ([0.1, 0.2], 1.0),
    "all fell":          ([-0.1, -0.2], -1.0),
    "nothing moved":     ([0.0, 0.0], None),
}  # fmt: skip


@pytest.mark.parametrize(("differences", "expected"), RANKS.values(), ids=RANKS)
def test_the_rank_biserial_correlation(differences, expected):
    assert rank_biserial(np.array(differences)) == expected


@pytest.mark.parametrize(("fell", "rose", "expected"), [(10, 5, 0.5), (0, 3, math.inf), (4, 0, 0.0), (0, 0, None)])
def test_the_odds_of_a_rise(fell, rose, expected):
    assert odds_ratio(fell, rose) == expected
