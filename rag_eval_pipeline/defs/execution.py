"""Errors of assets as one line, progress in their log, and which runs are unfinished."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import dagster as dg

from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.errors import InputError, ServiceError, os_fault
from rag_eval_pipeline.storage.lock import working_run
from rag_eval_pipeline.storage.session import working_on
from rag_eval_pipeline.workspace import STORE_VARIABLE

LOG_INTERVAL_S = 5.0
Progress = Callable[[str, int, int], None]
_listener: ContextVar[Progress | None] = ContextVar("progress_listener", default=None)
SCOPE_OF = {"shard": "shard", "system": "evaluate", "benchmark": "convert"}  # by what the partition names
_steps_begun: dict[str, set[str]] = {}  # by run of this process
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@contextmanager
def as_dagster_failure(
    context: Any, workspace: WorkspaceResource, scope: str | None = None, *, unless: str | None = None
) -> Iterator[None]:
    """Convert our errors to a `dg.Failure` of one line; bad input, which would fail again, is not retried.

    Where the workspace is in an object store, it is fetched before the block and put after it.

    Args:
        context: Dagster's, of an asset, an op, a check, a sensor or a schedule.
        scope: One of `session.SCOPES`; by default that of the asset's partition, of all results, or of a tick.
        unless: The code of an InputError that is left as it is.
    """
    op = getattr(context, "op_execution_context", context)
    token = working_run.set(op.run_id if isinstance(op, dg.OpExecutionContext) else None)
    try:
        with _fetched(context, workspace.workspace.root, scope):
            yield
    except InputError as error:
        if error.code == unless:
            raise
        raise dg.Failure(str(error), allow_retries=False) from None
    except ServiceError as error:
        raise dg.Failure(str(error)) from None
    except OSError as error:
        raise dg.Failure(str(os_fault(error))) from None
    finally:
        working_run.reset(token)


def _fetched(context: Any, root: Path, scope: str | None) -> AbstractContextManager[None]:
    op = getattr(context, "op_execution_context", context)
    if not isinstance(op, dg.OpExecutionContext) or STORE_VARIABLE not in os.environ:
        return working_on(root, scope or "tick")
    run = op.run
    begun = _steps_begun.setdefault(run.run_id, set())
    begun.add(op.get_step_execution_context().step.key)
    steps = set(run.step_keys_to_execute or (node.name for node in op.job_def.nodes))
    names: dict[str, str] = {}
    if op.has_partition_key:
        key = op.partition_key
        benchmark, is_shard, _ = key.partition("~")
        names = dict(key.keys_by_dimension) if isinstance(key, dg.MultiPartitionKey) else {"benchmark": benchmark}
        if is_shard:
            names["shard"] = key
    kind = next((kind for name, kind in SCOPE_OF.items() if name in names), "aggregate")
    return working_on(root, scope or kind, *([names] if names else []), run=run.run_id, is_last=steps <= begun)


@contextmanager
def listen_to_progress(listener: Progress) -> Iterator[None]:
    """Call `listener(subject, done, total)` for all progress of the runs that are executed in this block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def progress_log(context: dg.AssetExecutionContext, subject: str) -> Callable[[int, int], None]:
    """Return a callback `(done, total)` that logs the rate and the time remaining every few seconds."""
    listener = _listener.get()
    started = logged = time.monotonic()
    resumed_from: int | None = None  # what an earlier run had finished does not count towards this run's rate

    def report(done: int, total: int) -> None:
        nonlocal logged, resumed_from
        now = time.monotonic()
        if listener is not None:
            listener(subject, done, total)
        resumed_from = done - 1 if resumed_from is None else resumed_from
        if done < total and now - logged < LOG_INTERVAL_S:
            return
        logged = now
        rate = (done - resumed_from) / (now - started) if now > started else 0.0
        remaining = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        context.log.info(f"{subject}: {done} of {total}, {rate:.1f}/s{remaining}")

    return report
