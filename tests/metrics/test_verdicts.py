"""A verdict needs size, certainty and reruns; people are alerted once about a change that stays."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.metrics.verdict_rules import Budget
from rag_eval_pipeline.metrics.verdicts import (
    alerts,
    decide,
    first_confirmation,
    flip_share,
    holm,
    holm_levels,
    is_flagged,
    needed_units,
    night_state,
    rerun_outcome,
    standardised_difference,
)
from tests.verdict_examples import DROP, FIRST, RISE, UNCLEAR, replace

LIMITS = {
    "a corrected p of what is needed":     (replace(FIRST, p_corrected=0.01), True),
    "just above it":                       (replace(FIRST, p_corrected=0.010001), False),
    "one point, but for rounding":         (replace(FIRST, estimate=-0.00999999999999999), True),
    "less than one point":                 (replace(FIRST, estimate=-0.0099), False),
    "29 questions":                        (replace(FIRST, n=29, n_units=29), False),
    "30 questions of 12 documents":        (replace(FIRST, n=30, n_units=12, is_clustered=True), True),
    "a rise":                              (RISE, True),
    "10 questions of a deterministic system": (replace(FIRST, n=10, is_certain=True, p_corrected=None), True),
    "which changed by less than a point":  (replace(FIRST, is_certain=True, p_corrected=None, estimate=0.009), False),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "flagged"), LIMITS.values(), ids=LIMITS)
def test_flag_counts_reached_limits(evidence, flagged):
    assert is_flagged(evidence) is flagged


RERUNS = {
    "together below the level of the budget":   (DROP,                              "confirmed"),
    "not yet, but below 0.01: another rerun":   (replace(DROP, p_corrected=1.1e-5), "pending"),
    "after three reruns":                       (replace(DROP, p_corrected=1.1e-5, runs=4), "not_confirmed"),
    "above 0.01":                               (replace(DROP, p_corrected=0.011),  "not_confirmed"),
    "the other direction":                      (RISE,                              "not_confirmed"),
    "less than one point together":             (replace(DROP, estimate=-0.009),    "not_confirmed"),
    "a reference run is as low":                (replace(DROP, is_beyond=False),    "not_confirmed"),
    "no pairs together":                        (replace(DROP, estimate=None, p_corrected=None), "not_confirmed"),
}  # fmt: skip


@pytest.mark.parametrize(("together", "expected"), RERUNS.values(), ids=RERUNS)
def test_reruns_decide_together_with_their_night(together, expected):
    assert rerun_outcome(FIRST, together) == expected


KINDS = {
    "a decline":                            (DROP, "regressed"),
    "a rise":                               (RISE, "improved"),
    "a rise of failures":                   (replace(RISE, higher_is_better=False), "regressed"),
    "two thirds fell":                      (replace(DROP, fell=14, rose=7), "regressed"),
    "fewer: its answers changed":           (replace(DROP, fell=13, rose=7), "changed"),
    "no question changed for good":         (replace(DROP, fell=0, rose=0), "regressed"),
    "missing scores could overturn it":     (replace(DROP, n_missing=9, p_if_missing=2e-5, estimate_if_missing=-0.05), "withheld"),
    "they leave less than a point":         (replace(DROP, n_missing=9, p_if_missing=1e-8, estimate_if_missing=-0.009), "withheld"),
    "they change nothing":                  (replace(DROP, n_missing=9, p_if_missing=1e-8, estimate_if_missing=-0.05), "regressed"),
    "nothing was scored":                   (replace(DROP, estimate=None, n=0, n_missing=9), "withheld"),
    "nor should have been":                 (replace(DROP, estimate=None, n=0), "no_verdict"),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "kind"), KINDS.values(), ids=KINDS)
def test_kind_of_a_confirmed_change(evidence, kind):
    assert decide(evidence, confirmation="confirmed").kind == kind


def test_missing_scores_may_hide_a_change():
    small = replace(UNCLEAR, confidence_interval=(-0.005, 0.005))

    assert decide(small).kind == "equivalent"
    assert decide(replace(small, n=196, n_missing=4)).kind == "inconclusive"


def test_budget_is_shared_by_sides_nights_pairs_and_decisions():
    budget = Budget(0.5, n_pairs=12)
    a_year = sum(2 * 365 * 12 * budget.level(runs) for runs in (2, 3, 4))

    assert a_year == pytest.approx(0.5)
    assert budget.text == "so that 12 pairs raise at most one false alarm in two years"
    assert Budget(1, 1).text == "so that 1 pair raises at most one false alarm a year"
    assert Budget(3, 2).text == "so that 2 pairs raise at most three false alarms a year"
    assert Budget(0.4, 2).text == "so that 2 pairs raise at most one false alarm in 2.5 years"


# reference runs, pairs, units that must fall with none rising
FLOORS = [(5, 1, 4), (20, 1, 2), (5, 30, 5), (20, 30, 3)]


@pytest.mark.parametrize(("reference", "pairs", "expected"), FLOORS)
def test_fewest_units_that_can_show_a_change(reference, pairs, expected):
    assert needed_units(12, level=Budget(0.5, pairs).level(2), reference=reference, runs=2) == expected


LETTERS = {"-": "unflagged", "?": "unconfirmed", "r": "regressed", "i": "improved", "w": "unknown"}

HISTORIES = {
    "a change of state":                               ("--r", "..!"),
    "a regression that stays":                         ("-rrrr", ".!..."),
    "gone for three nights":                           ("r---r", "!...!"),
    "a flag that is not confirmed is not quiet":       ("r--?--r", "!......"),
    "the other direction is news":                     ("ri", "!!"),
    "and back":                                        ("riir", "!!.!"),
    "a withheld night is not quiet":                   ("r--wr", "!...."),
    "and does not break the row":                      ("r--w-r", "!....!"),
    "three quiet nights forget an improvement too":    ("i---i", "!...!"),
    "no night":                                        ("", ""),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), HISTORIES.values(), ids=HISTORIES)
def test_alerts(history, expected):
    states = [LETTERS[letter] for letter in history]

    assert "".join("!" if alerted else "." for alerted in alerts(states)) == expected


STATES = {
    "seen again":                     (DROP, "confirmed", "regressed"),
    "a system that repeats itself":   (DROP, "not_needed", "regressed"),
    "a rise":                         (RISE, "confirmed", "improved"),
    "a change both ways":             (replace(DROP, rose=14), "confirmed", "changed"),
    "first run":                      (FIRST, "pending", "unconfirmed"),
    "undecided by its rerun":         (replace(DROP, p_corrected=0.001), "pending", "unconfirmed"),
    "not seen again":                 (DROP, "not_confirmed", "unconfirmed"),
    "no baseline yet":                (DROP, "provisional", "unconfirmed"),
    "cannot tell":                    (UNCLEAR, "pending", "unflagged"),
    "nothing scored":                 (replace(DROP, estimate=None, n=0, n_missing=9), "pending", "unknown"),
    "too few questions":              (replace(DROP, n=20), "pending", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "confirmation", "state"), STATES.values(), ids=STATES)
def test_night_state(found, confirmation, state):
    assert night_state(*decide(found, confirmation=confirmation)) == state


def test_first_confirmation():
    assert [first_confirmation(n) for n in (1, 4, 5)] == ["provisional", "provisional", "pending"]
    assert first_confirmation(1, is_certain=True) == "not_needed"


SHARES = {
    # Pairs of runs: 1-2 differ in one of two, 1-3 in none, 2-3 in one: 2 of 6.
    "over all pairs of runs":               ([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]], 2 / 6),
    "steady":                               ([[1.0, 0.0]] * 5, 0.0),
    "a failure is no difference":           ([[1.0, None], [0.0, 1.0]], 1.0),
    "one run":                              ([[1.0, 0.0]], None),
    "no question in common":                ([[1.0, None], [None, 1.0]], None),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "expected"), SHARES.values(), ids=SHARES)
def test_flip_share(runs, expected):
    assert flip_share(runs) == expected


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


def test_standardised_difference_is_cohens_dz():
    # Mean 0.5, deviations -0.5, 0.5, -0.5, 0.5: variance 1/3.
    assert standardised_difference(np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx(0.5 / math.sqrt(1 / 3))
    assert standardised_difference(np.array([0.5, 0.5])) is standardised_difference(np.array([0.5])) is None
