"""Kills through Dagster: a run, its code server, everything at once; two runs of one pair; a run whose system goes.

One deployment with the shipped settings serves all tests. The system under test holds back one answer, so that what is
done to a run is done at the same question each time.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import dagster as dg
import psutil
import pytest

from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.runs import Evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.storage import read_responses
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.storage.journal import read_journal
from rag_eval_pipeline.workspace import Workspace
from tests.deployment.services import LOCATION, PATIENCE_SECONDS, Services, retry_of, run_worker
from tests.paid_server import PaidServer, paid_server, set_system

pytestmark = [pytest.mark.ui, pytest.mark.long]

RAILWAY = "skarn-railway"  # 40 questions
QUESTIONS = [str(number) for number in range(40)]
MIDWAY = 20  # the question whose answer is held back
LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
    ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = """mutation ($run: String!) { terminateRun(runId: $run) {
    __typename ... on PythonError { message } ... on TerminateRunFailure { message } } }"""
SUCCESS, FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE


class Deployment(NamedTuple):
    """Services on a workspace with one system, and the results of an evaluation that nothing disturbed."""

    services: Services
    instance: dg.DagsterInstance
    workspace: Workspace
    server: PaidServer
    undisturbed: EvaluationResults

    def launch(self, job: str = "evaluate") -> str:
        """Launch a run as the UI does."""
        tags, config = {}, {}
        if job == "evaluate":
            tags = {"dagster/partition": f"{RAILWAY}|paid"}
            tags |= {"dagster/partition/benchmark": RAILWAY, "dagster/partition/system": "paid"}
            config = {"ops": {"responses": {"config": {"new_answers": True}}}}
        params: dict[str, Any] = {
            "selector": {**LOCATION, "pipelineName": job}, "runConfigData": config, "mode": "default",
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }  # fmt: skip
        return str(self.services.ask(LAUNCH, params=params)["run"]["runId"])

    @contextmanager
    def midway(self) -> Iterator[str]:
        """Launch an evaluation, and yield the run's id while an answer is awaited."""
        reached, go = Event(), Event()
        self.server.asked.clear()
        self.server.before[MIDWAY] = lambda: (reached.set(), go.wait(PATIENCE_SECONDS))
        run_id = self.launch()
        try:
            self.services.wait("the question", reached.is_set)
            yield run_id
        finally:
            go.set()

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        return self.instance.get_run_by_id(run_id).status

    def wait_ended(self, run_id: str) -> dg.DagsterRunStatus:
        self.services.wait(f"the end of {run_id}", lambda: self.instance.get_run_by_id(run_id).is_finished)
        return self.status(run_id)

    def wait_retried(self, run_id: str) -> str:
        """Return the run that was made in place of one that failed, at its end."""
        retry = self.services.wait(f"a retry of {run_id}", lambda: retry_of(self.instance, run_id))
        assert self.wait_ended(retry.run_id) == SUCCESS
        return str(retry.run_id)

    def seconds_to_failure(self, run_id: str, since: float) -> float:
        return float(self.instance.get_run_record_by_id(run_id).end_time - since)

    def events(self, run_id: str) -> str:
        return "\n".join(f"{entry.message} {entry.dagster_event}" for entry in self.instance.all_logs(run_id))

    def newest(self) -> Evaluation:
        return newest_evaluation(self.workspace, RAILWAY, "paid")

    def check_resumed(self) -> None:
        """Check that the newest evaluation has each answer once, and the products of the undisturbed one."""
        evaluation = self.newest()
        assert query_ids(evaluation) == QUESTIONS
        asked = self.server.asked
        assert sorted(asked.values()) == [*[1] * 39, 2]  # the one that was in flight
        results = EvaluationResults.read(self.workspace.results / f"{evaluation.folder.name}.results.json")
        for part in ("fingerprints", "retrieval_metrics", "citation_metrics", "answer_quality_metrics"):
            assert getattr(results, part) == getattr(self.undisturbed, part)
        assert [row.query_id for row in results.query_results] == [
            row.query_id for row in self.undisturbed.query_results
        ]
        assert len(list(read_responses(evaluation.responses))) == 40


def query_ids(evaluation: Evaluation) -> list[str]:
    return sorted((answer["query_id"] for answer in read_journal(evaluation.journal)), key=int)


