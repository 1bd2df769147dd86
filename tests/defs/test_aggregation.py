"""Aggregation: the report's checks, blocking regressions, alerts of failed runs, the week, pinning."""

import json
from datetime import UTC, datetime

import dagster as dg
import pytest
import yaml

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.schedules import weekly
from rag_eval_pipeline.defs.sensors import confirmation_sensor, run_failure_alerts, run_name
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.reporting.alerts import read_alerts
from rag_eval_pipeline.reporting.baselines import published_evaluations

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
SYSTEM = "changing"


@pytest.fixture
def run(workspace):
    """Runs a job on a workspace with one system, which is good until `worsen` is called."""
    workspace.system_file("embedded").rename(workspace.system_file(SYSTEM))
    workspace.system_file("embedded-weak").rename(workspace.config / "weak.yaml")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(benchmarks.name, [RAILWAY, OBSERVATORY])
        instance.add_dynamic_partitions(systems.name, [SYSTEM])

        def execute(job, partition=None, config=None, tags=None):
            return defs.resolve_job_def(job).execute_in_process(
                instance=instance,
                partition_key=partition,
                run_config=config or {},
                tags=tags,
                resources={"workspace": WorkspaceResource(root=str(workspace.root))},
                raise_on_error=False,
            )

        execute.instance = instance
        yield execute


def night(run, *, worse=None):
    if worse is not None:
        (worse.config / "weak.yaml").rename(worse.system_file(SYSTEM))
    assert run("evaluate", pair_key(RAILWAY, SYSTEM)).success
    return run("aggregate")


def checks(result):
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def test_every_pair_is_evaluated_names_a_pair_without_results(run):
    found = checks(night(run))["every_pair_is_evaluated"]

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["expected"].value == 2
    assert f"{OBSERVATORY} x {SYSTEM}" in found.metadata["which"].value


@pytest.mark.parametrize("blocking", [False, True])
def test_nothing_has_regressed_warns_or_fails_the_run(blocking, run, workspace):
    settings = workspace.config / "verdicts.config.yaml"
    settings.write_text(yaml.safe_dump({"blocking": blocking, "units": "questions"}))  # documents are too few here
    first = night(run)

    second = night(run, worse=workspace)

    assert checks(first)["nothing_has_regressed"].passed
    assert not checks(second)["nothing_has_regressed"].passed
    assert second.success is not blocking
    assert (workspace.reports / "index.html").exists()
    [alert] = read_alerts(workspace)
    assert (alert.kind, alert.system) == ("regressed", SYSTEM)
    assert "exact_match" in {change.metric for change in alert.changes}
    if blocking:  # told as a regression already, and a standing one is no news tomorrow
        assert (
            "a regression that blocks has had its own alert"
            in run_failure_alerts(failure_context(run, second, workspace)).skip_message
        )
        assert read_alerts(workspace) == [alert]


def test_quality_thresholds_are_met_names_the_pair_and_the_metric(run, workspace):
    settings = workspace.config / "verdicts.config.yaml"
    settings.write_text(yaml.safe_dump({"quality_thresholds": {"span_accuracy": 0.9, "answer_consistency": 0.99}}))

    found = checks(night(run))["quality_thresholds_are_met"]

    # Consistency is a judge's figure, and nobody has calibrated the judge: it gates nothing.
    assert found.metadata["offenders"].value == 1
    assert f"{RAILWAY} x {SYSTEM}: span_accuracy" in found.metadata["which"].value


def test_pin_baseline_pins_the_newest_evaluation(run, workspace):
    night(run)
    night(run)

    config = {"ops": {"pin": {"config": {"note": "new model"}}}}
    assert run("pin_baseline", pair_key(RAILWAY, SYSTEM), config).success

    newest = published_evaluations(workspace, RAILWAY, SYSTEM)[-1].record.evaluation_id
    pinned = read_baseline(workspace, RAILWAY, SYSTEM)
    assert (pinned.evaluations, pinned.note) == ((newest,), "new model")


def test_pin_baseline_fails_without_an_evaluation(run):
    result = run("pin_baseline", pair_key(RAILWAY, SYSTEM))

    [event] = result.get_step_failure_events()
    assert "[no_evaluations]" in event.step_failure_data.user_failure_data.description


