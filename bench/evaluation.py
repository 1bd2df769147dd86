"""Asking a server many questions: how near the rate comes to the possible one, what the journal and Dagster cost.

    python bench/evaluation.py [--questions 4000] [--through-dagster 1000] [--judged 2000] [--rounds 3]

A mock server in a process of its own answers each request after 50 ms. The parts, each measured in this process or
its children on the same machine, one after the other:

- bare: httpx alone, 64 requests in flight, the same bodies, nothing kept: once with one client, as it is usually
  written, and once with a client a connection, which is what one core can send. The ideal rate is 64 / 50 ms, or the
  latter where it is lower.
- ask: `evaluation.asking.ask` of a whole benchmark, with everything that belongs to it: retries, accounts, journal,
  samples of memory, and at the end `responses.parquet`. Its rate counts from the first to the last answer.
- journal: the time inside `JournalWriter.append` and `commit`, as a share of the time of `ask`.
- Dagster: the same `--through-dagster` questions by `rag-eval evaluate` and by `dagster job execute`, which does what
  Dagster's run worker does, in processes of their own, by turns: processor and wall-clock time of each, and of which
  the time from the first to the last answer.
- judged: `--judged` questions are asked and their answers judged by a model, each after 1 s and 64 at once, without a
  reply in the cache; the ideal is the number of requests / 64, in seconds, of each phase.

What is lost and what grows when many evaluations run at once is in `bench/load.py`.

Nothing here is a limit of a test: machines differ. The ratios are what to look at.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import dagster as dg
import httpx

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the mock server belongs to the examples

from examples.mock_server.process import RunningServer, mock_rag_server  # noqa: E402
from rag_eval_pipeline.conversion.convert import convert  # noqa: E402
from rag_eval_pipeline.evaluation.asking import ask  # noqa: E402
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation  # noqa: E402
from rag_eval_pipeline.evaluation.judging import JudgementCounts  # noqa: E402
from rag_eval_pipeline.evaluation.pair import load_pair  # noqa: E402
from rag_eval_pipeline.evaluation.pipeline import evaluate  # noqa: E402
from rag_eval_pipeline.storage import journal  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402

LATENCY_MS = 50.0
IN_FLIGHT = 64
DAGSTER_LATENCIES_MS = (LATENCY_MS, 2000.0)
JUDGED_LATENCY_MS = 1000.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--questions", type=int, default=4000, help="0 leaves the rates out")
    arguments.add_argument("--through-dagster", type=int, default=1000, help="questions; 0 leaves it out")
    arguments.add_argument("--latencies", type=float, nargs="*", default=DAGSTER_LATENCIES_MS, help="of it, in ms")
    arguments.add_argument("--judged", type=int, default=2000, help="questions; 0 leaves it out")
    arguments.add_argument("--rounds", type=int, default=3, help="of Dagster's part")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-evaluation-") as folder:
        root = Path(folder)
        if given.questions:
            with mock_rag_server(canned=True, latency_ms=LATENCY_MS) as server:
                rates(root / "rates", server, given.questions)
        for latency_ms in given.latencies if given.through_dagster else ():
            with mock_rag_server(canned=True, latency_ms=latency_ms) as server:
                through_dagster(root / f"dagster-{latency_ms:g}", server, latency_ms, given)
        if given.judged:
            with mock_rag_server(canned=True, latency_ms=JUDGED_LATENCY_MS) as server:
                judged(root / "judged", server, given.judged)


def rates(root: Path, server: RunningServer, questions: int) -> None:
    workspace = make_workspace(root, server, {"load": questions})
    usual = questions / 4 / asyncio.run(bare_seconds(server, questions // 4, clients=1))
    bare = questions / asyncio.run(bare_seconds(server, questions, clients=IN_FLIGHT))
    ideal = min(IN_FLIGHT / (LATENCY_MS / 1000), bare)
    print(f"{'part':28} {'questions/s':>12} {'of the ideal':>13} {'CPU ms each':>12} {'journal':>8}")
    print(f"{'ideal by latency':28} {IN_FLIGHT / (LATENCY_MS / 1000):12.0f}")
    print(f"{'bare httpx, one client':28} {usual:12.0f}")
    print(f"{'bare httpx, 64 clients':28} {bare:12.0f}")
    for system in ("chat", "blueprint"):
        pair = load_pair(workspace, "load", system)
        with timed_journal() as spent:
            started, cpu = time.perf_counter(), time.process_time()
            first_and_last: list[float] = []
            ask(
                workspace,
                pair,
                now=datetime.now(UTC),
                progress=lambda done, total, seen=first_and_last: seen.append(time.perf_counter()),
            )
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        rate = (len(first_and_last) - 1) / (first_and_last[-1] - first_and_last[0])
        share = spent[0] / (first_and_last[-1] - first_and_last[0])
        print(f"{'ask, ' + system:28} {rate:12.0f} {rate / ideal:13.2f} {1000 * cpu / questions:12.2f} {share:8.1%}")
        print(f"{'  with opening and writing':28} {questions / seconds:12.0f}")


async def bare_seconds(server: RunningServer, questions: int, *, clients: int) -> float:
    numbers = iter(range(questions))
    each = IN_FLIGHT // clients
    limits = httpx.Limits(max_connections=each, max_keepalive_connections=each)
    async with contextlib.AsyncExitStack() as stack:
        made = [httpx.AsyncClient(limits=limits, trust_env=False, timeout=60) for _ in range(clients)]
        for client in made:
            await stack.enter_async_context(client)

        async def worker(client: httpx.AsyncClient) -> None:
            for number in numbers:
                body = {"model": "mock", "messages": [{"role": "user", "content": question("load", number)}]}
                (await client.post(f"{server.openai}/chat/completions", json=body)).raise_for_status()

        started = time.perf_counter()
        await asyncio.gather(*(worker(made[at % clients]) for at in range(IN_FLIGHT)))
        return time.perf_counter() - started


def question(benchmark: str, number: int) -> str:
    """Return a question of its own: the server draws its faults by question and attempt."""
    return f"What is the number {number} of {benchmark}?"


class timed_journal:
    """Seconds spent in the journal while a block runs."""

    def __enter__(self) -> list[float]:
        self._append = journal.JournalWriter.append
        spent = [0.0]
        append = self._append

        def timed(writer: journal.JournalWriter, record: object) -> None:
            started = time.perf_counter()
            append(writer, record)
            spent[0] += time.perf_counter() - started

        journal.JournalWriter.append = timed  # type: ignore[method-assign]
        return spent

    def __exit__(self, *_: object) -> None:
        journal.JournalWriter.append = self._append  # type: ignore[method-assign]


def through_dagster(root: Path, server: RunningServer, latency_ms: float, given: argparse.Namespace) -> None:
    workspace = make_workspace(root, server, {"load": given.through_dagster})
    home = root / "home"
    home.mkdir()
    shutil.copy(REPOSITORY / "dagster.yaml", home)
    with dg.DagsterInstance.from_config(str(home)) as instance:  # as the sensor does
        instance.add_dynamic_partitions("benchmarks", ["load"])
        instance.add_dynamic_partitions("systems", ["chat"])
    environment = {**os.environ, "RAG_EVAL_WORKSPACE": str(root), "PYTHONWARNINGS": "ignore"}
    environment.pop("DAGSTER_HOME", None)
    programs = Path(sys.executable)
    names = {"dagster/partition/benchmark": "load", "dagster/partition/system": "chat"}
    tags = json.dumps({"dagster/partition": "load|chat", **names})
    command = ("job", "execute", "-m", "rag_eval_pipeline.definitions", "-j", "evaluate", "--tags", tags)
    ways = {
        "rag-eval evaluate": ([programs.with_name("rag-eval"), "evaluate", "load", "--system", "chat"], environment),
        "Dagster's run": ([programs.with_name("dagster"), *command], environment | {"DAGSTER_HOME": str(home)}),
    }
    measured: dict[str, list[list[float]]] = {name: [] for name in ways}
    for turn in range(given.rounds + 1):
        for name, (words, variables) in ways.items():
            used = measure(words, variables)
            if turn:  # the first makes Dagster's databases
                record = newest_evaluation(workspace, "load", "chat").record
                measured[name].append([*used, record.asking_seconds])
    ideal = math.ceil(given.through_dagster / IN_FLIGHT) * latency_ms / 1000
    print(f"\n{given.through_dagster} questions, answered after {latency_ms:g} ms, {IN_FLIGHT} in flight; medians")
    print(f"{'':20} {'wall s':>8} {'asking s':>9} {'beside it':>10} {'CPU s':>8}")
    print(f"{'ideal by latency':20} {'':8} {ideal:9.2f}")
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in measured.items()
    }
    for name, (wall, cpu, asking) in medians.items():
        print(f"{name:20} {wall:8.2f} {asking:9.2f} {wall - asking:10.2f} {cpu:8.2f}")
    alone, run = medians.values()
    shares = [(more - less) / more for less, more in zip(alone[:2], run[:2], strict=True)]
    print(f"Dagster's share: {shares[0]:.1%} of the time, {shares[1]:.1%} of the processor time")


def judged(root: Path, server: RunningServer, questions: int) -> None:
    workspace = make_workspace(root, server, {"load": questions})
    workspace.defaults_config.write_text(
        "judge:\n  kind: openai\n  settings:\n    chat: {model: mock-judge}\n"
        f"    endpoint: {{base_url: '{server.openai}', in_flight: {IN_FLIGHT}}}\n"
    )
    pair = load_pair(workspace, "load", "chat")
    begun: list[tuple[str, float, float]] = []

    def begin(phase: str) -> None:
        begun.append((phase, time.perf_counter(), time.process_time()))

    evaluate(workspace, pair, begin)
    begin("end")
    spent: dict[str, list[float]] = {}
    for (phase, *start), (_, *end) in pairwise(begun):
        before = spent.get(phase, [0.0, 0.0])
        spent[phase] = [sofar + later - earlier for sofar, earlier, later in zip(before, start, end, strict=True)]
    counts = JudgementCounts.read(newest_evaluation(workspace, "load", "chat"))
    assert (counts.report.judged, counts.usage["requests"]) == (questions, questions), counts.report
    ideal = math.ceil(questions / IN_FLIGHT) * JUDGED_LATENCY_MS / 1000
    print(f"\n{questions} questions, asked and judged by a model after {JUDGED_LATENCY_MS:g} ms, {IN_FLIGHT} in flight")
    print(f"{'phase':12} {'seconds':>8} {'ideal':>7} {'of the ideal':>13} {'CPU ms each':>12}")
    ideals = {"asking": ideal, "judging": ideal, "in all": 2 * ideal}
    for phase, (seconds, cpu) in {**spent, "in all": list(map(sum, zip(*spent.values(), strict=True)))}.items():
        reached = f"{ideals[phase]:7.1f} {ideals[phase] / seconds:13.2f}" if phase in ideals else f"{'':21}"
        print(f"{phase:12} {seconds:8.2f} {reached} {1000 * cpu / questions:12.2f}")


def measure(words: Sequence[str | Path], variables: Mapping[str, str]) -> tuple[float, float]:
    """Return the wall-clock and processor seconds of a command and its children."""
    started = time.perf_counter()
    process = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    told = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(told.decode())
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime


def make_workspace(
    root: Path,
    server: RunningServer,
    benchmarks: dict[str, int],
    *,
    attempt_seconds: float = 60.0,
    documents: bool = True,
) -> Workspace:
    """Converted benchmarks of made-up questions, over one short document or over none, and two systems."""
    columns, tables = "question: question, answer: answer", ""
    if documents:
        columns += ", contexts: contexts"
        tables = "tables: {docs: docs.jsonl}\ndocuments: SELECT name, text FROM docs\n"
    workspace = Workspace(root)
    for name, questions in benchmarks.items():
        folder = workspace.sources / name
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text(
            f"name: {name}\nversion: 1.0.0\nsource: questions.jsonl\nquestions: {{{columns}}}\n{tables}"
        )
        with (folder / "questions.jsonl").open("w") as file:
            for number in range(questions):
                row = {
                    "question": question(name, number),
                    "answer": str(number),
                    "contexts": [{"document": "numbers"}],
                }
                file.write(json.dumps(row) + "\n")
        (folder / "docs.jsonl").write_text(
            json.dumps({"name": "numbers", "text": "Numbers are counted from 0."}) + "\n"
        )
    systems = workspace.config / "systems"
    systems.mkdir(parents=True)
    (systems / "chat.config.yaml").write_text(
        "kind: openai\nsettings:\n  chat: {model: mock}\n  stream: false\n"
        f"  endpoint: {{base_url: '{server.openai}', attempt_seconds: {attempt_seconds}}}\n"
    )
    (systems / "blueprint.config.yaml").write_text(
        f"kind: nvidia\nsettings:\n  rag: {{base_url: '{server.rag}'}}\n  collection: c\n"
    )
    for name in benchmarks:
        convert(workspace, name)
    return workspace


if __name__ == "__main__":
    main()