@pytest.fixture(scope="module")
def deployment(_converted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("kills")
    workspace = Workspace(folder / "workspace")
    shutil.copytree(_converted, workspace.root, symlinks=True)
    for file in (workspace.config / "systems").iterdir():
        file.unlink()
    services = Services(folder, workspace.root)
    with paid_server() as server, dg.DagsterInstance.from_config(str(services.home)) as instance:
        set_system(workspace, server, nightly=False)
        _, published = evaluate(workspace, load_pair(workspace, RAILWAY, "paid"))
        instance.add_dynamic_partitions("benchmarks", [RAILWAY])
        instance.add_dynamic_partitions("systems", ["paid"])
        try:
            start(services)
            yield Deployment(services, instance, workspace, server, EvaluationResults.read(published.path))
        finally:
            services.stop_all()
    assert services.family() == []


def start(services: Services) -> None:
    services.start("code")
    services.wait_healthy("code")
    services.start("webserver")
    services.start("daemon")
    services.wait_healthy("webserver")


@pytest.mark.fault(56, 57)
def test_run_whose_process_is_killed_is_retried_where_it_ended(deployment: Deployment):
    with deployment.midway() as run_id:
        worker = run_worker(deployment.instance, run_id)
        family = [worker, *worker.children(recursive=True)]
        worker.kill()

    assert deployment.wait_ended(run_id) == FAILURE
    assert "was terminated by signal 9 (SIGKILL)" in deployment.events(run_id)
    deployment.services.wait_gone(family)
    deployment.wait_retried(run_id)
    deployment.check_resumed()


@pytest.mark.fault(59)
def test_second_run_of_a_pair_waits_in_the_queue(deployment: Deployment):
    with deployment.midway() as first:
        second = deployment.launch()
        other = deployment.launch("hourly_checks")  # behind the second in the queue
        deployment.wait_ended(other)
        meanwhile = deployment.status(second)
        before = deployment.newest().folder.name

    assert meanwhile == dg.DagsterRunStatus.QUEUED
    assert [deployment.wait_ended(run_id) for run_id in (first, second)] == [SUCCESS, SUCCESS]
    assert set(deployment.server.asked.values()) == {2}
    assert deployment.newest().folder.name > before
    assert query_ids(deployment.newest()) == QUESTIONS


@pytest.mark.fault(70)
def test_run_that_is_terminated_in_the_ui_is_cancelled_and_resumed_by_the_next(deployment: Deployment):
    with deployment.midway() as run_id:
        worker = run_worker(deployment.instance, run_id)
        family = [worker, *worker.children(recursive=True)]
        assert deployment.services.ask(TERMINATE, run=run_id) == {"__typename": "TerminateRunSuccess"}
        cancelled = deployment.wait_ended(run_id)

    assert cancelled == dg.DagsterRunStatus.CANCELED
    deployment.services.wait_gone(family)
    assert len(query_ids(deployment.newest())) == MIDWAY - 1
    assert deployment.wait_ended(deployment.launch()) == SUCCESS
    deployment.check_resumed()
    assert retry_of(deployment.instance, run_id) is None


@pytest.mark.fault(57)
def test_run_ends_with_its_code_server_and_is_retried_by_the_next(deployment: Deployment):
    services = deployment.services
    with deployment.midway() as run_id:
        worker = run_worker(deployment.instance, run_id)
        worker.parent().kill()  # Dagster's server, below ours
        assert services.processes.pop("code").wait() != 0
        services.wait_gone([worker])

    services.start("code")
    services.wait_healthy("code")
    deployment.wait_retried(run_id)
    assert deployment.status(run_id) == FAILURE
    deployment.check_resumed()


@pytest.mark.fault(58)
def test_no_run_stays_started_after_everything_was_killed(deployment: Deployment):
    services = deployment.services
    with deployment.midway() as run_id:
        family = [psutil.Process(pid) for pid in services.family()]
        for process in family:
            process.suspend()  # nobody notes the death of another
        for process in family:
            process.kill()
        for service in services.processes.values():
            service.wait()
        services.processes.clear()
        services.wait_gone(family)
        assert deployment.status(run_id) == dg.DagsterRunStatus.STARTED

    start(services)

    deployment.wait_retried(run_id)
    assert deployment.status(run_id) == FAILURE
    deployment.check_resumed()
    assert deployment.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])) == []


@pytest.mark.fault(60)
def test_run_whose_system_is_renamed_fails_by_name_and_keeps_its_answers(deployment: Deployment):
    """The last test: the system has another name afterwards."""
    instance, workspace = deployment.instance, deployment.workspace
    started = time.time()  # tests before this one kill the code server, which may fail a tick
    with deployment.midway() as run_id:
        workspace.system_file("paid").rename(workspace.system_file("renamed"))
        deployment.services.wait("the sensor", lambda: "renamed" in instance.get_dynamic_partitions("systems"))

    assert deployment.wait_ended(run_id) == FAILURE
    assert "[no_system]" in deployment.events(run_id)
    assert query_ids(deployment.newest()) == QUESTIONS
    deployment.services.wait("the next tick", lambda: list(instance.get_dynamic_partitions("systems")) == ["renamed"])
    [sensor] = [state for state in instance.all_instigator_state() if state.instigator_name == "workspace_sensor"]
    ticks = instance.get_ticks(sensor.instigator_origin_id, sensor.selector_id, after=started)
    assert ticks
    assert [tick.error for tick in ticks if tick.error is not None] == []
