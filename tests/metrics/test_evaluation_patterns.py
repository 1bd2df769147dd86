"""Preference, agreement and development by stated definitions, where the specification's examples follow from none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.evaluation_patterns import agreement_score, compare_variants, development
from rag_eval_pipeline.metrics.evaluation_scores import Scale
from rag_eval_pipeline.metrics.statistics import wilson_interval

EVENTS = {"variant_a_event_id": "a", "variant_b_event_id": "b"}


def test_a_preference_has_wilsons_interval_and_is_significant_when_that_leaves_a_half_out():
    comparison = compare_variants([1.0] * 650 + [0.0] * 350, **EVENTS)

    assert comparison.preference_score == 0.65
    assert comparison.confidence_interval == tuple(wilson_interval(650, 1000))
    assert comparison.confidence_interval == pytest.approx((0.620, 0.679), abs=5e-4)
    assert (comparison.sample_size, comparison.statistical_significance) == (1000, True)


PREFERENCES = {
    #                                     preferences                share   significant
    "even":                             ([1.0] * 5 + [0.0] * 5,     0.5,    False),
    "few, though most prefer A":        ([1.0] * 3 + [0.0],         0.75,   False),
    "all prefer B":                     ([0.0] * 10,                0.0,    True),
    "a tie is half a win":              ([1.0, 0.5, 0.5, 0.0],      0.5,    False),
    "nothing but ties decide nothing":  ([0.5] * 10,                0.5,    None),
}  # fmt: skip


@pytest.mark.parametrize(("preferences", "share", "significant"), PREFERENCES.values(), ids=PREFERENCES)
def test_preference(preferences, share, significant):
    comparison = compare_variants(preferences, **EVENTS)

    assert (comparison.preference_score, comparison.statistical_significance) == (share, significant)


def test_no_comparisons_are_no_comparison():
    assert compare_variants([], **EVENTS) is None
    with pytest.raises(ValueError, match=r"0, 0\.5 or 1"):
        compare_variants([0.7], **EVENTS)


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=30))
def test_the_interval_is_around_the_preference(preferences):
    comparison = compare_variants(preferences, **EVENTS)

    if comparison.confidence_interval is not None:
        low, high = comparison.confidence_interval
        assert 0 <= low <= comparison.preference_score <= high <= 1


AGREEMENTS = {
    #                                   human    model    scale                                             expected
    "the specification's example":    (0.8,     0.85,    Scale(),                                          0.95),
    "two stars apart":                (5,       3,       Scale(1, 5),                                      0.5),
    "the other end":                  (True,    False,   Scale(),                                          0.0),
    "the same category":              ("good",  "good",  Scale(categories={"good": 1, "bad": 0}),          1.0),
    "one gave none":                  (None,    0.5,     Scale(),                                          None),
}  # fmt: skip


@pytest.mark.parametrize(("human", "model", "scale", "expected"), AGREEMENTS.values(), ids=AGREEMENTS)
def test_agreement(human, model, scale, expected):
    assert agreement_score(human, model, scale) == (None if expected is None else pytest.approx(expected))
    assert agreement_score(human, model, scale) == agreement_score(model, human, scale)


def test_the_specifications_scores_have_no_clear_trend():
    # 0.78 0.82 0.85: slope (0.85 - 0.78) / 2 = 0.035, mean 2.45 / 3.
    # Residuals -1, 2, -1 times 1 / 600; their squares add up to 6 / 360,000. Standard error of the slope
    # sqrt(6 / 360,000 / 1 / 2) = 0.0028868; Student's t at 97.5 % with one degree of freedom is 12.7062.
    # Sample deviation sqrt(0.0024667 / 2) = 0.0351188; 1 - 0.0351188 / 0.8166667 = 0.956997
    found = development([0.78, 0.82, 0.85])

    assert found.change_rate == pytest.approx(0.035)
    assert found.slope_interval == pytest.approx((0.035 - 0.0366795, 0.035 + 0.0366795), abs=1e-6)
    assert found.trend == "no_clear_trend"
    assert found.stability_score == pytest.approx(0.956997, abs=1e-6)


TRENDS = {
    #                                       scores                        lower is better   trend
    "rising":                             ([0.1, 0.2, 0.3, 0.41],        False,            "improving"),
    "falling":                            ([0.41, 0.3, 0.2, 0.1],        False,            "declining"),
    "falling toxicity":                   ([0.41, 0.3, 0.2, 0.1],        True,             "improving"),
    "rising toxicity":                    ([0.1, 0.2, 0.3, 0.41],        True,             "declining"),
    "up and down":                        ([0.1, 0.9, 0.2, 0.8],         False,            "no_clear_trend"),
    "nothing changes":                    ([0.3, 0.3, 0.3],              False,            "stable"),
    "two cannot show a trend":            ([0.1, 0.9],                   False,            None),
    "nor can two that are equal":         ([0.5, 0.5],                   False,            None),
    "one":                                ([0.5],                        False,            None),
    "none":                               ([],                           False,            None),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "lower", "trend"), TRENDS.values(), ids=TRENDS)
def test_trend(scores, lower, trend):
    found = development(scores, is_lower_better=lower)

    assert (found.trend, found.n) == (trend, len(scores))


def test_two_scores_have_a_rate_and_one_has_none():
    assert development([0.1, 0.9]).change_rate == pytest.approx(0.8)
    assert development([0.1]).change_rate is None


def test_stability_needs_a_mean_above_zero():
    assert development([-0.5, 0.5, 0.0]).stability_score is None
    assert development([0.0, 0.0]).stability_score is None
    assert development([0.4, 0.4]).stability_score == 1.0
