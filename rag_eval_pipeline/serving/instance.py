"""The Dagster instance beside the runs: fail orphaned runs, delete old ones."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg

from rag_eval_pipeline.defs.execution import UNFINISHED

DEFAULT_LAUNCHER = "DefaultRunLauncher"
# Not those that are starting: run monitoring finds within minutes that they never did.
EXECUTING = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
FINISHED = [status for status in dg.DagsterRunStatus if status not in UNFINISHED]


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
    for key in instance.get_asset_keys():
        filters = [dg.AssetRecordsFilter(key)]
        filters += [
            dg.AssetRecordsFilter(key, asset_partitions=[one]) for one in instance.get_materialized_partitions(key)
        ]
        for wanted in filters:
            for record in instance.fetch_materializations(wanted, limit=1).records:
                yield record.run_id
