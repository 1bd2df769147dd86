"""Metrics are compared question by question: a failure is not a pair, and a skipped question not a failure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.verdicts import ComparedMetric, Rules, compare, decide

BY_DOCUMENT = Rules(units="documents")


def unchanged(name="EM", n_questions=500):
    return ComparedMetric(name, [1.0] * n_questions, [[1.0] * n_questions] * 5)


def fallen(n_drops, n_questions=500):
    return unchanged("EM", n_questions)._replace(current=[0.0] * n_drops + [1.0] * (n_questions - n_drops))


def others(n_metrics, n_questions=500):
    return [unchanged(f"metric {i}", n_questions) for i in range(n_metrics)]


def documents(n_questions, size):
    return {"clusters": [f"document {i // size}" for i in range(n_questions)], "rules": BY_DOCUMENT}


# 30 of 500 answers became wrong and 30 others right.
CHURN = ComparedMetric("EM", [0.0] * 30 + [1.0] * 470, [[1.0] * 470 + [0.0] * 30] * 5)
ONE_RUN = fallen(11, 900)._replace(baselines=[[1.0] * 900])
# Pairs 1 to 4; now 1, 0, 0, 1 against 1, 1, 1, 0: differences 0, -1, -1, 1, mean -1/4, variance 11/12.
FIVE = ComparedMetric("EM", [1.0, 0.0, 0.0, 1.0, None], [[1.0, 1.0, 1.0, 0.0, 1.0]] * 5)
SLIPPED = [[0.75 if q < 13 and q % 5 == run else 1.0 for q in range(50)] for run in range(5)]

COMPARED = {
    # metrics, of which the first is looked at; options; kind of verdict; evidence
    "eleven falls of twelve metrics: 12 x 2^-11 = 0.0059": (
        [fallen(11), *others(11)], {}, "regressed", {"estimate": -11 / 500, "smallest_drop": 11 / 500, "p_value": 2**-11},
    ),
    "unchanged": ([unchanged(), *others(1)], {}, "equivalent", {"p_value": 1.0, "is_exact": True}),
    "churn without a net change": ([CHURN], {}, "inconclusive", {}),
    "failures are no pairs": (
        [unchanged("EM", 200)._replace(current=[None] * 20 + [1.0] * 180)], {}, "withheld",
        {"n": 180, "coverage": 0.9},
    ),
    "skipped questions do not lower the coverage": (
        [fallen(11, 100)._replace(applies=[True] * 40 + [False] * 60)], {}, "regressed",
        {"n": 40, "coverage": 1.0, "estimate": -11 / 40},
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
        [fallen(50, 100), *others(7, 100)], documents(100, 5), "regressed",
        {"smallest_drop": 0.5, "needed_units": 10, "n_units": 20, "is_clustered": True},
    ),
    "all of six documents fell: 2^-6, and one more is needed": (
        [fallen(60, 60)], documents(60, 10), "inconclusive",
        {"p_value": 2**-6, "n": 60, "n_units": 6, "needed_units": 7, "smallest_drop": None},
    ),
    "few large documents may move together": ([unchanged()], documents(500, 25), "inconclusive", {}),
    "a deterministic system: 11 wrong answers are 11": (
        [ONE_RUN], {"clusters": [f"handbook {i // 300}" for i in range(900)], "is_deterministic": True}, "regressed",
        {"is_clustered": False, "p_value": 2**-11},
    ),
    "means and effect size over the pairs": (
        [FIVE], {}, "withheld",
        {"baseline_mean": 0.75, "current_mean": 0.5, "effect_size": pytest.approx(-0.25 / (11 / 12) ** 0.5)},
    ),
    # 13 of 50 ratings slipped once in the five runs and none now: 13 x 0.25 / 5 / 50. The flips alone are sure of it.
    "an unlucky baseline recovers": (
        [ComparedMetric("EM", [1.0] * 50, SLIPPED)], {}, "inconclusive",
        {"estimate": pytest.approx(0.013), "p_corrected": 2**-13},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("metrics", "options", "kind", "expected"), COMPARED.values(), ids=COMPARED)
def test_compare(metrics, options, kind, expected):
    evidence = compare(metrics, seed=1, **options)["EM"]

    assert decide(evidence).kind == kind
    assert {name: getattr(evidence, name) for name in expected} == expected
    # The interval is never a single point, even if no score moved.
    assert evidence.adjusted_interval is None or evidence.adjusted_interval.low < evidence.adjusted_interval.high


def test_compare_draws_signs_only_for_metrics_that_need_it():
    rng = np.random.default_rng(24)
    graded = ComparedMetric("F1", rng.random(300).tolist(), [rng.random(300).tolist()])

    alone, beside = (
        compare(metrics, seed=25) for metrics in ([graded], [fallen(11, 300), graded, unchanged("MRR", 300)])
    )

    assert [beside[name].is_exact for name in ("EM", "F1", "MRR")] == [True, False, True]
    assert beside["F1"].p_value == alone["F1"].p_value


def test_compare_draws_more_signs_for_many_metrics():
    # 60 metrics: the smallest p of 19,999 flips, times 60, is only 3 times below the limit; the rule asks for 10.
    metric = ComparedMetric("F1", np.zeros(60), [np.random.default_rng(30).random(60)])

    assert compare([metric, *others(59, 60)], seed=10)["F1"].p_value == 1 / 60_000


def test_compare_tests_questions_of_few_documents():
    """1,000 questions about 3 handbooks; the pinned runs differ on 20 questions, each independently."""
    runs = np.ones((5, 1000))
    runs[:, 500:520] = np.random.default_rng(40).integers(0, 2, (5, 20))
    metric = ComparedMetric("EM", [0.0] * 314 + [1.0] * 686, runs.tolist())
    names = [f"handbook {i % 3}" for i in range(1000)]

    questions, by_document, two_runs = (
        compare([metric._replace(baselines=metric.baselines[:n])], seed=41, clusters=names, rules=rules)["EM"]
        for n, rules in ((5, Rules()), (5, BY_DOCUMENT), (2, Rules()))
    )

    # Documents are the units where that is asked for, or where too few runs show what they share.
    assert [one.n_units for one in (questions, by_document, two_runs)] == [1000, 3, 3]
    assert [one.is_clustered for one in (questions, by_document, two_runs)] == [False, True, True]
    assert [one.is_short_of_runs for one in (questions, by_document, two_runs)] == [False, False, True]
    assert decide(questions).kind == "regressed"
    assert questions.adjusted_interval.low > -0.5
    # Three documents show nothing; the interval is all that is possible, and no more.
    assert two_runs.adjusted_interval == (-two_runs.baseline_mean, 1 - two_runs.baseline_mean)


def test_compare_multiplies_shared_noise_by_its_design_effect():
    """Three of 30 documents change as a whole from run to run, in turn, and once more now: nothing has changed."""
    runs = np.ones((5, 300))
    for run, document in enumerate((0, 1, 2, 0, 1)):
        runs[run, 10 * document : 10 * document + 10] = 0
    metric = ComparedMetric("EM", [0.0] * 20 + [1.0] * 280, runs.tolist())
    names = documents(300, 10)["clusters"]

    shared, ignored = (
        compare([metric], seed=42, clusters=names, rules=rules)["EM"] for rules in (Rules(), Rules(units="questions"))
    )

    # Residuals of a document are equal: each one's sum is 10 times as large, its square 100 times that of a question.
    assert shared.design_effect == pytest.approx(10)
    assert shared.p_value > 10 * ignored.p_value
    assert ignored.design_effect is None


SIZES = st.sampled_from([-1.0, -0.6, -0.2, 0.0, 0.0, 0.0, 0.2, 0.4, 1.0])


@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=30, max_size=120),
    st.integers(0, 30),
    st.sampled_from(["auto", "documents", "questions"]),
    st.sampled_from([1, 5]),
)
def test_adjusted_interval_excludes_0_exactly_where_the_test_rejects(differences, n_fell, units, n_runs):
    fell = [(-1.0, -0.4, 0.0)] * n_fell + differences
    clusters = [f"document {i % 20}" for i in range(len(fell))]
    noise = np.random.default_rng(n_fell).choice([0.0, 0.0, 0.0, 0.2], (n_runs, len(fell), 3))
    metrics = [
        ComparedMetric(
            name, [0.5 + d[place] / 2 for d in fell], [[0.5 + x for x in run] for run in noise[:, :, place].tolist()]
        )
        for place, name in enumerate(("EM", "F1", "MRR"))
    ]

    for found in compare(metrics, seed=44, clusters=clusters, rules=Rules(units=units)).values():
        low, high = found.adjusted_interval
        assert (low <= 0 <= high) == (found.p_corrected > 0.01)
        assert -found.baseline_mean <= low <= high <= 1 - found.baseline_mean
        assert low - 1e-9 <= found.estimate <= high + 1e-9
