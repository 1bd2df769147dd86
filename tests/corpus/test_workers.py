"""Workers record their browser and fonts in the workspace; those that differ are named with what they differ in."""

from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import msgspec
import pytest
from typer.testing import CliRunner

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli import app
from rag_eval_pipeline.cli.doctor import CHECKS, Machine
from rag_eval_pipeline.corpus import worker_queues as workers
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE
from rag_eval_pipeline.corpus.worker_queues import Worker, differences, living_workers, record_worker, remove_worker

NOW = datetime(2026, 11, 23, 20, 0, tzinfo=UTC)
USUAL = Worker("0.1.0", "Chromium 156", "aa", "rag-eval-0.1.0-11")
DIFFERENT = {
    "fonts":       ({"fonts": "bb"},                             "fonts (bb, not aa)"),
    "browser":     ({"browser": "Chromium 157"},                 "browser (Chromium 157, not Chromium 156)"),
    "two things":  ({"version": "0.2.0", "fonts": "bb"},         "version (0.2.0, not 0.1.0), fonts (bb, not aa)"),
    "code":        ({},                                          "the code that prints pages"),
}  # fmt: skip


def other(**fields: str) -> Worker:
    return msgspec.structs.replace(USUAL, **{"queue": "rag-eval-22", **fields})


@pytest.mark.parametrize(("fields", "named"), DIFFERENT.values(), ids=DIFFERENT)
def test_worker_that_differs_from_most_is_named_with_the_difference(fields, named):
    found = differences({"a@one": other(**fields), "b@two": USUAL, "c@three": USUAL})

    assert found == [f"a@one differs from b@two in {named}"]


def test_workers_that_ended_or_stay_silent_are_not_compared(workspace):
    record_worker(workspace, "a@one", USUAL, now=NOW - timedelta(days=1, seconds=1))
    record_worker(workspace, "b@two", USUAL, now=NOW - timedelta(minutes=16))
    record_worker(workspace, "../c@three", USUAL, now=NOW - timedelta(minutes=1))
    record_worker(workspace, "d@four", USUAL, now=NOW)
    remove_worker(workspace, "d@four")
    (workspace.workers / "e@five.json").write_text('{"name"')

    assert list(living_workers(workspace, now=NOW)) == ["../c@three"]
    assert not (workspace.workers / "a@one.json").exists()  # the next worker to record itself removed it


def test_doctor_compares_the_workers_with_each_other_and_with_this_machine(workspace, monkeypatch):
    monkeypatch.setattr(workers, "this_worker", lambda: USUAL)
    check = CHECKS["workers"]
    machine = Machine(workspace)

    assert check(machine).found.startswith("none has reported")
    record_worker(workspace, "a@one", USUAL, now=clock.now())
    assert check(machine)[1:] == (True, "same browser and fonts as this machine: a@one (queue rag-eval-0.1.0-11)")
    record_worker(workspace, "a@one", other(fonts="bb"), now=clock.now())
    assert check(machine)[1:] == (
        False,
        "they take runs from rag-eval-22, and a code location on this machine would put its runs into "
        "rag-eval-0.1.0-11; this machine differs from a@one in fonts (aa, not bb)",
    )
    record_worker(workspace, "b@two", USUAL, now=clock.now())
    assert check(machine)[1:] == (
        False,
        "b@two differs from a@one in fonts (aa, not bb): start all from one image, or they print other pages",
    )


def test_queue_of_a_machine_without_a_browser_has_a_name_too_and_each_instance_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv(EXECUTABLE_VARIABLE, "/nowhere/chromium")
    workers.this_worker.cache_clear()
    named = []
    for name in ("one", "other", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / name))
        done = CliRunner().invoke(app, ["worker-queue"])
        assert done.exit_code == 0
        assert "[browser_missing]" in done.stderr
        named.append(done.stdout)
    workers.this_worker.cache_clear()

    assert named[0].startswith(f"rag-eval-{version('rag-eval-pipeline')}-nobrowser-")
    assert named[0] != named[1] == named[2]

    monkeypatch.delenv("DAGSTER_HOME")
    assert "[no_instance]" in str(CliRunner().invoke(app, ["worker-queue"]).exception)
