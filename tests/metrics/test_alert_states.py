"""People are told of a change once, and again only when it had gone away for three nights."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.metrics.alert_states import alerts, is_alert, night_state
from rag_eval_pipeline.metrics.evidence import ComparedMetric, compare
from rag_eval_pipeline.metrics.verdicts import verdict

LETTERS = {"-": "unflagged", "?": "unconfirmed", "r": "regressed", "i": "improved", "w": "unknown"}

HISTORIES = {
    "a change of state":                               ("--r", "..!"),
    "a regression that stays":                         ("-rrrr", ".!..."),
    "gone for two nights":                             ("r--r", "!..."),
    "gone for three nights":                           ("r---r", "!...!"),
    "a flag that is not confirmed is not quiet":       ("r--?--r", "!......"),
    "and alone alerts nobody":                         ("--??-", "....."),
    "the other direction is news":                     ("ri", "!!"),
    "and back":                                        ("riir", "!!.!"),
    "a withheld night is not quiet":                   ("r--wr", "!...."),
    "and does not break the row":                      ("r--w-r", "!....!"),
    "three quiet nights forget an improvement too":    ("i---i", "!...!"),
    "the first night":                                 ("r", "!"),
    "no night":                                        ("", ""),
}  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), HISTORIES.values(), ids=HISTORIES)
def test_alerts(history, expected):
    states = [LETTERS[letter] for letter in history]

    assert "".join("!" if told else "." for told in alerts(states)) == expected
    assert is_alert(states) is expected.endswith("!")


def evidence(n_wrong=30, n_failed=0, n_questions=500):
    tonight = [None] * n_failed + [0.0] * n_wrong + [1.0] * (n_questions - n_wrong - n_failed)
    return compare([ComparedMetric("EM", tonight, [[1.0] * n_questions] * 5)], seed=1)["EM"]


STATES = {
    "seen again":                     (evidence(), "confirmed", "regressed"),
    "a system that repeats itself":   (evidence(), "not_needed", "regressed"),
    "a rise":                         (replace(evidence(), higher_is_better=False), "confirmed", "improved"),
    "first look":                     (evidence(), "pending", "unconfirmed"),
    "not seen again":                 (evidence(), "not_confirmed", "unconfirmed"),
    "no baseline yet":                (evidence(), "provisional", "unconfirmed"),
    "of a week":                      (evidence(), "weekly", "unconfirmed"),
    "unchanged":                      (evidence(0), "pending", "unflagged"),
    "cannot tell":                    (evidence(5), "pending", "unflagged"),
    "too many failures":              (evidence(30, 100), "pending", "unknown"),
    "too few questions":              (evidence(15, 0, 20), "pending", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "confirmation", "state"), STATES.values(), ids=STATES)
def test_the_state_of_a_night(found, confirmation, state):
    assert night_state(verdict(found, confirmation=confirmation)) == state
