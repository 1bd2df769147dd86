"""Code in a worker process answers as in this one; what it prints, how it ends and how long it hangs harms no other.

The interpreter is the one below the virtual environment, which has none of our packages.
"""

import ast
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import run_queries
from rag_eval_pipeline.systems import python_worker
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.python_callable import PythonSettings, open_python
from tests.conftest import REPOSITORY

BARE = sys._base_executable
SYSTEMS = REPOSITORY / "rag_eval_pipeline" / "systems"


@pytest.fixture
def opened(corpus, tmp_path):
    """`async with opened(code, **settings) as system`: the code is in rag_under_test.py of the folder `code`."""

    @contextlib.asynccontextmanager
    async def opened(code, **settings):
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        (folder / "rag_under_test.py").write_text(textwrap.dedent(code))
        given = {"callable": "rag_under_test:ask", "path": ["code"], "python": BARE} | settings
        async with open_python(PythonSettings.model_validate(given), corpus) as system:
            yield system

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield opened
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


async def answer(system, text):
    return await system.answer(Query("q7", text))


async def time_out(system, text):
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(answer(system, text), 0.5)


ENGINE = """
    import asyncio, collections, os, subprocess, sys
    from pathlib import Path

    class Passage:
        def __init__(self, file): self.metadata, self.page_content = {"source": Path(file), "page": 0}, "Cats sleep."

    class Engine:
        def __init__(self, log, k): self.log, self.k = Path(log), k
        async def aclose(self): self.log.write_text("closed")
        def ask(self, query):
            return getattr(self, query.text)(query)

        def text(self, query): return f"{query.query_id} {self.k}"
        async def later(self, query): return f"later {await asyncio.sleep(0, query.query_id)}"
        def passages(self, query): return {"answer": "a", "context": [Passage("/data/cats.pdf")], "usage": {"total_tokens": 7}}
        def stream(self, query):
            yield {"context": [Passage("cats.pdf")]}
            yield {"answer": "They"}
            yield {"answer": " do."}
        async def astream(self, query):
            yield "They"
            yield " do."
        def linked(self, query):
            passage = Passage("cats.pdf")
            for _ in range(18):
                outer = Passage("cats.pdf")
                outer.node, passage = passage, outer
            return {"answer": "a", "context": [passage]}
        def raises(self, query): raise ValueError("no\\n index")
        def ends(self, query): raise SystemExit(3)
        def cancels(self, query): raise asyncio.CancelledError
        def nothing(self, query): return object()
        def surrogate(self, query): return "a \\ud800"
        def input(self, query): return input()
        def prints(self, query):
            print("noise")
            os.write(1, b'{"answered": 0}\\n')
            subprocess.run(["echo", '{"answered": 0}'], check=True)
            sys.stderr.write("noise without an end of line")
            return "quiet"
"""
METHODS = [
    "text", "later", "passages", "stream", "astream", "raises", "ends", "cancels", "nothing", "surrogate", "input", "prints", "linked",
]  # fmt: skip


