"""Metrics are compared question by question: a failure is no pair, and a skipped question no failure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.intervals import number_units
from rag_eval_pipeline.metrics.verdict_rules import Rules
from rag_eval_pipeline.metrics.verdicts import ComparedMetric, compare, decide

SINGLE = {"runs": 1, "reference_runs": 1}


def unchanged(name="EM", n_questions=500, *, reference=1, runs=1):
    return ComparedMetric(name, [[1.0] * n_questions] * runs, [[1.0] * n_questions] * reference)


def fallen(n_drops, n_questions=500, *, reference=1, runs=1):
    current = [0.0] * n_drops + [1.0] * (n_questions - n_drops)
    return unchanged("EM", n_questions, reference=reference)._replace(current=[current] * runs)


def others(n_metrics, n_questions=500, **runs):
    return [unchanged(f"metric {i}", n_questions, **runs) for i in range(n_metrics)]


def documents(n_questions, size):
    return number_units([f"document {i // size}" for i in range(n_questions)], n_questions)


# 30 of 500 answers became wrong and 30 others right.
CHURN = ComparedMetric("EM", [[0.0] * 30 + [1.0] * 470], [[1.0] * 470 + [0.0] * 30])
# Pairs 1 to 4; now 1, 0, 0, 1 against 1, 1, 1, 0: differences 0, -1, -1, 1, mean -1/4, variance 11/12.
FIVE = ComparedMetric("EM", [[1.0, 0.0, 0.0, 1.0, None]], [[1.0, 1.0, 1.0, 0.0, 1.0]])
# 13 of 50 ratings slipped once in the five runs and none now: each had to be one of the five, (5/6)^13.
SLIPPED = [[0.75 if q < 13 and q % 5 == run else 1.0 for q in range(50)] for run in range(5)]
FAILED = unchanged("EM", 200)._replace(current=[[None] * 20 + [1.0] * 180])

COMPARED = {
    # metrics, of which the first is looked at; options; kind of verdict; evidence
    "eleven falls of twelve metrics: 12 x 2^-11 = 0.0059": (
        [fallen(11), *others(11)], {}, "regressed",
        {"estimate": -11 / 500, "smallest_drop": 11 / 500, "p_value": 2**-11, "fell": 11, "rose": 0, **SINGLE},
    ),
    "four of five runs' questions fell in two runs: 12 x 21^-4": (
        [fallen(4, 50, reference=5, runs=2), *others(11, 50, reference=5, runs=2)], {"rules": Rules(level=1e-4)},
        "regressed", {"p_corrected": pytest.approx(12 / 21**4), "fell": 4, "runs": 2, "reference_runs": 5},
    ),
    "unchanged": ([unchanged(), *others(1)], {}, "equivalent", {"p_value": 1.0}),
    "churn without a net change": ([CHURN], {}, "inconclusive", {"fell": 30, "rose": 30}),
    "failures are no pairs, and could hide a change": ([FAILED], {}, "inconclusive", {"n": 180, "n_missing": 20}),
    "skipped questions are not missing": (
        [fallen(11, 100)._replace(applies=[True] * 40 + [False] * 60)], {}, "regressed",
        {"n": 40, "n_missing": 0, "estimate": -11 / 40},
    ),
    "missing scores change nothing: unchanged they leave 11 of 60": (
        [fallen(11, 60)._replace(current=[[0.0] * 11 + [None] * 9 + [1.0] * 40])], {}, "regressed",
        {"n": 51, "n_missing": 9, "p_if_missing": 2**-11, "estimate_if_missing": pytest.approx(-11 / 60)},
    ),
    "with five runs, missing scores at each question's best": (
        [fallen(6, 60, reference=5)._replace(current=[[0.0] * 6 + [None] * 9 + [1.0] * 45])], {}, "regressed",
        {"p_value": pytest.approx(6**-6), "p_if_missing": pytest.approx(6**-6)},
    ),
    "and where these are luck, they could overturn it": (
        [ComparedMetric("EM", [[0.0] * 4 + [None] * 9 + [1.0] * 45],
                        [[1.0] * 4 + [float(q % 5 == run) for q in range(9)] + [1.0] * 45 for run in range(5)])],
        {}, "withheld", {"n_missing": 9, "p_value": pytest.approx(6**-4)},
    ),
    "a metric that applies nowhere": (
        [unchanged()._replace(applies=[False] * 500)], {}, "no_verdict", {"estimate": None, "p_value": None},
    ),
    "is not corrected for": (
        [fallen(11), unchanged("F1")._replace(applies=[False] * 500)], {}, "regressed",
        {"p_corrected": 2**-11, "n_metrics": 1},
    ),
    # 100 questions of 20 documents, 5 each.
    "ten documents fell, of eight metrics: 8 x 2^-10 = 0.0078": (
        [fallen(50, 100), *others(7, 100)], {"units": documents(100, 5)}, "regressed",
        {"smallest_drop": 0.1, "needed_units": 10, "n_units": 20, "is_clustered": True},
    ),
    "and with one question of each, which is the smallest drop": (
        [ComparedMetric("EM", [[float(q >= 50 or q % 5 > 0) for q in range(100)]], [[1.0] * 100]), *others(7, 100)],
        {"units": documents(100, 5)}, "regressed",
        {"estimate": pytest.approx(-0.1), "smallest_drop": 0.1, "p_value": 2**-10},
    ),
    "all of six documents fell: 2^-6, and one more is needed": (
        [fallen(60, 60)], {"units": documents(60, 10)}, "inconclusive",
        {"p_value": 2**-6, "n": 60, "n_units": 6, "needed_units": 7, "smallest_drop": None},
    ),
    "few large documents may move together": ([unchanged()], {"units": documents(500, 25)}, "inconclusive", {}),
    "a deterministic system: any difference is real": (
        [fallen(5, 20)], {"units": documents(20, 5), "is_deterministic": True}, "regressed",
        {"is_certain": True, "p_value": None, "adjusted_interval": (-0.25, -0.25)},
    ),
    "and none is none": ([unchanged("EM", 20)], {"is_deterministic": True}, "equivalent", {"estimate": 0.0}),
    "unless its runs differ": (
        [fallen(11, reference=2)._replace(reference=[[1.0] * 500, [0.0] + [1.0] * 499])], {"is_deterministic": True},
        "regressed", {"is_certain": False, "p_value": pytest.approx(2 / 3**11)},
    ),
    "means and effect size over the pairs": (
        [FIVE], {}, "no_verdict",
        {"baseline_mean": 0.75, "current_mean": 0.5, "effect_size": pytest.approx(-0.25 / (11 / 12) ** 0.5)},
    ),
    "an unlucky baseline recovers": (
        [ComparedMetric("EM", [[1.0] * 50], SLIPPED)], {}, "inconclusive",
        {"estimate": pytest.approx(0.013), "p_corrected": pytest.approx((5 / 6) ** 13)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("metrics", "options", "kind", "expected"), COMPARED.values(), ids=COMPARED)
def test_compare(metrics, options, kind, expected):
    evidence = compare(metrics, **options)["EM"].evidence

    assert decide(evidence, confirmation="no_rerun").kind == kind
    assert {name: getattr(evidence, name) for name in expected} == expected
    # The interval is never a single point, even if no score moved, unless nothing is left to chance.
    low, high = evidence.adjusted_interval or (0, 1)
    assert low < high or evidence.is_certain


SIZES = st.sampled_from([-1.0, -0.6, -0.2, 0.0, 0.0, 0.0, 0.2, 0.4, 1.0])


@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=30, max_size=120),
    st.integers(0, 30),
    st.booleans(),
    st.sampled_from([(1, 1), (5, 1), (5, 2)]),
)
def test_adjusted_interval_excludes_0_exactly_where_the_test_rejects(differences, n_fell, by_document, runs):
    fell = [(-1.0, -0.4, 0.0)] * n_fell + differences
    units = np.arange(len(fell)) % 20 if by_document else None
    reference, current = runs
    noise = np.random.default_rng(n_fell).choice([0.0, 0.0, 0.0, 0.2], (reference, len(fell), 3))
    metrics = [
        ComparedMetric(
            name,
            [[0.5 + d[place] / 2 for d in fell]] * current,
            [[0.5 + x for x in run] for run in noise[:, :, place].tolist()],
        )
        for place, name in enumerate(("EM", "F1", "MRR"))
    ]

    for found, _ in compare(metrics, units=units).values():
        low, high = found.adjusted_interval
        assert (low <= 0 <= high) == (found.p_corrected > 0.01)
        assert -found.baseline_mean <= low <= high <= 1 - found.baseline_mean
        assert low - 1e-9 <= found.estimate <= high + 1e-9
