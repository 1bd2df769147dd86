"""What runs by itself: new and edited folders at once, converted pairs each night, one aggregation after either."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg

from rag_eval_pipeline.defs import aggregation, conversion, evaluation
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource

# A tick that asked for 1,200 runs blocked the sensor for six minutes; 50 a tick come as fast as the queue takes them.
REQUESTS_PER_TICK = 50
PARTITION_TAG = "dagster/partition"
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

convert = dg.define_asset_job(
    "convert", selection=conversion.ASSETS, description="One benchmark's corpus and datasets."
)
evaluate = dg.define_asset_job("evaluate", selection=evaluation.ASSETS, description="One system on one benchmark.")
aggregate = dg.define_asset_job(
    "aggregate", selection=aggregation.NIGHTLY, description="Leaderboard, verdicts, report."
)
week = dg.define_asset_job("week", selection=aggregation.WEEKLY, description="The mean of seven nights.")


@dg.sensor(jobs=[convert, evaluate], minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def workspace_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Makes the partitions equal to the folders, and asks once for what is new, edited or lost.

    The cursor holds the digest that each thing was last asked for, and how often it was asked for; run keys are made of
    both, so a tick that is killed half-way asks for nothing twice, and a dataset that was deleted is made again. A run
    that failed is not asked for again until its folder or its conversion changes: materialize it by hand.
    """
    from rag_eval_pipeline.evaluation.registry import is_evaluated, read_registry

    registry = read_registry(workspace.workspace)
    for fault in registry.faults:
        context.log.warning(fault)
    wanted = {f"convert:{name}": digest for name, digest in registry.benchmarks.items() if name not in registry.stamps}
    for benchmark, system in registry.automatic_pairs():
        if not is_evaluated(workspace.workspace, registry, benchmark, system):
            wanted[f"evaluate:{benchmark}|{system}"] = registry.pair_digest(benchmark, system)
    cursor = json.loads(context.cursor) if context.cursor else {"asked": {}, "times": {}}
    # What somebody is converting just now has no stamp; it is neither converted twice nor evaluated in the middle.
    busy = _busy_partitions(context.instance)
    todo = [what for what, digest in wanted.items() if cursor["asked"].get(what) != digest and not _is_held(what, busy)]
    todo = todo[:REQUESTS_PER_TICK]
    still = {what: digest for what, digest in cursor["asked"].items() if what in wanted}
    times = cursor["times"] | {what: cursor["times"].get(what, 0) + 1 for what in todo}
    return dg.SensorResult(
        run_requests=[_request(what, f"{what}@{wanted[what]}#{times[what]}") for what in todo],
        dynamic_partitions_requests=list(_partition_changes(context.instance, registry.benchmarks, registry.systems)),
        cursor=json.dumps({"asked": still | {what: wanted[what] for what in todo}, "times": times}, sort_keys=True),
    )


def _busy_partitions(instance: dg.DagsterInstance) -> set[str]:
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
    return {run.tags[PARTITION_TAG] for run in runs if PARTITION_TAG in run.tags}


def _is_held(what: str, busy: set[str]) -> bool:
    key = what.partition(":")[2]
    return key in busy or key.partition("|")[0] in busy


def _request(what: str, run_key: str) -> dg.RunRequest:
    job, _, key = what.partition(":")
    benchmark, _, system = key.partition("|")
    partition = pair_key(benchmark, system) if system else benchmark
    return dg.RunRequest(run_key=run_key, job_name=job, partition_key=partition)


def _partition_changes(
    instance: dg.DagsterInstance, *on_disk: dict[str, str]
) -> Iterator[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    for definition, names in zip((benchmarks, systems), on_disk, strict=True):
        known = set(instance.get_dynamic_partitions(definition.name or ""))
        if new := sorted(names.keys() - known):
            yield definition.build_add_request(new)
        if gone := sorted(known - names.keys()):
            yield definition.build_delete_request(gone)


@dg.sensor(job=aggregate, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def aggregation_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """One aggregation when no run is unfinished and results are newer than those aggregated last."""
    if busy := context.instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)):
        return dg.SkipReason(f"{busy} runs are not finished")
    latest = context.instance.fetch_materializations(dg.AssetKey("evaluation_results"), limit=1).records
    if not latest or (mark := str(latest[0].storage_id)) == context.cursor:
        return dg.SkipReason("no new results")
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=f"results-{mark}")], cursor=mark)