def failure_context(run, result, workspace):
    failure = next(event for event in result.all_events if event.event_type_value == "PIPELINE_FAILURE")
    return dg.build_run_status_sensor_context(
        sensor_name="run_failure_alerts",
        dagster_event=failure,
        dagster_instance=run.instance,
        dagster_run=run.instance.get_run_by_id(result.run_id),
        resources={"workspace": WorkspaceResource(root=str(workspace.root))},
    ).for_run_failure()


def test_run_failure_alert_has_the_first_error_and_is_sent_once(run, workspace):
    workspace.benchmark(RAILWAY).stamp.unlink()
    result = run("evaluate", pair_key(RAILWAY, SYSTEM))

    for _ in range(2):
        run_failure_alerts(failure_context(run, result, workspace))

    [alert] = read_alerts(workspace)
    assert alert.subject == f"A run failed: evaluate {RAILWAY}|{SYSTEM}"
    assert alert.error.startswith("responses: ")
    assert "[not_converted]" in alert.error


def test_run_failure_alert_is_skipped_where_dagster_retries_or_settings_say_no(run, workspace):
    workspace.benchmark(RAILWAY).stamp.unlink()
    retried = run("evaluate", pair_key(RAILWAY, SYSTEM), tags={"dagster/will_retry": "true"})
    failed = run("evaluate", pair_key(RAILWAY, SYSTEM), tags={"dagster/will_retry": "false"})

    assert "retried by Dagster" in run_failure_alerts(failure_context(run, retried, workspace)).skip_message
    (workspace.config / "alerts.config.yaml").write_text("run_failures: false\n")
    skipped = run_failure_alerts(failure_context(run, failed, workspace))
    assert skipped.skip_message == "alerts.config.yaml: run_failures is false"
    assert read_alerts(workspace) == []
    (workspace.config / "alerts.config.yaml").unlink()
    run_failure_alerts(failure_context(run, failed, workspace))
    assert len(read_alerts(workspace)) == 1


def test_run_name_lists_the_assets_that_someone_picked():
    picked = frozenset({dg.AssetKey("responses"), dg.AssetKey("answer_scores")})

    assert run_name(dg.DagsterRun(job_name="__ASSET_JOB", asset_selection=picked)) == "answer_scores, responses"
    assert run_name(dg.DagsterRun(job_name="week")) == "week"


def test_confirmation_sensor_requests_nothing_without_a_flag(run, workspace):
    night(run)
    resources = {"workspace": WorkspaceResource(root=str(workspace.root))}

    assert confirmation_sensor(dg.build_sensor_context(instance=run.instance, resources=resources)) == []


def test_weekly_is_dated_by_its_monday_and_written_once(run, workspace):
    night(run)
    tick = datetime(2026, 11, 16, 3, tzinfo=UTC)
    request = weekly(dg.build_schedule_context(scheduled_execution_time=tick))
    path = workspace.results / "benchmark_weekly_20261116.results.json"

    assert run("week", config=request.run_config).success
    first = path.read_bytes()
    assert run("week", config=request.run_config).success

    assert (request.run_key, path.read_bytes()) == ("week:2026-11-16", first)
    assert [pair["reason"] for pair in json.loads(first)["pairs"]] == ["0 of 7 nights"]
    names = sorted(path.name for path in (workspace.root / "data" / "benchmarks").rglob("*.json"))
    assert names == [
        "citation_accuracy_benchmarks.benchmark.json",
        "latency_benchmarks.benchmark.json",
        "retrieval_quality_benchmarks.benchmark.json",
        "throughput_benchmarks.benchmark.json",
    ]


@pytest.mark.parametrize(
    ("monday", "code"), [("2026-11-17", "[bad_date]"), ("soon", "[bad_date]"), ("2099-01-05", "[week_not_over]")]
)
def test_weekly_results_refuse_a_wrong_date(monday, code, run):
    result = run("week", config={"ops": {"weekly_results": {"config": {"monday": monday}}}})

    [event] = result.get_step_failure_events()
    assert code in event.step_failure_data.user_failure_data.description
