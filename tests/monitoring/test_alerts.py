"""An alert is sent once, as file, mail and webhook; its address is a secret, and markup in questions is escaped."""

import email
import email.policy
import json
import logging
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from rag_eval_pipeline.evaluation.expected_pairs import read_registry
from rag_eval_pipeline.monitoring.alert_files import (
    AlertSettings,
    LatePair,
    alerts_folder,
    last_published,
    late_pairs,
    read_alerts,
)
from rag_eval_pipeline.monitoring.alerts import send_alerts, send_change_alerts, send_failure_alert, send_late_alerts
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.night_records import Nights
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import FIRST, publish_night, register
from tests.monitoring.made_runs import START, made_history, made_run

NOW = START + timedelta(hours=4)
VARIABLE = "RAG_EVAL_TEST_WEBHOOK"
SECRET = "T0K3N"
FELL = range(20)
SUBJECT = "s on b regressed: Exact match 100 → 90"


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
    return [Nights(benchmark="b", system="s", baseline=("base0",), nights=made_history(*runs))]


def confirmed():
    return book(made_run("eval_1", FELL), made_run("eval_2", FELL, hours=3))


def test_alerts_are_written_and_delivered_once(webhook, workspace):
    assert send_change_alerts(workspace, book(made_run("eval_1", FELL)), now=NOW).new == []  # not seen again yet
    assert send_change_alerts(workspace, book(made_run("eval_1")), now=NOW).new == []
    first = send_change_alerts(workspace, confirmed(), now=NOW)
    again = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(days=1))

    [alert] = read_alerts(workspace).alerts
    assert ([one.alert_id for one in first.new], again.new) == (["eval_1"], [])
    assert (first.faults, again.faults) == ([], [])
    assert (alert.kind, alert.subject, alert.rerun) == ("regressed", SUBJECT, "eval_2")
    assert (alert.night, alert.created_at, alert.delivered_at) == (START, NOW, NOW)
    [(path, message)] = webhook.received
    assert path == f"/services/{SECRET}"
    assert message["text"] == message["blocks"][0]["text"]["text"] == SUBJECT


def test_alert_that_another_process_delivers_meanwhile_is_not_sent_again(webhook, workspace):
    webhook.status = 503
    send_change_alerts(workspace, confirmed(), now=NOW)
    webhook.status = 200
    [before] = read_alerts(workspace).alerts
    send_change_alerts(workspace, confirmed(), now=NOW)

    send_alerts(workspace, [], NOW, changed=[before])

    assert len(webhook.received) == 2  # refused, delivered
    assert read_alerts(workspace).alerts[0].delivered_at == NOW


SERVICES = {
    "webhook": ("http://127.0.0.1:{port}/x", f"the webhook of ${VARIABLE} answered 503 [webhook_refused]"),
    "apprise": ("json://127.0.0.1:{port}/x", f"the service of ${VARIABLE} did not take the alert [webhook_refused]"),
}


@pytest.mark.parametrize(("address", "fault"), SERVICES.values(), ids=SERVICES)
def test_alerts_that_were_refused_are_sent_again_for_three_days(address, fault, webhook, workspace, monkeypatch):
    monkeypatch.setenv(VARIABLE, address.format(port=webhook.server_port))
    webhook.status = 503
    reports = [send_change_alerts(workspace, confirmed(), now=NOW + timedelta(hours=hours)) for hours in (0, 71, 72)]
    assert [report.faults for report in reports] == [[f"eval_1: {fault}"], [f"eval_1: {fault}"], []]
    assert len(webhook.received) == 2

    webhook.status = 200
    later = send_change_alerts(workspace, confirmed(), now=NOW + timedelta(hours=1))
    assert (len(webhook.received), later.new, later.faults) == (3, [], [])


ADDRESSES = {
    "missing": ("", "missing_secret"),
    "no address": (SECRET, "bad_webhook"),
    "unreachable": (f"http://127.0.0.1:1/services/{SECRET}", "webhook_unreachable"),
    "apprise, as password": (f"json://user:{SECRET}@127.0.0.1:1/", "webhook_refused"),
    "apprise, bad": (f"slack://{SECRET}/", "bad_webhook"),
}