@dg.sensor(job=evaluate, minimum_interval_seconds=300, default_status=dg.DefaultSensorStatus.RUNNING)
def confirmation_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest]:
    """Evaluates each pair that was flagged once more, two hours later or as verdicts.config.yaml says."""
    from rag_eval_pipeline.evaluation.registry import read_registry
    from rag_eval_pipeline.reporting.reruns import due_reruns

    root = workspace.workspace
    due = due_reruns(root, read_registry(root).automatic_pairs(), now=datetime.now(UTC))
    return [
        dg.RunRequest(
            run_key=f"confirm:{rerun.evaluation_id}",
            partition_key=pair_key(rerun.benchmark, rerun.system),
            tags={"purpose": "confirm", "confirms": rerun.evaluation_id},
        )
        for rerun in due
    ]


@dg.run_failure_sensor(default_status=dg.DefaultSensorStatus.RUNNING)
def run_failure_alerts(context: dg.RunFailureSensorContext, workspace: WorkspaceResource) -> None:
    """Tells that a run has failed: once a day for the same job, partition and error."""
    from rag_eval_pipeline.reporting.alert_settings import read_alert_settings
    from rag_eval_pipeline.reporting.alerts import tell_run_failure

    if not read_alert_settings(workspace.workspace).run_failures:
        return
    now = datetime.now(UTC)
    told = tell_run_failure(
        workspace.workspace,
        job=context.dagster_run.job_name,
        partition=context.dagster_run.tags.get(PARTITION_TAG),
        error=_first_error(context),
        started=now,
        now=now,
    )
    for fault in told.faults:
        context.log.warning(fault)


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


@dg.schedule(
    job=convert, cron_schedule="0 1 * * *", execution_timezone="UTC", default_status=dg.DefaultScheduleStatus.RUNNING
)
def recheck(context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest]:
    """At 01:00 UTC, the pages behind every converted benchmark that asks for it (`recheck: nightly`)."""
    from rag_eval_pipeline.conversion.spec import read_spec
    from rag_eval_pipeline.evaluation.registry import read_registry

    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    root = workspace.workspace
    wanted = [name for name in read_registry(root).stamps if read_spec(root.benchmark(name)).recheck == "nightly"]
    # The same steps as any conversion: where nothing has changed, nothing is rendered and no evaluation is asked for.
    config = {"ops": {"corpus": {"config": {"recheck": True}}}}
    return [
        dg.RunRequest(run_key=f"{night}:recheck:{name}", partition_key=name, run_config=config, tags={"night": night})
        for name in wanted
    ]


@dg.schedule(
    job=evaluate, cron_schedule="0 2 * * *", execution_timezone="UTC", default_status=dg.DefaultScheduleStatus.RUNNING
)
def nightly(context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest]:
    """One run for every converted benchmark and every nightly system on it, at 02:00 UTC."""
    from rag_eval_pipeline.evaluation.registry import read_registry

    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    pairs = read_registry(workspace.workspace).automatic_pairs()
    return [
        dg.RunRequest(
            run_key=f"{night}:{benchmark}|{system}", partition_key=pair_key(benchmark, system), tags={"night": night}
        )
        for benchmark, system in pairs
    ]


@dg.schedule(
    job=week, cron_schedule="0 3 * * 1", execution_timezone="UTC", default_status=dg.DefaultScheduleStatus.RUNNING
)
def weekly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """On Mondays at 03:00 UTC, the week that ended on Sunday."""
    day = f"{context.scheduled_execution_time:%Y-%m-%d}"
    config = {"ops": {"weekly_results": {"config": {"monday": day}}}}
    return dg.RunRequest(run_key=f"week:{day}", run_config=config, tags={"week": day})


JOBS = [convert, evaluate, aggregate, week]
SENSORS = [workspace_sensor, aggregation_sensor, confirmation_sensor, run_failure_alerts]
SCHEDULES = [recheck, nightly, weekly]
