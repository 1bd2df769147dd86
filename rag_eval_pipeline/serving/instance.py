"""The Dagster instance beside the runs: whose it is, its queue, orphaned runs, old runs."""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from rag_eval_pipeline.defs.execution import UNFINISHED
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import Workspace

DEFAULT_LAUNCHER = "DefaultRunLauncher"
CELERY_LAUNCHER = "CeleryRunLauncher"
WORKSPACE_KEY = "rag_eval_workspace"  # in the instance's storage: the workspace's id and where it was first seen
_DIGITS = 8
# Not those that are starting: run monitoring finds within minutes that they never did.
EXECUTING = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
FINISHED = [status for status in dg.DagsterRunStatus if status not in UNFINISHED]


def claim_instance(workspace: Workspace) -> None:
    """Record in the instance of DAGSTER_HOME that its runs are of this workspace.

    Two workspaces with one instance would share partitions and the states of sensors, and the code server of one would
    fail the runs of the other.

    Raises:
        InputError: `other_workspace`: the instance has another workspace's runs.
    """
    own = _workspace_id(workspace)
    with dg.DagsterInstance.get() as instance:
        known = instance.daemon_cursor_storage.get_cursor_values({WORKSPACE_KEY}).get(WORKSPACE_KEY)
        if known is None:
            instance.daemon_cursor_storage.set_cursor_values({WORKSPACE_KEY: f"{own} {workspace.root}"})
            return
    theirs, _, root = known.partition(" ")
    if theirs != own:
        raise InputError(
            "other_workspace",
            "DAGSTER_HOME",
            f"a Dagster instance of {workspace.root} or a new one",
            found=f"that of {root}",
            hint="Give each workspace its own DAGSTER_HOME, or its own database in Postgres. If this one takes "
            f"the place of the other, write {theirs} into {workspace.identity}.",
        )


def _workspace_id(workspace: Workspace) -> str:
    with contextlib.suppress(FileNotFoundError):
        return workspace.identity.read_text().strip()
    workspace.identity.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(workspace.identity, f"{uuid.uuid4()}\n".encode())
    return workspace.identity.read_text().strip()


def is_launched_by_celery() -> bool:
    """Return whether the runs of the instance are tasks of Celery workers."""
    with dg.DagsterInstance.get() as instance:
        return CELERY_LAUNCHER in (base.__name__ for base in type(instance.run_launcher).__mro__)


def run_queue(renderer_queue: str) -> str:
    """Return the name of the queue for an instance's runs on machines with one browser and fonts.

    It carries the instance: a worker looks for a run in its own instance, so that a run of another one, which may
    share the broker, would never begin.

    Args:
        renderer_queue: `Worker.queue`.
    """
    with dg.DagsterInstance.get() as instance:
        identity = instance.run_storage.get_run_storage_id()  # type: ignore[attr-defined]  # of all SQL storages
        return f"{renderer_queue}-{identity[:_DIGITS]}"


def forget_ticks_ahead() -> None:
    """Date what a clock that has been set back recorded of sensors and schedules as of now.

    Dagster evaluates none of them until its clock has reached their last tick. This is right only before the daemon
    starts, which keeps the times in memory.
    """
    latest = datetime.now(UTC).timestamp()  # Dagster's clock, whatever RAG_EVAL_NOW says
    with dg.DagsterInstance.get() as instance:
        for state in instance.all_instigator_state():
            data: Any = state.instigator_data  # a named tuple of sensors or of schedules
            times = data._asdict() if data is not None else {}
            ahead = [name for name, at in times.items() if name.endswith("_timestamp") and at and at > latest]
            if ahead:
                instance.update_instigator_state(state.with_data(data._replace(**dict.fromkeys(ahead, latest))))
            for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, after=latest):
                instance.update_tick(tick._replace(tick_data=tick.tick_data._replace(timestamp=latest)))


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