@pytest.mark.fault(44)
@pytest.mark.parametrize(("address", "code"), ADDRESSES.values(), ids=ADDRESSES)
def test_alerts_keep_their_address_out_of_messages_logs_and_files(address, code, workspace, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    settings(workspace, webhook_url_env=VARIABLE)
    monkeypatch.setenv(VARIABLE, address)

    [fault] = send_failure_alert(workspace, job="j", partition="p", error="e", started=NOW, now=NOW).faults

    assert fault.endswith(f"[{code}]")
    assert f"${VARIABLE}" in fault
    files = [path.read_text() for path in workspace.root.rglob("*") if path.is_file()]
    assert not any(SECRET in text for text in (*files, caplog.text, fault))


def test_alert_mail_can_be_read_by_any_mail_program(workspace):
    settings(workspace, mail_from="a@example.com", mail_to="b@example.com", report_url="https://reports.example/")
    send_change_alerts(workspace, confirmed(), now=NOW)

    mail = email.message_from_bytes((alerts_folder(workspace) / "eval_1.eml").read_bytes(), policy=email.policy.default)

    assert mail["Subject"] == "[rag-eval] s on b regressed: Exact match 100 -> 90"
    assert (mail["From"], mail["To"]) == ("a@example.com", "b@example.com")
    lines = mail.get_body(("plain",)).get_content().splitlines()
    assert lines[:4] == [
        SUBJECT,
        "",
        "Night:     2026-09-07 02:00 UTC, eval_1, again in eval_2",
        "Regressed: Exact match 100 → 90 (−10.0 points, p < 1e-12, confirmed by a rerun)",
    ]
    assert lines[4:] == [
        "Report:    https://reports.example/comparisons/b.s.against.baseline.html",
        "",
        "Next: rag-eval compare base0 eval_1",
    ]
    html = mail.get_body(("html",)).get_content()
    assert '<a href="https://reports.example/comparisons/b.s.against.baseline.html">Open the report</a>' in html


def nights_of(*kinds):
    """Nights of two metrics, each regressed (-), flagged only (?), withheld ( ), or none of these (.)."""
    verdicts = {
        "-": {},
        "?": {"confirmation": "pending"},
        " ": {"kind": "withheld", "confirmation": None},
        ".": {"kind": "inconclusive", "confirmation": None},
    }
    [confirmed_night] = confirmed()[0].nights
    whole = confirmed_night.metrics["exact_match"]
    history = []
    for place, pair in enumerate(kinds):
        signs = zip(("exact_match", "mrr"), pair, strict=True)
        metrics = {name: whole.model_copy(update=verdicts[sign]) for name, sign in signs}
        update = {"evaluation_id": f"n{place}", "reruns": (), "metrics": metrics, "watch": None}
        update["opened_at"] = START + timedelta(days=place)
        history.append(confirmed_night.model_copy(update=update))
    return [Nights(benchmark="b", system="s", baseline=("base0",), nights=tuple(history))]


COURSES = {
    # nights of exact match and MRR          alerts         course of the first, and whether it is over
    "open":                     (["-."],                          ["n0"],       ["n0"],             False),
    "a second metric joins":    (["-.", "--"],                    ["n0"],       ["n0", "n1"],       False),
    "quiet for two nights":     (["-.", "..", ".."],              ["n0"],       ["n0"],             False),
    "over after three":         (["-.", "..", "..", ".."],        ["n0"],       ["n0", "n3"],       True),
    "an unknown night between": (["-.", "..", "  ", "..", ".."],  ["n0"],       ["n0", "n4"],       True),
    "a pending one in between": (["-.", "..", "?.", "..", ".."],  ["n0"],       ["n0"],             False),
    "the joined one lasts":     (["--", ".-", ".-", ".-"],        ["n0"],       ["n0"],             False),
    "over, and again":          (["-.", "..", "..", "..", "-."],  ["n0", "n4"], ["n0", "n3"],       True),
}  # fmt: skip


@pytest.mark.parametrize(("nights", "alerts", "course", "is_over"), COURSES.values(), ids=COURSES)
def test_alert_is_one_for_each_incident_with_its_course(nights, alerts, course, is_over, webhook, workspace):
    for n in range(1, len(nights) + 1):
        send_change_alerts(workspace, nights_of(*nights[:n]), now=NOW + timedelta(days=n))

    found = read_alerts(workspace).alerts
    assert [alert.alert_id for alert in found] == alerts
    assert [step.evaluation_id for step in found[0].course] == course
    assert (found[0].resolved_at is not None) == is_over
    titles = [message["text"] for _, message in webhook.received]
    assert titles.count(SUBJECT) == len(alerts)
    assert titles.count("Resolved: s on b") == int(is_over)
    assert (alerts_folder(workspace) / "n0.resolved.eml").exists() == is_over


def test_open_alert_is_closed_by_a_new_baseline(webhook, workspace):
    send_change_alerts(workspace, nights_of("-."), now=NOW)
    pinned = [Nights(benchmark="b", system="s", baseline=("n0",)), Nights(benchmark="b", system="t", baseline=("x",))]
    for days in (1, 2):
        send_change_alerts(workspace, pinned, now=NOW + timedelta(days=days))

    [alert] = read_alerts(workspace).alerts
    assert (alert.closed, alert.resolved_at) == (True, NOW + timedelta(days=1))
    assert [step.text for step in alert.course[1:]] == ["a new baseline is pinned"]
    closed = "Closed: a new baseline was pinned for s on b"
    assert [message["text"] for _, message in webhook.received] == [SUBJECT, closed]
    assert alert.page == "benchmarks/b.html"  # the comparison has no page until there is another night


@pytest.mark.parametrize("text", ["{", '{"schema_version": "9.0"}'], ids=["damaged", "of a later release"])
def test_alert_file_that_cannot_be_read_is_named_and_stops_no_other(text, webhook, workspace):
    folder = alerts_folder(workspace)
    folder.mkdir(parents=True)
    (folder / "n0.alert.json").write_text(text)  # of the incident
    (workspace.config / "alerts.config.yaml").write_text("late_after_hour: 3\n")

    failed = send_failure_alert(workspace, job="j", partition=None, error="e", started=START, now=NOW)
    changed = send_change_alerts(workspace, nights_of("-."), now=NOW)
    late = send_late_alerts(workspace, [published(99)], now=TODAY)

    assert ([alert.night for alert in failed.new], len(late.new), changed.new) == ([START], 1, [])
    for report in (failed, changed, late):
        named = [re.split("[:,] ", fault)[0].rpartition("/")[2] for fault in report.faults]
        assert named == ["alerts.config.yaml", "n0.alert.json"]
    assert (folder / "n0.alert.json").read_text() == text


def test_alert_of_a_failed_run_is_sent_once_a_day_for_the_same_error(workspace):
    def fail(error="server down [x]\nwith more", *, partition="b|s", day=0):
        at = NOW + timedelta(days=day)
        report = send_failure_alert(workspace, job="evaluate", partition=partition, error=error, started=at, now=at)
        return len(report.new)

    assert [fail(), fail(), fail("another"), fail(partition="b|t"), fail(day=1)] == [1, 0, 1, 1, 1]
    assert {alert.error for alert in read_alerts(workspace).alerts} == {"server down [x]", "another"}
    assert {alert.subject for alert in read_alerts(workspace).alerts} == {
        "A run failed: evaluate b|s", "A run failed: evaluate b|t",
    }  # fmt: skip


def test_alert_by_apprise_has_title_and_body_and_no_mention(webhook, workspace, monkeypatch):
    monkeypatch.setenv(VARIABLE, f"json://127.0.0.1:{webhook.server_port}/{SECRET}")

    report = send_failure_alert(workspace, job="j", partition="p", error="<!channel> @all", started=NOW, now=NOW)

    [(path, message)] = webhook.received
    assert (path, message["title"], report.faults) == (f"/{SECRET}", "A run failed: j p", [])
    assert "<!channel>" not in message["message"]
    assert "@all" not in message["message"]
    assert read_alerts(workspace).alerts[0].delivered_at == NOW


TODAY = datetime(2026, 11, 22, 12, tzinfo=UTC)


def published(hours, system="s", evaluation_id="e"):
    return LatePair(benchmark="b", system=system, since=TODAY - timedelta(hours=hours), evaluation_id=evaluation_id)


CASES = {
    #                                       published                                 settings                    late
    "as long ago as is allowed":           ([published(30)],                          {},                         []),
    "a second longer":                     ([published(30 + 1 / 3600)],               {},                         ["s"]),
    "by benchmark and system":             ([published(31, "t"), published(99, "s"), published(9, "u")], {},      ["s", "t"]),
    "never, and converted long ago":       ([published(31, evaluation_id=None)],      {},                         ["s"]),
    "another limit":                       ([published(5)],                           {"late_after_hours": 4},    ["s"]),
    "turned off":                          ([published(999)],                         {"late_after_hours": None}, []),
    "after now, by clocks that differ":    ([published(-1)],                          {},                         []),
    "after now: a clock was wrong":        ([published(-48)],                         {},                         ["s"]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "settings", "late"), CASES.values(), ids=CASES)
def test_late_pairs(rows, settings, late):
    assert [one.system for one in late_pairs(TODAY, rows, AlertSettings(**settings))] == late


@pytest.fixture
def two_systems(tmp_path):
    """Two systems on one benchmark; the second was never evaluated."""
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s", "t"])
    publish_night(workspace, "b", "s", 0, questions=3, skill=0.5, number=1)
    return workspace


def registry(workspace, *, is_converted=True):
    """The folders as the sensor reads them, as if the benchmark had been converted an hour before the first night."""
    converted = int((FIRST - timedelta(hours=1)).timestamp()) * 1_000_000_000
    read = read_registry(workspace)
    return replace(read, stamps={"b": None}, stamped={"b": converted}) if is_converted else read


def last(workspace):
    return last_published(registry(workspace), read_history(workspace).by_pair)


def sent(workspace, hours):
    published = last(workspace)
    return send_late_alerts(workspace, published, now=FIRST + timedelta(hours=hours)).new


def test_last_published_has_each_nightly_pair(two_systems):
    found = last(two_systems)

    assert [(one.system, one.since, one.evaluation_id) for one in found] == [
        ("s", FIRST, "eval_run_20261001_001"), ("t", FIRST - timedelta(hours=1), None),
    ]  # fmt: skip
    two_systems.system_file("t").write_text("kind: embedded\nnightly: false\n")

    assert [one.system for one in last(two_systems)] == ["s"]


BROKEN = "kind: embedded\nsettings: {rerank: maybe}\n"
EXPECTED = {
    #                                     file of the published system   is the benchmark converted   expected systems
    "all is well":                       ("kind: embedded\n",                               True,  ["s", "t"]),
    "a benchmark that does not convert": ("kind: embedded\n",                               False, ["s"]),
    "a bad setting":                     (BROKEN,                                           True,  ["s", "t"]),
    "no YAML":                           ("kind: [",                                        True,  ["s", "t"]),
    "a misspelt key":                    ("kind: http\nnightyl: true\n",                    True,  ["s", "t"]),
    "a bad setting, not nightly":        (f"{BROKEN}nightly: false\n",                      True,  ["t"]),
    "a bad setting, disabled":           (f"{BROKEN}enabled: false\n",                      True,  ["t"]),
    "a bad setting, other benchmarks":   (f"{BROKEN}benchmarks: [other-*]\n",               True,  ["t"]),
    "other benchmarks":                  ("kind: embedded\nbenchmarks: [other-*]\n",        True,  ["t"]),
    "removed":                           (None,                                             True,  ["t"]),
}  # fmt: skip


@pytest.mark.parametrize(("file", "is_converted", "expected"), EXPECTED.values(), ids=EXPECTED)
def test_pair_that_was_published_is_expected_until_its_file_says_otherwise(file, is_converted, expected, two_systems):
    path = two_systems.system_file("s")
    path.unlink() if file is None else path.write_text(file)
    stamped = registry(two_systems, is_converted=is_converted)

    found = last_published(stamped, read_history(two_systems).by_pair)

    assert [one.system for one in found] == expected
    can_run = [system for _, system in stamped.automatic_pairs()]
    assert [one.system for one in found if one.obstacle is None] == can_run
    for one in found:
        if one.obstacle is not None:
            assert one.obstacle in one.sentence
            assert ("rag-eval convert b" in one.obstacle) is not is_converted


def test_late_alert_is_sent_once_and_again_when_a_later_night_is_late(two_systems):
    assert sent(two_systems, 24) == []
    [first] = sent(two_systems, 29.5)
    [second] = sent(two_systems, 31)
    assert sent(two_systems, 55) == []  # a night later nothing has changed

    assert [[one.system for one in alert.late] for alert in (first, second)] == [["t"], ["s"]]
    for night in (2, 3):
        publish_night(two_systems, "b", "s", night, questions=3, skill=0.5, number=1)
    assert sent(two_systems, 73) == []  # it has come
    [third] = sent(two_systems, 103)
    assert [one.evaluation_id for one in third.late] == ["eval_run_20261004_001"]


def test_late_alert_has_all_pairs_in_one_message(two_systems):
    [alert] = sent(two_systems, 31)

    assert (alert.kind, alert.subject) == ("late", "Overdue: nothing was published of 2 pairs")
    mail = (alerts_folder(two_systems) / f"{alert.alert_id}.eml").read_text()
    assert "s on b: not since 2026-10-01 02:00 UTC, eval_run_20261001_001" in mail
    assert "t on b: never, and converted 2026-10-01 01:00 UTC" in mail
