"""An alert is report once, by file, mail and webhook; its address is a secret, and foreign text stays text."""

import email
import email.policy
import json
import logging
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from rag_eval_pipeline.reporting.alerts import (
    SECTION_LIMIT,
    Alert,
    AlertSettings,
    LatePair,
    alerts_folder,
    read_alerts,
    send_alerts,
    send_change_alerts,
    send_failure_alert,
    slack_message,
)
from rag_eval_pipeline.reporting.comparison import VerdictSettings
from rag_eval_pipeline.reporting.nightly import BaselineRuns, Nights, add_run
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import START, five_runs, made_run

NOW = START + timedelta(hours=4)
VARIABLE = "RAG_EVAL_TEST_WEBHOOK"
SECRET = "T0K3N"
FELL = range(20)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


@pytest.fixture
def webhook(monkeypatch, workspace):
    """A receiver on this machine; it answers with `receiver.status` and keeps what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.received.append((self.path, json.loads(body)))
            self.send_response(self.server.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.received, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{server.server_port}/services/{SECRET}")
    settings(workspace, webhook_url_env=VARIABLE)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def settings(workspace, **values):
    workspace.config.mkdir(parents=True, exist_ok=True)
    (workspace.config / "alerts.config.yaml").write_text(yaml.safe_dump(values))


def book(*runs):
    history = ()
    for run in runs:
        history = add_run(history, run, BaselineRuns(five_runs(), VerdictSettings()))
    return [Nights(benchmark="b", system="s", baseline=("base0",), nights=history)]


def confirmed():
    return book(made_run("eval_1", FELL), made_run("eval_2", FELL, hours=3))


def test_a_confirmed_regression_is_one_alert_however_often_it_is_looked_at(workspace):
    first = send_change_alerts(workspace, confirmed(), now=NOW)
    again = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(days=1))

    [alert] = read_alerts(workspace)
    assert ([one.alert_id for one in first.new], again.new) == (["eval_1"], [])
    assert (alert.kind, alert.subject, alert.rerun) == ("regressed", "s on b regressed: exact_match", "eval_2")
    assert (alert.night, alert.created_at) == (START, NOW)


def test_a_first_look_and_a_quiet_night_are_report_to_nobody(workspace):
    send_change_alerts(workspace, book(made_run("eval_1", FELL)), now=NOW)
    send_change_alerts(workspace, book(made_run("eval_1")), now=NOW)

    assert read_alerts(workspace) == []


def test_the_mail_can_be_read_by_any_mail_program(workspace):
    settings(workspace, mail_from="a@example.com", mail_to="b@example.com", report_url="https://reports.example/")
    send_change_alerts(workspace, confirmed(), now=NOW)

    mail = email.message_from_bytes((alerts_folder(workspace) / "eval_1.eml").read_bytes(), policy=email.policy.default)

    assert mail["Subject"] == "[rag-eval] s on b regressed: exact_match"
    assert (mail["From"], mail["To"]) == ("a@example.com", "b@example.com")
    lines = mail.get_content().splitlines()
    assert lines[1] == "Night of 2026-09-07 02:00 UTC, eval_1"
    assert lines[3].startswith("exact_match regressed: Exact match fell 10.0 points (adjusted interval −")
    assert lines[4:9] == [f"  question {q}: 1.00 -> 0.00" for q in range(5)]
    assert lines[-1] == "Report: https://reports.example/"


def test_the_webhook_gets_it_once(webhook, workspace):
    for hours in (0, 24):
        report = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(hours=hours))
        assert report.faults == []

    [(path, message)] = webhook.received
    assert path == f"/services/{SECRET}"
    assert message["text"].startswith("s on b regressed: exact_match\nNight of 2026-09-07 02:00 UTC, eval_1")
    assert message["blocks"][0] == {
        "type": "section", "text": {"type": "mrkdwn", "text": "*s on b regressed: exact_match*"},
    }  # fmt: skip
    assert read_alerts(workspace)[0].delivered_at == NOW


def test_a_webhook_that_refuses_is_asked_again_by_the_next_aggregation(webhook, workspace):
    webhook.status = 503
    report = send_change_alerts(workspace, confirmed(), now=NOW)
    webhook.status = 200
    later = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(hours=1))

    assert report.faults == [f"eval_1: the webhook of ${VARIABLE} answered 503 [webhook_refused]"]
    assert (len(webhook.received), later.new, later.faults) == (2, [], [])


def test_what_could_not_be_sent_for_three_days_is_no_news(webhook, workspace):
    webhook.status = 503
    send_change_alerts(workspace, confirmed(), now=NOW)

    report = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(days=3))

    assert (len(webhook.received), report.faults) == (1, [])


def test_the_address_stands_in_no_message_log_or_file(webhook, workspace, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    send_change_alerts(workspace, confirmed(), now=NOW)
    monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:1/services/{SECRET}")
    report = send_failure_alert(workspace, job="j", partition="p", error="e", started=NOW, now=NOW)

    [fault] = report.faults
    assert fault.endswith(f"the webhook of ${VARIABLE} could not be reached: ConnectError [webhook_unreachable]")
    files = [path.read_text() for path in workspace.root.rglob("*") if path.is_file()]
    assert not any(SECRET in text for text in (*files, caplog.text, fault))


@pytest.mark.parametrize(
    ("value", "code"), [("", "missing_secret"), ("ftp://x", "bad_webhook"), ("T0K3N", "bad_webhook")]
)
def test_an_address_that_is_none_is_named_by_its_variable(value, code, workspace, monkeypatch):
    settings(workspace, webhook_url_env=VARIABLE)
    monkeypatch.setenv(VARIABLE, value)

    [fault] = send_change_alerts(workspace, confirmed(), now=NOW).faults

    assert fault.endswith(f"[{code}]")


def test_a_failed_run_is_report_once_a_day_for_the_same_error(workspace):
    def fail(error="server down [x]\nwith more", *, partition="b|s", day=0):
        at = NOW + timedelta(days=day)
        report = send_failure_alert(workspace, job="evaluate", partition=partition, error=error, started=at, now=at)
        return len(report.new)

    assert [fail(), fail(), fail("another"), fail(partition="b|t"), fail(day=1)] == [1, 0, 1, 1, 1]
    assert {alert.error for alert in read_alerts(workspace)} == {"server down [x]", "another"}
    assert {alert.subject for alert in read_alerts(workspace)} == {
        "A run failed: evaluate b|s", "A run failed: evaluate b|t",
    }  # fmt: skip


def test_foreign_text_rings_nobodys_bell(workspace):
    send_change_alerts(workspace, confirmed(), now=NOW)
    [alert] = read_alerts(workspace)
    texts = {"0": "<!channel> & *bold*\nin two lines", "1": "y" * 10_000}

    message = slack_message(alert, texts, AlertSettings(questions_shown=50))

    assert "<!channel>" not in json.dumps(message)
    assert "question 0: 1.00 -&gt; 0.00  &lt;!channel&gt; &amp; *bold* in two lines\n" in message["text"]
    assert all(len(block["text"]["text"]) <= SECTION_LIMIT + 2 for block in message["blocks"])


def test_a_late_night_goes_the_same_ways(webhook, workspace):
    late = (LatePair(benchmark="b", system="s", since=NOW, evaluation_id="eval_run_20261101_001"),)
    alert = Alert(
        alert_id="late_1", kind="late", subject="A night is late: nothing was published of s on b", night=NOW,
        created_at=NOW, late=late,
    )  # fmt: skip

    first, again = (send_alerts(workspace, [alert], NOW) for _ in range(2))

    assert (len(first.new), len(again.new)) == (1, 0)
    [(_, message)] = webhook.received
    assert message["text"].splitlines()[:2] == [alert.subject, late[0].sentence]
    assert (alerts_folder(workspace) / "late_1.eml").exists()


def test_an_apprise_service_gets_title_and_body_and_no_mention(webhook, workspace, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"json://127.0.0.1:{webhook.server_port}/{SECRET}")

    report = send_failure_alert(workspace, job="j", partition="p", error="<!channel> @all", started=NOW, now=NOW)

    [(path, message)] = webhook.received
    assert (path, message["title"], report.faults) == (f"/{SECRET}", "A run failed: j p", [])
    assert "<!channel>" not in message["message"]
    assert "@all" not in message["message"]
    assert read_alerts(workspace)[0].delivered_at == NOW


@pytest.mark.parametrize(
    "url", ["json://127.0.0.1:1/T0K3N", "json://user:T0K3N@127.0.0.1:1/", "slack://T0K3N/"], ids=["path", "user", "bad"]
)
def test_an_apprise_address_stands_in_no_message_log_or_file(url, workspace, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    settings(workspace, webhook_url_env=VARIABLE)
    monkeypatch.setenv(VARIABLE, url)

    [fault] = send_failure_alert(workspace, job="j", partition="p", error="e", started=NOW, now=NOW).faults

    files = [path.read_text() for path in workspace.root.rglob("*") if path.is_file()]
    assert not any(SECRET in text for text in (*files, caplog.text, fault))


def test_an_apprise_service_that_refuses_is_asked_again(webhook, workspace, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"json://127.0.0.1:{webhook.server_port}/x")
    webhook.status = 503
    first = send_change_alerts(workspace, confirmed(), now=NOW)
    webhook.status = 200
    later = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(hours=1))

    assert first.faults == [f"eval_1: the service of ${VARIABLE} did not take the alert [webhook_refused]"]
    assert (later.new, later.faults) == ([], [])
