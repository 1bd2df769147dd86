"""The services of compose.yaml as processes of this machine: their own commands, on free ports, in temporary folders."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import httpx
import psutil
import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.patience import PATIENCE_S
from tests.ports import free_port

COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
INSTALLED = "/opt/rag-eval/deploy"  # where the image has the files of deploy/
POLL_SECONDS = 0.2

LOCATION = {"repositoryName": "__repository__", "repositoryLocationName": "rag_eval_pipeline"}

Found = TypeVar("Found")


class Services:
    """Services that were started, with the folders that stand for their volumes."""

    def __init__(
        self, folder: Path, workspace: Path, *, compose: dict[str, Any] = COMPOSE, settings: str = "dagster.yaml"
    ) -> None:
        self.folder = folder
        self.compose = compose
        self.home = folder / "instance"
        self.home.mkdir()
        shutil.copy(REPOSITORY / settings, self.home / "dagster.yaml")
        self.ports = {"4000": free_port(), "3000": free_port()}
        self.url = f"http://127.0.0.1:{self.ports['3000']}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "DAGSTER_HOME": str(self.home),
            "RAG_EVAL_WORKSPACE": str(workspace),
            "RAG_EVAL_CODE_HOST": "127.0.0.1",
            "RAG_EVAL_CODE_PORT": str(self.ports["4000"]),
            "PYTHONWARNINGS": "ignore::DeprecationWarning",  # as the image sets it
        }

    def command(self, words: Sequence[str]) -> list[str]:
        """A command of the image with this machine's programs, files and ports."""
        translated = []
        for word in words:
            for port, free in self.ports.items():
                word = str(free) if word == port else word.replace(f":{port}", f":{free}")
            translated.append(word.replace(INSTALLED, str(REPOSITORY / "deploy")).replace("0.0.0.0", "127.0.0.1"))
        program, *rest = translated
        own = Path(sys.executable).with_name(program)
        return [str(own) if own.exists() else program, *rest]

    def start(self, name: str, **environment: str) -> None:
        """Starts a service with the command that compose.yaml gives it."""
        self.run(name, self.command(self.compose["services"][name]["command"]), env=self.environment | environment)

    def run(self, name: str, command: Sequence[str], **options: Any) -> None:
        """Starts a process under a name."""
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                **options,
            )  # fmt: skip

    def health(self, name: str) -> "subprocess.CompletedProcess[str]":
        """What the service's health check comes to."""
        mark, *test = self.compose["services"][name]["healthcheck"]["test"]
        assert mark == "CMD"
        return subprocess.run(self.command(test), env=self.environment, capture_output=True, text=True, check=False)

    def wait_healthy(self, name: str) -> None:
        """Waits as `depends_on: {condition: service_healthy}` does; each check is a process, so not before it listens."""
        port = self.ports[{"code": "4000", "webserver": "3000"}[name]]
        self.wait(name, lambda: _is_listening(port) and self.health(name).returncode == 0)

    def ask(self, query: str, **variables: object) -> Any:
        """The value of the GraphQL query's only field."""
        answer = httpx.post(
            f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=PATIENCE_S
        ).json()
        assert "errors" not in answer, answer["errors"]
        (value,) = answer["data"].values()
        return value

    def wait(self, what: str, find: Callable[[], Found | None]) -> Found:
        """What `find` finds, asked until it is something true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := find()):
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(self.log(name).read_text()[-3000:] for name in self.processes)
                pytest.fail(f"waited in vain for {what}; ended: {ended}\n{logs}", pytrace=False)
            time.sleep(POLL_SECONDS)
        return found

    def wait_gone(self, processes: Sequence[psutil.Process]) -> None:
        """Waits until processes have ended."""
        self.wait(f"the end of {processes}", lambda: not any(map(is_alive, processes)))

    def log(self, name: str) -> Path:
        """What a service has said."""
        return self.folder / f"{name}.log"

    def stop(self, name: str) -> int:
        """Ends a service as an engine does: SIGTERM to its first process, then SIGKILL to all that is left of it.

        Returns:
            Its exit code; -9 where it had to be killed.
        """
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            process.kill()
            return process.wait()

    def stop_all(self) -> dict[str, int]:
        """Ends what runs, what depends on others first, and returns the exit codes."""
        return {name: self.stop(name) for name in reversed(list(self.processes))}

    def family(self) -> list[int]:
        """Ids of the processes that work on this instance."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("DAGSTER_HOME") == str(self.home) and is_alive(process):
                    found.append(process.pid)
        return found


def run_worker(instance: dg.DagsterInstance, run_id: str) -> psutil.Process:
    """The process that executes a run that has begun."""
    told = "\n".join(entry.message for entry in instance.all_logs(run_id))
    found = re.search(r"Started process for run \(pid: (\d+)\)", told)
    assert found, told
    return psutil.Process(int(found[1]))


def retry_of(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun | None:
    """The run that Dagster made in place of one that failed."""
    return next(iter(instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run_id}))), None)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie waits for a parent that is not ours."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
