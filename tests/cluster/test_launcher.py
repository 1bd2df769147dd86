"""When the launcher regards the machine of a run as dead; without a broker, whose replies are made here."""

from typing import Any

import dagster as dg
import pytest
from dagster._core.code_pointer import CodePointer
from dagster._core.launcher import WorkerStatus
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster_celery.tags import DAGSTER_CELERY_QUEUE_TAG, DAGSTER_CELERY_TASK_ID_TAG

from rag_eval_pipeline.celery import launcher as module
from rag_eval_pipeline.celery.launcher import MISSES, RECONNECTION_CHECKS, HealthyCeleryRunLauncher

HERE = {"celery@m1": ["task"]}
GONE: dict[str, list[str]] = {}  # nobody replies
IDLE = {"celery@m1": []}
ELSEWHERE = {"celery@m1": [], "celery@m2": ["task"]}
STARTED = ("STARTED", {"hostname": "celery@m1"})
PENDING = ("PENDING", None)
CODE = CodePointer.from_module("rag_eval_pipeline.definitions", "defs", None)


class Celery:
    """What the launcher uses of an app: results and the workers' replies, both of which a test sets."""

    def __init__(self) -> None:
        self.backend: tuple[str, Any] = STARTED
        self.workers: dict[str, list[str]] = HERE
        self.is_down = False
        self.asked: list[list[str] | None] = []
        self.control = self

    def AsyncResult(self, task: str) -> "Celery":
        if self.is_down:
            raise ConnectionError("Redis is down")
        return self

    @property
    def state(self) -> str:
        return self.backend[0]

    @property
    def info(self) -> Any:
        return self.backend[1]

    def inspect(self, *, destination: list[str] | None, timeout: float) -> "Celery":
        self.asked.append(destination)
        return self

    def active(self) -> dict[str, list[dict[str, str]]] | None:
        asked = self.asked[-1]
        replies = {name: tasks for name, tasks in self.workers.items() if asked is None or name in asked}
        return {name: [{"id": task} for task in tasks] for name, tasks in replies.items()} or None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def launcher() -> HealthyCeleryRunLauncher:
    made = HealthyCeleryRunLauncher(default_queue="rag-eval", broker="memory://", backend="cache+memory://")
    made.celery = Celery()
    return made


def run_of(task: str | None = "task") -> dg.DagsterRun:
    return dg.DagsterRun(job_name="evaluate", tags={} if task is None else {DAGSTER_CELERY_TASK_ID_TAG: task})


@pytest.mark.parametrize(
    ("backend", "workers", "expected", "message"),
    [
        pytest.param(STARTED, HERE, WorkerStatus.RUNNING, None, id="its worker has the run"),
        pytest.param(
            STARTED, GONE, WorkerStatus.FAILED, "The worker celery@m1 did not reply 3 times in a row.", id="machine died"
        ),
        pytest.param(
            STARTED, IDLE, WorkerStatus.FAILED, "The worker celery@m1 no longer has the run.", id="worker was restarted"
        ),
        pytest.param(PENDING, ELSEWHERE, WorkerStatus.RUNNING, None, id="backend was emptied, a worker has the run"),
        pytest.param(
            PENDING, IDLE, WorkerStatus.FAILED, "No worker has the run, and Celery does not know its task.",
            id="backend was emptied, no worker has the run",
        ),
        pytest.param(("SUCCESS", 0), GONE, WorkerStatus.SUCCESS, None, id="task ended, its machine too"),
        pytest.param(("FAILURE", OSError()), HERE, WorkerStatus.FAILED, "Celery task failed.", id="child was killed"),
        pytest.param(("REVOKED", OSError()), HERE, WorkerStatus.RUNNING, None, id="revoked, still ending"),
    ],
)  # fmt: skip
def test_health_after_three_checks(launcher, clock, backend, workers, expected, message):
    launcher.celery.backend, launcher.celery.workers = backend, workers

    for _ in range(MISSES - 1):
        early = launcher.check_run_worker_health(run_of())
        clock[0] += 5
    health = launcher.check_run_worker_health(run_of())

    assert (health.status, health.msg) == (expected, message)
    assert early.status == (expected if backend[0] in ("SUCCESS", "FAILURE") else WorkerStatus.RUNNING)


def test_health_of_a_worker_that_replies_again_counts_from_the_beginning(launcher, clock):
    for workers in (GONE, GONE, HERE, GONE, GONE):
        launcher.celery.workers = workers
        assert launcher.check_run_worker_health(run_of()).status == WorkerStatus.RUNNING
        clock[0] += 5

    assert launcher.check_run_worker_health(run_of()).status == WorkerStatus.FAILED


def test_health_gives_workers_time_to_find_their_broker_again(launcher, clock):
    launcher.celery.is_down = True
    with pytest.raises(ConnectionError):
        launcher.check_run_worker_health(run_of())
    launcher.celery.is_down, launcher.celery.workers = False, GONE

    found = []
    for _ in range(RECONNECTION_CHECKS + MISSES):
        clock[0] += 5
        found.append(launcher.check_run_worker_health(run_of()).status)

    assert found == [WorkerStatus.RUNNING] * (len(found) - 1) + [WorkerStatus.FAILED]


def test_health_asks_a_worker_once_for_all_its_runs(launcher, clock):
    launcher.celery.workers = {"celery@m1": ["task", "other"]}

    for task in ("task", "other", "task"):
        launcher.check_run_worker_health(run_of(task))
    clock[0] += 5
    launcher.check_run_worker_health(run_of())

    assert launcher.celery.asked == [["celery@m1"], ["celery@m1"]]


def test_health_of_a_run_whose_task_was_not_recorded(launcher):
    assert launcher.check_run_worker_health(run_of(None)).status == WorkerStatus.UNKNOWN


@pytest.mark.parametrize(
    ("context", "tags", "expected"),
    [
        pytest.param({"celery": {"queue": "rag-eval-1-abc"}}, {}, "rag-eval-1-abc", id="that of the code location"),
        pytest.param(None, {}, "rag-eval", id="the default, where the code location names none"),
        pytest.param(
            {"celery": {"queue": "rag-eval-1-abc"}}, {DAGSTER_CELERY_QUEUE_TAG: "mine"}, "mine", id="the tag of a run"
        ),
    ],
)
def test_queue_of_a_run(launcher, context, tags, expected):
    sent: dict[str, Any] = {}

    class Task:
        task_id = "task"

        def apply_async(self, **options: Any) -> "Task":
            sent.update(options)
            return self

    origin = JobPythonOrigin("evaluate", RepositoryPythonOrigin("python", CODE, container_context=context))
    run = dg.DagsterRun(job_name="evaluate", job_code_origin=origin, tags=tags)
    with dg.DagsterInstance.ephemeral() as instance:
        launcher.register_instance(instance)
        instance.add_run(run)
        launcher._launch_celery_task_run(run=run, task_signature=Task(), routing_key="execute_job")
        recorded = instance.get_run_by_id(run.run_id).tags

    assert (sent["queue"], sent["routing_key"]) == (expected, f"{expected}.execute_job")
    assert recorded == {**tags, DAGSTER_CELERY_TASK_ID_TAG: "task"}  # no queue: a retry may be another image's
