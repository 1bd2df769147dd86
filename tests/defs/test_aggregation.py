"""Aggregation: the report's checks, blocking regressions, alerts of failed runs, the week, pinning."""

import json
from datetime import UTC, datetime

import dagster as dg
import pytest
import yaml

from rag_eval_pipeline.defs.partitions import pair_key, systems
from rag_eval_pipeline.defs.schedules import weekly
from rag_eval_pipeline.defs.sensors import aggregation_sensor, confirmation_sensor, run_failure_alerts, run_name
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.evaluation_folders import published_evaluations
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.validation import examine
from rag_eval_pipeline.monitoring.alert_files import read_alerts
from rag_eval_pipeline.monitoring.regressions import write_comparisons

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
SYSTEM = "changing"


@pytest.fixture
def night(run, workspace, instance):
    """Evaluates and aggregates; the one system is as good as `embedded` until its file is replaced."""
    workspace.system_file("embedded").rename(workspace.system_file(SYSTEM))
    workspace.system_file("embedded-weak").rename(workspace.config / "weak.yaml")
    instance.add_dynamic_partitions(systems.name, [SYSTEM])

    def night():
        evaluate(workspace, load_pair(workspace, RAILWAY, SYSTEM))
        return run("aggregate")

    return night


def checks(result):
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def fault(result):
    [event] = result.get_step_failure_events()
    return event.step_failure_data.user_failure_data.description


def set_verdicts(workspace, **settings):
    (workspace.config / "verdicts.config.yaml").write_text(yaml.safe_dump(settings))


