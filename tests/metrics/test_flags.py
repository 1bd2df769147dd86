"""A flag needs size and certainty, and a rerun against the same baseline that shows the same."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.flags import confirm, confirm_flags, is_flagged
from rag_eval_pipeline.metrics.intervals import Interval
from tests.verdict_examples import DROP

RISE = replace(DROP, estimate=0.031, confidence_interval=Interval(0.016, 0.046))
SMALL = replace(DROP, estimate=0.001, confidence_interval=Interval(-0.008, 0.011), p_value=0.4, p_corrected=1.0)
UNCLEAR = replace(DROP, estimate=-0.012, confidence_interval=Interval(-0.034, 0.010), p_value=0.1, p_corrected=0.9)

LIMITS = {
    "a corrected p of half of alpha":      (replace(DROP, p_corrected=0.01), True),
    "just above it":                       (replace(DROP, p_corrected=0.010001), False),
    "one point, but for rounding":         (replace(DROP, estimate=-0.00999999999999999), True),
    "less than one point":                 (replace(DROP, estimate=-0.0099), False),
    "one point of a scale of five steps":  (replace(DROP, estimate=-0.039, value_range=4.0), False),
    "98 of 100 scored":                    (replace(DROP, coverage=98 / 100), True),
    "30 questions":                        (replace(DROP, n_pairs=30, n_units=30), True),
    "29 questions":                        (replace(DROP, n_pairs=29, n_units=29), False),
    "30 questions of 12 documents":        (replace(DROP, n_pairs=30, n_units=12, is_clustered=True), True),
    "a rise":                              (RISE, True),
    "a rise whose interval holds 0":       (replace(RISE, confidence_interval=Interval(0.0, 0.062)), False),
    "a fall whose interval holds 0":       (replace(DROP, confidence_interval=Interval(-0.062, 0.0)), True),
    "fewer failures, the interval holds 0": (
        replace(DROP, higher_is_better=False, confidence_interval=Interval(-0.062, 0.0)), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "flagged"), LIMITS.values(), ids=LIMITS)
def test_the_limits_themselves_count_as_reached(evidence, flagged):
    assert is_flagged(evidence) is flagged


RERUNS = {
    "seen again":                     (replace(DROP, p_value=0.005), 2, "confirmed"),
    "p times the number flagged":     (replace(DROP, p_value=0.005), 3, "not_confirmed"),
    "the uncorrected p counts":       (replace(DROP, p_value=0.005, p_corrected=0.06), 2, "confirmed"),
    "the other way round":            (RISE, 1, "not_confirmed"),
    "less than one point this time":  (replace(DROP, estimate=-0.009), 1, "not_confirmed"),
    "too much failed this time":      (replace(DROP, coverage=0.9), 1, "not_confirmed"),
    "a rise's own rule is not its":   (replace(DROP, confidence_interval=Interval(-0.062, 0.001)), 1, "confirmed"),
    "no pairs this time":             (replace(DROP, estimate=None, p_value=None), 1, "not_confirmed"),
}  # fmt: skip


@pytest.mark.parametrize(("rerun", "n_flagged", "expected"), RERUNS.values(), ids=RERUNS)
def test_a_rerun_confirms_what_it_shows_again(rerun, n_flagged, expected):
    assert confirm(DROP, rerun, n_flagged=n_flagged) == expected


def test_a_rise_is_confirmed_by_a_rerun_whose_interval_leaves_out_0():
    unsure = replace(RISE, confidence_interval=Interval(-0.001, 0.063))

    assert confirm(RISE, RISE, n_flagged=1) == "confirmed"
    assert confirm(RISE, unsure, n_flagged=1) == "not_confirmed"


def test_a_rerun_is_asked_about_flagged_metrics_only():
    first = {"EM": DROP, "F1": replace(DROP, metric="F1"), "MRR": UNCLEAR}
    # p x 2 flagged, not x 3 compared: 0.005 is just enough; MRR's fall in the rerun is nobody's business.
    rerun = {"EM": replace(DROP, p_value=0.005), "F1": replace(DROP, p_value=0.0051), "MRR": DROP}

    assert confirm_flags(first, rerun) == {"EM": "confirmed", "F1": "not_confirmed"}


def test_a_flagged_metric_that_the_rerun_lacks_is_not_confirmed():
    assert confirm_flags({"EM": DROP}, {}) == {"EM": "not_confirmed"}


def test_nothing_flagged_is_nothing_to_confirm():
    assert confirm_flags({"EM": UNCLEAR}, {"EM": DROP}) == {}
