"""The code location's gRPC server with its runs, stopped so that the runs can be resumed later.

Runs are child processes of the server, and a container ends with its first process. Without this script, a server that
receives SIGTERM would wait for its runs until the engine kills all of them, and Dagster would keep a killed run as
"started". So each run is interrupted as well, records the interruption, and is retried at the next start; its journal
keeps what it has done. Browsers and document readers are left to their runs: if its browser ends first, a run regards
that as a failed step, which is not retried.

Runs that do not end in time are killed here; the engine would kill the server too, before it could log anything.

If a run could not record anything (power cut, memory, a run that hung), Dagster would regard it as running until
`max_runtime_seconds`: for six hours its system would be asked nothing and no report would be made. Such runs are found
before the server starts, and marked as failed once it answers: Dagster then retries them, which it does in vain, and
not again, while there is no code server.

gRPC would share a port with a server that is there already, and each would answer half of the calls: a port in use is
refused. If this script is killed, the kernel sends SIGTERM to its server, so that none is left behind on the port.

Where runs go to Celery's workers, they go to the queue of those with this instance, browser and fonts: the launcher
reads its name from the container context that Dagster keeps with each run.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.serving.instance import (
    claim_instance,
    fail_runs,
    find_orphaned_runs,
    forget_ticks_ahead,
    is_launched_by_celery,
    run_queue,
)
from rag_eval_pipeline.storage.process import end_tree, end_with_parent
from rag_eval_pipeline.workspace import Workspace, default_root

MODULE = "rag_eval_pipeline.definitions"
# Long enough for a run to close its browser, and several times within the grace period.
AGAIN_SECONDS = 8.0
GRACE_SECONDS = 45.0  # of the 60 that compose.yaml gives
POLL_SECONDS = 0.2
CALLS_SECONDS = 20  # for calls that the server still answers; Dagster waits 60 by default


def main() -> int:
    """Serve until SIGTERM or SIGINT, and then until the last run has ended.

    Returns:
        The exit code of Dagster's server; 0 after a signal, 2 if the port is in use, or DAGSTER_HOME is not set or
        another workspace's.
    """
    arguments = argparse.ArgumentParser(description="The gRPC server of this code location, and its runs.")
    arguments.add_argument(
        "--host", default="127.0.0.1", help="gRPC has no login: only services of this deployment may reach it."
    )
    arguments.add_argument("--port", type=int, default=4000)
    arguments.add_argument(
        "--grace", type=float, default=GRACE_SECONDS, help="Seconds in which runs can end; then they are killed."
    )
    options = arguments.parse_args()
    if not os.environ.get("DAGSTER_HOME"):
        print("code server: set DAGSTER_HOME to the folder of this instance's dagster.yaml.", file=sys.stderr)
        return 2
    try:
        reserved = _reserve(options.host, options.port)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (")[0]
        print(
            f"code server: cannot listen on {options.host}:{options.port}: {reason}. Another code server may be "
            "running, or wait for its runs to end: stop it, or choose another --port.",
            file=sys.stderr,
        )
        return 2
    try:
        claim_instance(Workspace(Path(default_root()).resolve()))
    except InputError as error:
        print(f"code server: {error}", file=sys.stderr)
        return 2
    forget_ticks_ahead()
    orphaned = find_orphaned_runs()
    dagster = Path(sys.executable).with_name("dagster")
    address = ["--host", options.host, "--port", str(options.port)]
    # A session of its own: Ctrl-C in a terminal goes to every process of a group, browsers included.
    command = [dagster, "api", "grpc", "--module-name", MODULE, *address]
    environment = {"DAGSTER_GRPC_SHUTDOWN_GRACE_PERIOD": str(CALLS_SECONDS), **os.environ}
    server = subprocess.Popen(
        [*command, *_celery_queue()],
        env=environment,
        start_new_session=True,
        preexec_fn=_prepare_server,
    )
    if orphaned:
        threading.Thread(target=_fail_when_ready, args=(options.host, options.port, orphaned), daemon=True).start()
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    while server.poll() is None and not asked.wait(POLL_SECONDS):
        pass
    was_asked = asked.is_set()
    if was_asked:
        # Asked once, the server accepts no more runs and waits for those that it has.
        again = min(AGAIN_SECONDS, options.grace)
        killed = end_tree(server, depth=1, again_after_s=again, kill_after_s=options.grace, again=asked)
        if killed:
            print(f"Runs did not end and were killed with all they had started: {killed} in all.", file=sys.stderr)
    reserved.close()
    return 0 if was_asked else server.returncode


def _reserve(host: str, port: int) -> socket.socket:
    """Return a socket that keeps others from this port; Dagster's server, which shares ports, can listen on it.

    Raises:
        OSError: The port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, port), family=family).close()
    held = socket.socket(family)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((host, port))  # it does not listen, so it is sent no connections
    return held


def _fail_when_ready(host: str, port: int, run_ids: list[str]) -> None:
    """Mark runs as failed once the server answers."""
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, port)):
            break
        time.sleep(POLL_SECONDS)
    fail_runs(run_ids, "The code server that this run was a part of has ended.")


def _prepare_server() -> None:
    end_with_parent(signal.SIGTERM)
    # A shell script ignores SIGINT for what it starts with `&`, and Dagster handles SIGTERM as it does SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _celery_queue() -> list[str]:
    """Return the option that names the queue of this machine's runs; nothing unless Celery launches them."""
    if not is_launched_by_celery():
        return []
    from rag_eval_pipeline.corpus.worker_queues import this_worker

    return ["--container-context", json.dumps({"celery": {"queue": run_queue(this_worker().queue)}})]


if __name__ == "__main__":
    sys.exit(main())
