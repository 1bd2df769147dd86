"""A night in which the service or its provider is out of order is void: nothing is scored, and it is asked again."""

from datetime import timedelta

import pytest

from rag_eval_pipeline import clock
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation, published_evaluations
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.monitoring.alert_files import AlertSettings, alerts_folder, read_alerts
from rag_eval_pipeline.monitoring.alert_messages import message_of, text_lines
from rag_eval_pipeline.monitoring.alerts import send_change_alerts, send_failure_alert
from rag_eval_pipeline.monitoring.nightly import void_pairs
from rag_eval_pipeline.monitoring.status import read_status
from tests.monitoring.conftest import RAILWAY, RUNS

EVALUATE = ("evaluate", RAILWAY, "--system", "own")


@pytest.fixture
def workspace(served):
    return served


@pytest.mark.parametrize(
    ("status", "share", "settings", "is_void"),
    [
        (503, 3, "", True),
        (429, 3, "", True),
        (503, 2, "", False),
        (400, 3, "", False),  # the system refuses them
        (503, 3, "evaluation: {stop_after_failures: null}\n", False),
    ],
    ids=["60 % of 503", "60 % of 429", "40 % of 503", "60 % of 400", "turned off"],
)
def test_night_in_which_most_questions_fail_in_an_outage_is_void(
    status, share, settings, is_void, service, workspace, rag_eval
):
    """Never twenty in a row: of each five questions in turn three fail."""
    file = workspace.system_file("own")
    file.write_text(file.read_text() + settings)
    service.status_of = lambda number: status if number % 5 < share else 200

    code, _, err = rag_eval(*EVALUATE)

    published = len(published_evaluations(workspace, RAILWAY, "own")) - RUNS
    assert (published, newest_evaluation(workspace, RAILWAY, "own").record.is_void) == (not is_void, is_void)
    if is_void:
        assert code == 4
        assert "own was out of order: 24 of 40 questions failed, most with " in err


def test_void_night_is_said_by_status_asks_what_failed_and_closes_its_alert(service, workspace, rag_eval):
    service.status_of = lambda number: 503 if number % 5 < 3 else 200
    rag_eval(*EVALUATE)
    void, now = newest_evaluation(workspace, RAILWAY, "own").record, clock.now()
    for error in ("24 of 40", "23 of 40"):
        send_failure_alert(
            workspace, job="evaluate", partition=f"{RAILWAY}|own", error=error, started=now, now=now, void=void,
            asked_again_at=now + timedelta(hours=1),
        )  # fmt: skip
    send_change_alerts(workspace, [], now=now)
    [before] = read_alerts(workspace).alerts
    status, following = rag_eval("status")[1], read_status(workspace, now=now).next
    service.reset()
    dry = rag_eval(*EVALUATE, "--dry-run")[1]
    assert rag_eval(*EVALUATE)[0] == 0
    send_change_alerts(workspace, [], now=now)

    line = next(line for line in status.splitlines() if line.startswith(f"  {RAILWAY} x own "))
    assert "  void  " in line
    assert "void at " in line
    assert f"rag-eval {' '.join(EVALUATE)}" in following
    assert "24 of 40 questions to ask" in dry
    assert service.asked.total() == 24
    assert len(published_evaluations(workspace, RAILWAY, "own")) == RUNS + 1
    [alert] = read_alerts(workspace).alerts
    assert ((before.closed, before.resolved_at), (alert.closed, alert.resolved_at)) == ((False, None), (True, now))
    lines = list(text_lines(message_of(alert, AlertSettings(), workspace.reports, is_resolved=True)))
    assert lines[0] == f"Resolved: own on {RAILWAY}"
    assert "void at " in lines[-1]
    assert lines[-1].endswith(": fine")
    assert (alerts_folder(workspace) / f"{alert.alert_id}.resolved.eml").exists()


@pytest.mark.parametrize(("hours", "asked"), [(3, 24), (24, 40)], ids=["of this night", "of an earlier one"])
def test_void_night_keeps_its_answers_until_the_next_night(hours, asked, service, workspace, rag_eval, monkeypatch):
    """Answers from before and after a repair would be one evaluation, dated before it."""
    service.status_of = lambda number: 503 if number % 5 < 3 else 200
    rag_eval(*EVALUATE)
    void = newest_evaluation(workspace, RAILWAY, "own").record
    service.reset()
    now = void.opened_at + timedelta(hours=hours)
    monkeypatch.setenv(clock.NOW_VARIABLE, now.isoformat())
    dry = rag_eval(*EVALUATE, "--dry-run")[1]
    evaluate(workspace, load_pair(workspace, RAILWAY, "own"), which="all")

    assert f"{asked} of 40 questions to ask" in dry
    assert service.asked.total() == asked
    published = newest_evaluation(workspace, RAILWAY, "own").record
    assert published.opened_at == (void.opened_at if asked < 40 else now)


def test_void_night_of_a_clock_that_was_set_back_is_asked_again_at_once(service, workspace, rag_eval):
    service.status = 500
    rag_eval(*EVALUATE)
    [attempt] = newest_evaluation(workspace, RAILWAY, "own").record.void

    def due(**since):
        now = attempt.ended_at + timedelta(**since)
        return {at - now for at, _ in void_pairs(workspace, [(RAILWAY, "own")], now=now).values()}

    assert [due(minutes=0), due(hours=1), due(days=-2)] == [{timedelta(hours=1)}, {timedelta()}, {timedelta()}]
    assert due(hours=20) == set()
