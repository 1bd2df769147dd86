"""What runs by itself: new and edited folders at once, converted pairs each night, one aggregation after either."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg

from rag_eval_pipeline.defs import aggregation, conversion, evaluation
from rag_eval_pipeline.defs.alerting import late_night_alerts, run_failure_alerts
from rag_eval_pipeline.defs.partitions import PARTITION_TAG, know_partitions, pair_key, partition_changes
from rag_eval_pipeline.defs.progress import AGGREGATE, UNFINISHED, is_aggregating
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.shell import check_evaluation, one_line_errors
from rag_eval_pipeline.defs.standing import left_out, left_out_check

# A tick that asked for 1,200 runs blocked the sensor for six minutes; 50 a tick come as fast as the queue takes them.
REQUESTS_PER_TICK = 50
# A system that takes all night, or a backfill of a thousand pairs, keeps nobody else's results from the report longer.
AGGREGATION_WAITS = timedelta(hours=1)
# A night and a rerun are new answers, also when a metric has changed and the old ones are still to be scored with it.
NEW_ANSWERS = {"ops": {"responses": {"config": {"new_answers": True}}}}

convert = dg.define_asset_job(
    "convert", selection=conversion.ASSETS, description="One benchmark's corpus and datasets."
)
evaluate = dg.define_asset_job("evaluate", selection=evaluation.ASSETS, description="One system on one benchmark.")
aggregate = dg.define_asset_job(
    AGGREGATE,
    selection=aggregation.NIGHTLY,
    description="Leaderboard, verdicts, report.",
    tags={"dagster/priority": "1"},  # it takes seconds, and would else wait behind a backfill
)
week = dg.define_asset_job("week", selection=aggregation.WEEKLY, description="The mean of seven nights.")


@dg.sensor(
    jobs=[convert, evaluate],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Makes the partitions equal to data/sources and data/config/systems. What is new, edited or lost there "
    "is converted and evaluated, once; what failed is not tried again until its folder changes or somebody "
    "materializes it.",
)
def workspace_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Makes the partitions equal to the folders, and asks once for what is new, edited or lost.

    The cursor holds the digest that each thing was last asked for, and how often it was asked for; run keys are made of
    both, so a tick that is killed half-way asks for nothing twice, and a dataset that was deleted is made again. A run
    that failed is not asked for again until its folder or its conversion changes: materialize it by hand.
    """
    from rag_eval_pipeline.evaluation.registry import read_registry, wanted_evaluation

    root = workspace.workspace
    with one_line_errors():
        registry = read_registry(root)
        faults = left_out(root, registry)
        wanted = {
            f"convert:{name}": digest for name, digest in registry.benchmarks.items() if name not in registry.stamps
        }
        for benchmark, system in registry.automatic_pairs():
            if (digest := wanted_evaluation(root, registry, benchmark, system)) is not None:
                wanted[f"evaluate:{benchmark}|{system}"] = digest
    for fault in faults:
        context.log.warning(fault)
    cursor = {"asked": {}, "times": {}, "faults": []} | (json.loads(context.cursor) if context.cursor else {})
    # What somebody is converting just now has no stamp; it is neither converted twice nor evaluated in the middle.
    busy = _busy_partitions(context.instance)
    todo = [what for what, digest in wanted.items() if cursor["asked"].get(what) != digest and not _is_held(what, busy)]
    todo = todo[:REQUESTS_PER_TICK]
    still = {what: digest for what, digest in cursor["asked"].items() if what in wanted}
    times = cursor["times"] | {what: cursor["times"].get(what, 0) + 1 for what in todo}
    asked = still | {what: wanted[what] for what in todo}
    is_news = faults != cursor["faults"] and not is_aggregating(context.instance)
    known = faults if is_news else cursor["faults"]
    return dg.SensorResult(
        run_requests=[_request(what, f"{what}@{wanted[what]}#{times[what]}") for what in todo],
        skip_reason=None if todo else _nothing_to_do(len(registry.benchmarks), len(registry.systems), faults),
        dynamic_partitions_requests=list(partition_changes(context.instance, registry.benchmarks, registry.systems)),
        # The leaderboard's check says so at once, not only after the next aggregation.
        asset_events=[check_evaluation("leaderboard", left_out_check(faults))] if is_news else [],
        cursor=json.dumps({"asked": asked, "times": times, "faults": known}, sort_keys=True),
    )


def _nothing_to_do(n_benchmarks: int, n_systems: int, faults: list[str]) -> str:
    text = f"nothing new in {n_benchmarks} benchmarks and {n_systems} systems"
    return f"{text}; left out: {'; '.join(faults)}" if faults else text


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


