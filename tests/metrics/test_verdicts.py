"""A verdict needs size, certainty and a rerun; people are alerted once about a change that stays."""

import pytest

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import (
    alerts,
    confirm_flags,
    decide,
    first_confirmation,
    flip_share,
    is_flagged,
    night_state,
    weekly_scores,
)
from tests.verdict_examples import DROP, RISE, UNCLEAR, replace

LIMITS = {
    "a corrected p of half of alpha":      (replace(DROP, p_corrected=0.01), True),
    "just above it":                       (replace(DROP, p_corrected=0.010001), False),
    "one point, but for rounding":         (replace(DROP, estimate=-0.00999999999999999), True),
    "less than one point":                 (replace(DROP, estimate=-0.0099), False),
    "29 questions":                        (replace(DROP, n=29, n_units=29), False),
    "30 questions of 12 documents":        (replace(DROP, n=30, n_units=12, is_clustered=True), True),
    "a rise":                              (RISE, True),
    "a rise whose interval holds 0":       (replace(RISE, confidence_interval=Interval(0.0, 0.062)), False),
    "a fall whose interval holds 0":       (replace(DROP, confidence_interval=Interval(-0.062, 0.0)), True),
    "fewer failures, the interval holds 0": (
        replace(DROP, higher_is_better=False, confidence_interval=Interval(-0.062, 0.0)), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "flagged"), LIMITS.values(), ids=LIMITS)
def test_flag_counts_reached_limits(evidence, flagged):
    assert is_flagged(evidence) is flagged


RERUNS = {
    #                                      rerun                                          flagged, expected
    "seen again":                         (replace(DROP, p_value=0.005),                  2, "confirmed"),
    "p times the number flagged":         (replace(DROP, p_value=0.005),                  3, "not_confirmed"),
    "the uncorrected p counts":           (replace(DROP, p_value=0.005, p_corrected=0.06), 2, "confirmed"),
    "the other direction":                (RISE,                                          1, "not_confirmed"),
    "less than one point this time":      (replace(DROP, estimate=-0.009),                1, "not_confirmed"),
    "too much failed this time":          (replace(DROP, coverage=0.9),                   1, "not_confirmed"),
    "the rule for rises does not apply":  (replace(DROP, confidence_interval=Interval(-0.062, 0.001)), 1, "confirmed"),
    "no pairs this time":                 (replace(DROP, estimate=None, p_value=None),    1, "not_confirmed"),
}  # fmt: skip


@pytest.mark.parametrize(("rerun", "n_flagged", "expected"), RERUNS.values(), ids=RERUNS)
def test_rerun_confirms_what_it_shows_again(rerun, n_flagged, expected):
    first = {name: DROP for name in ("EM", "F1", "MRR")[:n_flagged]}

    assert confirm_flags(first, {"EM": rerun})["EM"] == expected


def test_rerun_is_asked_about_flagged_metrics_only():
    first = {"EM": DROP, "F1": DROP, "MRR": UNCLEAR}
    # p x 2 flagged, not x 3 compared: 0.005 is just enough; a fall of MRR in the rerun does not matter.
    rerun = {"EM": replace(DROP, p_value=0.005), "F1": replace(DROP, p_value=0.0051), "MRR": DROP}

    assert confirm_flags(first, rerun) == {"EM": "confirmed", "F1": "not_confirmed"}
    assert confirm_flags({"EM": DROP}, {}) == {"EM": "not_confirmed"}
    uncertain = replace(RISE, confidence_interval=Interval(-0.001, 0.063))
    assert confirm_flags({"EM": RISE, "F1": RISE}, {"EM": RISE, "F1": uncertain}) == {
        "EM": "confirmed", "F1": "not_confirmed",
    }  # fmt: skip


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
    "first run":                      (DROP, "pending", "unconfirmed"),
    "not seen again":                 (DROP, "not_confirmed", "unconfirmed"),
    "no baseline yet":                (DROP, "provisional", "unconfirmed"),
    "cannot tell":                    (UNCLEAR, "pending", "unflagged"),
    "too many failures":              (replace(DROP, coverage=0.5), "pending", "unknown"),
    "too few questions":              (replace(DROP, n=20), "pending", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "confirmation", "state"), STATES.values(), ids=STATES)
def test_night_state(found, confirmation, state):
    assert night_state(*decide(found, confirmation=confirmation)) == state


def test_first_confirmation():
    assert [first_confirmation(n) for n in (1, 4, 5)] == ["provisional", "provisional", "pending"]
    assert first_confirmation(1, is_deterministic=True) == "not_needed"


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


def test_weekly_scores():
    nights = [[1.0, 0.7, 1.0]] * 4 + [[0.0, 0.7, 1.0]] * 2 + [[0.0, 0.7, None]]

    assert weekly_scores(nights) == [pytest.approx(4 / 7), 0.7, None]
