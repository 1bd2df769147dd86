"""`make up`: the Dagster UI and daemon, and nothing left of them afterwards.

`dagster dev` was seen alive ten seconds after SIGTERM with runs active, and killing only the parent left its webserver
and daemon running. So it gets a session of its own; that session is asked to end, given time, and then ended.
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

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 30.0  # for runs to write down that they were interrupted


def main() -> int:
    """Serves until told to stop (Ctrl-C or SIGTERM); returns the exit code of `dagster dev`, 0 after being told."""
    arguments = argparse.ArgumentParser(description="The Dagster UI and daemon of this project.")
    arguments.add_argument(
        "--host", default="127.0.0.1", help="Dagster has no login: anything else opens it to the network."
    )
    arguments.add_argument("--port", default="3000")
    options = arguments.parse_args()
    command = [
        str(Path(sys.executable).with_name("dagster")), "dev", "-w", str(PROJECT / "workspace.yaml"),
        "-h", options.host, "-p", options.port,
    ]  # fmt: skip
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, frame: _note(told, received, frame))
    process = subprocess.Popen(command, start_new_session=True, env=environment)
    print(f"Dagster UI: http://{options.host}:{options.port} (Ctrl-C stops it)", flush=True)
    try:
        while process.poll() is None and not told:
            time.sleep(0.2)
    finally:
        _end(process)
    return 0 if told else process.returncode


def _note(told: list[int], number: int, frame: FrameType | None) -> None:
    told.append(number)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends the whole session: asked first, killed after `PATIENCE_SECONDS`."""
    _signal(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and _alive(process):
        time.sleep(0.2)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


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
