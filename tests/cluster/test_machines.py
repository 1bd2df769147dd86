"""Two machines, Postgres, Redis and a shared folder: one machine is killed, and nothing is lost, doubled or different.

deploy/celery is used as it is: its settings, and the commands of its compose file.
"""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from examples.mock_server.process import mock_rag_server
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.workspace import Workspace
from tests.cluster.local_cluster import IN_FLIGHT, LocalCluster, made_workspace
from tests.conftest import BUNDLED
from tests.test_golden import golden

BENCHMARKS = ("load", "tarrow-lights", "cairnmoor-observatory")  # texts, pages of a browser, and pages of a file
PAIRS = (("load", "chat"), ("tarrow-lights", "other-chat"))
QUESTIONS, KILLED_AT = 300, 60
ENDED = ("CANCELED", "FAILURE", "SUCCESS")


class Seen(NamedTuple):
    """What was seen from the start of the cluster to its end."""

    workspace: Path  # of the cluster
    alone: Path  # of one machine
    runs: list[dict[str, Any]]  # all of them, oldest first
    machines: dict[str, str]  # run -> machine
    killed: str
    messages: list[str]  # of the run whose machine was killed
    printed: dict[str, str]  # machine -> what one of its conversions printed, by the webserver
    answers: dict[str, list[str]]  # evaluation -> questions in its journal
    asked: int  # questions that the server was asked
    canceled: list[str]  # statuses of a run that was terminated in the UI, and of its retries


@pytest.fixture(scope="module")
def seen(folder: Path) -> Seen:
    """Three conversions and two evaluations; the machine of the long one is killed in the middle."""
    root, alone = folder / "workspace", folder / "alone"
    with mock_rag_server(canned=True, latency_ms=200) as server:
        made_workspace(root, server, benchmarks={"load": QUESTIONS}, systems=[system for _, system in PAIRS])
        for name in BENCHMARKS[1:]:
            shutil.copytree(BUNDLED[name], root / "data" / "sources" / name)
        shutil.copytree(root, alone)
        with LocalCluster(folder, root) as cluster:
            cluster.start_all(["m1", "m2"])
            conversions = cluster.launch("convert", *BENCHMARKS)
            cluster.wait_done(conversions)
            lost, other = cluster.launch("evaluate", *("|".join(pair) for pair in PAIRS))
            cluster.wait("answers", lambda: max(map(len, cluster.answers().values()), default=0) >= KILLED_AT)
            killed = cluster.machine_of(lost)
            cluster.kill_machine(killed)
            cluster.wait_done([lost, other])

            runs = cluster.runs()
            machines = {run["runId"]: cluster.machine_of(run["runId"]) for run in runs}
            messages = [event["message"] for event in cluster.events(lost) if event.get("message")]
            printed = {machines[run]: cluster.captured(run) for run in conversions}
            answers = cluster.answers()
            asked = server.counts(by_question=False)["attempts"]
            shutil.copytree(root, folder / "products")
            canceled = cancel(cluster)
        for name in BENCHMARKS:
            convert(Workspace(alone), name)
        for benchmark, system in PAIRS:
            evaluate(Workspace(alone), load_pair(Workspace(alone), benchmark, system))
    return Seen(folder / "products", alone, runs, machines, killed, messages, printed, answers, asked, canceled)


def cancel(cluster: LocalCluster) -> list[str]:
    """Terminate an evaluation in its middle, as the UI does, and return the statuses of it and its retries."""
    before = cluster.answers().keys()
    [run] = cluster.launch("evaluate", "|".join(PAIRS[0]))
    cluster.wait("answers", lambda: any(ids for name, ids in cluster.answers().items() if name not in before))
    cluster.terminate(run)

    def statuses() -> list[str]:
        runs = [one for one in cluster.runs() if run in (one["runId"], one["tags"].get("dagster/root_run_id"))]
        return [one["status"] for one in runs]

    return cluster.wait("the end of the run", lambda: statuses() if statuses()[0] in ENDED else None)


def test_machines_share_the_runs(seen: Seen):
    conversions = [run["runId"] for run in seen.runs if run["jobName"] == "convert"]

    assert {seen.machines[run] for run in conversions} == {"m1", "m2"}


def test_run_of_a_killed_machine_is_finished_by_the_other(seen: Seen):
    found = [(run["tags"]["dagster/partition"], run["status"], seen.machines[run["runId"]]) for run in seen.runs[3:]]
    [other] = {"m1", "m2"} - {seen.killed}

    assert [run["status"] for run in seen.runs[:3]] == ["SUCCESS"] * 3
    assert ("load|chat", "FAILURE", seen.killed) in found
    assert ("load|chat", "SUCCESS", other) in found
    assert ("tarrow-lights|other-chat", "SUCCESS", other) in found
    assert any("did not reply 3 times in a row" in message for message in seen.messages)


def test_no_question_is_lost_or_answered_twice(seen: Seen):
    counts = sorted((len(ids), len(set(ids))) for ids in seen.answers.values())
    total = sum(count for count, _ in counts)

    assert len(counts) == len(PAIRS)
    assert counts[-1] == (QUESTIONS, QUESTIONS)
    assert all(count == unique for count, unique in counts)
    assert total <= seen.asked <= total + IN_FLIGHT  # those in flight are asked again


def test_products_are_those_of_one_machine(seen: Seen):
    made = {str(path.relative_to(seen.alone)) for path in golden.product_files(seen.alone)}
    stamps = [f"data/datasets/{name}/conversion.json" for name in BENCHMARKS]

    assert {path.partition("/")[0] for path in made} == {"corpus", "data"}
    assert golden.compare(seen.alone, seen.workspace, renames={}) == []
    assert [d for name in stamps for d in golden.compare_files(name, seen.alone / name, seen.workspace / name)] == []


def test_output_of_steps_is_shown_wherever_they_ran(seen: Seen):
    assert seen.printed.keys() == {"m1", "m2"}
    assert all(" - INFO - convert - " in text for text in seen.printed.values())


def test_run_that_is_terminated_in_the_ui_is_canceled_and_not_retried(seen: Seen):
    assert seen.canceled == ["CANCELED"]
