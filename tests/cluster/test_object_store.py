"""Machines that share nothing but a bucket: the same bytes as one folder, and nothing lost when one dies.

A machine is a process with a folder of its own; the bucket is moto's, behind a gate that can be shut.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("obstore")

from moto.server import ThreadedMotoServer

from rag_eval_pipeline.storage.journal import read_journal
from rag_eval_pipeline.storage.store import Store, open_store
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import copy_settings
from tests.json_server import json_server

NAME = "ledger"
QUESTIONS = 24
BENCHMARK = """
name: ledger
title: Ledger
version: 1.0.0
license: CC0-1.0
source: {path: ledger.jsonl}
questions: |
  SELECT question, answer, [{'document': 'ledger ' || page}] AS contexts FROM source
documents: |
  SELECT DISTINCT 'ledger ' || page AS name, 'Page ' || page || ' of the ledger has the number ' || page || '.' AS text
  FROM source ORDER BY name
"""
TERM = 2.0  # of leases, in seconds


class Gate:
    """A port that leads to a server; while it is shut, connections are refused and those there are end."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._start()

    def shut(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):  # its other end has gone
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class System:
    """A paid system: it counts its questions, and calls `on_answer` with their number before each answer."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.on_answer: Callable[[int], None] = lambda number: None

    def __call__(self, path: str, body: Any) -> Any:
        self.asked[body["question"]] += 1
        self.on_answer(self.asked.total())
        return {"answer": "7"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Gate, str]]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    gate = Gate(port)
    url = f"http://127.0.0.1:{gate.port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        yield gate, "s3://bucket"
    gate.shut()
    server.stop()


class Machines:
    """Machines by name, on one prefix of the bucket."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.store: Store = open_store(url)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, machine: str, *command: str) -> "subprocess.Popen[str]":
        shared = {"RAG_EVAL_STORE": self.url, "RAG_EVAL_LEASE_SECONDS": str(TERM), "RAG_EVAL_STORE_PUT_SECONDS": "0.2"}
        environment = {**os.environ, **(shared if machine != "alone" else {})}
        self.started.append(
            subprocess.Popen(
                [sys.executable, "-m", "rag_eval_pipeline.cli", *command],
                env=environment | {"RAG_EVAL_WORKSPACE": str(self.folder / machine)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            )
        )  # fmt: skip
        return self.started[-1]

    def run(self, machine: str, *command: str) -> str:
        process = self.start(machine, *command)
        out, err = process.communicate(timeout=400)
        assert process.returncode == 0, err
        return out

    def objects(self) -> dict[str, bytes]:
        return {found.path: self.store.get(found.path)[0] for found in self.store.list()}  # type: ignore[index]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a benchmark of text documents, not converted."""
    root = tmp_path_factory.mktemp("source")
    copy_settings(root)
    for file in (root / "data/config/systems").iterdir():
        file.unlink()
    folder = Workspace(root).benchmark(NAME).source
    folder.mkdir(parents=True)
    (folder / "benchmark.yaml").write_text(BENCHMARK)
    rows = ({"question": f"Which number is on line {i}?", "answer": "7", "page": i % 4} for i in range(QUESTIONS))
    (folder / "ledger.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return root


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    system = System()
    with json_server(system) as server:
        system.url = server.url  # type: ignore[attr-defined]
        yield system


@pytest.fixture(scope="module")
def alone(source: Path, system: System, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One machine without a store, that has converted and evaluated."""
    settings = {
        "endpoint": {"base_url": system.url, "in_flight": 2},  # type: ignore[attr-defined]
        "path": "/ask", "body": {"question": "{question}"}, "answer": "answer",
    }  # fmt: skip
    file = Workspace(source).system_file("paid")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"kind": "http", "nightly": True, "settings": settings}))
    folder = tmp_path_factory.mktemp("folder")
    shutil.copytree(source, folder / "alone")
    machines = Machines(folder, folder.as_uri())
    machines.run("alone", "convert", NAME)
    machines.run("alone", "evaluate", NAME, "--system", "paid")
    return folder / "alone"


@pytest.fixture
def machines(
    bucket: tuple[Gate, str], source: Path, alone: Path, system: System, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Machines]:
    """Machines on a prefix with the converted benchmark, which nobody has evaluated."""
    made = Machines(tmp_path, f"{bucket[1]}/{request.node.name}")
    for file in alone.rglob("*"):
        path = file.relative_to(alone).as_posix()
        if file.is_file() and file.name != ".lock" and not path.startswith(("data/evaluation/r", "data/evaluation/s")):
            made.store.put(path, file.read_bytes(), replaces=None)
    system.asked.clear()
    system.on_answer = lambda number: None
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def products(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files that do not name an id, a time or a duration."""
    kept = ("corpus/", "data/datasets/", "data/evaluation/datasets/", "data/evaluation/ground_truth/")
    return {path: data for path, data in files.items() if path.startswith(kept) and "corpus.hashes" not in path}


def answers(machines: Machines, evaluation_id: str) -> list[str]:
    path = machines.folder / "journal"
    path.write_bytes(machines.objects()[f"data/evaluation/runs/{evaluation_id}/journal.jsonl"])
    return [answer["query_id"] for answer in read_journal(path)]


def test_two_machines_make_the_bytes_of_one_folder(
    bucket: tuple[Gate, str], source: Path, alone: Path, tmp_path: Path
) -> None:
    machines = Machines(tmp_path, f"{bucket[1]}/bytes")
    for file in source.rglob("*"):
        if file.is_file():
            machines.store.put(file.relative_to(source).as_posix(), file.read_bytes(), replaces=None)

    machines.run("a", "convert", NAME)
    machines.run("b", "evaluate", NAME, "--system", "paid")
    machines.run("a", "report")
    status = machines.run("c", "status")

    expected = {p.relative_to(alone).as_posix(): p.read_bytes() for p in alone.rglob("*") if p.is_file()}
    expected = {
        path: data
        for path, data in expected.items()
        if not path.endswith((".lock", "/.last_id")) and "sets/ledger/corpus/" not in path
    }
    found = machines.objects()
    assert products(found) == products(expected)
    assert {path for path in found if path.startswith("data/evaluation/runs")} == {
        path for path in expected if path.startswith("data/evaluation/runs")
    }
    assert "data/reports/index.html" in found
    assert "ledger x paid  evaluated" in status


def test_a_machine_that_is_killed_is_continued_by_another(machines: Machines, system: System) -> None:
    killed = machines.start("a", "evaluate", NAME, "--system", "paid")
    stored = threading.Event()

    def kill(number: int) -> None:
        if number < 12:
            return
        while number == 12 and not [
            one for one in machines.store.list("data/evaluation/runs") if ".parts/" in one.path
        ]:
            stored.wait(0.05)
        if killed.poll() is None and number >= 13:
            killed.send_signal(signal.SIGKILL)

    system.on_answer = kill
    killed.communicate(timeout=400)
    machines.run("b", "evaluate", NAME, "--system", "paid")

    assert killed.returncode == -signal.SIGKILL
    assert sorted(Counter(answers(machines, only_evaluation(machines))).values()) == [1] * QUESTIONS
    assert max(system.asked.values()) == 2
    again = sum(count - 1 for count in system.asked.values())
    assert again < QUESTIONS / 2, "what had been stored was not asked again"


def test_a_machine_that_stood_still_publishes_nothing(machines: Machines, system: System) -> None:
    frozen = machines.start("a", "evaluate", NAME, "--system", "paid")

    def freeze(number: int) -> None:
        if number == 10:
            frozen.send_signal(signal.SIGSTOP)

    system.on_answer = freeze
    while system.asked.total() < 10:
        threading.Event().wait(0.05)
    machines.run("b", "evaluate", NAME, "--system", "paid")
    before = machines.objects()
    frozen.send_signal(signal.SIGCONT)
    _, err = frozen.communicate(timeout=400)

    assert frozen.returncode == 4, err
    assert err.splitlines()[-1].startswith("rag-eval: pair/ledger/paid was taken over by another machine"), err
    assert "[lease_lost]" in err
    after = machines.objects()
    removed = before.keys() - after.keys()  # lines that it was putting when it was stopped
    assert all(".parts/" in path for path in removed), removed
    assert after == {path: data for path, data in before.items() if path not in removed}


def test_a_store_that_is_away_for_a_while_loses_nothing(
    machines: Machines, system: System, bucket: tuple[Gate, str]
) -> None:
    def shut(number: int) -> None:
        if number == 8:
            bucket[0].shut()
            threading.Timer(2.5 * TERM, bucket[0].open).start()

    system.on_answer = shut
    machines.run("a", "evaluate", NAME, "--system", "paid")

    assert set(system.asked.values()) == {1}
    assert len(answers(machines, only_evaluation(machines))) == QUESTIONS


def only_evaluation(machines: Machines) -> str:
    ids = {path.split("/")[3] for path in machines.objects() if path.endswith("/evaluation.json")}
    assert len(ids) == 1
    return ids.pop()
