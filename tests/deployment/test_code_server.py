"""What the code server does with signals, seen at a stand-in for Dagster's server whose run is hard of hearing."""

import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from rag_eval_pipeline.corpus.worker_queues import this_worker
from rag_eval_pipeline.serving import code_server
from rag_eval_pipeline.storage.process import end_tree
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE_S

# A run that loses the first interrupt, as one does that comes in a callback of a library, and a server that waits for
# it as Dagster's does. Each line is one thing that has happened.
RUN = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"run: begun\\n")
for _ in range(2):
    signal.sigwait([signal.SIGTERM])
    os.write(1, b"run: interrupted\\n")
os.write(1, b"run: ended\\n")
"""
SERVER = f"""#!{sys.executable}
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"server: told\\n"))
subprocess.run([sys.executable, "-c", {RUN!r}])
os.write(1, " ".join(["server: ended", *sys.argv[1:3], "\\n"]).encode())
"""
DEAF_RUN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"run: interrupted\\n"))
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
os.write(1, f"run: begun {below.pid}\\n".encode())
while True:
    signal.pause()
"""
DEAF_SERVER = f"""#!{sys.executable}
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"server: told\\n"))
os.write(1, b"server: begun\\n")
while True:
    signal.pause()
"""
ORPHAN = f"""#!{sys.executable}
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"server: begun\\n")
signal.sigwait([signal.SIGTERM])
os.write(1, b"server: told\\n")
"""
ARGUMENTS = """#!/bin/sh
for argument in "$@"; do echo "$argument"; done
exit 3
"""
LAUNCHER = """
from dagster._core.launcher import DefaultRunLauncher

class CeleryRunLauncher(DefaultRunLauncher): pass
class Ours(CeleryRunLauncher): pass
"""


class Forked:
    """The code server in a process of its own that has imported Dagster already, which takes two seconds."""

    def __init__(self, options: list[str], environment: dict[str, str], folder: Path, *, with_errors: bool) -> None:
        read, write = os.pipe()
        arguments = (options, environment, folder, write, with_errors)
        self.process = multiprocessing.get_context("fork").Process(target=_serve, args=arguments)
        self.process.start()
        os.close(write)
        self.stdout = os.fdopen(read)

    def send_signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def said(self) -> list[str]:
        """What else it and its server print until both have ended."""
        lines = [line.strip() for line in self.stdout]
        self.process.join(PATIENCE_S)
        return lines


def _serve(options: list[str], environment: dict[str, str], folder: Path, stdout: int, with_errors: bool) -> None:
    os.dup2(stdout, 1)
    os.close(stdout)
    if with_errors:
        os.dup2(1, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.update(environment)
    sys.path.insert(0, str(folder))
    sys.executable = str(folder / "bin" / "python")
    sys.argv = ["code_server", "--port", "0", *options]
    sys.exit(code_server.main())


Start = Callable[..., Forked]


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance for tests without one of their own: to make its databases takes longer than what is tested."""
    home = tmp_path_factory.mktemp("instance")
    shutil.copy(REPOSITORY / "dagster.yaml", home)
    return home


@pytest.fixture
def start(tmp_path: Path, shared_home: Path) -> Iterator[Start]:
    """Starts the code server with a stand-in for the `dagster` beside its interpreter."""
    started = []

    def begin(dagster: str, *options: str, with_errors: bool = False) -> Forked:
        stand_in = tmp_path / "bin" / "dagster"
        stand_in.parent.mkdir()
        stand_in.write_text(dagster)
        stand_in.chmod(0o755)
        home = tmp_path / "instance"
        home = home if home.exists() else shared_home
        environment = {"DAGSTER_HOME": str(home), "RAG_EVAL_WORKSPACE": str(shared_home)}
        started.append(Forked(list(options), environment, tmp_path, with_errors=with_errors))
        return started[-1]

    yield begin
    for server in started:
        if server.process.is_alive():  # a test that failed
            for child in psutil.Process(server.process.pid).children(recursive=True):
                child.kill()
            server.process.kill()
        server.process.join()
        server.stdout.close()


def test_run_that_lost_an_interrupt_is_interrupted_again_and_a_server_without_runs_is_killed():
    for code, first, again_s, grace_s, killed in (
        (SERVER, b"run: begun\n", 0.5, PATIENCE_S, False),
        (DEAF_SERVER, b"server: begun\n", 3.0, 0.1, True),
    ):
        server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert server.stdout is not None
        with server.stdout as stdout:
            assert stdout.readline() == first

            try:
                assert end_tree(server, depth=1, again_after_s=again_s, kill_after_s=grace_s) == 0
            finally:
                server.kill()  # which has ended, or its output would not
            said = [line.decode().strip() for line in stdout]
        if killed:
            assert (server.returncode, said) == (-signal.SIGKILL, ["server: told"])
        else:
            assert (server.returncode, said[-2:]) == (0, ["run: ended", "server: ended"])
            assert sorted(said[:-2]) == ["run: interrupted", "run: interrupted", "server: told"]


def test_second_signal_interrupts_the_runs_at_once_and_the_server_no_more(start: Start):
    server = start(SERVER)
    assert server.stdout.readline() == "run: begun\n"

    server.send_signal(signal.SIGINT)
    first = {server.stdout.readline(), server.stdout.readline()}
    server.send_signal(signal.SIGINT)
    rest = server.said()

    assert first == {"run: interrupted\n", "server: told\n"}
    assert rest == ["run: interrupted", "run: ended", "server: ended api grpc"]
    assert server.process.exitcode == 0


@pytest.mark.fault(70)
def test_run_that_does_not_end_is_killed_with_all_that_it_has_started(start: Start):
    server = start(SERVER.replace(repr(RUN), repr(DEAF_RUN)), "--grace", "3")
    begun, _, below = server.stdout.readline().rpartition(" ")
    assert begun == "run: begun"

    server.send_signal(signal.SIGTERM)
    said = server.said()

    assert said[-1] == "server: ended api grpc"
    assert set(said[:-1]) == {"run: interrupted", "server: told"}
    assert server.process.exitcode == 0
    assert not psutil.pid_exists(int(below)) or psutil.Process(int(below)).status() == psutil.STATUS_ZOMBIE


@pytest.mark.fault(57)
def test_server_whose_parent_was_killed_is_told_to_end(start: Start):
    server = start(ORPHAN)
    assert server.stdout.readline() == "server: begun\n"

    server.process.kill()

    assert server.stdout.read() == "server: told\n"  # the pipe ends with its last writer


def test_port_in_use_is_refused_before_the_runs_of_its_server_are_marked_as_failed(start: Start):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as gRPC does
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        server = start(DEAF_SERVER, "--port", port, with_errors=True)
        said = server.said()

    assert server.process.exitcode == 2
    assert len(said) == 1
    assert said[0].startswith(f"code server: cannot listen on 127.0.0.1:{port}: Address already in use. Another")


def test_runs_that_celery_launches_carry_the_queue_of_this_machine_and_a_server_that_ends_gives_its_code(
    start: Start, tmp_path: Path
):
    (tmp_path / "launchers.py").write_text(LAUNCHER)
    (tmp_path / "instance").mkdir()
    (tmp_path / "instance" / "dagster.yaml").write_text("run_launcher: {module: launchers, class: Ours}\n")

    server = start(ARGUMENTS)
    said = server.said()

    assert server.process.exitcode == 3
    context = json.loads(said[said.index("--container-context") + 1])
    queue = context["celery"].pop("queue")
    assert context == {"celery": {}}
    assert queue.startswith(f"{this_worker().queue}-")
