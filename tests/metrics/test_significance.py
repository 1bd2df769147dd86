"""Sign flips are counted as by hand where they are few, as by exact tests where they are many; intervals fit the test."""

import hashlib
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binomtest

from rag_eval_pipeline.metrics.significance import (
    Detection,
    Noise,
    comparison_seed,
    detectable_drop,
    exact_sign_flip_p,
    holm,
    holm_levels,
    needed_flips,
    needed_units,
    paired_differences,
    paired_interval,
    sign_flip_p_values,
    smallest_detectable_drop,
    standardised_difference,
    unit_sums,
)


def column(*differences):
    return np.array([differences], dtype=float).T


def test_paired_differences_average_the_baseline_runs():
    assert paired_differences([1.0, 0.5], [[0.0, 0.5], [1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]).tolist() == [1 / 4, -0.125]
    # In doubles the mean of six times 0.7 is not 0.7.
    assert paired_differences([0.7, 0.1, 1 / 3], [[0.7, 0.1, 1 / 3]] * 6).tolist() == [0.0, 0.0, 0.0]
    failed = paired_differences([1.0, None, 1.0], [[1.0, 1.0, None], [1.0, 1.0, 1.0]])
    assert np.isnan(failed).tolist() == [False, True, True]


@pytest.mark.parametrize(("worse", "better"), [(16, 4), (11, 0), (30, 22), (400, 300), (1500, 0)])
def test_sign_flip_p_on_binary_scores_is_exact_mcnemars(worse, better):
    exact = binomtest(worse, worse + better, alternative="greater").pvalue
    differences = np.array([-1.0] * worse + [1.0] * better + [0.0] * 100)

    [drawn] = sign_flip_p_values(differences[:, np.newaxis], seed=2)

    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / 20_000) + 1 / 20_000)
    assert exact_sign_flip_p(differences) == pytest.approx(exact, rel=1e-9) or worse > 1000  # 2^-1500 is no double


SPECIAL = {
    "never 0": (column(*[-1.0] * 40), None, [1 / 20_000]),
    "nothing changed": (np.zeros((50, 2)), None, [1.0, 1.0]),
    # Five up a tenth and five down: the observed sum is 0 but for rounding: (1 + C(10,5) / 2^10) / 2.
    "ties but for rounding": (column(*[0.1] * 5, *[-0.1] * 5), None, [pytest.approx((1 + 252 / 1024) / 2, abs=0.014)]),
    # Twelve questions fell, in three documents: p is 2^-3, not 2^-12.
    "documents are flipped as a whole": (column(*[-1.0] * 12), list("aaaabbbbcccc"), [pytest.approx(1 / 8, abs=0.01)]),
}


@pytest.mark.parametrize(("differences", "clusters", "expected"), SPECIAL.values(), ids=SPECIAL)
def test_sign_flip_p_values(differences, clusters, expected):
    assert sign_flip_p_values(differences, seed=10, clusters=clusters) == expected


def test_sign_flip_p_values_follow_from_the_seed():
    differences = np.random.default_rng(1).normal(0.1, 1, (80, 3))

    assert sign_flip_p_values(differences, seed=7) == sign_flip_p_values(differences, seed=7)
    assert sign_flip_p_values(differences, seed=7) != sign_flip_p_values(differences, seed=8)
    # One sign matrix serves all metrics, and clusters of one question are no clusters.
    first, second = sign_flip_p_values(np.hstack([differences[:, :1], -3 * differences[:, :1]]), seed=9)
    assert first == second
    singletons = sign_flip_p_values(differences, seed=7, clusters=[f"z{80 - i}" for i in range(80)])
    assert singletons == sign_flip_p_values(differences, seed=7)


def enumerated(differences):
    observed = abs(sum(differences))
    tie = 1e-9 * sum(map(abs, differences))
    flips = product((1, -1), repeat=len(differences))
    sums = [sum(s * d for s, d in zip(signs, differences, strict=True)) for signs in flips]
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
def test_exact_p_equals_enumeration(values, data):
    differences = np.array(data.draw(st.lists(values, min_size=1, max_size=9)))

    p_value = exact_sign_flip_p(differences)

    assert p_value == pytest.approx(enumerated(differences), abs=1e-12)
    assert exact_sign_flip_p(-differences[::-1]) == pytest.approx(p_value, rel=1e-12)


