"""The services of deploy/celery/compose.yaml as processes of this machine, and workers as machines of their own.

A machine has its own mounts, processes and host name (`unshare`), its own DAGSTER_HOME, folder for temporary files and
working folder, and sees the shared folder under a path that no other one has. Where namespaces are not allowed, it is
a group of processes with folders of its own.
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from examples.mock_server.process import RunningServer
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.deployment.services import Services
from tests.ports import free_port

CELERY = "deploy/celery"
COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / CELERY / "compose.yaml").read_text())
IN_FLIGHT = 4  # questions of an evaluation
NOBODY = 65534  # Postgres refuses to run as root
UNSHARE = ["unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child"]
LOCATION = {"repositoryName": "__repository__", "repositoryLocationName": "rag_eval_pipeline"}
SENSORS = """query($s: RepositorySelector!) { sensorsOrError(repositorySelector: $s) { __typename
    ... on Sensors { results { id name } } } }"""
STOP_SENSOR = "mutation($id: String!) { stopSensor(id: $id) { __typename } }"
ADD_KEY = """mutation($s: RepositorySelector!, $set: String!, $key: String!) {
    addDynamicPartition(repositorySelector: $s, partitionsDefName: $set, partitionKey: $key) { __typename } }"""
LAUNCH = """mutation($p: ExecutionParams!) { launchRun(executionParams: $p) { __typename
    ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = "mutation($run: String!) { terminateRun(runId: $run) { __typename } }"
RUNS = """{ runsOrError { ... on Runs { results { runId jobName status startTime endTime tags { key value } } } } }"""
EVENTS = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
    ... on LogsCapturedEvent { fileKey } ... on MessageEvent { message timestamp } } } } }"""
CAPTURED = "query($key: [String!]!) { capturedLogs(logKey: $key) { stdout stderr } }"


def missing_programs() -> list[str]:
    """Return what of Debian's packages `postgresql` and `redis-server` is not installed."""
    return [name for name in ("postgres", "initdb", "createdb", "redis-server", "redis-cli") if program(name) is None]


