"""The real webserver and daemon on a scratch workspace: started, asked by GraphQL, and ended with all its processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
import psutil
import pytest

from rag_eval_pipeline.workspace import WORKSPACE_VARIABLE, Workspace
from tests.patience import PATIENCE_S
from tests.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
BUNDLED = REPOSITORY / "examples" / "benchmarks" / "sources"
POLL_SECONDS = 0.3

Found = TypeVar("Found")

RUNS = """query ($filter: RunsFilter) { runsOrError(filter: $filter) {
    ... on Runs { results { runId jobName status startTime endTime tags { key value } } } } }"""
MATERIALIZATIONS = """query ($path: [String!]!, $partitions: [String!]) { assetOrError(assetKey: {path: $path}) {
    ... on Asset { assetMaterializations(partitions: $partitions, limit: 1) { runId metadataEntries { label
        ... on TextMetadataEntry { text } ... on FloatMetadataEntry { floatValue } } } } } }"""
PARTITIONS = """query ($path: [String!]!) { assetNodeOrError(assetKey: {path: $path}) {
    ... on AssetNode { partitionKeys } } }"""


class Run(NamedTuple):
    """A run as the server tells it; times in seconds since 1970, None before they have come."""

    run_id: str
    job: str
    status: str
    started: float | None
    ended: float | None
    tags: dict[str, str]


class Materialization(NamedTuple):
    """The newest of an asset or of a partition: the run that made it, and its metadata by label."""

    run_id: str
    metadata: dict[str, Any]


class Server:
    """`serve` with its workspace."""

    def __init__(self, folder: Path, sources: list[Path]) -> None:
        self.workspace = Workspace(folder / "workspace")
        self.log = folder / "server.log"
        environment = {
            **os.environ,
            WORKSPACE_VARIABLE: str(self.workspace.root),
            "DAGSTER_HOME": str(folder / "home"),
            "PYTHONWARNINGS": "ignore::DeprecationWarning",  # as `make` sets it
        }
        shutil.copytree(REPOSITORY / "data" / "config", self.workspace.config)
        for source in sources:
            self.drop(source)
        (folder / "home").mkdir()
        shutil.copy(REPOSITORY / "dagster.yaml", folder / "home")
        self.port, self.report_port = free_port(), free_port()
        self.url, self.report_url = (f"http://127.0.0.1:{port}" for port in (self.port, self.report_port))
        command = [
            sys.executable,
            "-m",
            "rag_eval_pipeline.cli",
            "up",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--report-port",
            str(self.report_port),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def drop(self, source: Path) -> None:
        """Puts a copy of a benchmark's folder into `data/sources`, complete from the moment that it is seen."""
        incoming = self.workspace.root / "incoming" / source.name
        shutil.copytree(source, incoming)
        self.workspace.sources.mkdir(parents=True, exist_ok=True)
        incoming.rename(self.workspace.sources / source.name)

    def is_up(self) -> bool:
        """Whether the webserver answers."""
        try:
            return httpx.get(f"{self.url}/server_info").is_success
        except httpx.TransportError:
            return False

    def ask(self, query: str, **variables: object) -> Any:
        """The value of the query's only field."""
        answer = httpx.post(
            f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=PATIENCE_S
        ).json()
        assert "errors" not in answer, answer["errors"]
        (value,) = answer["data"].values()
        return value

    def runs(self, job: str | None = None, partition: str | None = None) -> list[Run]:
        """Runs, newest first."""
        tags = [{"key": "dagster/partition", "value": partition}] if partition else []
        wanted = {"tags": tags} | ({"pipelineName": job} if job else {})
        return [
            Run(
                r["runId"], r["jobName"], r["status"], r["startTime"], r["endTime"],
                {tag["key"]: tag["value"] for tag in r["tags"]},
            )
            for r in self.ask(RUNS, filter=wanted)["results"]
        ]  # fmt: skip

    def partitions(self, asset: str) -> list[str]:
        """Partition keys of an asset."""
        return list(self.ask(PARTITIONS, path=[asset]).get("partitionKeys", ()))

    def materialization(self, asset: str, partition: str | None = None) -> Materialization | None:
        """The newest, None before the first."""
        partitions = [partition] if partition else None
        found = self.ask(MATERIALIZATIONS, path=[asset], partitions=partitions).get("assetMaterializations")
        if not found:
            return None
        entries = found[0]["metadataEntries"]
        return Materialization(found[0]["runId"], {e["label"]: e.get("text", e.get("floatValue")) for e in entries})

    def wait(self, what: str, find: Callable[[], Found | None]) -> Found:
        """What `find` finds, asked until it is something true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := find()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(
                    f"waited in vain for {what}; found {found!r}\n{self.log.read_text()[-6000:]}", pytrace=False
                )
            time.sleep(POLL_SECONDS)
        return found

    def family(self) -> list[psutil.Process]:
        """Processes that came from this server, by descent or by the workspace in their environment."""
        found = set()
        for process in psutil.process_iter():
            try:
                if process.environ().get(WORKSPACE_VARIABLE) == str(self.workspace.root):
                    found |= {process, *process.children(recursive=True)}
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return sorted(found, key=lambda process: process.pid)

    def has_browser(self) -> bool:
        """Whether a run of this server renders pages now."""
        return any("headless" in line or "chrom" in line for line in map(command_line, self.family()))

    def stop(self, number: signal.Signals) -> list[str]:
        """Send the signal, and return the command lines of the processes that are still there after `PATIENCE_S`."""
        if self.process.poll() is not None:
            return []
        family = self.family()
        deadline = time.monotonic() + PATIENCE_S
        self.process.send_signal(number)
        while (left := _living({*family, *self.family()})) and time.monotonic() < deadline:
            self.process.poll()  # else the server stays a zombie
            time.sleep(POLL_SECONDS)
        lines = [f"{process.pid}: {command_line(process)}" for process in left]
        for process in left:
            process.kill()
        self.process.wait()
        return lines


def command_line(process: psutil.Process) -> str:
    """The command, or nothing when the process has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def _living(processes: set[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a zombie whose parent is init is not ours to reap."""
    living = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
        except psutil.NoSuchProcess:
            continue
    return living
