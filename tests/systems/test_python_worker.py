"""The worker process of a callable: what it imports, how its end is noticed, and when it is started again."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rag_eval_pipeline.evaluation.asking import run_queries
from rag_eval_pipeline.systems import python_worker
from rag_eval_pipeline.systems.base import Query
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE_S
from tests.systems.conftest import answer, time_out

BARE = sys._base_executable  # the interpreter below the virtual environment, which has none of our packages
SYSTEMS = REPOSITORY / "rag_eval_pipeline" / "systems"


async def test_worker_has_the_users_modules_and_none_of_ours(opened, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    code = """
        import http.client, importlib.util, sys
        def ask(q):
            ours = [name for name in sys.modules if name.startswith("rag_eval_pipeline")]
            return f"{importlib.util.find_spec('rag_eval_pipeline')} {ours} {sys.argv[1:]} {sys.executable}"
    """

    async with opened(code, python=BARE) as system:
        assert (await answer(system, "?")).answer == f"None [] [] {BARE}"
        assert system.configuration()["version of Python"] == ".".join(map(str, sys.version_info[:3]))


DEATHS = {
    "an exit":   ("os._exit(3)",                            "the worker process ended with exit status 3; its last output: going"),
    "a signal":  ("os.kill(os.getpid(), signal.SIGKILL)",   "the worker process was killed by SIGKILL (out of memory?); its last output: going"),
    "a crash":   ("ctypes.string_at(0)",                    "the worker process was killed by SIGSEGV; its last output: going"),
}  # fmt: skip


@pytest.mark.parametrize(("end", "error"), DEATHS.values(), ids=DEATHS)
async def test_death_fails_the_questions_in_flight_and_no_other(end, error, opened):
    code = f"""
        import ctypes, os, signal, threading
        arrived = threading.Event()
        def ask(q):
            if q == "die":
                arrived.wait()
                print("going")
                {end}
            if q == "wait":
                arrived.set()
                threading.Event().wait()
            return str(os.getpid())
    """

    async with opened(code) as system:
        first = await answer(system, "?")
        dead = await asyncio.gather(answer(system, "die"), answer(system, "wait"))
        after = await answer(system, "?")

    assert [(one.status, one.error_code, one.error, one.usage.requests) for one in dead] == [
        ("error", "python_died", error, 1)
    ] * 2
    assert (first.status, after.status) == ("ok", "ok")
    assert first.answer != after.answer


async def test_worker_that_always_dies_is_not_started_for_ever(opened):
    async with opened("import os\ndef ask(q): os._exit(1)") as system:
        found = [await answer(system, "?") for _ in range(5)]

    assert [one.error_code for one in found] == ["python_died"] * 3 + ["python_stopped"] * 2
    assert "3 times without an answer, so it is not started again" in found[-1].error
    assert found[-1].usage.requests == 0


async def test_worker_that_cannot_be_started_again_says_why(opened, tmp_path):
    code = "import os\nfrom pathlib import Path\ndef ask(q):\n    Path(__file__).write_text('1 / 0')\n    os._exit(1)"

    async with opened(code) as system:
        found = [await answer(system, "?") for _ in range(2)]

    assert [one.error_code for one in found] == ["python_died", "python_stopped"]
    assert (
        "could not be started again: expected the module rag_under_test to be importable, found ZeroDivisionError"
        in found[1].error
    )


async def test_worker_that_no_longer_reacts_is_replaced(opened, monkeypatch, tmp_path):
    monkeypatch.setattr(python_worker, "UNRESPONSIVE_SECONDS", 0.1)
    begun = tmp_path / "begun"
    code = f"""
        import pathlib, threading
        async def ask(q):
            if q == "hang":
                pathlib.Path({str(begun)!r}).touch()
                threading.Event().wait()
            return "a"
    """

    async with opened(code) as system:
        await time_out(system, "hang", begun)
        stuck = await answer(system, "go")
        assert (stuck.error_code, "did not notice for 0.1 s" in stuck.error) == ("python_died", True)
        assert (await answer(system, "go")).answer == "a"


async def test_loading_again_does_not_count_against_the_time_of_a_question(opened):
    code = "import os\ndef ask(q): return 'a' if q == 'go' else os._exit(1)"
    found = []

    async with opened(code) as system:
        await answer(system, "die")
        waiting = system.ready
        states = []

        async def ready():
            await waiting()
            states.append(system._code._is_open)

        system.ready = ready
        await run_queries(system, [[Query("1", "go")]], found.append, in_flight=1, timeout_s=PATIENCE_S)

    assert (states, found[0].answer) == ([True], "a")


def test_worker_and_its_children_end_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "rag.py").write_text(
        "import os, subprocess\ndef ask(q): return f\"{os.getpid()} {subprocess.Popen(['sleep', '600']).pid}\""
    )
    script = """if True:
        import asyncio, time
        from pathlib import Path
        from rag_eval_pipeline.systems.base import Query
        from rag_eval_pipeline.systems.python_callable import open_python
        from rag_eval_pipeline.systems.kind_settings import PythonSettings
        from tests.systems.conftest import corpus_in

        async def main():
            settings = PythonSettings(callable="rag:ask", path=(".",))
            async with open_python(settings, corpus_in(Path.cwd())) as system:
                print((await system.answer(Query("1", "?"))).answer, flush=True)
                await asyncio.Event().wait()

        asyncio.run(main())
    """
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as parent:
        processes = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)

    assert len(processes) == 2
    gone, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert alive == []


@pytest.mark.parametrize("name", ["worker_main", "user_code", "user_streams"])
def test_modules_of_the_worker_need_only_an_old_standard_library(name):
    tree = ast.parse((SYSTEMS / f"{name}.py").read_text(), feature_version=python_worker.OLDEST)

    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} <= sys.stdlib_module_names
    assert Path(python_worker.SCRIPT).parent == SYSTEMS


def test_names_of_every_module_that_reads_what_was_returned_are_sent():
    readers = {
        path.stem
        for path in SYSTEMS.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and "part" in {alias.name for alias in node.names}
    }

    readers = readers - {"recording_files"} | {"foreign_values"}  # which reads JSON; which has `part`
    assert readers <= {module.__name__.rpartition(".")[2] for module in python_worker.READERS}
