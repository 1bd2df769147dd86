"""The code location's gRPC server with its runs, ended so that runs can go on later.

Runs are processes below the server, and a container ends with its first process: told to stop, the server alone would
wait for its runs until the engine kills all of them, and a run that is killed stays "started" for Dagster. So each run
is interrupted too, writes down that it was, and is tried again at the next start; its journal keeps what it has done.
Browsers and readers are left to their runs: a run whose browser ends first takes that for a failed step, which is not
tried again.

What does not end in time is killed here: the engine would kill the server too, before it has said anything.

Where there was no time to write anything down (power, memory, a run that hung), Dagster would take its runs for running
until `max_runtime_seconds`, six hours in which their systems are asked nothing and no report is made. They are told to
have failed when the server starts, and tried again in the same way.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import psutil

from rag_eval_pipeline.defs.instance import fail_orphaned_runs

MODULE = "rag_eval_pipeline.definitions"
# An interrupt is an exception, raised wherever the run is just then; in a callback of the browser's driver it is
# logged and lost. Long enough for a run to end its browser; several times in the grace that compose.yaml gives.
AGAIN_SECONDS = 8.0
GRACE_SECONDS = 45.0  # of the 60 that compose.yaml gives
CALLS_SECONDS = 20  # for calls that the server still answers; Dagster waits 60 by default


def main() -> int:
    """Serves until told to stop (SIGTERM or SIGINT), and then until the last run has ended.

    Returns:
        The exit code of Dagster's server, 0 after being told.
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
    fail_orphaned_runs("The code server that this run was a part of has ended.")
    dagster = Path(sys.executable).with_name("dagster")
    address = ["--host", options.host, "--port", str(options.port)]
    # A session of its own: Ctrl-C in a terminal goes to every process of a group, browsers included.
    command = [dagster, "api", "grpc", "--module-name", MODULE, *address]
    environment = {"DAGSTER_GRPC_SHUTDOWN_GRACE_PERIOD": str(CALLS_SECONDS), **os.environ}
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    told: list[float] = []  # when

    def stop(number: int, frame: FrameType | None) -> None:
        told.append(time.monotonic())  # before anything else: the next signal may come in the middle of this one
        is_first, is_late = len(told) == 1, told[-1] - told[0] >= options.grace
        if is_late and not _kill_runs(server.pid):  # it has no run any more, and does not end either
            print("Dagster's code server did not end and was killed.", file=sys.stderr, flush=True)
            server.kill()
        elif not is_late:
            _interrupt_runs(server.pid)
        if is_first:
            server.terminate()  # it takes no further runs, and waits for these
            again = min(AGAIN_SECONDS, options.grace)
            signal.setitimer(signal.ITIMER_REAL, again, again)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, stop)
    server.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)  # Python ends without its handlers, and would end by the alarm
    return 0 if told else server.returncode


def _interrupt_runs(server: int) -> None:
    """SIGTERM to the processes that the server started, and to none that those have started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for run in psutil.Process(server).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                run.terminate()


def _kill_runs(server: int) -> bool:
    """SIGKILL to the runs and all that they have started; whether there was one."""
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(server).children(recursive=True)
    killed = 0
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
                killed += 1
    if killed:
        print(
            f"Runs did not end and were killed with all they had started: {killed} in all.", file=sys.stderr, flush=True
        )
    return killed > 0


if __name__ == "__main__":
    sys.exit(main())
