"""The Dagster instance beside the runs: report what was done without Dagster, fail orphaned runs, delete old ones."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from rag_eval_pipeline.conversion.steps import STEPS
from rag_eval_pipeline.defs.execution import UNFINISHED
from rag_eval_pipeline.defs.metadata import labelled
from rag_eval_pipeline.defs.partitions import benchmarks, corpus_shard_keys, pair_key, systems
from rag_eval_pipeline.evaluation.evaluation_folders import PARTS, all_published
from rag_eval_pipeline.workspace import Workspace

CORPUS_SHARDS = dg.AssetKey("corpus_shards")
DEFAULT_LAUNCHER = "DefaultRunLauncher"
# Not those that are starting: run monitoring finds within minutes that they never did.
EXECUTING = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
FINISHED = [status for status in dg.DagsterRunStatus if status not in UNFINISHED]


def report_materializations(
    home: Path,
    assets: Sequence[str],
    *,
    benchmark: str | None = None,
    system: str | None = None,
    metadata: Mapping[str, Any],
) -> None:
    """Report assets that `rag-eval` made, so that the UI does not show their partition as missing.

    Args:
        assets: Keys, each after those that it is made from.
        benchmark: None for assets without partitions.
    """
    with dg.DagsterInstance.from_config(str(home)) as instance:
        _report(instance, assets, benchmark, system, metadata)


def report_existing(home: Path, workspace: Workspace) -> None:
    """Report conversions and evaluations that were made before the instance was, so that nobody asks for them again."""
    made: list[tuple[Sequence[str], str, str | None, dict[str, Any]]] = [
        (tuple(STEPS), name, None, {}) for name in workspace.benchmarks() if workspace.benchmark(name).stamp.exists()
    ]
    systems_there = set(workspace.systems())
    for (benchmark, system), evaluations in all_published(workspace).items():
        if workspace.benchmark(benchmark).stamp.exists() and system in systems_there:
            made.append((PARTS, benchmark, system, {"evaluation_id": evaluations[-1].record.evaluation_id}))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        known = {asset: instance.get_materialized_partitions(dg.AssetKey(asset)) for asset in (*STEPS, *PARTS)}
        for assets, name, of_system, metadata in made:
            partition = str(_partition(name, of_system))
            missing = [asset for asset in assets if partition not in known[asset]]
            if missing:
                _report(instance, missing, name, of_system, metadata)


def _partition(benchmark: str, system: str | None) -> str | dg.MultiPartitionKey:
    return benchmark if system is None else pair_key(benchmark, system)


def _report(
    instance: dg.DagsterInstance,
    assets: Sequence[str],
    benchmark: str | None,
    system: str | None,
    metadata: Mapping[str, Any],
) -> None:
    partition = None if benchmark is None else _partition(benchmark, system)
    texts = {name: value for name, value in metadata.items() if isinstance(value, str)}
    values = labelled({name: value for name, value in metadata.items() if not isinstance(value, str)})
    for definition, name in ((benchmarks, benchmark), (systems, system)):
        if name is not None:
            instance.add_dynamic_partitions(definition.name or "", [name])
    for asset in assets:
        event = dg.AssetMaterialization(asset, partition=partition, metadata={**texts, **values})
        instance.report_runless_asset_event(event)


def find_orphaned_runs() -> list[str]:
    """Return the ids of the runs of a server that is gone.

    Otherwise Dagster takes them for running until `max_runtime_seconds`. This is right only before the server starts,
    and where runs are processes below the instance's one code server, as with Dagster's default launcher.
    """
    with dg.DagsterInstance.get() as instance:
        if type(instance.run_launcher).__name__ != DEFAULT_LAUNCHER:
            return []
        return [run.run_id for run in instance.get_runs(filters=dg.RunsFilter(statuses=EXECUTING))]


def fail_runs(run_ids: Sequence[str], reason: str) -> None:
    """Mark orphaned runs as failed, so that Dagster retries them; those that have ended meanwhile stay as they are.

    Dagster tries this once, and needs the code location: not before its server answers, if a daemon may be running.
    """
    with dg.DagsterInstance.get() as instance:
        for run in instance.get_runs(filters=dg.RunsFilter(run_ids=run_ids, statuses=EXECUTING)) if run_ids else ():
            instance.report_run_failed(run, reason)


def prune_instance(home: Path, *, days: int, now: datetime, dry_run: bool = False) -> list[str]:
    """Delete the old runs of the instance in a DAGSTER_HOME; see `prune_runs`."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return prune_runs(instance, days=days, now=now, dry_run=dry_run)


def prune_runs(instance: dg.DagsterInstance, *, days: int, now: datetime, dry_run: bool = False) -> list[str]:
    """Delete finished runs that are older than `days`, with their events and logs; return their ids, newest first.

    A run with the newest materialization of any partition stays, or the partition would be shown as missing.
    """
    wanted = dg.RunsFilter(statuses=FINISHED, created_before=now - timedelta(days=days))
    old = [record.dagster_run.run_id for record in instance.get_run_records(wanted)]
    if not old:
        return []
    kept = set(_runs_of_newest_materializations(instance))
    old = [run_id for run_id in old if run_id not in kept]
    if not dry_run:
        for run_id in old:
            instance.delete_run(run_id)
            instance.compute_log_manager.delete_logs(prefix=[run_id])
    return old


def _runs_of_newest_materializations(instance: dg.DagsterInstance) -> Iterator[str]:
    shards = set(instance.get_dynamic_partitions(corpus_shard_keys.name or ""))
    for key in instance.get_asset_keys():
        partitions = instance.get_materialized_partitions(key)
        if key == CORPUS_SHARDS:
            partitions &= shards  # those that were merged are shown no more
        filters = [dg.AssetRecordsFilter(key)]
        filters += [dg.AssetRecordsFilter(key, asset_partitions=[one]) for one in partitions]
        for wanted in filters:
            for record in instance.fetch_materializations(wanted, limit=1).records:
                yield record.run_id
