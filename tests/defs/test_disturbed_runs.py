"""Runs that are disturbed: their code server dies, another run begins, their partition goes, the event log is full."""

import multiprocessing
import os
import signal
import sqlite3
from contextlib import contextmanager
from threading import Thread

import dagster as dg
import pytest
import sqlalchemy as sa

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import resources as run_process
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.sensors import workspace_sensor
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation, newest_evaluation, pair_pointer
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.storage.journal import read_journal
from rag_eval_pipeline.storage.lock import locked
from tests.paid_server import set_system

RAILWAY = "skarn-railway"  # 40 questions
PAIR = pair_key(RAILWAY, "paid")
QUESTIONS = [str(number) for number in range(40)]
MIDWAY = 20  # the question before whose answer something happens

forked = multiprocessing.get_context("fork")


def begin_run(said):
    run_process.end_with_code_server()
    run_process.end_with_code_server()  # by its second step
    said.send("begun")
    while True:
        signal.pause()


def begin_code_server(said):
    forked.Process(target=begin_run, args=(said,)).start()
    said.close()
    signal.pause()


@pytest.mark.fault(57)
def test_run_ends_with_its_code_server():
    heard, said = forked.Pipe(duplex=False)
    server = forked.Process(target=begin_code_server, args=(said,))
    server.start()
    said.close()
    assert heard.recv() == "begun"

    server.kill()

    with pytest.raises(EOFError):  # the pipe ends with its last writer
        heard.recv()
    server.join()


def test_process_that_is_no_run_of_a_code_server_is_left_alone():
    run_process.end_with_code_server()  # this one was started by a shell

    assert run_process.WATCHER not in {thread.name for thread in run_process.threading.enumerate()}


@pytest.fixture
def paid(workspace, server):
    set_system(workspace, server)
    return workspace


def query_ids(evaluation):
    return sorted((answer["query_id"] for answer in read_journal(evaluation.journal)), key=int)


@pytest.mark.fault(59)
def test_second_evaluation_of_a_pair_waits_for_the_run_that_holds_it(paid, server, run, instance):
    instance.add_dynamic_partitions(systems.name, ["paid"])
    refusals, reports = [], []

    def by_hand():
        reports.append(evaluate(paid, load_pair(paid, RAILWAY, "paid"), which="all"))

    hand = Thread(target=by_hand)

    def begin_another():
        lock = pair_pointer(paid, RAILWAY, "paid").with_suffix(".lock")
        with pytest.raises(ServiceError) as refused, locked(lock, holder="test", exclusive=True, wait_seconds=0):
            pass
        refusals.append(str(refused.value))
        hand.start()

    server.before[MIDWAY] = begin_another

    result = run("evaluate", PAIR)
    hand.join()

    assert result.success
    assert f"{RAILWAY} is in use by run {result.run_id[:8]} of {RAILWAY} x paid, process {os.getpid()}" in refusals[0]
    # It comes between two steps of the run and finds its answers, or after it and asks again.
    [(report, published)] = reports
    assert (report.asked, set(server.asked.values())) in [(0, {1}), (40, {2})]
    for folder in paid.runs.glob("eval_run_*"):
        evaluation = load_evaluation(paid, folder.name)
        assert (evaluation.record.state, query_ids(evaluation)) == ("published", QUESTIONS)
    assert len(EvaluationResults.read(published.path).query_results) == 40


def tick(paid, instance):
    """Make the partitions equal to the files, and return the keys of the runs that are requested."""
    context = dg.build_sensor_context(instance, resources={"workspace": WorkspaceResource(root=str(paid.root))})
    result = workspace_sensor(context)
    for change in result.dynamic_partitions_requests:
        for key in change.partition_keys:
            if isinstance(change, dg.AddDynamicPartitionsRequest):
                instance.add_dynamic_partitions(change.partitions_def_name, [key])
            else:
                instance.delete_dynamic_partition(change.partitions_def_name, key)
    return {str(request.partition_key) for request in result.run_requests}


def rename_system(paid, instance):
    paid.system_file("paid").rename(paid.system_file("renamed"))
    tick(paid, instance)


def rename_benchmark(paid, instance):
    paid.benchmark(RAILWAY).source.rename(paid.sources / "renamed")
    tick(paid, instance)


def delete_partition_by_hand(paid, instance):
    instance.delete_dynamic_partition(systems.name, "paid")


GONE = {
    "its system is renamed": (rename_system, "[no_system]"),
    "its benchmark is renamed": (rename_benchmark, "[no_benchmark]"),
    "its partition is deleted by hand": (delete_partition_by_hand, "Nonexistent partition keys"),
}


@pytest.mark.fault(60)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.long] if "benchmark" in name else [])
        for name, case in GONE.items()
    ],
)
def test_run_whose_partition_goes_meanwhile_fails_by_name_and_keeps_its_answers(
    change, reason, paid, server, run, instance
):
    instance.add_dynamic_partitions(systems.name, ["paid"])
    server.before[MIDWAY] = lambda: change(paid, instance)

    result = run("evaluate", PAIR)

    failed = result.get_step_failure_events()
    told = [event.step_failure_data.user_failure_data or event.step_failure_data.error for event in failed]
    texts = [getattr(reason, "description", None) or reason.message for reason in told]
    assert [text for text in texts if reason not in text] == [] != texts
    evaluation = newest_evaluation(paid, RAILWAY, "paid")
    assert (evaluation.record.state, query_ids(evaluation)) == ("answered", QUESTIONS)
    assert set(server.asked.values()) == {1}
    # The next tick makes the partitions equal to the files, and requests nothing of what is gone.
    requested = tick(paid, instance)
    assert set(instance.get_dynamic_partitions(systems.name)) == set(paid.systems())
    assert set(instance.get_dynamic_partitions(benchmarks.name)) == set(paid.benchmarks())
    assert {name for key in requested for name in key.split("|")} <= {*paid.systems(), *paid.benchmarks()}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory, revisions_read_once):
    """An instance whose databases are files."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("instance"))) as instance:
        yield instance


@contextmanager
def full_disk():
    """No database of SQLite grows in this block."""

    def limit(connection, _):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    sa.event.listen(sa.Engine, "connect", limit)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "connect", limit)


@pytest.mark.fault(64)
@pytest.mark.long
def test_results_are_kept_when_the_event_log_cannot_grow(paid, server, on_disk, resources):
    on_disk.add_dynamic_partitions(benchmarks.name, [RAILWAY])
    on_disk.add_dynamic_partitions(systems.name, ["paid"])
    job = defs.resolve_job_def("evaluate")

    def execute():
        return job.execute_in_process(instance=on_disk, partition_key=PAIR, resources=resources, raise_on_error=False)

    disk = full_disk()
    server.before[MIDWAY] = disk.__enter__

    with pytest.raises((sa.exc.OperationalError, sqlite3.OperationalError), match="database or disk is full"):
        execute()
    disk.__exit__(None, None, None)
    interrupted = newest_evaluation(paid, RAILWAY, "paid")
    again = execute()

    assert (interrupted.record.state, query_ids(interrupted)) == ("answered", QUESTIONS)
    assert again.success
    assert set(server.asked.values()) == {1}
    assert newest_evaluation(paid, RAILWAY, "paid").record.evaluation_id == interrupted.record.evaluation_id
