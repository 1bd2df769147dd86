"""What is told by itself: failed runs that nobody will start again, and pairs of which nothing has come for too long."""

import json
import os
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import alerting
from rag_eval_pipeline.defs.alerting import late_night_alerts, run_failure_alerts
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.reporting.alerts import read_alerts

RAILWAY = "skarn-railway"
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(benchmarks.name, [RAILWAY])
        instance.add_dynamic_partitions(systems.name, ["embedded"])
        yield instance


@pytest.fixture
def resources(workspace):
    return {"workspace": WorkspaceResource(root=str(workspace.root))}


@pytest.fixture
def fail(workspace, instance, resources):
    """Runs something that fails, and has the sensor look at it."""

    def run(job, **tags):
        workspace.benchmark(RAILWAY).stamp.unlink(missing_ok=True)
        result = job.execute_in_process(
            instance=instance,
            partition_key=pair_key(RAILWAY, "embedded"),
            tags=tags,
            resources=resources,
            raise_on_error=False,
        )
        failure = next(event for event in result.all_events if event.event_type_value == "PIPELINE_FAILURE")
        context = dg.build_run_status_sensor_context(
            sensor_name="run_failure_alerts",
            dagster_event=failure,
            dagster_instance=instance,
            dagster_run=instance.get_run_by_id(result.run_id),
            resources=resources,
        ).for_run_failure()
        return run_failure_alerts(context)

    return run


def test_a_run_that_dagster_starts_again_is_no_news(fail, workspace):
    job = defs.resolve_job_def("evaluate")

    skipped = fail(job, **{"dagster/will_retry": "true"})
    assert "started again" in skipped.skip_message
    assert read_alerts(workspace) == []

    fail(job, **{"dagster/will_retry": "false"})
    assert len(read_alerts(workspace)) == 1


def test_a_run_from_an_assets_page_is_named_by_its_assets(workspace, instance, resources):
    run = dg.DagsterRun(
        job_name="__ASSET_JOB", asset_selection=frozenset({dg.AssetKey("responses"), dg.AssetKey("answer_scores")})
    )

    assert alerting._what(run) == "answer_scores, responses"


def test_run_failures_are_told_unless_the_settings_say_no(fail, workspace):
    (workspace.config / "alerts.config.yaml").write_text("run_failures: false\n")

    assert fail(defs.resolve_job_def("evaluate")).skip_message == "alerts.config.yaml: run_failures is false"
    assert read_alerts(workspace) == []


def test_broken_settings_of_alerts_are_one_line(workspace, instance, resources):
    (workspace.config / "alerts.config.yaml").write_text("run_failures: [")

    with pytest.raises(dg.Failure, match=r"alerts\.config\.yaml.*\[bad_yaml\]"):
        late_night_alerts(dg.build_sensor_context(instance=instance, resources=resources))


@pytest.fixture
def look(workspace, instance, resources, monkeypatch):
    """Has the hourly sensor look so many hours after the benchmarks were converted."""
    for name in workspace.benchmarks():
        os.utime(workspace.benchmark(name).stamp, (NOW.timestamp(), NOW.timestamp()))
    cursor = None

    def run(hours):
        nonlocal cursor

        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return (NOW + timedelta(hours=hours)).astimezone(tz)

        monkeypatch.setattr(alerting, "datetime", Clock)
        result = late_night_alerts(dg.build_sensor_context(instance=instance, cursor=cursor, resources=resources))
        cursor = result.cursor
        return result

    return run


def test_a_late_night_is_told_once_and_stands_in_the_leaderboards_check(look, workspace):
    soon, late, later = look(1), look(1000), look(1001)

    [on_time], [check] = soon.asset_events, late.asset_events
    assert on_time.passed
    assert (check.asset_key.to_user_string(), check.check_name) == ("leaderboard", "no_night_is_late")
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert (check.metadata["expected"].value, check.metadata["late"].value) == (4, 4)
    assert f"embedded on {RAILWAY}" in check.metadata["which"].value
    assert not later.asset_events
    [alert] = read_alerts(workspace)
    assert (alert.kind, len(alert.late)) == ("late", 4)
    assert not any(result.run_requests for result in (soon, late, later))


def test_a_late_night_is_on_the_page_of_its_tick(look):
    assert look(1000).skip_reason.skip_message.startswith("Does not hold: expected 4, late 4, which: embedded on ")


def test_the_check_is_of_the_leaderboard_and_known_before_it_is_reported():
    names = {spec.name: spec for asset in defs.assets for spec in asset.check_specs}

    assert json.dumps(names["no_night_is_late"].asset_key.path) == '["leaderboard"]'
    assert not names["no_night_is_late"].blocking
