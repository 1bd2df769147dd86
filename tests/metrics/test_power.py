"""What can be flagged at all follows from the number of units, metrics, and the noise of the pinned runs."""

import pytest

from rag_eval_pipeline.metrics.power import Detection, detectable_drop, needed_units, smallest_detectable_drop
from rag_eval_pipeline.metrics.significance import Noise

DROPS = {
    #                                      sizes of units,         metrics, smallest drop
    "22 points of 50":                    ([1] * 50,               12,      11 / 50),
    "2.2 points of 500":                  ([1] * 500,              12,      11 / 500),
    "the minimum effect":                 ([1] * 2000,             12,      0.01),
    "one metric needs fewer":             ([1] * 50,               1,       7 / 50),
    "as many units as are needed":        ([1] * 11,               12,      1.0),
    "fewer units than are needed":        ([1] * 10,               12,      None),
    "no units":                           ([],                     12,      None),
    "11 documents of 5 out of 100":       ([5] * 100,              12,      55 / 500),
    "the smallest documents fall first":  ([30, *[2] * 15],        12,      22 / 60),
    "ten documents, however large":       ([100] * 10,             12,      None),
}  # fmt: skip


@pytest.mark.parametrize(("sizes", "metrics", "expected"), DROPS.values(), ids=DROPS)
def test_smallest_detectable_drop(sizes, metrics, expected):
    assert smallest_detectable_drop(sizes, n_metrics=metrics, alpha=0.02, min_effect=0.01) == expected


UNITS = {
    # 2^-k <= 0.01 / metrics: 2^-7 = 0.0078, 2^-10 = 0.00098 against 0.00125, 2^-11 = 0.00049 against 0.00083.
    "1 metric": (1, None, 7),
    "8 metrics": (8, None, 10),
    "12 metrics": (12, None, 11),
    "noise that is not shared": (12, Noise(1.0, 5.0, 40.0), 11),
    # t(8) at 0.01 is 2.896: k^2 >= 8.39 (k + 1 x min(20, k)) = 16.8 k first holds at k = 17.
    "noise that is shared": (1, Noise(2.0, 20.0, 8.0), 17),
}


@pytest.mark.parametrize(("metrics", "noise", "expected"), UNITS.values(), ids=UNITS)
def test_needed_units(metrics, noise, expected):
    assert needed_units(metrics, alpha=0.02, noise=noise) == expected


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
