"""Corrected rates: worked out by hand, in [0, 1], equal to a perfect judge's, and what they need."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.agreement import Confusion
from rag_eval_pipeline.judges.corrected_rates import (
    LabelledAnswers,
    corrected_rate,
    correction,
    different_errors,
    labelling_order,
)
from rag_eval_pipeline.judges.trust_card import TrustCard, card_markdown
from rag_eval_pipeline.metrics.intervals import effective_number, wilson_interval

# 80 answers of 100 passed; of the labelled, 36 of 40 passed and 4 of 20 failed are right.
LABELS = LabelledAnswers(Confusion(36, 4, 4, 16), 100, 80)


def test_corrected_rate_worked_out():
    # .8 * .9 + .2 * .2 = .76. Smoothed: p = 36.5/41, r = 4.5/21, q = 80.5/101, centre = .8 p + .2 r = .755052
    # variance = .64 p (1 - p) / 40 + .04 r (1 - r) / 20 + (p - r)^2 q (1 - q) / 100 = .001563 + .000337 + .000739
    # centre (1 - centre) / variance = 70.08 answers; Wilson's interval of .76 of them: .6482 to .8448
    found = corrected_rate(0.8, 100, LABELS, is_part=True)

    assert found.value == pytest.approx(0.76)
    assert found.interval == pytest.approx((0.6482, 0.8448), abs=1e-4)


def test_corrected_rate_of_other_answers_worked_out():
    # Of the labelled answers .72 + .04 = .76 are right: passed are .72 / .76 of these and .08 / .24 of the wrong ones.
    # (.7 - .3333) / (.9474 - .3333) = .5971
    found = corrected_rate(0.7, 100, LABELS, is_part=False)

    assert found.value == pytest.approx((0.7 - 1 / 3) / (0.72 / 0.76 - 1 / 3))
    assert found.interval.low < found.value < found.interval.high
    # Where the judge passes as many as of the labelled answers, both are one estimate, the latter less certain.
    own, same = (corrected_rate(0.8, 100, LABELS, is_part=is_part) for is_part in (True, False))
    assert same.value == pytest.approx(own.value)
    assert same.interval.low < own.interval.low < own.interval.high < same.interval.high


NO_CORRECTION = {
    "a judge like chance": (LabelledAnswers(Confusion(20, 20, 20, 20), 80, 40), 0.5),
    "a judge that errs more often than not": (LabelledAnswers(Confusion(5, 20, 20, 5), 50, 25), 0.5),
    "a rate that its errors cannot lead to": (LabelledAnswers(Confusion(80, 20, 50, 50), 500, 325), 0.1),
}


@pytest.mark.parametrize(("labels", "rate"), NO_CORRECTION.values(), ids=NO_CORRECTION)
def test_corrected_rate_of_other_answers_needs_a_judge_that_fits(labels, rate):
    assert corrected_rate(rate, 500, labels, is_part=False) is None
    assert corrected_rate(rate, 500, labels, is_part=True) is not None


COUNT = st.integers(0, 200)


@given(rate=st.floats(0, 1), n=st.floats(1, 2000), counts=st.tuples(COUNT, COUNT, COUNT, COUNT), is_part=st.booleans())
def test_corrected_rate_is_a_share_and_that_of_a_perfect_judge(rate, n, counts, is_part):
    yes, missed, passed, no = counts
    table = Confusion(yes, missed, passed, no)
    if sum(table):
        found = corrected_rate(rate, n, LabelledAnswers(table, sum(table), yes + passed), is_part=is_part)
        assert found is None or 0 <= found.interval.low <= found.value <= found.interval.high <= 1
    perfect = LabelledAnswers(Confusion(yes, 0, 0, no), max(1, yes + no), yes)
    exact = corrected_rate(rate, n, perfect, is_part=is_part)
    assert exact is None or exact.value == pytest.approx(rate, abs=1e-12)


@pytest.mark.parametrize(("right", "n"), [(0, 20), (30, 40), (50, 100), (100, 100)])
def test_effective_number_is_that_of_wilsons_interval(right, n):
    assert effective_number(right / n, wilson_interval(right, n)) == pytest.approx(n)


def test_different_errors_names_the_systems_and_needs_labels():
    strict = LabelledAnswers(Confusion(70, 2, 1, 27), 100, 71)
    lenient = LabelledAnswers(Confusion(70, 2, 14, 14), 100, 84)
    few = LabelledAnswers(Confusion(3, 2, 14, 2), 100, 84)

    assert "4 % of the wrong answers of a and 50 % of those of b" in different_errors(
        {"a": strict, "b": lenient, "c": few}
    )
    assert different_errors({"a": strict, "c": few}) is None
    assert different_errors({"a": strict, "d": strict}) is None


def test_labelling_order_takes_what_shortens_the_interval_most():
    passed = {f"q{number}": number % 5 > 0 for number in range(100)}  # 80 passed, 20 failed
    # The next label of a kind shortens the variance by weight^2 p (1 - p) / ((n + 1) (n + 2)). Without labels p = .5, and
    # .64 / (21 * 22) is more than .04 / (5 * 6): 21 and 4. With these labels 42/43 of the passed and half of the failed
    # are right: .64 * .0227 / (42 * 43) is less than .04 * .25 / ((n + 1) (n + 2)) until n, 18 now, is 34.
    first, then = labelling_order(passed)[:25], labelling_order(passed, Confusion(41, 9, 0, 9))[:25]

    assert Counter(passed[name] for name in first) == {True: 21, False: 4}
    assert Counter(passed[name] for name in then[:16]) == {False: 16}
    assert labelling_order(passed) == labelling_order(dict(reversed(passed.items())))
    assert sorted(labelling_order(passed)) == sorted(passed)


def card(*parts, differs=None):
    evaluations = [
        {"system": system, "evaluation": name, "confusion": Confusion(*table)._asdict(), "judged": 100, "passed": 80}
        for system, name, table in parts
    ]
    task = {
        "task": "correctness", "n_labels": 60, "n_compared": 60, "kappa": {}, "kappa_sure": {},
        "confusion": Confusion(36, 4, 4, 16)._asdict(), "is_calibrated": False, "evaluations": evaluations,
        "different_errors": differs,
    }  # fmt: skip
    about = {"benchmark": "b", "judge": "j", "judge_fingerprint": "f", "labels_by": "human", "models": ("m-1",)}
    return TrustCard(**about, seed=1, tasks=[task])


MANY, FEW = (36, 4, 4, 16), (6, 2, 1, 1)
CORRECTIONS = {
    #                         card                                                    labels, of, of these answers, warned
    "its own answers":       (card(("ours", "run_2", MANY)),                          (60, ("ours",), True, False)),
    "an earlier night's":    (card(("ours", "run_1", MANY)),                          (60, ("ours",), False, False)),
    "another system's":      (card(("theirs", "run_9", MANY), differs="they differ"), (60, ("theirs",), False, True)),
    "its own, of two":       (card(("ours", "run_2", MANY), ("theirs", "run_9", MANY), differs="they differ"),
                              (60, ("ours",), True, False)),
    "all, if its own are few": (card(("ours", "run_2", FEW), ("theirs", "run_9", MANY), differs="they differ"),
                              (70, ("ours", "theirs"), False, True)),
    "too few":               (card(("ours", "run_2", FEW)),                           None),
    "none":                  (card(),                                                 None),
}  # fmt: skip


@pytest.mark.parametrize(("cards", "expected"), CORRECTIONS.values(), ids=CORRECTIONS)
def test_correction_uses_the_labels_of_the_system_where_they_suffice(cards, expected):
    about = {"benchmark": "b", "fingerprint": "f", "system": "ours", "models": ("m-1",), "answers_of": ("run_2", None)}
    found = correction([cards], **about, rate=0.8, interval=wilson_interval(80, 100))

    assert expected == (
        found and (found.n_labels, found.labels_of, found.is_of_these_answers, found.warning is not None)
    )
    assert correction([cards], **about | {"fingerprint": "g"}, rate=0.8, interval=(0.7, 0.9)) is None
    assert correction([cards], **about, rate=None, interval=None) is None
    assert correction([cards], **about | {"models": ("m-2",)}, rate=0.8, interval=(0.7, 0.9)) is None


def test_card_says_that_errors_differ():
    assert "they differ" in card_markdown(card(("ours", "run_2", MANY), differs="they differ"))
