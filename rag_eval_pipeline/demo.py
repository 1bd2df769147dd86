"""`make demo`: the bundled benchmarks through Dagster, in this process, on the instance that the UI will show."""

import sys

import dagster as dg
from rich.console import Console

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.registry import read_registry
from rag_eval_pipeline.reporting.leaderboard import leaderboard_table, read_leaderboard
from rag_eval_pipeline.reporting.regressions import verdict_lines

# The event log keeps everything; on the terminal a line a run is enough.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Convert, evaluate and aggregate everything in the workspace; return 1 when a run failed."""
    workspace = WorkspaceResource().workspace
    with dg.DagsterInstance.get() as instance:
        registry = read_registry(workspace)
        instance.add_dynamic_partitions(benchmarks.name or "", list(registry.benchmarks))
        instance.add_dynamic_partitions(systems.name or "", list(registry.systems))
        for fault in registry.faults:
            console.print(fault, style="red")
        ok = [_run(defs, instance, "convert", name) for name in registry.benchmarks]
        pairs = list(read_registry(workspace).automatic_pairs())
        ok += [_run(defs, instance, "evaluate", pair_key(*pair)) for pair in pairs]
        ok.append(_run(defs, instance, "aggregate", None))
    console.print()
    console.print(leaderboard_table(read_leaderboard(workspace)))
    for line in verdict_lines(workspace):
        console.print(line)
    console.print(f"\nReport: {workspace.reports / 'index.html'}\nThe same in the Dagster UI: make up")
    return 0 if all(ok) else 1


def _run(defs: dg.Definitions, instance: dg.DagsterInstance, job: str, partition: str | None) -> bool:
    """Execute one run, and print its counts or its error."""
    what = f"{job} {partition}" if partition else job
    with console.status(f"{what} ..."):
        result = defs.resolve_job_def(job).execute_in_process(
            instance=instance, partition_key=partition, run_config=QUIET, raise_on_error=False
        )
    if result.success:
        console.print(f"[green]done[/] {what}: {_counts(result)}")
        return True
    for event in result.get_step_failure_events():
        cause = event.step_failure_data.user_failure_data
        error = event.step_failure_data.error
        while error is not None and error.cause is not None:
            error = error.cause
        text = (cause.description if cause else None) or (error.message if error else "failed")
        console.print(f"[red]failed[/] {what}, {event.step_key}: ", end="")
        console.print(text.strip(), markup=False)
    return False


def _counts(result: dg.ExecuteInProcessResult) -> str:
    shown = [
        "accepted", "quarantined", "files", "new_or_changed", "gold_texts_located", "questions", "asked", "reused",
        "f1",
    ]  # fmt: skip
    found: dict[str, str] = {}
    for event in result.get_asset_materialization_events():
        for name, value in event.materialization.metadata.items():
            if name in shown and isinstance(value, dg.FloatMetadataValue) and value.value is not None:
                found[name] = f"{value.value:g}" if value.value.is_integer() else f"{value.value:.3f}"
    return ", ".join(f"{name.replace('_', ' ')} {found[name]}" for name in shown if name in found) or "up to date"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"rag-eval: {error}")
