"""The jobs of assets, and when they run: recheck of pages, nightly evaluation, weekly results."""

import dagster as dg

from rag_eval_pipeline.defs.execution import as_dagster_failure
from rag_eval_pipeline.defs.partitions import add_missing_partitions, pair_key
from rag_eval_pipeline.defs.resources import WorkspaceResource

# Nightly runs and reruns ask every question, even if a metric has changed and old answers must be scored with it.
NEW_ANSWERS = {"ops": {"responses": {"config": {"new_answers": True}}}}

convert = dg.define_asset_job(
    "convert", selection=dg.AssetSelection.groups("conversion"), description="One benchmark's corpus and datasets."
)
evaluate = dg.define_asset_job(
    "evaluate", selection=dg.AssetSelection.groups("evaluation"), description="One system on one benchmark."
)
aggregate = dg.define_asset_job(
    "aggregate",
    selection=dg.AssetSelection.assets("leaderboard", "regressions", "report"),
    description="Leaderboard, verdicts, report.",
    tags={"dagster/priority": "1"},  # it takes seconds, and would otherwise wait behind a backfill
)
week = dg.define_asset_job(
    "week",
    selection=dg.AssetSelection.assets("weekly_results", "benchmark_files"),
    description="The mean of seven nights.",
)


@dg.schedule(
    job=convert,
    cron_schedule="0 1 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Fetches the pages of every converted benchmark with recheck: nightly again, and reports what has "
    "changed.",
)
def recheck(context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest] | dg.SkipReason:
    """At 01:00 UTC, request a conversion with recheck of each benchmark that asks for it."""
    from rag_eval_pipeline.conversion.benchmark_spec import read_spec
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry

    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    root = workspace.workspace
    with as_dagster_failure(context):
        registry = read_registry(root)
        wanted = [name for name in registry.stamps if read_spec(root.benchmark(name)).recheck == "nightly"]
    add_missing_partitions(context.instance, registry.benchmarks, registry.systems)
    # Where nothing has changed, nothing is rendered and no evaluation is requested.
    config = {"ops": {"corpus": {"config": {"recheck": True}}}}
    return [
        dg.RunRequest(run_key=f"{night}:recheck:{name}", partition_key=name, run_config=config, tags={"night": night})
        for name in wanted
    ] or dg.SkipReason("no converted benchmark has recheck: nightly")


@dg.schedule(
    job=evaluate,
    cron_schedule="0 2 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Evaluates every converted benchmark with every nightly system. If the daemon was down, only the most "
    "recent missed run is caught up.",
)
def nightly(context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource) -> list[dg.RunRequest] | dg.SkipReason:
    """At 02:00 UTC, request one run for each converted benchmark and nightly system."""
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry

    night = f"{context.scheduled_execution_time:%Y-%m-%d}"
    with as_dagster_failure(context):
        registry = read_registry(workspace.workspace)
    for fault in (*registry.unreadable.values(), *registry.faults.values()):
        context.log.warning(fault)
    add_missing_partitions(context.instance, registry.benchmarks, registry.systems)
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
    description="Summarises the week that ended on Sunday, and writes the four files of data/benchmarks.",
)
def weekly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """On Mondays at 03:00 UTC, request the week that ended on Sunday."""
    day = f"{context.scheduled_execution_time:%Y-%m-%d}"
    config = {"ops": {"weekly_results": {"config": {"monday": day}}}}
    return dg.RunRequest(run_key=f"week:{day}", run_config=config, tags={"week": day})