TENTHS = [0.1] * 4 + [-0.1] * 2 + [0.3, 0.7]
EXACT = {
    "nothing changed": (np.zeros(5), 1.0),
    "nothing there": (np.array([]), 1.0),
    # All positive: only the observed assignment reaches the sum. Counted by halves.
    "32 differences of any size": (np.random.default_rng(1).random(32), 2.0**-32),
    "33 are left to chance": (np.random.default_rng(4).normal(size=33), None),
    # Many assignments reach the observed sum exactly; with pi there is no common step.
    "ties in whole steps": (np.array(TENTHS), enumerated(TENTHS)),
    "ties without a step": (np.array([*TENTHS, math.pi / 10, -math.pi / 10]), enumerated([*TENTHS, math.pi / 10, -math.pi / 10])),
    "fifths, as rounding leaves them": (np.array([0.2, 0.6000000000000001, 0.39999999999999997] * 20), 2.0**-60),
    # Without the ninths' common step of 1/45 sixty differences would be too many.
    "reciprocal ranks over five": (np.array([1 / 5, 1 / 9] * 30), 2.0**-60),
    "a step that rounding made up": (np.array([1.0, 1.0 - 1e-7] * 30), None),
}  # fmt: skip


@pytest.mark.parametrize(("differences", "expected"), EXACT.values(), ids=EXACT)
def test_exact_p(differences, expected):
    assert exact_sign_flip_p(differences) == expected


def test_unit_sums_are_in_the_order_of_the_first_question():
    assert unit_sums(column(1, 2, 4, 8), ["b", "a", "b", "a"]).tolist() == [[5.0], [10.0]]


def test_needed_flips_resolve_a_tenth_of_the_limit():
    # 10 x 21 / 0.01 - 1; up to twenty metrics the least number is enough.
    assert [needed_flips(n, alpha=0.02) for n in (12, 20, 21, 360)] == [19_999, 19_999, 20_999, 359_999]


def test_comparison_seed_is_a_hash_of_key_and_runs():
    digest = hashlib.sha256(b"squad2/bm25\nrun_1\nrun_2").digest()

    assert comparison_seed("squad2/bm25", ["run_1", "run_2"]) == int.from_bytes(digest[:8], "big")


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
PAIRED = {
    # Eight zeros with +1 and -1: mean 0, variance 2 / 9, n = 10; t with 9 degrees.
    "questions that agree": (np.zeros(8), None, T_9 * math.sqrt(2 / 9 / 10)),
    # +1 and -1: variance 2, n = 2, t with 1 degree of freedom.
    "pseudo-questions alone": (np.zeros(0), None, 12.7062),
    # Two documents of two questions, sums 0.4 and -0.4, and two pseudo-documents, sums 2 and -2: 8 questions.
    "pseudo-documents": (np.array([0.2, 0.2, -0.2, -0.2]), list("aabb"), T_3 * math.sqrt(4 / 3 * (0.16 * 2 + 4 * 2) / 64)),
    # Twenty documents of five that agree: two made-up ones of five, sums 5 and -5, among 110 questions.
    "pseudo-documents of average size": (np.zeros(100), [str(n // 5) for n in range(100)], T_21 * math.sqrt(22 / 21 * 50) / 110),
    "a large document among single questions": (
        np.zeros(40), ["long"] * 20 + [str(n) for n in range(20)],
        float(stats.t.ppf(0.975, WORTH + 1)) * math.sqrt((WORTH + 2) / (WORTH + 1) * 2 * 10.5**2) / 61,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("differences", "clusters", "expected"), PAIRED.values(), ids=PAIRED)
def test_paired_interval(differences, clusters, expected):
    interval = paired_interval(differences, clusters=clusters)

    assert interval == (pytest.approx(-expected, abs=1e-4), pytest.approx(expected, abs=1e-4))


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
