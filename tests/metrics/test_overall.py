"""A part that is missing is left out of the overall score and stands in its coverage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.overall import WEIGHTS, overall_of_answer, overall_score

ALL = {"span_accuracy": 0.5, "citation_quality": 1.0, "answer_consistency": 0.8, "no_hallucination": 0.9}


def test_all_parts_by_the_specifications_weights():
    overall = overall_score(ALL)

    assert overall.value == pytest.approx(0.3 * 0.5 + 0.3 * 1.0 + 0.25 * 0.8 + 0.15 * 0.9)
    assert overall.coverage == 1.0


def test_weights_are_spread_over_the_parts_that_there_are():
    # Without gold spans: (0.3 + 0.25 x 0.8 + 0.15 x 0.9) / 0.7
    overall = overall_score(ALL | {"span_accuracy": None})

    assert overall.value == pytest.approx(0.635 / 0.7)
    assert overall.coverage == pytest.approx(0.7)
    assert "span_accuracy" not in overall.parts


def test_as_the_specifications_code_has_it_a_missing_part_is_zero():
    assert overall_score(ALL | {"span_accuracy": None}, missing="zero").value == pytest.approx(0.635)


def test_an_empty_answer_has_no_overall_score():
    assert overall_score({}) == (None, 0.0, {})
    assert overall_of_answer({}).value is None


def test_the_parts_are_taken_from_the_measures():
    scores = {
        "tolerance_jaccard": 0.5, "citation_correctness": 1.0, "factual_consistency": 0.8,
        "hallucination_vs_citations": 0.1, "f1": 0.3,
    }  # fmt: skip

    assert overall_of_answer(scores).value == pytest.approx(overall_score(ALL).value)


BAD = {
    "an unknown part": ({"relevance": 1.0}, WEIGHTS),
    "a score above 1": ({"span_accuracy": 1.1}, WEIGHTS),
    "no weight at all": ({"span_accuracy": 1.0}, {"span_accuracy": 0.0}),
    "a negative weight": ({"span_accuracy": 1.0}, {"span_accuracy": -1.0}),
}


@pytest.mark.parametrize(("parts", "weights"), BAD.values(), ids=BAD)
def test_what_has_no_meaning_is_refused(parts, weights):
    with pytest.raises(ValueError, match="expected"):
        overall_score(parts, weights=weights)


some_parts = st.dictionaries(st.sampled_from(sorted(WEIGHTS)), st.none() | st.floats(0, 1))


@given(some_parts)
def test_the_score_lies_between_its_parts(parts):
    overall = overall_score(parts)

    known = [score for score in parts.values() if score is not None]
    assert (overall.value is None) == (not known)
    if overall.value is not None:
        assert min(known) - 1e-12 <= overall.value <= max(known) + 1e-12
        assert 0.0 <= overall_score(parts, missing="zero").value <= overall.value + 1e-12
