"""Metrics are compared question by question: a failure is not a pair, and a skipped question not a failure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.verdicts import ComparedMetric, Rules, compare, verdict

BY_DOCUMENT = Rules(units="documents")


def unchanged(name, n_questions=500):
    return ComparedMetric(name, [1.0] * n_questions, [[1.0] * n_questions] * 5)


def with_drops(name, n_drops, n_questions=500):
    return unchanged(name, n_questions)._replace(current=[0.0] * n_drops + [1.0] * (n_questions - n_drops))


def test_compare_flags_eleven_falls_with_twelve_metrics_and_not_nine():
    others = [unchanged(f"metric {i}") for i in range(11)]

    # Exactly: 12 x 2^-11 = 0.0059 and 12 x 2^-9 = 0.023 against 0.01.
    eleven = compare([with_drops("EM", 11), *others], seed=1)["EM"]
    nine = compare([with_drops("EM", 9), *others], seed=1)["EM"]

    assert (verdict(eleven).kind, verdict(nine).kind) == ("regressed", "inconclusive")
    assert eleven.estimate == -11 / 500
    assert eleven.smallest_drop == 11 / 500


def test_compare_finds_an_unchanged_system_equivalent():
    evidence = compare([unchanged("EM"), unchanged("F1")], seed=2)

    assert [verdict(part).kind for part in evidence.values()] == ["equivalent", "equivalent"]
    assert [part.p_value for part in evidence.values()] == [1.0, 1.0]
    # No score moved, which is evidence and no certainty: the interval is not a single point.
    assert [part.adjusted_interval.low < 0 for part in evidence.values()] == [True, True]


def test_compare_does_not_flag_churn_without_a_net_change():
    # 30 of 500 answers became wrong and 30 others right.
    metric = ComparedMetric("EM", [0.0] * 30 + [1.0] * 470, [[1.0] * 470 + [0.0] * 30] * 5)

    assert verdict(compare([metric], seed=4)["EM"]).kind == "inconclusive"


def test_failure_rate_can_regress_while_other_verdicts_are_withheld():
    answered = unchanged("EM", 200)._replace(current=[None] * 20 + [1.0] * 180)
    failed = ComparedMetric("Failure rate", [1.0] * 20 + [0.0] * 180, [[0.0] * 200] * 5, higher_is_better=False)

    evidence = compare([answered, failed], seed=6)

    assert (evidence["EM"].n_pairs, evidence["EM"].coverage) == (180, 0.9)
    assert [verdict(part).kind for part in evidence.values()] == ["withheld", "regressed"]
    assert evidence["Failure rate"].coverage == 1.0


def test_compare_leaves_skipped_questions_out_of_the_coverage():
    metric = with_drops("ndcg@5", 11, 100)._replace(applies=[True] * 40 + [False] * 60)

    evidence = compare([metric], seed=7)["ndcg@5"]

    assert (evidence.n_pairs, evidence.coverage, evidence.estimate) == (40, 1.0, -11 / 40)


def test_compare_ignores_a_metric_that_applies_nowhere():
    nowhere = unchanged("Abstention")._replace(applies=[False] * 500)

    evidence = compare([nowhere, with_drops("EM", 11)], seed=8)

    assert verdict(evidence["Abstention"]).kind == "no_verdict"
    assert (evidence["Abstention"].estimate, evidence["Abstention"].p_value) == (None, None)
    assert evidence["EM"].p_corrected == evidence["EM"].p_value


def test_compare_by_documents_flags_ten_falls_with_eight_metrics_and_not_nine():
    # 8 metrics: 8 x 2^-10 = 0.0078 and 8 x 2^-9 = 0.0156 against 0.01; 100 questions of 20 documents, 5 each.
    others = [unchanged(f"metric {i}", 100) for i in range(7)]
    documents = [f"document {i // 5}" for i in range(100)]

    ten, nine = (
        compare([with_drops("EM", 5 * n, 100), *others], seed=20, clusters=documents, rules=BY_DOCUMENT)["EM"]
        for n in (10, 9)
    )

    assert (verdict(ten).kind, verdict(nine).kind) == ("regressed", "inconclusive")
    assert (ten.smallest_drop, ten.needed_units, ten.n_units) == (0.5, 10, 20)


def test_compare_by_documents_needs_seven_documents():
    documents = [f"document {i // 10}" for i in range(60)]

    evidence = compare([with_drops("EM", 60, 60)], seed=21, clusters=documents, rules=BY_DOCUMENT)["EM"]

    # All six documents fell as a whole: p = 2^-6 is above 0.01, and one more would be needed.
    assert (evidence.p_value, evidence.n_pairs, evidence.n_units) == (2**-6, 60, 6)
    assert (evidence.needed_units, evidence.smallest_drop) == (7, None)
    assert verdict(evidence).kind == "inconclusive"


def test_compare_by_documents_does_not_call_few_large_documents_equivalent():
    # 500 questions that agree are within 2 points by themselves; as 20 documents of 25 they may move together.
    documents = [f"document {i // 25}" for i in range(500)]

    alone, shared = (
        compare([unchanged("EM")], seed=22, clusters=names, rules=BY_DOCUMENT)["EM"] for names in (None, documents)
    )

    assert (verdict(alone).kind, verdict(shared).kind) == ("equivalent", "inconclusive")


def test_compare_draws_signs_only_for_metrics_that_need_it():
    rng = np.random.default_rng(24)
    graded = ComparedMetric("F1", rng.random(300).tolist(), [rng.random(300).tolist()])

    alone, beside = (
        compare(metrics, seed=25) for metrics in ([graded], [with_drops("EM", 11, 300), graded, unchanged("MRR", 300)])
    )

    assert [beside[name].is_exact for name in ("EM", "F1", "MRR")] == [True, False, True]
    # 11 questions fell, none rose: 2^-11. MRR has no difference: all assignments are as extreme.
    assert (beside["EM"].p_value, beside["MRR"].p_value) == (2**-11, 1.0)
    assert beside["F1"].p_value == alone["F1"].p_value


def test_compare_does_not_flag_the_recovery_of_an_unlucky_baseline():
    """Ratings at the top of their scale: 13 of 50 slipped once in the five runs by a step, and none tonight."""
    runs = [[1.0] * 50 for _ in range(5)]
    for question in range(13):
        runs[question % 5][question] = 0.75
    evidence = compare([ComparedMetric("Clear", [1.0] * 50, runs)], seed=27)["Clear"]

    # 13 x 0.25 / 5 / 50 = 1.3 points, and 13 signs that agree: the flips alone are sure of it.
    assert evidence.estimate == pytest.approx(0.013)
    assert evidence.p_corrected <= 0.01
    assert verdict(evidence).kind == "inconclusive"


def test_compare_draws_more_signs_for_many_metrics():
    # 60 metrics: the smallest p of 19,999 flips, times 60, is only 3 times below the limit; the rule asks for 10.
    rng = np.random.default_rng(30)
    metric = ComparedMetric("F1", np.zeros(60), [rng.random(60)])
    metrics = [metric, *(unchanged(f"metric {i}", 60) for i in range(59))]

    assert compare(metrics, seed=10)["F1"].p_value == 1 / 60_000


def test_compare_needs_distinct_metrics():
    for metrics in ([], [unchanged("EM"), unchanged("EM")]):
        with pytest.raises(ValueError, match="each name once"):
            compare(metrics, seed=1)


def test_compare_takes_means_and_effect_size_over_the_pairs():
    # Pairs 1 to 4; tonight 1, 0, 0, 1 against 1, 1, 1, 0: differences 0, -1, -1, 1, mean -1/4, variance 11/12.
    metric = ComparedMetric("EM", [1.0, 0.0, 0.0, 1.0, None], [[1.0, 1.0, 1.0, 0.0, 1.0]] * 5)

    evidence = compare([metric], seed=13)["EM"]

    assert (evidence.baseline_mean, evidence.current_mean) == (0.75, 0.5)
    assert evidence.effect_size == pytest.approx(-0.25 / (11 / 12) ** 0.5)


def test_compare_ignores_documents_of_one_question():
    metric = with_drops("EM", 11)

    singly = compare([metric], seed=14, clusters=[f"z{i}" for i in range(500, 0, -1)])

    assert singly == compare([metric], seed=14)
    assert not singly["EM"].is_clustered


def handbooks(name, n_fell, n_rose=0, *, n_runs=5):
    """1,000 questions about 3 handbooks; the pinned runs differ on 20 questions, each by its own chance."""
    rng = np.random.default_rng(40)
    runs = np.ones((n_runs, 1000))
    runs[:, 500:520] = rng.integers(0, 2, (n_runs, 20))
    runs[:, 1000 - n_rose :] = 0
    tonight = np.ones(1000)
    tonight[:n_fell] = 0
    return ComparedMetric(name, tonight.tolist(), runs.tolist())


HANDBOOKS = [f"handbook {i % 3}" for i in range(1000)]


def test_compare_tests_questions_of_few_documents():
    evidence = compare([handbooks("EM", 314)], seed=41, clusters=HANDBOOKS)["EM"]

    assert (verdict(evidence).kind, evidence.is_clustered, evidence.n_units) == ("regressed", False, 1000)
    assert evidence.adjusted_interval.low > -0.5
    # Documents are the units where that is asked for, or where too few runs show what they share.
    documents, two_runs = (
        compare([handbooks("EM", 314, n_runs=n)], seed=41, clusters=HANDBOOKS, rules=rules)["EM"]
        for n, rules in ((5, BY_DOCUMENT), (2, Rules()))
    )
    assert (documents.is_clustered, documents.is_short_of_runs, documents.n_units) == (True, False, 3)
    assert (two_runs.is_clustered, two_runs.is_short_of_runs, two_runs.n_units) == (True, True, 3)
    assert "in 3 groups by document, because fewer than 3 runs are pinned" in verdict(two_runs).sentence
    # Three documents allow nothing to be said; the interval is all that is possible, and no more.
    assert two_runs.adjusted_interval == (-two_runs.baseline_mean, 1 - two_runs.baseline_mean)


def test_compare_multiplies_shared_noise_by_its_design_effect():
    """Three of 30 documents change as a whole from run to run, in turn, and once more tonight: nothing has changed."""
    documents = [f"document {i // 10}" for i in range(300)]
    runs = np.ones((5, 300))
    for run, document in enumerate((0, 1, 2, 0, 1)):
        runs[run, 10 * document : 10 * document + 10] = 0
    tonight = np.ones(300)
    tonight[:20] = 0
    metric = ComparedMetric("EM", tonight.tolist(), runs.tolist())

    shared, ignored = (
        compare([metric], seed=42, clusters=documents, rules=rules)["EM"]
        for rules in (Rules(), Rules(units="questions"))
    )

    # Residuals of a document are equal: each one's sum is 10 times as large, its square 100 times that of a question.
    assert shared.design_effect == pytest.approx(10)
    assert shared.p_value > 10 * ignored.p_value
    assert "design effect 10.0 within documents" in verdict(shared).sentence
    assert ignored.design_effect is None


def test_compare_of_a_deterministic_system_ignores_documents():
    """One run of three handbooks: 11 wrong answers are 11, whichever handbook they are about."""
    metric = with_drops("EM", 11, 900)
    names = [f"handbook {i // 300}" for i in range(900)]

    evidence = compare(
        [metric._replace(baselines=metric.baselines[:1])], seed=43, clusters=names, is_deterministic=True
    )

    assert (evidence["EM"].p_value, evidence["EM"].is_clustered) == (2**-11, False)


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
