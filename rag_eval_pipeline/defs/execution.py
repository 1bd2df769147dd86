"""Errors of assets as one line, progress in their log, and which runs are unfinished."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import dagster as dg

from rag_eval_pipeline.errors import InputError, ServiceError, os_fault
from rag_eval_pipeline.storage.lock import working_run

LOG_INTERVAL_S = 5.0
Progress = Callable[[str, int, int], None]
_listener: ContextVar[Progress | None] = ContextVar("progress_listener", default=None)
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@contextmanager
def as_dagster_failure(context: Any, *, unless: str | None = None) -> Iterator[None]:
    """Convert our errors to a `dg.Failure` of one line; bad input, which would fail again, is not retried.

    Args:
        unless: The code of an InputError that is left as it is.
    """
    op = getattr(context, "op_execution_context", context)
    token = working_run.set(op.run_id if isinstance(op, dg.OpExecutionContext) else None)
    try:
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


@contextmanager
def listen_to_progress(listener: Progress) -> Iterator[None]:
    """Call `listener(subject, done, total)` for all progress of the runs that are executed in this block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def progress_log(context: dg.AssetExecutionContext | dg.OpExecutionContext, subject: str) -> Callable[[int, int], None]:
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