@pytest.mark.fault(67)
def test_aggregate_names_missing_pairs_and_broken_thresholds_and_requests_no_rerun(
    night, run, workspace, instance, resources
):
    set_verdicts(workspace, quality_thresholds={"span_accuracy": 0.9, "answer_consistency": 0.99})

    found = checks(night())

    pairs, thresholds = found["every_pair_is_evaluated"], found["quality_thresholds_are_met"]
    assert (pairs.passed, pairs.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert pairs.metadata["expected"].value == 2
    assert f"{OBSERVATORY} x {SYSTEM}" in pairs.metadata["which"].value
    assert found["nothing_has_regressed"].metadata["compared"].value == 0  # the evaluation is its own baseline
    # Consistency is a metric of the judge, which is not calibrated.
    assert thresholds.metadata["offenders"].value == 1
    assert f"{RAILWAY} x {SYSTEM}: span_accuracy" in thresholds.metadata["which"].value
    assert isinstance(
        confirmation_sensor(dg.build_sensor_context(instance=instance, resources=resources)), dg.SkipReason
    )
    workspace.system_file(SYSTEM).write_text("kind: [")

    pairs = checks(run("aggregate"))["every_pair_is_evaluated"]

    assert (pairs.passed, pairs.metadata["expected"].value) == (False, 1)  # what was published is expected
    assert f"{RAILWAY} x {SYSTEM} (data/config/systems/{SYSTEM}.config.yaml, line 2" in pairs.metadata["which"].value


def test_nothing_has_regressed_fails_the_run_or_warns(night, run, workspace, instance, resources):
    set_verdicts(workspace, blocking=True)
    assert checks(night())["nothing_has_regressed"].passed
    (workspace.config / "weak.yaml").rename(workspace.system_file(SYSTEM))

    worse = night()

    assert (checks(worse)["nothing_has_regressed"].passed, worse.success) == (False, False)
    assert (workspace.reports / "index.html").exists()
    [alert] = read_alerts(workspace).alerts
    assert (alert.kind, alert.system) == ("regressed", SYSTEM)
    assert "exact_match" in {change.metric for change in alert.changes}
    # It was alerted as a regression, on the night it was new.
    skipped = run_failure_alerts(failure_context(worse, instance, resources))
    assert "a regression that blocks has had its own alert" in skipped.skip_message
    context = dg.build_sensor_context(instance=instance, resources=resources)
    asked = aggregation_sensor(context).cursor
    again = aggregation_sensor(dg.build_sensor_context(instance=instance, resources=resources, cursor=asked))
    assert again.skip_reason.skip_message == "no new results"  # its report is there
    assert read_alerts(workspace).alerts == [alert]
    set_verdicts(workspace)
    warned = run("aggregate")
    assert (checks(warned)["nothing_has_regressed"].passed, warned.success) == (False, True)


def test_pin_baseline_pins_the_newest_evaluation_or_fails_without_one(night, run, workspace):
    partition = pair_key(RAILWAY, SYSTEM)
    assert "[no_evaluations]" in fault(run("pin_baseline", partition))
    for _ in range(2):
        evaluate(workspace, load_pair(workspace, RAILWAY, SYSTEM))

    assert run("pin_baseline", partition, {"ops": {"pin": {"config": {"note": "new model"}}}}).success

    newest = published_evaluations(workspace, RAILWAY, SYSTEM)[-1].record.evaluation_id
    pinned = read_baseline(workspace, RAILWAY, SYSTEM)
    assert (pinned.evaluations, pinned.note) == ((newest,), "new model")


def failure_context(result, instance, resources):
    failure = next(event for event in result.all_events if event.event_type_value == "PIPELINE_FAILURE")
    return dg.build_run_status_sensor_context(
        sensor_name="run_failure_alerts",
        dagster_event=failure,
        dagster_instance=instance,
        dagster_run=instance.get_run_by_id(result.run_id),
        resources=resources,
    ).for_run_failure()


def test_run_failure_alert_has_the_first_error_and_is_sent_once(run, workspace, instance, resources):
    workspace.benchmark(RAILWAY).stamp.unlink()
    partition = pair_key(RAILWAY, "embedded")
    retried = run("evaluate", partition, tags={"dagster/will_retry": "true"})
    failed = failure_context(run("evaluate", partition), instance, resources)

    skipped = run_failure_alerts(failure_context(retried, instance, resources))
    assert "retried by Dagster" in skipped.skip_message
    (workspace.config / "alerts.config.yaml").write_text("run_failures: false\n")
    assert run_failure_alerts(failed).skip_message == "alerts.config.yaml: run_failures is false"
    assert read_alerts(workspace).alerts == []
    (workspace.config / "alerts.config.yaml").unlink()
    for _ in range(2):
        run_failure_alerts(failed)

    [alert] = read_alerts(workspace).alerts
    assert alert.subject == f"A run failed: evaluate {RAILWAY}|embedded"
    assert alert.night.timestamp() == instance.get_run_record_by_id(failed.dagster_run.run_id).start_time
    assert alert.error.startswith("responses: ")
    assert "[not_converted]" in alert.error


def test_run_name_lists_the_assets_that_someone_picked():
    picked = frozenset({dg.AssetKey("responses"), dg.AssetKey("answer_scores")})

    assert run_name(dg.DagsterRun(job_name="__ASSET_JOB", asset_selection=picked)) == "answer_scores, responses"
    assert run_name(dg.DagsterRun(job_name="week")) == "week"


def test_weekly_is_dated_by_its_monday_and_written_once(run, workspace):
    evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
    write_comparisons(workspace)
    tick = datetime(2026, 11, 16, 3, tzinfo=UTC)
    request = weekly(dg.build_schedule_context(scheduled_execution_time=tick))
    path = workspace.results / "benchmark_weekly_20261116.results.json"

    assert run("week", config=request.run_config).success
    first = path.read_bytes()
    assert run("week", config=request.run_config).success

    assert (request.run_key, path.read_bytes()) == ("week:2026-11-16", first)
    assert [pair["reason"] for pair in json.loads(first)["pairs"]] == ["no night was compared"]
    files = list((workspace.root / "data" / "benchmarks").rglob("*.json"))
    assert [examine(path) for path in (path, *files)] == [[]] * 5
    assert sorted(path.name.removesuffix("_benchmarks.benchmark.json") for path in files) == [
        "citation_accuracy", "latency", "retrieval_quality", "throughput",
    ]  # fmt: skip
    for monday, code in (("2026-11-17", "[bad_date]"), ("soon", "[bad_date]"), ("2099-01-05", "[week_not_over]")):
        assert code in fault(run("week", config={"ops": {"weekly_results": {"config": {"monday": monday}}}}))
