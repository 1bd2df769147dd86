"""The exact test of run labels: against every labelling, against McNemar's test, and with missing scores."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from rag_eval_pipeline.metrics.run_labels import PairedRuns, change_interval, label_test, pair_runs

SCORES = st.sampled_from((0.0, 1.0, 0.5, 0.25, 1 / 3, None))


def arrays(rows):
    return np.array(rows, dtype=np.float64)


@st.composite
def runs(draw, *, scores=SCORES, questions=4):
    """(reference, current, units) of a few runs."""
    n, b, k = draw(st.integers(1, questions)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    rows = draw(st.lists(st.lists(scores, min_size=n, max_size=n), min_size=b + k, max_size=b + k))
    units = np.unique(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), return_inverse=True)[1]
    return arrays(rows[:b]), arrays(rows[b:]), units


def enumerate_labels(paired: PairedRuns) -> tuple[Fraction, Fraction]:
    """P(sum <= seen) and P(sum >= seen) over all labellings, each unit's runs that count."""
    scores = np.concatenate([paired.reference, paired.current])
    unit_choices, seen = [], 0
    for unit in range(paired.units.max() + 1):
        columns = (paired.units == unit) & paired.is_pair
        rows = [n for n in range(len(scores)) if columns.any() and not np.isnan(scores[n, columns]).any()]
        sums = {n: round(float(scores[n, columns].sum()) * 120) for n in rows}
        current = [n for n in rows if n >= len(paired.reference)]
        if current:
            seen += sum(sums[n] for n in current)
            unit_choices.append([sum(sums[n] for n in chosen) for chosen in combinations(rows, len(current))])
    totals = [sum(one) for one in product(*unit_choices)]
    return tuple(Fraction(sum(test(t) for t in totals), len(totals)) for test in (seen.__ge__, seen.__le__))


@given(runs())
def test_p_is_that_of_all_labellings(drawn):
    paired = pair_runs(*drawn)
    found = label_test(paired)

    assert [found.low, found.high] == pytest.approx([float(p) for p in enumerate_labels(paired)], abs=1e-12)
    assert found.low + found.high - found.at == pytest.approx(1)


@pytest.mark.parametrize(("only_before", "only_now"), [(5, 0), (9, 2), (30, 12), (3, 3)])
def test_one_reference_run_gives_mcnemars_exact_test(only_before, only_now):
    before = arrays([[1] * only_before + [0] * only_now + [1] * 7])
    now = arrays([[0] * only_before + [1] * only_now + [1] * 7])
    expected = binomtest(only_now, only_before + only_now, alternative="less").pvalue

    assert label_test(pair_runs(before, now)).low == pytest.approx(expected)


def test_p_of_graded_scores_of_documents_is_that_of_drawn_labels():
    rng = np.random.default_rng(5)
    units = np.arange(60) % 9
    scores = np.clip(rng.random((8, 60)) + rng.normal(0, 0.3, (8, 9))[:, units], 0, 1)
    found = label_test(pair_runs(scores[:6], scores[6:], units))
    sums = np.stack([np.bincount(units, np.rint(120 * run)) for run in scores])
    drawn = np.argsort(rng.random((100_000, 8, 9)), axis=1)[:, :2]
    totals = np.take_along_axis(sums[None], drawn, axis=1).sum(axis=(1, 2))

    assert found.low == pytest.approx((totals <= sums[6:].sum()).mean(), abs=0.006)
    assert found.high == pytest.approx((totals >= sums[6:].sum()).mean(), abs=0.006)


_ = np.nan
MISSING = {  # reference, current, units -> scores that count
    "none tonight: the question is left out": ([[1, 1]] * 5, [[1, _]], [0, 1], [[1, 0]] * 6),
    "a run of a question": ([[1, 1], [_, 1], [1, 1], [1, 1], [1, 1], [0, 1]], [[1, 1]], [0, 1],
                            [[1, 1], [0, 1]] + [[1, 1]] * 5),
    "fewer than five runs": ([[1, 1], [_, 1], [_, 1], [1, 1], [1, 1]], [[1, 1]], [0, 1], [[0, 1]] * 6),
    "one question of a large document": ([[1] * 8, [1, _] + [1] * 6] + [[1] * 8] * 3, [[0] * 8], [0] * 8,
                                         [[1, 0] + [1] * 6] * 6),
    "one run of a document": ([[1, 1, 1], [_, _, _]] + [[1, 1, 1]] * 4, [[0, 0, 0]], [0, 0, 0],
                              [[1, 1, 1], [0, 0, 0]] + [[1, 1, 1]] * 5),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "current", "units", "counted"), MISSING.values(), ids=MISSING)
def test_scores_that_count(reference, current, units, counted):
    paired = pair_runs(arrays(reference), arrays(current), np.array(units))

    assert (~np.isnan(np.concatenate([paired.reference, paired.current]))).astype(int).tolist() == counted


def test_questions_that_fell_for_good_and_a_guard_against_noise_of_whole_runs():
    reference = arrays([[1, 1, 0, 1, 1]] * 4 + [[1, 0, 0, 1, 1]])
    paired = pair_runs(reference, arrays([[0, 0, 1, 1, 0], [0, 0, 1, 1, 1]]))

    assert (paired.fallen.tolist(), paired.risen.tolist()) == ([True, *[False] * 4], [False, False, True, False, False])
    assert not paired.is_beyond
    assert pair_runs(reference, arrays([[0, 0, 0, 1, 1]])).is_beyond


@given(runs(questions=12), st.sampled_from((0.05, 0.005)))
def test_interval_holds_the_estimate_and_narrows_with_the_level(drawn, level):
    paired = pair_runs(*drawn)
    if not paired.is_pair.any():
        return
    before, now = paired.means
    estimate = float((now - before).mean())
    narrow, wide = change_interval(paired, 0.2), change_interval(paired, level)
    doubtful = change_interval(paired, 0.2, with_doubt=True)

    assert wide.low <= narrow.low <= narrow.high <= wide.high
    assert len(drawn[0]) > 1 or np.ptp(paired.units) or narrow.low <= estimate + 1e-9
    assert doubtful.high > doubtful.low
