"""Sensors: convert and evaluate what is new, aggregate results, confirm flagged changes, report failed runs."""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import CHECKS
from rag_eval_pipeline.defs import schedules
from rag_eval_pipeline.defs.checks import check_evaluation, check_sentence
from rag_eval_pipeline.defs.conversion import convert_shard
from rag_eval_pipeline.defs.execution import UNFINISHED, as_dagster_failure
from rag_eval_pipeline.defs.partitions import PARTITION_TAG, corpus_shard_keys, pair_key, partition_changes
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.runless_events import made_conversions, made_evaluations, unreported
from rag_eval_pipeline.errors import InputError, counted, os_fault

if TYPE_CHECKING:
    from rag_eval_pipeline.conversion.shard_plan import ShardPlan
    from rag_eval_pipeline.evaluation.evaluation_folders import EvaluationRecord
    from rag_eval_pipeline.workspace import Workspace

# A tick that requested 1,200 runs blocked the sensor for six minutes; 50 per tick are as fast as the queue takes them.
MAX_REQUESTS_PER_TICK = 50
# A system that takes all night, or a backfill of a thousand pairs, does not keep other results from the report longer.
AGGREGATION_MAX_WAIT = timedelta(hours=1)
# Set by Dagster on a failed run that it will start again.
WILL_RETRY_TAG = "dagster/will_retry"
# The job of runs that were started from an asset's page or by a backfill.
ASSETS_JOB = "__ASSET_JOB"
MERGE = -1  # the merge of the shards among their numbers