def program(name: str) -> str | None:
    """Return the path of a program; Debian has those of Postgres in a folder of their own."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *map(str, folders)]))


class LocalCluster(Services):
    """Postgres, Redis and Dagster's services, with machines that are started and killed one by one.

    Args:
        beside: A started cluster whose Postgres and Redis this one uses, with a database of its own.
    """

    def __init__(self, folder: Path, workspace: Path, *, beside: "LocalCluster | None" = None) -> None:
        super().__init__(folder, workspace, compose=COMPOSE, settings=f"{CELERY}/dagster.yaml")
        self.workspace = Workspace(workspace)
        self.beside = beside
        self.postgres_port = beside.postgres_port if beside else free_port()
        self.redis_port = beside.redis_port if beside else free_port()
        self.database = "other" if beside else "postgres"
        (workspace / "data" / "compute_logs").mkdir(parents=True, exist_ok=True)
        self.environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "DAGSTER_POSTGRES_URL": f"postgresql+psycopg2://rag_eval@127.0.0.1:{self.postgres_port}/{self.database}",
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "CELERY_BACKEND_URL": f"redis://127.0.0.1:{self.redis_port}/1",
            "RAG_EVAL_COMPUTE_LOGS": str(workspace / "data" / "compute_logs"),
            "RAG_EVAL_MAX_RUNS": "16",
        }

    # --- Services

    def start_postgres(self) -> None:
        """Start Postgres, on a database that is made at the first start."""
        data = self.folder / "postgres"
        user: dict[str, Any] = {}
        if os.getuid() == 0:
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        if not data.exists():
            data.mkdir()
            if user:
                os.chown(data, NOBODY, NOBODY)
            command = [program("initdb"), "--pgdata", data, "--username", "rag_eval", "--auth", "trust", "--no-sync"]
            options = ["--encoding", "UTF8", "--locale", "C"]
            subprocess.run([*command, *options], check=True, capture_output=True, cwd=data, **user)
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [program("postgres"), "-D", data, "-p", str(self.postgres_port), *options]
        self.run("postgres", command, **user)
        ready = "database system is ready to accept connections"
        self.wait("Postgres", lambda: self.log("postgres").read_text().rpartition("starting")[2].count(ready))

    def start_redis(self) -> None:
        """Start Redis with an append-only file, as compose.yaml does."""
        (self.folder / "redis").mkdir(exist_ok=True)
        folder = str(self.folder / "redis")
        options = ["--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes", "--save", ""]
        self.run("redis", [program("redis-server"), "--port", str(self.redis_port), *options])
        self.wait("Redis", lambda: self.redis("ping") == "PONG")

    def redis(self, *words: str) -> str:
        """Send a command to Redis and return its reply."""
        command = [str(program("redis-cli")), "-p", str(self.redis_port), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def kill_service(self, name: str) -> None:
        """End a service at once: Redis by SIGKILL, Postgres by its immediate shutdown."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGQUIT if name == "postgres" else signal.SIGKILL)
        process.wait()

    def start_all(self, machines: Sequence[str]) -> None:
        """Start everything, with sensors off: who drives the cluster says what runs."""
        if self.beside:
            server = ["--host", "127.0.0.1", "--port", str(self.postgres_port), "--username", "rag_eval"]
            subprocess.run([str(program("createdb")), *server, self.database], check=True)
        else:
            self.start_postgres()
            self.start_redis()
        self.start("code")
        self.wait_healthy("code")
        for machine in machines:
            self.start_machine(machine)
        self.start("webserver")
        self.wait_healthy("webserver")
        for sensor in self.ask(SENSORS, s=LOCATION)["results"]:
            self.ask(STOP_SENSOR, id=sensor["id"])
        self.start("daemon")
        for machine in machines:
            self.wait_machine(machine)

    # --- Machines

    def start_machine(self, name: str, *, concurrency: int = 1) -> None:
        """Start a worker, with the command of compose.yaml, as a machine of its own."""
        own = self.folder / name
        for folder in ("instance", "tmp", "cwd", "shared"):
            (own / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(self.home / "dagster.yaml", own / "instance")
        shared = own / "shared"
        environment = self.environment | {
            "DAGSTER_HOME": str(own / "instance"),
            "TMPDIR": str(own / "tmp"),
            "RAG_EVAL_WORKSPACE": str(shared),
            "RAG_EVAL_COMPUTE_LOGS": str(shared / "data" / "compute_logs"),
            "RAG_EVAL_CONCURRENCY": str(concurrency),
        }
        worker = [word.replace("$$", "$") for word in self.command(COMPOSE["services"]["worker"]["command"])]
        if can_unshare():
            others = [path for path in self.folder.iterdir() if (path / "instance").is_dir() and path != own]
            hidden = [self.workspace.root, self.home, *others]
            steps = [
                f"hostname {name}",
                f"mount --bind {self.workspace.root} {shared}",
                *(f"mount -t tmpfs none {path}" for path in hidden),
                f"cd {own / 'cwd'}",
                f"exec {shlex.join(worker)}",
            ]
            command = [*UNSHARE, "sh", "-ec", "\n".join(steps)]
        else:
            if not shared.is_symlink():
                shared.rmdir()
                shared.symlink_to(self.workspace.root)
            command = ["sh", "-ec", f"cd {own / 'cwd'}\nexec {shlex.join(worker)}"]
        with self.log(name).open("a") as log:
            log.write(f"{name}: starting\n")
        self.run(name, command, env=environment)

    def wait_machine(self, name: str) -> None:
        """Wait until the machine's worker accepts runs; its log may have those of earlier starts."""
        started = f"{name}: starting\n"
        self.wait(name, lambda: " ready." in self.log(name).read_text().rpartition(started)[2])

    def kill_machine(self, name: str) -> None:
        """SIGKILL a machine, or a service, with everything that it has started."""
        process = self.processes.pop(name)
        if process.poll() is not None:
            return
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.wait()
        psutil.wait_procs(below)

    def machines_of(self, run: str) -> list[str]:
        """Return the machines that have logged something of a run: one, or none before it has begun."""
        return [path.stem for path in sorted(self.folder.glob("m*.log")) if run in path.read_text()]

    def machine_of(self, run: str) -> str:
        """Return the machine that executes a run."""
        return self.wait(f"the machine of {run}", lambda: self.machines_of(run))[0]

    # --- Runs

    def launch(self, job: str, *keys: str) -> list[str]:
        """Launch a run for each partition as the UI does, and return their ids."""
        started = []
        for key in keys:
            parts = key.split("|")
            for name, part in zip(("benchmarks", "systems"), parts, strict=False):
                self.ask(ADD_KEY, s=LOCATION, set=name, key=part)
            tags = {"dagster/partition": key}
            if len(parts) == 2:
                tags |= dict(zip(("dagster/partition/benchmark", "dagster/partition/system"), parts, strict=True))
            parameters = {
                "selector": {**LOCATION, "jobName": job},
                "mode": "default",
                "runConfigData": {},
                "executionMetadata": {"tags": [{"key": tag, "value": value} for tag, value in tags.items()]},
            }
            reply = self.ask(LAUNCH, p=parameters)
            assert reply["__typename"] == "LaunchRunSuccess", reply
            started.append(reply["run"]["runId"])
        return started

    def terminate(self, run: str) -> None:
        """Cancel a run as the UI does."""
        reply = self.ask(TERMINATE, run=run)
        assert reply["__typename"] == "TerminateRunSuccess", reply

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs with their tags, oldest first."""
        found = self.ask(RUNS)["results"]
        for run in found:
            run["tags"] = {tag["key"]: tag["value"] for tag in run["tags"]}
        return list(reversed(found))

    def events(self, run: str) -> list[dict[str, Any]]:
        """Return the events of a run: messages with their times, and keys of captured output."""
        return list(self.ask(EVENTS, run=run)["events"])

    def captured(self, run: str) -> str:
        """Return what the run's first step wrote to standard error, as the UI shows it."""
        key = next(event["fileKey"] for event in self.events(run) if "fileKey" in event)
        return str(self.ask(CAPTURED, key=[run, "compute_logs", key])["stderr"])

    def wait_done(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Wait until each run, or a retry of it, has succeeded, and return the runs that did."""
        return self.wait("runs that succeed", lambda: self.succeeded(ids))

    def succeeded(self, ids: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return the runs that have succeeded, if each of `ids` is one or was retried by one; else None."""
        found = [run for run in self.runs() if run["status"] == "SUCCESS"]
        reached = {run["tags"].get("dagster/root_run_id", run["runId"]) for run in found}
        return found if reached >= set(ids) else None

    def answers(self) -> dict[str, list[str]]:
        """Return the ids of the questions in each evaluation's journal."""
        journals = sorted(self.workspace.runs.glob("*/journal.jsonl"))
        return {path.parent.name: [record["query_id"] for record in read_journal(path)] for path in journals}

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self.processes)):  # at once: how services end is tested in tests/deployment
            if name == "postgres":
                self.kill_service(name)
            else:
                self.kill_machine(name)


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Read the complete records of a journal."""
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line[9:])


def can_unshare() -> bool:
    """Whether this user may make namespaces with mounts of their own."""
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def cluster_folder() -> Iterator[Path]:
    """Make a folder that Postgres's user can enter, and remove it."""
    with tempfile.TemporaryDirectory(prefix="rag-eval-cluster-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def made_workspace(root: Path, server: RunningServer, *, benchmarks: dict[str, int], systems: Sequence[str]) -> None:
    """Write benchmarks of made-up questions about three text documents, and chat systems at a server."""
    for name, questions in benchmarks.items():
        folder = root / "data" / "sources" / name
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text(
            f"name: {name}\nversion: 1.0.0\nlicense: CC0-1.0\nsource: questions.jsonl\ntables: {{docs: docs.jsonl}}\n"
            "questions: {question: question, answer: answer, contexts: contexts}\n"
            "documents: SELECT name, text FROM docs\n"
        )
        write_rows(
            folder / "questions.jsonl",
            [
                {"question": f"What is the number {n}?", "answer": str(n), "contexts": [{"document": f"book {n % 3}"}]}
                for n in range(questions)
            ],
        )
        write_rows(folder / "docs.jsonl", [{"name": f"book {n}", "text": f"Book {n} counts from 0."} for n in range(3)])
    for name in systems:
        file = root / "data" / "config" / "systems" / f"{name}.config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            "kind: openai\nsettings:\n  chat: {model: mock}\n  stream: false\n"
            f"  endpoint: {{base_url: '{server.openai}', in_flight: {IN_FLIGHT}}}\n"
        )
    (root / "corpus").mkdir()


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a JSON lines file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def interrupt(*_: object) -> None:
    """Handle SIGTERM as Ctrl-C, so that no process stays behind."""
    raise KeyboardInterrupt


def end_with_signals() -> None:
    """End the cluster of a script when the script is ended."""
    signal.signal(signal.SIGTERM, interrupt)
