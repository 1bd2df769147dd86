"""What is told without anybody's looking: runs that failed, and nights that are late."""

from datetime import UTC, datetime

import dagster as dg

from rag_eval_pipeline.defs.partitions import PARTITION_TAG
from rag_eval_pipeline.defs.progress import AGGREGATE, is_aggregating
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.shell import check_evaluation, one_line_errors, sentence
from rag_eval_pipeline.defs.standing import late_check

# Dagster sets it when a run fails that it will start again by itself.
WILL_RETRY_TAG = "dagster/will_retry"
# The job of runs that were started from an asset's page or by a backfill.
ASSETS_JOB = "__ASSET_JOB"
REGRESSION_CHECK = "nothing_has_regressed"  # named by Dagster's error when it blocks


@dg.run_failure_sensor(
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Tells by file, mail text and webhook (alerts.config.yaml) that a run has failed: once a day for the "
    "same job, partition and error. A run that Dagster starts again by itself, and one that somebody cancelled, are "
    "no news.",
)
def run_failure_alerts(context: dg.RunFailureSensorContext, workspace: WorkspaceResource) -> dg.SkipReason | None:
    """Tells that a run has failed: once a day for the same job, partition and error."""
    from rag_eval_pipeline.reporting.alert_settings import read_alert_settings
    from rag_eval_pipeline.reporting.alerts import tell_run_failure

    run = context.dagster_run
    if run.tags.get(WILL_RETRY_TAG) == "true":
        return dg.SkipReason(f"run {run.run_id} is started again by Dagster; that one is told if it fails, too")
    error = _first_error(context)
    if run.job_name == AGGREGATE and REGRESSION_CHECK in error:
        return dg.SkipReason("a regression that blocks was told when it was news, and is none on the nights after")
    with one_line_errors():
        if not read_alert_settings(workspace.workspace).run_failures:
            return dg.SkipReason("alerts.config.yaml: run_failures is false")
        now = datetime.now(UTC)
        told = tell_run_failure(
            workspace.workspace,
            job=_what(run),
            partition=run.tags.get(PARTITION_TAG),
            error=error,
            started=now,
            now=now,
        )
    for fault in told.faults:
        context.log.warning(fault)
    return None


@dg.sensor(
    minimum_interval_seconds=3600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Once an hour: pairs of the nightly schedule of which nothing was published for late_after_hours "
    "(alerts.config.yaml) are told, once, and stand in the leaderboard's check. No run is started.",
)
def late_night_alerts(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Tells which pairs are late, and reports it as the leaderboard's check, since no aggregation may come to do it."""
    from rag_eval_pipeline.reporting.lateness import tell_late

    now = datetime.now(UTC)
    with one_line_errors():
        check = late_check(workspace.workspace, now)
        told = tell_late(workspace.workspace, now=now)
    for line in [*(alert.subject for alert in told.new), *told.faults]:
        context.log.warning(line)
    said = sentence(check)
    is_news = said != context.cursor and not is_aggregating(context.instance)
    return dg.SensorResult(
        skip_reason=said,
        asset_events=[check_evaluation("leaderboard", check)] if is_news else [],
        cursor=said if is_news else context.cursor,
    )


def _what(run: dg.DagsterRun) -> str:
    """The job's name, or the assets that somebody has picked in the UI."""
    if run.job_name != ASSETS_JOB:
        return run.job_name
    return ", ".join(sorted(key.to_user_string() for key in run.asset_selection or ())) or "assets"


def _first_error(context: dg.RunFailureSensorContext) -> str:
    """What the first step that failed says, else what the run does."""
    for event in context.get_step_failure_events():
        data = event.step_failure_data
        if data.user_failure_data is not None and data.user_failure_data.description:
            return f"{event.step_key}: {data.user_failure_data.description}"
        error = data.error
        while error is not None and error.cause is not None:
            error = error.cause
        if error is not None:
            return f"{event.step_key}: {error.message}"
    return context.failure_event.message or "no reason was given"
