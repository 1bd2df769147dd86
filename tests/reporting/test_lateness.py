"""A pair of the nightly schedule without newer results is late, and that is told once a state."""

from datetime import UTC, datetime, timedelta

import pytest

from rag_eval_pipeline.evaluation.registry import Registry
from rag_eval_pipeline.reporting.alerts import (
    Alert,
    AlertSettings,
    LastPublished,
    alerts_folder,
    last_published,
    late_pairs,
    send_late_alerts,
)
from rag_eval_pipeline.systems.config import read_system_file
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import FIRST, publish_night, register

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def published(hours, system="s", evaluation_id="e"):
    return LastPublished("b", system, NOW - timedelta(hours=hours), evaluation_id)


CASES = {
    #                                       published                                 settings                    late
    "a night as every night":              ([published(10)],                          {},                         []),
    "as long ago as is allowed":           ([published(30)],                          {},                         []),
    "a second longer":                     ([published(30 + 1 / 3600)],               {},                         ["s"]),
    "one of two":                          ([published(31, "t"), published(9)],       {},                         ["t"]),
    "by benchmark and system":             ([published(31, "t"), published(99, "s")], {},                         ["s", "t"]),
    "never, and converted long ago":       ([published(31, evaluation_id=None)],      {},                         ["s"]),
    "never, and converted today":          ([published(1, evaluation_id=None)],       {},                         []),
    "a limit of one's own":                ([published(5)],                           {"late_after_hours": 4},    ["s"]),
    "nobody wants to know":                ([published(999)],                         {"late_after_hours": None}, []),
    "published after now: the clock fell": ([published(-48)],                         {},                         []),
    "nothing is to be evaluated":          ([],                                       {},                         []),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "settings", "late"), CASES.values(), ids=CASES)
def test_late_pairs(rows, settings, late):
    assert [one.system for one in late_pairs(NOW, rows, AlertSettings(**settings))] == late


@pytest.fixture
def workspace(tmp_path):
    """Two systems on one benchmark; the second was never evaluated."""
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s", "t"])
    publish_night(workspace, "b", "s", 0, questions=3, skill=0.5, number=1)
    return workspace


def registry(workspace):
    """The folders as the sensor reads them, as if the benchmark had been converted an hour before the first night."""
    files = {name: read_system_file(workspace.system_file(name)) for name in workspace.systems()}
    converted = int((FIRST - timedelta(hours=1)).timestamp()) * 1_000_000_000
    return Registry({"b": "1"}, {"s": "1", "t": "1"}, {"b": None}, {"b": converted}, files)


def told(workspace, hours):
    return send_late_alerts(workspace, now=FIRST + timedelta(hours=hours), registry=registry(workspace)).new


def test_the_newest_publication_of_each_nightly_pair_is_found(workspace):
    found = last_published(workspace, registry(workspace))

    assert [(one.system, one.at, one.evaluation_id) for one in found] == [
        ("s", FIRST, "eval_run_20261001_001"), ("t", FIRST - timedelta(hours=1), None),
    ]  # fmt: skip


def test_a_system_that_is_not_asked_every_night_is_never_late(workspace):
    workspace.system_file("t").write_text("kind: embedded\nnightly: false\n")

    assert [one.system for one in last_published(workspace, registry(workspace))] == ["s"]


def test_a_late_night_is_told_once_and_again_when_a_later_one_is_late(workspace):
    assert told(workspace, 24) == []
    [first] = told(workspace, 29.5)
    [second] = told(workspace, 31)
    assert told(workspace, 55) == []  # a night later nothing has changed

    assert [[one.system for one in alert.late] for alert in (first, second)] == [["t"], ["s"]]
    for night in (2, 3):
        publish_night(workspace, "b", "s", night, questions=3, skill=0.5, number=1)
    assert told(workspace, 73) == []  # it has come
    [third] = told(workspace, 103)
    assert [one.evaluation_id for one in third.late] == ["eval_run_20261004_001"]


def test_several_pairs_are_one_alert(workspace):
    [alert] = told(workspace, 31)

    assert alert.kind == "late"
    assert alert.subject == "A night is late: nothing was published of 2 pairs"
    mail = (alerts_folder(workspace) / f"{alert.alert_id}.eml").read_text()
    assert "s on b: not since 2026-10-01 02:00 UTC, eval_run_20261001_001" in mail
    assert "t on b: never, and converted 2026-10-01 01:00 UTC" in mail
    path = alerts_folder(workspace) / f"{alert.alert_id}.alert.json"
    assert Alert.read(path).alert_id == alert.alert_id
