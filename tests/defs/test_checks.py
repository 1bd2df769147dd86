"""Checks as Dagster records them, and the hourly sensor that finds what no run would report."""

import os
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_eval_pipeline.clock import NOW_VARIABLE
from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.defs.checks import check_result
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.sensors import lateness_sensor
from rag_eval_pipeline.monitoring.alert_files import read_alerts

RAILWAY = "skarn-railway"
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)

SENTENCES = {
    #                           passed  numbers                                     sentence
    "counts":                   (True,  {"rows": 17, "accepted": 16, "share": 0.5}, "Passed: 17 rows, 16 accepted, 0.5 share."),
    "offenders by name":        (False, {"late": 2, "which": ["a x b", "c x d"]},   "Failed: 2 late. Which: a x b; c x d."),
    "no offenders":             (True,  {"late": 0, "which": []},                   "Passed: 0 late."),
    "a sentence as value":      (False, {"left_over": ["Rename it."]},              "Failed. Left over: Rename it."),
    "nothing to add":           (True,  {},                                         "Passed."),
    "a flag is no count":       (True,  {"located": True},                          "Passed. Located: True."),
}  # fmt: skip


NAMED = {
    "passed": (True,  {"compared": 10, "offenders": 0, "which": []}, "Passed: no system regressed (pairs compared: 10)."),
    "failed": (False, {"compared": 10, "offenders": 1, "which": ["mine on frames: F1 72 → 58"]}, "Failed: 1 of 10 compared pairs regressed. Which: mine on frames: F1 72 → 58."),
}  # fmt: skip


@pytest.mark.parametrize(("passed", "numbers", "text"), NAMED.values(), ids=NAMED)
def test_check_result_says_what_holds(passed, numbers, text):
    check = Check(name="nothing_has_regressed", passed=passed, blocking=False, numbers=numbers)

    assert check_result(check).description == text


@pytest.mark.parametrize(("passed", "numbers", "text"), SENTENCES.values(), ids=SENTENCES)
def test_check_result_opens_with_a_sentence(passed, numbers, text):
    result = check_result(Check(name="it_holds", passed=passed, blocking=False, numbers=numbers))

    assert (result.description, result.metadata.keys()) == (text, numbers.keys())


def test_check_result_is_an_error_only_where_the_check_blocks():
    severities = [check_result(Check(name="it", passed=False, blocking=one)).severity for one in (True, False)]

    assert severities == [dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN]


def test_check_result_cuts_an_endless_list():
    rows = [f"row {number}" for number in range(10_000)]

    result = check_result(Check(name="it_holds", passed=False, numbers={"which": rows}))

    assert (len(result.description), len(result.metadata["which"].value)) == (316, 2000)


@pytest.fixture
def hourly(workspace, instance, monkeypatch):
    """Evaluates the hourly sensor so many hours after the benchmarks were converted; returns its checks by name."""
    for name in workspace.benchmarks():
        os.utime(workspace.benchmark(name).stamp, (NOW.timestamp(), NOW.timestamp()))

    def run(hours=1):
        monkeypatch.setenv(NOW_VARIABLE, (NOW + timedelta(hours=hours)).isoformat())
        resources = {"workspace": WorkspaceResource(root=str(workspace.root))}
        result = lateness_sensor(dg.build_sensor_context(instance=instance, resources=resources))
        return {check.check_name: check for check in result.asset_events}

    return run


def test_no_night_is_late_alerts_once(hourly, workspace):
    soon, late, later = (hourly(hours)["no_night_is_late"] for hours in (1, 1000, 1001))

    assert (soon.passed, late.passed, later.passed) == (True, False, False)
    assert late.severity == dg.AssetCheckSeverity.WARN
    assert late.description.startswith("Failed: 4 of 4 nightly pairs overdue. Which: embedded on ")
    assert f"embedded on {RAILWAY}" in late.metadata["which"].value
    [alert] = read_alerts(workspace).alerts
    assert (alert.kind, len(alert.late)) == ("late", 4)


def test_all_configs_valid_names_what_is_skipped(hourly, workspace):
    (workspace.system_file("broken")).write_text("kind: [")
    (workspace.config / "systems" / "mine.yaml").write_text("kind: embedded\n")
    (workspace.sources / "My Bench").mkdir()
    (workspace.sources / "My Bench" / "benchmark.yaml").write_text("name: mine\n")
    (workspace.sources / "torn").mkdir()
    (workspace.sources / "torn" / "benchmark.yaml").write_text("name: [")

    broken = hourly()["all_configs_valid"]
    assert (broken.passed, broken.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert broken.description.startswith(
        "Failed: files that are skipped: 4. Which: data/sources/torn/benchmark.yaml, line 2"
    )
    for part in ("broken.config.yaml, line 2", "[bad_yaml]", "mine.yaml", "data/sources/My Bench", "[bad_name]"):
        assert part in broken.metadata["which"].value

    for path in (workspace.system_file("broken"), workspace.config / "systems" / "mine.yaml"):
        path.unlink()
    for name in ("My Bench", "torn"):
        (workspace.sources / name / "benchmark.yaml").unlink()
    assert hourly()["all_configs_valid"].passed


def test_lateness_sensor_names_broken_alert_settings_and_alerts_all_the_same(hourly, workspace):
    (workspace.config / "alerts.config.yaml").write_text("run_failures: [")

    found = hourly(1000)

    assert "data/config/alerts.config.yaml, line 2" in found["all_configs_valid"].metadata["which"].value
    assert not found["no_night_is_late"].passed
    assert len(read_alerts(workspace).alerts) == 1
