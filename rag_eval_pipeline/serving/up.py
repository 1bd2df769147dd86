"""`rag-eval up`: the Dagster UI, its daemon and the report beside them. Ctrl-C ends all of them within 10 s.

`dagster dev` alone is still alive ten seconds after SIGTERM while runs are active, so it gets a session that is killed
after a grace period.
"""

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rag_eval_pipeline.defs.metadata import REPORT_URL_VARIABLE
from rag_eval_pipeline.serving.instance import claim_instance, fail_runs, find_orphaned_runs, forget_ticks_ahead
from rag_eval_pipeline.serving.report_server import report_server
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.process import end_tree, end_with_parent, is_answering
from rag_eval_pipeline.workspace import WORKSPACE_VARIABLE, Workspace

CODE_LOCATION = Path(__file__).parents[1] / "scaffold" / "template" / "workspace.yaml"
KILL_AFTER_S = 6.0  # time for runs to record that they were interrupted
ASK_AGAIN_AFTER_S = 3.0
RUN_DEPTH = 3  # `dagster dev` starts a code server, which starts a gRPC server, which starts the runs
POLL_S = 0.2
MAX_PORT = 65535
# `dg dev` would serve only the project of the current folder.
NO_DG_ADVICE = "ignore:Function `dev_command` is superseded"


def serve(root: Path, host: str, port: int, report_port: int | None = None) -> int:
    """Serve a workspace until Ctrl-C or SIGTERM.

    Args:
        report_port: By default the one after it, before it if it is the last.

    Returns:
        2 when the port is taken, else the exit code of `dagster dev`.
    """
    # Without this check Dagster's daemon would start beside that of the server that has the port.
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        print(
            f"rag-eval up: cannot listen on {host}:{port}: {error.strerror}. Is another server running? "
            f"To use another port: rag-eval up --port N",
            file=sys.stderr,
        )
        return 2
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    home = os.environ.get("DAGSTER_HOME")
    if report_port is None:
        report_port = port + 1 if port < MAX_PORT else port - 1
    with _own_instance(home, Workspace(root)), _report(Workspace(root).reports, host, report_port) as report_url:
        environment = _environment(root, report_url)
        process = _start_dagster(host, port, environment, home)
        forwarding = threading.Thread(target=_forward_output, args=(process.stdout, stop), daemon=True)
        forwarding.start()
        announced = False
        try:
            while process.poll() is None and not stop.wait(POLL_S):
                if not announced and is_answering(f"http://{host}:{port}/server_info"):
                    announced = True
                    print(f"Dagster UI: http://{host}:{port} (Ctrl-C stops it)", flush=True)
        finally:
            was_asked = stop.is_set()
            stop.set()
            end_tree(process, depth=RUN_DEPTH, again_after_s=ASK_AGAIN_AFTER_S, kill_after_s=KILL_AFTER_S)
            forwarding.join()
    if was_asked:
        print("Stopped.", flush=True)
    return 0 if was_asked else process.returncode


@contextlib.contextmanager
def _own_instance(home: str | None, workspace: Workspace) -> Iterator[None]:
    """Lock the instance, and fail the runs that an earlier server lost.

    Raises:
        InputError: `other_workspace`.
        ServiceError: `locked`: another server has it, and two daemons of one instance are not supported by Dagster.
    """
    if home is None or not Path(home).is_dir():
        yield
        return
    holder = f"rag-eval up, process {os.getpid()}"
    with locked(Path(home).resolve() / "serve.lock", holder=holder, exclusive=True, wait_seconds=0.0):
        claim_instance(workspace)
        forget_ticks_ahead()
        fail_runs(find_orphaned_runs(), "The server that this run was a part of has ended.")
        yield


def _environment(root: Path, report_url: str) -> dict[str, str]:
    warnings = [os.environ.get("PYTHONWARNINGS"), NO_DG_ADVICE]
    return {
        REPORT_URL_VARIABLE: report_url,  # a value in the environment wins: behind a proxy or in a container
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONWARNINGS": ",".join(filter(None, warnings)),
        WORKSPACE_VARIABLE: str(root),
    }


def _start_dagster(host: str, port: int, environment: dict[str, str], home: str | None) -> "subprocess.Popen[bytes]":
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "dev", "-w", str(CODE_LOCATION), "-h", host, "-p", str(port)]
    # Not in the project's folder: Dagster warns of the template dagster.yaml there, and its processes would import
    # whatever lies beside it under the name of a package.
    return subprocess.Popen(
        command,
        env=environment,
        cwd=home,
        start_new_session=True,
        preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _forward_output(output: "IO[bytes] | None", stop: threading.Event) -> None:
    """Print Dagster's log until it is asked to stop: what it prints afterwards is "Aborted!" and tracebacks of runs."""
    for line in output or ():
        if not stop.is_set():
            sys.stderr.buffer.write(line)
            sys.stderr.flush()


@contextlib.contextmanager
def _report(reports: Path, host: str, port: int) -> Iterator[str]:
    """Serve the report, and yield its address; empty when the port is taken, since the UI works without it."""
    with contextlib.ExitStack() as stack:
        address = ""
        try:
            address = stack.enter_context(report_server(reports, host, port))
            print(f"Report: {address}", flush=True)
        except OSError as error:
            place = f"{host}:{port}: {error.strerror}; it is {reports}/index.html"
            print(
                f"rag-eval up: cannot serve the report on {place}. To use another port: --report-port N",
                file=sys.stderr,
            )
        yield address
