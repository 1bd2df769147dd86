"""The watch: fair bets, evidence that adds up over nights, one alert for a decline, and the night it began."""

import pytest

from rag_eval_pipeline.metrics.declines import BET_MAX, Bets, bet, watch
from rag_eval_pipeline.metrics.run_labels import LabelTest

LAW = (1 / 7, 4 / 7, 2 / 7)  # of a sum that is 0, 1 or 2


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_bet_gains_nothing_on_average_while_nothing_changes(higher_is_better):
    tests = [LabelTest(sum(LAW[: n + 1]), sum(LAW[n:]), LAW[n]) for n in range(len(LAW))]
    bets = [bet(one, higher_is_better=higher_is_better) for one in tests]
    frozen = [bet(one, higher_is_better=higher_is_better, frozen_runs=20) for one in tests]

    assert sum(p * one for p, one in zip(LAW, bets, strict=True)) == pytest.approx(1)
    assert sum(p * one for p, one in zip(LAW, frozen, strict=True)) < 1
    assert bets == sorted(bets, reverse=higher_is_better)


def test_bet_of_sure_and_empty_nights():
    assert bet(LabelTest(1e-13, 1.0, 0.0)) == BET_MAX
    assert bet(LabelTest(1.0, 1e-13, 0.0)) == pytest.approx(2.15 / 6)  # the mean of the exponents
    assert bet(LabelTest(1.0, 1.0, 1.0)) is None


EVIDENCE = {
    #                                  bets against all nights    evidence            since               alerts
    "each start counts":               ([2, 2, 0.5],              [2, 6, 3.5],        [0, 0, 0],          []),
    "a start after quiet nights":      ([0.1, 0.5, 3, 4],         [0.1, 0.55, 4.65, 22.6], [0, 1, 2, 2],  []),
    "a night that says nothing":       ([2, None, 2],             [2, 2, 6],          [0, 0, 0],          []),
    "no alert of the same again":      ([9, 20, 20, 20],          [9, 200, 200, 200], [0, 0, 0, 0],       [1]),
    "again after three quiet nights":  ([200, .4, .4, .4, 200],   [200, 200, 200, 0, 200], [0, 0, 0, None, 4], [0, 4]),
    "two quiet nights are too few":    ([200, .4, .4, 2, .4, .4], [200] * 6,          [0] * 6,            [0]),
}  # fmt: skip


@pytest.mark.parametrize(("bets", "evidence", "since", "alerts"), EVIDENCE.values(), ids=EVIDENCE)
def test_watch_adds_up_evidence(bets, evidence, since, alerts):
    found = watch([Bets(one, one and 0.01, alert_at=100) for one in bets])

    assert [one.evidence for one in found] == pytest.approx(evidence)
    assert [one.since for one in found] == since
    assert [n for n, one in enumerate(found) if one.is_alert] == alerts


def test_watch_shows_the_stronger_comparison_and_passes_over_nights_without_one():
    found = watch([Bets(0.5, 3, 100), None, Bets(0.5, 3, 100)])

    assert [one.evidence for one in found] == pytest.approx([3, 3, 12])
    assert found[-1].since == 0


def test_watch_does_not_alert_of_a_decline_that_was_confirmed_by_itself():
    confirmed = [Bets(20, 20, 100), Bets(200, 200, 100, is_changed=True), Bets(200, 200, 100)]

    assert [(one.is_alert, one.is_known) for one in watch(confirmed)] == [(False, False), (False, True), (False, True)]
