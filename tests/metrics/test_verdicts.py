"""A verdict needs size, certainty and a rerun; people are alerted once about a change that stays."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import (
    alerts,
    confirm_flags,
    first_confirmation,
    flip_sentence,
    flip_share,
    is_flagged,
    night_state,
    verdict,
    weekly_scores,
)
from tests.verdict_examples import DROP

RISE = replace(
    DROP, estimate=0.031, adjusted_interval=Interval(0.006, 0.056), confidence_interval=Interval(0.016, 0.046)
)
SMALL = replace(
    DROP, estimate=0.001, adjusted_interval=Interval(-0.015, 0.017), confidence_interval=Interval(-0.008, 0.011),
    p_value=0.4, p_corrected=1.0,
)  # fmt: skip
UNCLEAR = replace(
    DROP, estimate=-0.012, adjusted_interval=Interval(-0.046, 0.022), confidence_interval=Interval(-0.034, 0.010),
    p_value=0.075, p_corrected=0.9,
)  # fmt: skip

LIMITS = {
    "a corrected p of half of alpha":      (replace(DROP, p_corrected=0.01), True),
    "just above it":                       (replace(DROP, p_corrected=0.010001), False),
    "one point, but for rounding":         (replace(DROP, estimate=-0.00999999999999999), True),
    "less than one point":                 (replace(DROP, estimate=-0.0099), False),
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


SURE = "p = 0.002 after correction for 12 metrics, 0.01 is needed"
FELL = f"EM fell 3.1 points (adjusted interval −5.6 to −0.6), {SURE}"
ROSE = f"EM rose 3.1 points (adjusted interval +0.6 to +5.6), {SURE}"
OPEN = "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction for 12 metrics, 0.01 is needed"
NO_PAIRS = {
    "estimate": None,
    "adjusted_interval": None,
    "confidence_interval": None,
    "p_value": None,
    "p_corrected": None,
}
LOW = {"higher_is_better": False}
GROUPS = {"n_pairs": 40, "is_clustered": True, "needed_units": 10}

VERDICTS = {
    # evidence, confirmation, kind, how the sentence begins
    "a confirmed drop": (DROP, "confirmed", "regressed", f"{FELL}; n = 500; seen again in a rerun."),
    "not seen again": (DROP, "not_confirmed", "inconclusive", f"Inconclusive: {FELL}; a rerun did not confirm it."),
    "a rise": (RISE, "confirmed", "improved", f"{ROSE}; n = 500; seen again in a rerun."),
    "a rise of what should be low": (replace(RISE, **LOW), "confirmed", "regressed", ROSE),
    "p below a thousandth": (
        replace(DROP, estimate=-0.05, adjusted_interval=Interval(-0.075, -0.025), p_corrected=0.0006),
        "not_needed", "regressed", "EM fell 5.0 points (adjusted interval −7.5 to −2.5), p < 0.001 after",
    ),
    "sure but too small to matter": (
        replace(SMALL, estimate=-0.009, confidence_interval=Interval(-0.015, -0.003), p_corrected=0.002), "pending",
        "equivalent",
        f"Any change is smaller than 2 points (95 % −1.5 to −0.3); {SURE}; below the minimum effect of 1 point.",
    ),
    "sure, too small to matter, and not surely small": (
        replace(DROP, estimate=-0.009, confidence_interval=Interval(-0.021, 0)), "pending", "inconclusive",
        f"Inconclusive: −0.9 points (adjusted interval −5.6 to −0.6), {SURE}; below the minimum effect of 1 point.",
    ),
    "neither": (UNCLEAR, "pending", "inconclusive", f"{OPEN}. At best this benchmark detects drops of 2.2 points."),
    "neither, of what should be low": (
        replace(UNCLEAR, **LOW), "pending", "inconclusive", f"{OPEN}. At best this benchmark detects rises of 2.2 points.",
    ),
    "the p that just misses is not rounded to what is needed": (
        replace(UNCLEAR, p_corrected=0.01003, n_metrics=1), "pending", "inconclusive",
        "Inconclusive: −1.2 points (adjusted interval −4.6 to +2.2), p = 0.01003 after correction for 1 metric, 0.01 is",
    ),
    "an interval that ends close to 0 keeps its sign": (
        replace(DROP, adjusted_interval=Interval(-0.056, -0.0003)), "confirmed", "regressed",
        "EM fell 3.1 points (adjusted interval −5.6 to −0.0)",
    ),
    "too much failed, however large the drop": (
        replace(DROP, coverage=0.9799, n_pairs=20), "pending", "withheld",
        f"Withheld: coverage 97.9 %, 98 % is needed; −3.1 points (adjusted interval −5.6 to −0.6), {SURE}.",
    ),
    "nothing was scored": (
        replace(DROP, coverage=0.0, n_pairs=0, **NO_PAIRS), "pending", "withheld",
        "Withheld: coverage 0.0 %, 98 % is needed.",
    ),
    "too few questions": (
        replace(UNCLEAR, n_pairs=29, smallest_drop=11 / 29), "pending", "no_verdict",
        "No verdict: 29 questions, 30 are needed; −1.2 points (adjusted interval −4.6 to +2.2), p = 0.9 after correction "
        "for 12 metrics, 0.01 is needed. At best this benchmark detects drops of 37.9 points.",
    ),
    "too few documents for any drop": (
        replace(UNCLEAR, n_units=9, smallest_drop=None, **GROUPS), "pending", "inconclusive",
        f"{OPEN}; n = 40 in 9 groups by document. This benchmark cannot detect drops of any size: 9 groups by document, "
        "of which 10 must change.",
    ),
    "what questions that share documents can show": (
        replace(UNCLEAR, n_units=20, is_short_of_runs=True, smallest_drop=0.3, **GROUPS), "pending", "inconclusive",
        f"{OPEN}; n = 40 in 20 groups by document, because fewer than 3 runs are pinned. "
        "At best this benchmark detects drops of 30.0 points, in 10 of its 20 groups by document.",
    ),
    "documents share noise": (
        replace(DROP, design_effect=1.64), "confirmed", "regressed",
        f"{FELL}; n = 500 questions, design effect 1.6 within documents; seen again in a rerun.",
    ),
    "a metric by its label": (
        replace(DROP, metric="page/ndcg@10"), "confirmed", "regressed", "nDCG@10 by page fell 3.1 points",
    ),
    "a rise that bad luck of the baseline would show": (
        replace(RISE, confidence_interval=Interval(-0.001, 0.063)), "pending", "inconclusive",
        f"Inconclusive: +3.1 points (adjusted interval +0.6 to +5.6), {SURE}; bad luck of the baseline would show it as "
        "well (95 % −0.1 to +6.3).",
    ),
}  # fmt: skip


@pytest.mark.fault(67)
@pytest.mark.parametrize(("evidence", "confirmation", "kind", "sentence"), VERDICTS.values(), ids=VERDICTS)
def test_verdict_and_its_sentence(evidence, confirmation, kind, sentence):
    decided = verdict(evidence, confirmation=confirmation)

    assert decided.kind == kind
    assert decided.sentence.startswith(sentence)


def test_verdict_has_a_confirmation_only_if_flagged():
    assert (verdict(UNCLEAR, confirmation="confirmed").confirmation, verdict(DROP).confirmation) == (None, "pending")


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
    "too few questions":              (replace(DROP, n_pairs=20), "pending", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "confirmation", "state"), STATES.values(), ids=STATES)
def test_night_state(found, confirmation, state):
    assert night_state(verdict(found, confirmation=confirmation)) == state


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


def test_flip_sentence():
    shown = "10.0 % of the answers differ between two runs of the unchanged system"
    assert flip_sentence(0.10) == f"{shown}."
    assert flip_sentence(0.12).startswith(f"{shown.replace('10.0', '12.0')}; above 10 %")
    assert "is not known" in flip_sentence(None)


def test_weekly_scores():
    nights = [[1.0, 0.7, 1.0]] * 4 + [[0.0, 0.7, 1.0]] * 2 + [[0.0, 0.7, None]]

    assert weekly_scores(nights) == [pytest.approx(4 / 7), 0.7, None]
