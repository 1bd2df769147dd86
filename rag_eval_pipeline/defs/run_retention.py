"""Dagster's own runs, with their events and logs, removed after some time.

Dagster itself keeps them for ever, and `DagsterInstance.delete_run` takes a run's materializations and checks with it.
A partition whose newest ones went would be shown as missing, and a backfill of what is missing would make it again. So
a run stays that made the newest materialization of any partition, and so does one that is not finished.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg

from rag_eval_pipeline.defs.progress import UNFINISHED

FINISHED = [status for status in dg.DagsterRunStatus if status not in UNFINISHED]


def prune_instance(home: Path, *, days: int, now: datetime, dry_run: bool = False) -> list[str]:
    """Removes the old runs of the instance in a DAGSTER_HOME; see `prune_runs`."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return prune_runs(instance, days=days, now=now, dry_run=dry_run)


def prune_runs(instance: dg.DagsterInstance, *, days: int, now: datetime, dry_run: bool = False) -> list[str]:
    """Removes finished runs that are older than some days.

    Args:
        instance: Where the runs are.
        days: Since a run was made.
        now: Aware.
        dry_run: Say which only.

    Returns:
        The ids of the runs, newest first.
    """
    wanted = dg.RunsFilter(statuses=FINISHED, created_before=now - timedelta(days=days))
    old = [record.dagster_run.run_id for record in instance.get_run_records(wanted)]
    if not old:
        return []
    kept = set(_newest(instance))
    old = [run_id for run_id in old if run_id not in kept]
    if not dry_run:
        for run_id in old:
            instance.delete_run(run_id)
            instance.compute_log_manager.delete_logs(prefix=[run_id])
    return old


def _newest(instance: dg.DagsterInstance) -> Iterator[str]:
    """The runs that made the newest materialization of each asset and of each of its partitions."""
    for key in instance.get_asset_keys():
        filters = [dg.AssetRecordsFilter(key)]
        filters += [
            dg.AssetRecordsFilter(key, asset_partitions=[one]) for one in instance.get_materialized_partitions(key)
        ]
        for wanted in filters:
            for record in instance.fetch_materializations(wanted, limit=1).records:
                yield record.run_id