@dg.sensor(
    job=aggregate,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Makes leaderboard, verdicts and report once, when results are new and no run is unfinished; under "
    "constant traffic once an hour.",
)
def aggregation_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """One aggregation when no run is unfinished and the results files are others than those aggregated last.

    Files decide, so that what `rag-eval evaluate` published is aggregated too. The cursor holds the mark of the files
    that were aggregated, and since when others wait for runs to finish.
    """
    from rag_eval_pipeline.reporting.published import results_mark

    found = json.loads(context.cursor or "null")
    cursor = found if isinstance(found, dict) else {"mark": None, "since": None}
    mark = results_mark(workspace.workspace)
    if mark is None or mark == cursor["mark"]:
        return dg.SensorResult(skip_reason="no new results", cursor=json.dumps(cursor | {"since": None}))
    now = datetime.now(UTC)
    since = datetime.fromisoformat(cursor["since"]) if cursor["since"] else now
    unfinished = context.instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED))
    if is_aggregating(context.instance) or (unfinished and now - since < AGGREGATION_WAITS):
        reason = f"new results wait: {unfinished} {'run is' if unfinished == 1 else 'runs are'} not finished"
        return dg.SensorResult(skip_reason=reason, cursor=json.dumps(cursor | {"since": since.isoformat()}))
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=f"results-{mark}")], cursor=json.dumps({"mark": mark, "since": None})
    )


@dg.sensor(
    job=evaluate,
    minimum_interval_seconds=300,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Evaluates each pair whose night was flagged once more, two hours later or as verdicts.config.yaml "
    "says; only what is seen again alerts.",
)
def confirmation_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest]:
    """Evaluates each pair that was flagged once more, two hours later or as verdicts.config.yaml says."""
    from rag_eval_pipeline.evaluation.registry import read_registry
    from rag_eval_pipeline.reporting.reruns import due_reruns

    root = workspace.workspace
    with one_line_errors():
        due = due_reruns(root, read_registry(root).automatic_pairs(), now=datetime.now(UTC))
    return [
        dg.RunRequest(
            run_key=f"confirm:{rerun.evaluation_id}",
            partition_key=pair_key(rerun.benchmark, rerun.system),
            run_config=NEW_ANSWERS,
            tags={"purpose": "confirm", "confirms": rerun.evaluation_id},
        )
        for rerun in due
    ]


@dg.schedule(
    job=convert,
    cron_schedule="0 1 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Looks again at the pages behind every converted benchmark whose benchmark.yaml says recheck: nightly.",
)
def recheck(context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest] | dg.SkipReason:
    """At 01:00 UTC, the pages behind every converted benchmark that asks for it (`recheck: nightly`)."""
    from rag_eval_pipeline.conversion.spec import read_spec
    from rag_eval_pipeline.evaluation.registry import read_registry

    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    root = workspace.workspace
    with one_line_errors():
        registry = read_registry(root)
        wanted = [name for name in registry.stamps if read_spec(root.benchmark(name)).recheck == "nightly"]
    know_partitions(context.instance, registry.benchmarks, registry.systems)
    # The same steps as any conversion: where nothing has changed, nothing is rendered and no evaluation is asked for.
    config = {"ops": {"corpus": {"config": {"recheck": True}}}}
    return [
        dg.RunRequest(run_key=f"{night}:recheck:{name}", partition_key=name, run_config=config, tags={"night": night})
        for name in wanted
    ] or dg.SkipReason("no converted benchmark says recheck: nightly")


@dg.schedule(
    job=evaluate,
    cron_schedule="0 2 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Evaluates every converted benchmark with every nightly system. Of nights missed while the daemon was "
    "down, the last one is made up for.",
)
def nightly(context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest] | dg.SkipReason:
    """One run for every converted benchmark and every nightly system on it, at 02:00 UTC."""
    from rag_eval_pipeline.evaluation.registry import read_registry

    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    with one_line_errors():
        registry = read_registry(workspace.workspace)
    for fault in registry.faults:
        context.log.warning(fault)
    know_partitions(context.instance, registry.benchmarks, registry.systems)
    return [
        dg.RunRequest(
            run_key=f"{night}:{benchmark}|{system}",
            partition_key=pair_key(benchmark, system),
            run_config=NEW_ANSWERS,
            tags={"night": night},
        )
        for benchmark, system in registry.automatic_pairs()
    ] or dg.SkipReason("no converted benchmark has a nightly system")


@dg.schedule(
    job=week,
    cron_schedule="0 3 * * 1",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Sums up the week that ended on Sunday, and writes the four files of data/benchmarks.",
)
def weekly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """On Mondays at 03:00 UTC, the week that ended on Sunday."""
    day = f"{context.scheduled_execution_time:%Y-%m-%d}"
    config = {"ops": {"weekly_results": {"config": {"monday": day}}}}
    return dg.RunRequest(run_key=f"week:{day}", run_config=config, tags={"week": day})


JOBS = [convert, evaluate, aggregate, week]
SENSORS = [workspace_sensor, aggregation_sensor, confirmation_sensor, run_failure_alerts, late_night_alerts]
SCHEDULES = [recheck, nightly, weekly]
