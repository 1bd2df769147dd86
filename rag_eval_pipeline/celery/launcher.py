"""The run launcher of deploy/celery: Dagster's for Celery, with a health check that asks the workers."""

import time
from collections import Counter
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus  # what the base class returns
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_QUEUE_TAG, DAGSTER_CELERY_TASK_ID_TAG

MISSES = 3  # checks in a row without the run's worker, until the run counts as lost
REPLY_SECONDS = 3.0  # for a worker's reply
SHARED_SECONDS = 4.0  # a reply serves all runs of a round of checks; rounds are at least 5 s apart
# A worker that has lost its broker tries again at growing intervals of up to 30 s: so many checks more for it.
RECONNECTION_CHECKS = 8


class _Reply(NamedTuple):
    at: float  # monotonic
    tasks: dict[str, set[str]]  # worker -> the tasks that it works on; no entry for one that did not reply


class HealthyCeleryRunLauncher(CeleryRunLauncher):  # type: ignore[misc]  # the package has no types
    """Dagster's launcher for Celery, which also notices that the machine of a run has died.

    Celery's result backend keeps saying STARTED about a task that was killed together with its worker, and Dagster's
    own launcher believes it: the run would hold its system's slot until `max_runtime_seconds`. If the backend was
    emptied, it knows no task, and the launcher would regard a living run as lost. This one asks the workers which
    tasks they work on. A run is lost if that was missing three times in a row, which takes 24 s at most when
    `poll_interval_seconds` is 5. Errors of the broker are Dagster's to log, and say nothing about a worker.

    It also sends a run to the queue that the code location names, that of workers with the same browser and fonts, and
    cancels runs as Dagster's other launchers do.

    Remove the health check once https://github.com/dagster-io/dagster/pull/33493 is released.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._misses: Counter[str] = Counter()  # by task
        self._replies: dict[str | None, _Reply] = {}  # by the worker that was asked; None for all of them

    def _launch_celery_task_run(self, run: dg.DagsterRun, task_signature: Any, routing_key: str) -> None:
        origin = run.job_code_origin.repository_origin if run.job_code_origin else None
        context = (origin.container_context if origin else None) or {}
        queue = context.get("celery", {}).get("queue", self.default_queue)
        # The tag is for this call only: a retry copies the run's tags, and by then another image may be deployed.
        run = run.with_tags({DAGSTER_CELERY_QUEUE_TAG: queue, **run.tags})
        super()._launch_celery_task_run(run=run, task_signature=task_signature, routing_key=routing_key)

    def terminate(self, run_id: str) -> bool:
        """Cancel a run. Its status says so before its process is told, else it counts as failed and is retried."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        return DAGSTER_CELERY_TASK_ID_TAG in run.tags and bool(super().terminate(run_id))

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return what the backend says about a started run, if its worker agrees."""
        task = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG)
        if task is None:  # the daemon ended between sending the task and recording its id
            return CheckRunHealthResult(WorkerStatus.UNKNOWN, "The run has no Celery task.")
        try:
            known: CheckRunHealthResult = super().check_run_worker_health(run)
            if known.status in (WorkerStatus.SUCCESS, WorkerStatus.FAILED):
                del self._misses[task]
                return known
            info = self.celery.AsyncResult(task).info
            # If the backend knows nothing of the task, any worker may have it.
            worker = info.get("hostname") if isinstance(info, dict) else None
            reply = self._ask(worker)
        except Exception:
            self._misses[task] = -RECONNECTION_CHECKS
            raise
        if any(task in tasks for tasks in reply.tasks.values()):
            del self._misses[task]
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        self._misses[task] += 1
        if self._misses[task] < MISSES:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        del self._misses[task]
        if worker is None:
            lost = "No worker has the run, and Celery does not know its task."
        elif worker in reply.tasks:
            lost = f"The worker {worker} no longer has the run."
        else:
            lost = f"The worker {worker} did not reply {MISSES} times in a row."
        return CheckRunHealthResult(WorkerStatus.FAILED, lost)

    def _ask(self, worker: str | None) -> _Reply:
        """Return the tasks of one worker, or of all workers, asked at most once in a round of checks."""
        now = time.monotonic()
        reply = self._replies.get(worker)
        if reply is None or now - reply.at >= SHARED_SECONDS:
            self._replies = {asked: kept for asked, kept in self._replies.items() if now - kept.at < SHARED_SECONDS}
            inspect = self.celery.control.inspect(destination=worker and [worker], timeout=REPLY_SECONDS)
            active = inspect.active() or {}
            reply = _Reply(time.monotonic(), {name: {task["id"] for task in tasks} for name, tasks in active.items()})
            self._replies[worker] = reply
        return reply
