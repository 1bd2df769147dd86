"""Five pinned runs, how much they differ among each other, and a week of nights against them."""

import pytest

from rag_eval_pipeline.metrics.baselines import first_confirmation, flip_sentence, flip_share, weekly_scores
from rag_eval_pipeline.metrics.evidence import ComparedMetric, compare
from rag_eval_pipeline.metrics.verdicts import verdict

WAITING = {
    "the first night":                   (1, False, "provisional"),
    "the fourth":                        (4, False, "provisional"),
    "five runs are there":               (5, False, "pending"),
    "one run of a system that repeats":  (1, True, "not_needed"),
}  # fmt: skip


@pytest.mark.parametrize(("n_runs", "deterministic", "expected"), WAITING.values(), ids=WAITING)
def test_what_a_flag_waits_for(n_runs, deterministic, expected):
    assert first_confirmation(n_runs, is_deterministic=deterministic) == expected


SHARES = {
    # Pairs of runs: 1-2 differ in one of two, 1-3 in none, 2-3 in one: 2 of 6.
    "over all pairs of runs":               ([[1.0, 0.0], [1.0, 1.0], [1.0, 0.0]], 2 / 6),
    "steady":                               ([[1.0, 0.0]] * 5, 0.0),
    "a failure is no difference":           ([[1.0, None], [0.0, 1.0]], 1.0),
    "one run":                              ([[1.0, 0.0]], None),
    "no runs":                              ([], None),
    "no question in common":                ([[1.0, None], [None, 1.0]], None),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "expected"), SHARES.values(), ids=SHARES)
def test_the_share_of_answers_that_flip(runs, expected):
    assert flip_share(runs) == expected


def test_runs_are_over_the_same_questions():
    with pytest.raises(ValueError, match="same questions"):
        flip_share([[1.0], [1.0, 0.0]])


SENTENCES = {
    "steady": (0.02, "2.0 % of the answers differ between two runs of the unchanged system."),
    "the limit": (0.10, "10.0 % of the answers differ between two runs of the unchanged system."),
    "too unsteady": (
        0.12,
        "12.0 % of the answers differ between two runs of the unchanged system; above 10 % nobody knows how often a "
        "verdict is false.",
    ),
    "unknown": (
        None, "How much the answers differ between two runs is not known: there are no two baseline runs.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("share", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_reader_is_told_how_steady_the_system_was(share, sentence):
    assert flip_sentence(share) == sentence


def test_a_week_is_the_mean_of_its_nights_question_by_question():
    nights = [[1.0, 0.7, 1.0]] * 4 + [[0.0, 0.7, 1.0]] * 2 + [[0.0, 0.7, None]]

    assert weekly_scores(nights) == [pytest.approx(4 / 7), 0.7, None]


def test_a_week_has_seven_nights_of_the_same_questions():
    with pytest.raises(ValueError, match="expected 7 nights, found 6"):
        weekly_scores([[1.0]] * 6)
    with pytest.raises(ValueError, match="shorter"):
        weekly_scores([[1.0]] * 6 + [[]])


def test_a_week_shows_a_drop_that_no_night_shows():
    # 12 of 500 questions are wrong every other night, six by turns: p of a night is 2^-6, of the week 2^-12.
    def night(number):
        wrong = range(0, 6) if number % 2 else range(6, 12)
        return [0.0 if question in wrong else 1.0 for question in range(500)]

    baseline = [[1.0] * 500] * 5
    tonight = compare([ComparedMetric("EM", night(0), baseline)], seed=1)["EM"]
    week = compare([ComparedMetric("EM", weekly_scores([night(i) for i in range(7)]), baseline)], seed=1)["EM"]

    assert (tonight.p_value > 0.01, week.p_value < 0.001) == (True, True)
    # Both fell by 6 of 500: the week is surer, not larger.
    assert week.estimate == pytest.approx(tonight.estimate)
    assert verdict(week, confirmation="weekly").sentence.endswith("mean of seven nights.")
