"""`make up`: the Dagster UI, its daemon, and the report beside them; nothing is left of them afterwards.

`dagster dev` was seen alive ten seconds after SIGTERM with runs active, and killing only the parent left its webserver
and daemon running. So it gets a session of its own; that session is asked to end, given time, and then ended.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import psutil

from rag_eval_pipeline.defs.links import REPORT_URL_VARIABLE
from rag_eval_pipeline.defs.lost_runs import fail_lost_runs
from rag_eval_pipeline.defs.report_server import report_server
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import PROJECT, WORKSPACE_VARIABLE, Workspace, default_root

PATIENCE_SECONDS = 30.0  # for runs to write down that they were interrupted
# An interrupt is an exception, raised wherever the run is just then; in a callback of the browser's driver it is
# logged and lost. Long enough for a run to end its browser.
AGAIN_SECONDS = 8.0
RUN_DEPTH = 3  # `dagster dev` starts a code server, that a gRPC server, that the runs
# `dg dev` would serve the project of the current folder only; the advice to use it is for us, not for the user.
QUIET = "ignore:Function `dev_command` is superseded"


def main() -> int:
    """Serves until told to stop (Ctrl-C or SIGTERM).

    Returns:
        The exit code of `dagster dev`, 0 after being told, 2 when the port cannot be had.
    """
    arguments = argparse.ArgumentParser(description="The Dagster UI and daemon of this project.")
    arguments.add_argument(
        "--host", default="127.0.0.1", help="Dagster has no login: anything else opens it to the network."
    )
    arguments.add_argument("--port", type=int, default=3000)
    arguments.add_argument(
        "--report-port", type=int, help="Of the report that the UI links to; the next one unless set."
    )
    options = arguments.parse_args()
    # Dagster's daemon would go on without its UI, beside that of the server that has the port.
    try:
        socket.create_server((options.host, options.port)).close()
    except OSError as error:
        print(
            f"make up: cannot listen on {options.host}:{options.port}: {error.strerror}. Is another server running? "
            f"Else choose a port: python -m rag_eval_pipeline.defs.serve --port N",
            file=sys.stderr,
        )
        return 2
    command = [
        str(Path(sys.executable).with_name("dagster")), "dev", "-w", str(PROJECT / "workspace.yaml"),
        "-h", options.host, "-p", str(options.port),
    ]  # fmt: skip
    root = Path(default_root()).resolve()  # it may be relative to the folder that is left below
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONWARNINGS": ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), QUIET])),
        WORKSPACE_VARIABLE: str(root),
    }
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, frame: _note(told, received, frame))
    report_port = options.port + 1 if options.report_port is None else options.report_port
    home = os.environ.get("DAGSTER_HOME")
    with _instance(home), _report(Workspace(root).reports, options.host, report_port) as report:
        # An address that people have set is where they reach the report: behind a proxy, or in a container.
        environment.setdefault(REPORT_URL_VARIABLE, report)
        # Not in the project's folder: Dagster warns of the template dagster.yaml there, and its processes would import
        # whatever lies beside it under the name of a package.
        process = subprocess.Popen(command, start_new_session=True, env=environment, cwd=home)
        print(f"Dagster UI: http://{options.host}:{options.port} (Ctrl-C stops it)", flush=True)
        try:
            while process.poll() is None and not told:
                time.sleep(0.2)
        finally:
            _end(process)
    return 0 if told else process.returncode


@contextlib.contextmanager
def _instance(home: str | None) -> Iterator[None]:
    """Holds the instance's folder; runs that a server before this one lost are tried again.

    Where another server has it, on another port, its runs are none of ours.
    """
    with contextlib.ExitStack() as stack:
        if home is not None and Path(home).is_dir():
            with contextlib.suppress(ServiceError):
                lock = Path(home).resolve() / "serve.lock"
                stack.enter_context(locked(lock, holder="make up", exclusive=True, wait_seconds=0.0))
                fail_lost_runs("The server that this run was a part of has ended.")
        yield


@contextlib.contextmanager
def _report(reports: Path, host: str, port: int) -> Iterator[str]:
    """The report's address while it is served; empty when the port cannot be had, for the UI does without it."""
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(report_server(reports, host, port))
        except OSError as error:
            print(
                f"make up: cannot serve the report on {host}:{port}: {error.strerror}; it is {reports}/index.html. "
                "Another port: --report-port N",
                file=sys.stderr,
            )
            address = ""
        else:
            print(f"Report: {address}", flush=True)
        yield address


def _note(told: list[int], number: int, frame: FrameType | None) -> None:
    told.append(number)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the whole session: asked first, killed after `PATIENCE_SECONDS`."""
    began = asked = time.monotonic()
    _ask(process.pid)
    while time.monotonic() < began + PATIENCE_SECONDS and _alive(process):
        if time.monotonic() > asked + AGAIN_SECONDS:
            asked = time.monotonic()
            _ask(process.pid)
        time.sleep(0.2)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _ask(leader: int) -> None:
    """SIGTERM to Dagster's processes and the runs, and to nothing that a run has started.

    A run whose browser or reader ends before it takes that for a failed step, which is not tried again; one that was
    interrupted is, at the next start.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        generation = [psutil.Process(leader)]
        asked = list(generation)
        for _ in range(RUN_DEPTH):
            generation = [child for process in generation for child in _children(process)]
            asked += generation
        for process in reversed(asked):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()


def _children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children()
    return []


def _alive(process: "subprocess.Popen[bytes]") -> bool:
    process.poll()  # else the leader stays a zombie, and its group exists
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main())