@dg.sensor(
    jobs=[schedules.convert, schedules.evaluate],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Makes the partitions match data/sources and data/config/systems. New, changed or missing benchmarks "
    "and systems are converted and evaluated once; a failed run is not repeated until its folder changes or someone "
    "materializes it. What `rag-eval` has made is reported as materialized.",
)
def workspace_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Make the partitions equal to the folders, report what no run has made, and request runs for what is to be made.

    The cursor holds, for each target, the digest that was last requested and how often. Run keys are made of both, so
    that a killed tick requests nothing twice, and a deleted dataset is made again. `reported` is the time of the newest
    file that Dagster knows of.
    """
    from rag_eval_pipeline.evaluation.expected_pairs import invalid_configs, pending_evaluation, read_registry
    from rag_eval_pipeline.monitoring.workspace_states import not_nightly_hint

    root = workspace.workspace
    with as_dagster_failure(context):
        registry = read_registry(root)
        invalid = invalid_configs(root, registry)
        wanted = {
            f"convert:{name}": digest
            for name, digest in registry.benchmarks.items()
            if name not in registry.stamps and name not in registry.unreadable
        }
        for benchmark, system in registry.automatic_pairs():
            if (digest := pending_evaluation(root, registry, benchmark, system)) is not None:
                wanted[f"evaluate:{benchmark}|{system}"] = digest
    for line in invalid:
        context.log.warning(line)
    cursor = {"asked": {}, "times": {}, "reported": 0} | (json.loads(context.cursor) if context.cursor else {})
    # A benchmark that is being converted has no stamp; it is neither converted twice nor evaluated meanwhile.
    busy = _busy_partitions(context.instance)
    made = [*made_conversions(root, registry), *made_evaluations(root, registry, since=cursor["reported"])]
    events, reported = unreported(context.instance, made, since=cursor["reported"], busy=busy)
    due = [target for target, digest in wanted.items() if cursor["asked"].get(target) != digest]
    keys = {target: target.partition(":")[2] for target in due}
    busy |= {key.partition("~")[0] for key in busy}  # its shards are made
    named = {name for key in busy for name in key.split("|")}
    free = [target for target, key in keys.items() if not {key, key.partition("|")[0]} & busy]
    # What an earlier tick has requested is in the cursor; a night or a person may have started the others.
    given_up = [
        target for target in free if target not in cursor["asked"] and _has_lost_its_run(context.instance, root, target)
    ]
    targets = [target for target in free if target not in given_up][:MAX_REQUESTS_PER_TICK]
    times = cursor["times"] | {target: cursor["times"].get(target, 0) + 1 for target in targets}
    asked = {target: digest for target, digest in cursor["asked"].items() if target in wanted}
    asked |= {target: wanted[target] for target in (*targets, *given_up)}
    undecided = [name for name, file in registry.system_files.items() if file.is_nightly_undecided]
    left_out = [f"{name} is {not_nightly_hint(name)}" for name in undecided]
    for line in left_out:
        context.log.info(line)
    idle = f"nothing new (benchmarks: {len(registry.benchmarks)}, systems: {len(registry.systems)})"
    return dg.SensorResult(
        run_requests=[_run_request(target, f"{target}@{wanted[target]}#{times[target]}") for target in targets],
        skip_reason=None if targets else "; ".join([idle, *left_out, *(f"skipped: {line}" for line in invalid)]),
        dynamic_partitions_requests=list(
            partition_changes(context.instance, registry.benchmarks, registry.systems, busy=named)
        ),
        asset_events=events,
        cursor=json.dumps({"asked": asked, "times": times, "reported": reported}, sort_keys=True),
    )


def _busy_partitions(instance: dg.DagsterInstance) -> set[str]:
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
    return {run.tags[PARTITION_TAG] for run in runs if PARTITION_TAG in run.tags}


def _has_lost_its_run(instance: dg.DagsterInstance, workspace: "Workspace", target: str) -> bool:
    """Whether the target is a pair whose evaluation is unfinished because its last run failed or was cancelled."""
    from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation

    job, _, key = target.partition(":")
    if job != schedules.evaluate.name:
        return False
    newest = newest_evaluation(workspace, *key.split("|"))
    if newest is None or newest.record.state == "published":
        return False
    runs = instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: key}), limit=1)
    return bool(runs) and runs[0].status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def _run_request(target: str, run_key: str) -> dg.RunRequest:
    job, _, key = target.partition(":")
    benchmark, _, system = key.partition("|")
    partition = pair_key(benchmark, system) if system else benchmark
    return dg.RunRequest(run_key=run_key, job_name=job, partition_key=partition)


@dg.sensor(
    jobs=[convert_shard, schedules.convert],
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Requests the shards of a corpus with more documents than shard_documents, each once, and the rest of "
    "the conversion when all are made. To retry a failed shard, run the conversion again or materialize it.",
)
def corpus_shards_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Make the partitions equal to the shards of the present plans, and request those that are missing, or the merge.

    The cursor holds what was requested of each plan: numbers of shards, and -1 for the merge.
    """
    from rag_eval_pipeline.conversion.shard_plan import PLAN_FILE, ShardPlan, is_current
    from rag_eval_pipeline.storage.lock import is_locked

    root = workspace.workspace
    known = set(context.instance.get_dynamic_partitions(corpus_shard_keys.name or ""))
    busy = _busy_partitions(context.instance)
    earlier = json.loads(context.cursor) if context.cursor else {}
    asked: dict[str, list[int]] = {}
    keys: set[str] = set()
    requests: list[dg.RunRequest] = []
    lines = []
    for name in root.benchmarks():
        paths = root.benchmark(name)
        file = paths.shards / PLAN_FILE
        try:
            plan = ShardPlan.read(file) if file.exists() else None
            if plan is None or not is_current(paths, plan):
                continue
        except (InputError, OSError) as error:  # the other benchmarks go on
            fault = error if isinstance(error, InputError) else os_fault(error)
            lines.append(f"{name}: {fault} Convert it again: rag-eval convert {name}")
            context.log.warning(lines[-1])
            keys |= {key for key in known if key.startswith(f"{name}~")}
            continue
        keys |= {plan.key(number) for number in range(plan.shards)}
        request = plan.request
        asked[request] = earlier.get(request, [])
        missing = plan.missing(paths)
        lines.append(f"{name}: {plan.shards - len(missing)} of {plan.shards} shards are made")
        if name in busy or is_locked(paths.lock):
            continue
        due = [number for number in missing or [MERGE] if number not in asked[request] and plan.key(number) not in busy]
        due = due[: MAX_REQUESTS_PER_TICK - len(requests)]
        asked[request] += due
        requests += [_merge_request(plan, request) if n == MERGE else _shard_request(plan, n) for n in due]
    changes: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if new := sorted(keys - known):
        changes.append(corpus_shard_keys.build_add_request(new))
    if gone := sorted(known - keys - busy):
        changes.append(corpus_shard_keys.build_delete_request(gone))
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else "; ".join(lines) or "no corpus is made in shards",
        dynamic_partitions_requests=changes,
        cursor=json.dumps(asked),
    )


def _shard_request(plan: "ShardPlan", number: int) -> dg.RunRequest:
    key = plan.key(number)
    return dg.RunRequest(run_key=f"{key}#{plan.request}", job_name=convert_shard.name, partition_key=key)