async def test_worker_answers_as_this_process_does(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115  # as the worker's
    settings = {
        "callable": "rag_under_test:Engine",
        "factory": True,
        "method": "ask",
        "arguments": {"log": str(tmp_path / "log"), "k": 3},
    }
    answers = []
    for python in (None, BARE):
        async with opened(ENGINE, python=python, **settings) as system:
            found = [await answer(system, name) for name in METHODS]
            answers.append([(a.status, a.answer, a.contexts, a.usage, a.error, a.timings.keys()) for a in found])
            published = system.server_configuration(), system.configuration()["callable"]
            answers[-1].append(published)
            assert all(one.timings.get("first_token", 0) <= one.latency_ms for one in found)
        assert (tmp_path / "log").read_text() == "closed"
        (tmp_path / "log").unlink()

    here, there = answers
    assert there == here
    assert [row[1] for row in here[:6]] == ["q7 3", "later q7", "a", "They do.", "They do.", None]


async def test_what_is_printed_is_shown_on_standard_error(opened, capfd):
    async with opened("print('loading')\ndef ask(q): print('asked'); return 'a'") as system:
        assert (await answer(system, "?")).answer == "a"

    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.split() == ["loading", "asked"]


async def test_worker_has_the_users_modules_and_none_of_ours(opened, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    code = """
        import http.client, importlib.util, sys
        def ask(q):
            ours = [name for name in sys.modules if name.startswith("rag_eval_pipeline")]
            return f"{importlib.util.find_spec('rag_eval_pipeline')} {ours} {sys.argv[1:]} {sys.executable}"
    """

    async with opened(code) as system:
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


async def test_call_that_hangs_leaves_its_place(opened):
    code = "import threading\ndef ask(q): return 'a' if q == 'go' else threading.Event().wait()"

    async with opened(code) as system:
        await time_out(system, "hang")
        assert (await answer(system, "go")).answer == "a"


async def test_worker_that_no_longer_reacts_is_replaced(opened, monkeypatch):
    monkeypatch.setattr(python_worker, "UNRESPONSIVE_SECONDS", 0.1)
    code = "import threading\nasync def ask(q): return 'a' if q == 'go' else threading.Event().wait()"

    async with opened(code) as system:
        await time_out(system, "hang")
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
        await run_queries(system, [Query("1", "go")], found.append, in_flight=1, timeout_s=240)

    assert (states, found[0].answer) == ([True], "a")


REFUSED = {
    "no interpreter":        ({"python": "../app/bin/python"},   "def ask(q): ...",          "bad_python",      "settings.python",        "No such file or directory."),
    "an environment":        ({"python": "venv"},                "def ask(q): ...",          "bad_python",      "settings.python",        "bin/python?"),
    "another program":       ({"python": "/bin/cat"},            "def ask(q): ...",          "bad_python",      "settings.python",        "It ended with exit status 1; its last output: /bin/cat"),
    "an old interpreter":    ({"python": "old"},                 "def ask(q): ...",          "bad_python",      "settings.python",        "It is Python 3.8.18."),
    "no function":           ({},                                "",                         "bad_callable",    "settings.callable",      "'ask' in rag_under_test"),
    "no package":            ({},                                "import msgspec",           "bad_callable",    "settings.callable",      f"Install msgspec for {BARE}, or"),
    "no version":            ({"version_of": ["msgspec"]},       "def ask(q): ...",          "missing_package", "settings.version_of[0]", "msgspec"),
    "no folder":             ({"path": ["code", "lib"]},         "def ask(q): ...",          "bad_path",        "settings.path[1]",       "lib"),
    "a death":               ({},                                "import os; os._exit(5)",   "bad_callable",    "settings.callable",      "ended with exit status 5"),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "code", "error_code", "field", "text"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_started_is_refused_in_one_line(settings, code, error_code, field, text, opened, tmp_path):
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").write_text("")
    (tmp_path / "old").write_text(
        f"#!{BARE}\nimport os, sys\nos.write(int(sys.argv[4]), b'{{\"hello\": [3, 8, 18]}}\\n')\n"
    )
    (tmp_path / "old").chmod(0o755)

    with pytest.raises(InputError) as error:
        async with opened(code, **settings):
            pass

    assert (error.value.code, error.value.field) == (error_code, field)
    assert error.value.file == str(tmp_path / "recorded.config.yaml")
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_worker_and_its_children_end_with_a_parent_that_is_killed(tmp_path):
    (tmp_path / "rag.py").write_text(
        "import os, subprocess\ndef ask(q): return f\"{os.getpid()} {subprocess.Popen(['sleep', '600']).pid}\""
    )
    script = f"""if True:
        import asyncio, time
        from pathlib import Path
        from rag_eval_pipeline.systems.base import Query
        from rag_eval_pipeline.systems.python_callable import PythonSettings, open_python
        from tests.systems.conftest import corpus_in

        async def main():
            settings = PythonSettings(callable="rag:ask", path=(".",), python={BARE!r})
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
    gone, alive = psutil.wait_procs(processes, timeout=240)
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

    readers ^= {"values", "replay"}  # which has `part`; which reads JSON
    assert readers <= {module.__name__.rpartition(".")[2] for module in python_worker.READERS}
