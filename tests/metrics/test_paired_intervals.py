"""A difference is as sure as the units that were seen, which are documents where questions share them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rag_eval_pipeline.metrics.paired_intervals import paired_interval

T_9, T_3, T_21 = 2.262157, 3.182446, 2.079614  # Student's t at 0.975


def test_questions_that_agree_are_evidence_and_not_certainty():
    # Eight zeros with +1 and -1: mean 0, variance 2 / 9, n = 10; t with 9 degrees.
    interval = paired_interval(np.zeros(8))

    assert interval.high == pytest.approx(T_9 * math.sqrt(2 / 9 / 10), abs=1e-6)
    assert interval.low == -interval.high


def test_a_wider_scale_widens_the_interval():
    narrow, wide = paired_interval(np.zeros(8)), paired_interval(np.zeros(8), value_range=4.0)

    assert wide.high == pytest.approx(4 * narrow.high)


def test_no_questions_leave_the_pseudo_questions_alone():
    # +1 and -1: variance 2, n = 2, t with 1 degree of freedom 12.7062.
    assert paired_interval(np.zeros(0)).high == pytest.approx(12.7062, abs=1e-4)


def test_clusters_and_pseudo_documents_of_their_size():
    # Two documents of two questions, sums 0.4 and -0.4, and two made-up ones of two, sums 2 and -2: 8 questions.
    interval = paired_interval(np.array([0.2, 0.2, -0.2, -0.2]), clusters=["a", "a", "b", "b"])

    variance = 4 / 3 * (0.16 + 0.16 + 4 + 4) / 64
    assert interval.high == pytest.approx(T_3 * math.sqrt(variance), abs=1e-6)


def test_made_up_documents_have_the_average_size():
    # Twenty documents of five that agree: two made-up ones of five, sums 5 and -5, among 110 questions.
    interval = paired_interval(np.zeros(100), clusters=[str(n // 5) for n in range(100)])

    assert interval.high == pytest.approx(T_21 * math.sqrt(22 / 21 * 50) / 110, abs=1e-6)


def test_a_large_document_among_single_questions_is_not_passed_over():
    # 20 questions of one document and 20 of their own: worth 40^2 / (20^2 + 20) = 3.81 documents of 10.5.
    interval = paired_interval(np.zeros(40), clusters=["long"] * 20 + [str(n) for n in range(20)])

    worth = 1600 / 420
    t = float(stats.t.ppf(0.975, worth + 1))
    assert interval.high == pytest.approx(t * math.sqrt((worth + 2) / (worth + 1) * 2 * 10.5**2) / 61)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.integers(1, 5))
def test_documents_of_one_question_are_no_clusters_and_signs_do_not_matter(values, size):
    differences = np.array(values)
    names = [str(n) for n in range(differences.size)]
    shared = [str(n // size) for n in range(differences.size)]

    assert paired_interval(differences, clusters=names) == paired_interval(differences)
    there, back = paired_interval(differences, clusters=shared), paired_interval(-differences, clusters=shared)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_a_mean_and_its_units_decide_and_not_their_order():
    differences, names = np.array([0.5, -0.2, 0.1, 0.0, 0.3]), ["a", "b", "a", "c", "b"]
    order = [3, 1, 4, 0, 2]

    assert paired_interval(differences[order], clusters=[names[n] for n in order]) == pytest.approx(
        paired_interval(differences, clusters=names)
    )