def _merge_request(plan: "ShardPlan", request: str) -> dg.RunRequest:
    config = {"recheck": plan.recheck != "no", "accept": plan.recheck == "accept"}
    return dg.RunRequest(
        run_key=f"merge:{request}",
        job_name=schedules.convert.name,
        partition_key=plan.benchmark,
        asset_selection=[dg.AssetKey(step) for step in CHECKS if step != "questions"],
        run_config={"ops": {"corpus": {"config": config}}},
    )


@dg.sensor(
    job=schedules.aggregate,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Makes leaderboard, verdicts and report when there are new results or baselines and no run is "
    "unfinished; under constant load, once an hour. A failed aggregation is repeated after an hour.",
)
def aggregation_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Request one aggregation when the files differ from those aggregated last and no run is unfinished.

    The cursor holds the mark of the files whose aggregation was requested last, when that was, and since when others
    have been waiting.
    """
    from rag_eval_pipeline.monitoring.baselines import results_mark

    cursor = {"mark": None, "asked": None, "since": None} | (json.loads(context.cursor) if context.cursor else {})
    with as_dagster_failure(context):
        mark = results_mark(workspace.workspace)
    now, asked, run_key = clock.now(), cursor["asked"], f"results-{mark}"
    if mark is not None and mark == cursor["mark"] and asked and _last_aggregation_failed(context.instance):
        if now - datetime.fromisoformat(asked) < AGGREGATION_MAX_WAIT:
            return dg.SensorResult(skip_reason="the last aggregation failed; it is repeated an hour after its request")
        run_key += f"@{asked}"
    elif mark is None or mark == cursor["mark"]:
        return dg.SensorResult(skip_reason="no new results", cursor=json.dumps(cursor | {"since": None}))
    since = datetime.fromisoformat(cursor["since"]) if cursor["since"] else now
    unfinished = context.instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED))
    aggregating = context.instance.get_runs_count(dg.RunsFilter(job_name=schedules.aggregate.name, statuses=UNFINISHED))
    if aggregating or (unfinished and now - since < AGGREGATION_MAX_WAIT):
        reason = f"new results wait: {counted(unfinished, 'run is', 'runs are')} not finished"
        return dg.SensorResult(skip_reason=reason, cursor=json.dumps(cursor | {"since": since.isoformat()}))
    return dg.SensorResult(
        run_requests=[dg.RunRequest(run_key=run_key)],
        cursor=json.dumps({"mark": mark, "asked": now.isoformat(), "since": None}),
    )


@dg.sensor(
    minimum_interval_seconds=3600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Finds once an hour what no run would report, overdue pairs and files that are skipped: evaluates the "
    "checks of `leaderboard` again, and sends one alert for the pairs that have become overdue.",
)
def lateness_sensor(context: dg.SensorEvaluationContext, workspace: WorkspaceResource) -> dg.SensorResult:
    """Evaluate the checks of the workspace, and send one alert for the pairs that are newly late."""
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.alert_files import last_published
    from rag_eval_pipeline.monitoring.alerts import send_late_alerts
    from rag_eval_pipeline.monitoring.history import read_history
    from rag_eval_pipeline.monitoring.regressions import workspace_checks

    root, now = workspace.workspace, clock.now()
    with as_dagster_failure(context):
        history = read_history(root)
        checks = workspace_checks(root, history, now=now)
        sent = send_late_alerts(root, last_published(read_registry(root), history.by_pair), now=now)
    for line in [*(alert.subject for alert in sent.new), *sent.faults]:
        context.log.warning(line)
    return dg.SensorResult(
        skip_reason=" ".join(f"{check.name}: {check_sentence(check)}" for check in checks),
        asset_events=[check_evaluation("leaderboard", check) for check in checks],
    )


def _last_aggregation_failed(instance: dg.DagsterInstance) -> bool:
    """Whether the last aggregation ended without its report; one that a regression blocks has written it."""
    runs = instance.get_runs(dg.RunsFilter(job_name=schedules.aggregate.name), limit=1)
    if not runs or runs[0].status != dg.DagsterRunStatus.FAILURE:
        return False
    report = instance.get_latest_materialization_event(dg.AssetKey("report"))
    return report is None or report.run_id != runs[0].run_id


@dg.sensor(
    job=schedules.evaluate,
    minimum_interval_seconds=300,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Evaluates each flagged pair once more, after two hours or the time set in verdicts.config.yaml; only "
    "confirmed changes alert. A pair whose night is void, because the service was out of order, is asked again an hour "
    "later, three times at most.",
)
def confirmation_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> list[dg.RunRequest] | dg.SkipReason:
    """Request a rerun of each pair whose newest evaluation was flagged or is void."""
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.nightly import due_reruns, void_pairs

    root, now = workspace.workspace, clock.now()
    with as_dagster_failure(context):
        pairs = list(read_registry(root).automatic_pairs())
        due = due_reruns(root, pairs, now=now)
        again = void_pairs(root, pairs, now=now)
    busy = _busy_partitions(context.instance)
    void = [
        dg.RunRequest(
            run_key=f"void:{attempt}",
            partition_key=pair_key(*pair),
            run_config=schedules.NEW_ANSWERS,
            tags={"purpose": "void"},
        )
        for pair, (due_at, attempt) in again.items()
        if due_at <= now and pair_key(*pair) not in busy
    ]
    flagged = [
        dg.RunRequest(
            run_key=f"confirm:{evaluation_id}",
            partition_key=pair_key(benchmark, system),
            run_config=schedules.NEW_ANSWERS,
            tags={"purpose": "confirm", "confirms": evaluation_id},
        )
        for benchmark, system, evaluation_id in due
    ]
    later = [f"{pair_key(*pair)} is void and asked again at {at:%H:%M} UTC" for pair, (at, _) in again.items()]
    return void + flagged or dg.SkipReason("; ".join(["no rerun is due", *later]))


@dg.run_failure_sensor(
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Alerts (alerts.config.yaml) that a run has failed: once a day for the same job, partition and error, "
    "and not for a run that Dagster retries or that someone cancelled.",
)
def run_failure_alerts(context: dg.RunFailureSensorContext, workspace: WorkspaceResource) -> dg.SkipReason | None:
    """Send an alert for a failed run."""
    from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
    from rag_eval_pipeline.monitoring.alerts import send_failure_alert
    from rag_eval_pipeline.monitoring.regressions import NO_REGRESSION

    run = context.dagster_run
    if run.tags.get(WILL_RETRY_TAG) == "true":
        return dg.SkipReason(f"run {run.run_id} is retried by Dagster; an alert is sent if that fails, too")
    error = first_error(context)
    if run.job_name == schedules.aggregate.name and NO_REGRESSION in error:
        return dg.SkipReason("a regression that blocks has had its own alert, on the night it was news")
    now = clock.now()
    with as_dagster_failure(context):
        if not read_alert_settings(workspace.workspace).settings.run_failures:
            return dg.SkipReason("alerts.config.yaml: run_failures is false")
        partition = run.tags.get(PARTITION_TAG)
        if run.job_name == convert_shard.name and partition is not None:
            partition = partition.partition("~")[0]  # one alert for the same error of all its shards
        record = context.instance.get_run_record_by_id(run.run_id)
        began = record.start_time if record is not None else None
        started = now if began is None else datetime.fromtimestamp(began, UTC)
        void, again_at = _void_night(workspace.workspace, run, now)
        sent = send_failure_alert(
            workspace.workspace, job=run_name(run), partition=partition, error=error, started=started, now=now,
            void=void, asked_again_at=again_at,
        )  # fmt: skip
    for fault in sent.faults:
        context.log.warning(fault)
    return None


def _void_night(
    workspace: "Workspace", run: dg.DagsterRun, now: datetime
) -> tuple["EvaluationRecord | None", datetime | None]:
    """Return the evaluation that a failed run has left void, and when it is asked again; None if it is not."""
    from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.nightly import void_pairs

    partition = run.tags.get(PARTITION_TAG)
    if run.job_name != schedules.evaluate.name or partition is None:
        return None, None
    benchmark, _, system = partition.partition("|")
    newest = newest_evaluation(workspace, benchmark, system)
    if newest is None or not newest.record.is_void:
        return None, None
    due = void_pairs(workspace, read_registry(workspace).automatic_pairs(), now=now)
    return newest.record, due.get((benchmark, system), (None,))[0]


def run_name(run: dg.DagsterRun) -> str:
    """Return the job's name, or the assets that someone picked in the UI."""
    if run.job_name != ASSETS_JOB:
        return run.job_name
    return ", ".join(sorted(key.to_user_string() for key in run.asset_selection or ())) or "assets"


def first_error(context: dg.RunFailureSensorContext) -> str:
    """Return the error of the first step that failed, or the run's."""
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
