"""What the report's checks say, how a regression blocks where that is set, and what is told of a run that failed."""

import json
from datetime import UTC, datetime

import dagster as dg
import pytest
import yaml

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.automation import confirmation_sensor, run_failure_alerts, weekly
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.reporting.alerts import read_alerts
from rag_eval_pipeline.reporting.published import published_evaluations

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

        def execute(job, partition=None, config=None):
            return defs.resolve_job_def(job).execute_in_process(
                instance=instance,
                partition_key=partition,
                run_config=config or {},
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


def test_a_pair_without_results_is_missing_and_not_zero(run):
    found = checks(night(run))["every_pair_is_evaluated"]

    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["expected"].value == 2
    assert f"{OBSERVATORY} x {SYSTEM}" in found.metadata["which"].value


@pytest.mark.parametrize("blocking", [False, True])
def test_a_regression_warns_or_fails_the_run_and_the_report_is_there(blocking, run, workspace):
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
        assert "a regression that blocks" in run_failure_alerts(failure_context(run, second, workspace)).skip_message
        assert read_alerts(workspace) == [alert]


def test_thresholds_are_checked_where_they_are_set(run, workspace):
    settings = workspace.config / "verdicts.config.yaml"
    settings.write_text(yaml.safe_dump({"quality_thresholds": {"span_accuracy": 0.9, "answer_consistency": 0.99}}))

    found = checks(night(run))["quality_thresholds_are_met"]

    # Consistency is a judge's figure, and nobody has calibrated the judge: it gates nothing.
    assert found.metadata["offenders"].value == 1
    assert f"{RAILWAY} x {SYSTEM}: span_accuracy" in found.metadata["which"].value


def test_materializing_the_baseline_pins_only_when_told_to(run, workspace):
    night(run)
    night(run)
    first = read_baseline(workspace, RAILWAY, SYSTEM)
    job = dg.define_asset_job("baseline_only", selection="baseline")
    location = dg.Definitions(assets=defs.assets, jobs=[job], resources=defs.resources)

    def materialize(**config):
        return location.resolve_job_def("baseline_only").execute_in_process(
            instance=run.instance,
            partition_key=pair_key(RAILWAY, SYSTEM),
            run_config={"ops": {"baseline": {"config": config}}},
            resources={"workspace": WorkspaceResource(root=str(workspace.root))},
        )

    materialize()
    assert read_baseline(workspace, RAILWAY, SYSTEM) == first
    materialize(pin=True, note="new model")

    newest = published_evaluations(workspace, RAILWAY, SYSTEM)[-1].record.evaluation_id
    pinned = read_baseline(workspace, RAILWAY, SYSTEM)
    assert (pinned.evaluations, pinned.note) == ((newest,), "new model")


def failure_context(run, result, workspace):
    failure = next(event for event in result.all_events if event.event_type_value == "PIPELINE_FAILURE")
    return dg.build_run_status_sensor_context(
        sensor_name="run_failure_alerts",
        dagster_event=failure,
        dagster_instance=run.instance,
        dagster_run=run.instance.get_run_by_id(result.run_id),
        resources={"workspace": WorkspaceResource(root=str(workspace.root))},
    ).for_run_failure()


def test_a_run_that_failed_is_told_with_its_first_error(run, workspace):
    workspace.benchmark(RAILWAY).stamp.unlink()
    result = run("evaluate", pair_key(RAILWAY, SYSTEM))

    for _ in range(2):
        run_failure_alerts(failure_context(run, result, workspace))

    [alert] = read_alerts(workspace)
    assert alert.subject == f"A run failed: evaluate {RAILWAY}|{SYSTEM}"
    assert alert.error.startswith("responses: ")
    assert "[not_converted]" in alert.error


def test_nothing_is_run_again_where_nothing_was_flagged(run, workspace):
    night(run)
    resources = {"workspace": WorkspaceResource(root=str(workspace.root))}

    assert confirmation_sensor(dg.build_sensor_context(instance=run.instance, resources=resources)) == []


def test_the_week_is_dated_by_its_monday_and_written_once(run, workspace):
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
def test_a_week_that_is_none_is_refused(monday, code, run):
    result = run("week", config={"ops": {"weekly_results": {"config": {"monday": monday}}}})

    [event] = result.get_step_failure_events()
    assert code in event.step_failure_data.user_failure_data.description
