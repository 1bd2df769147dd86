"""Asking a server many questions: how near the rate comes to the possible one, what the journal costs, how memory goes.

    python bench/evaluation.py [--questions 4000] [--soak 100000] [--evaluations 50]

A mock server in a process of its own answers each request after 50 ms. The parts, each measured in this process or
its children on the same machine, one after the other:

- bare: httpx alone, 64 requests in flight, the same bodies, nothing kept: once with one client, as it is usually
  written, and once with a client a connection, which is what one core can send. The ideal rate is 64 / 50 ms, or the
  latter where it is lower.
- ask: `evaluation.asking.ask` of a whole benchmark, with everything that belongs to it: retries, accounts, journal,
  samples of memory, and at the end `responses.parquet`. Its rate counts from the first to the last answer.
- journal: the time inside `JournalWriter.append` and `commit`, as a share of the time of `ask`.
- soak: `--soak` questions with one attempt in ten failing as servers do (429, 500, reset, cut, drip, ...); resident
  memory at each tenth, and how many questions have a terminal answer.
- side by side: `--evaluations` evaluations at once in one process, each with its own benchmark.

Nothing here is a limit of a test: machines differ. The ratios are what to look at.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the mock server belongs to the examples

from examples.mock_rag_server import RunningServer, mock_rag_server  # noqa: E402
from rag_eval_pipeline.conversion.steps import convert  # noqa: E402
from rag_eval_pipeline.evaluation.asking import ask  # noqa: E402
from rag_eval_pipeline.evaluation.pair import load_pair  # noqa: E402
from rag_eval_pipeline.storage import journal  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402

LATENCY_MS = 50.0
IN_FLIGHT = 64


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--questions", type=int, default=4000)
    arguments.add_argument("--soak", type=int, default=100_000, help="0 leaves it out")
    arguments.add_argument("--evaluations", type=int, default=50, help="0 leaves them out")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-evaluation-") as folder:
        root = Path(folder)
        with mock_rag_server(canned=True, latency_ms=LATENCY_MS) as server:
            rates(root / "rates", server, given.questions)
        if given.soak:
            with mock_rag_server(canned=True, latency_ms=LATENCY_MS, faults=0.1) as server:
                soak(root / "soak", server, given.soak)
        if given.evaluations:
            with mock_rag_server(canned=True, latency_ms=LATENCY_MS) as server:
                side_by_side(root / "many", server, given.evaluations)


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
                body = {"model": "mock", "messages": [{"role": "user", "content": f"What is the number {number}?"}]}
                (await client.post(f"{server.openai}/chat/completions", json=body)).raise_for_status()

        started = time.perf_counter()
        await asyncio.gather(*(worker(made[at % clients]) for at in range(IN_FLIGHT)))
        return time.perf_counter() - started


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


def soak(root: Path, server: RunningServer, questions: int) -> None:
    workspace = make_workspace(root, server, {"load": questions})
    pair = load_pair(workspace, "load", "chat")
    process, memory = psutil.Process(), []
    step = max(1, questions // 10)

    def look(done: int, total: int) -> None:
        if done % step == 0:
            memory.append(process.memory_info().rss / 1e6)

    before = process.memory_info().rss / 1e6
    started = time.perf_counter()
    report = ask(workspace, pair, now=datetime.now(UTC), progress=look)
    seconds = time.perf_counter() - started
    after = process.memory_info().rss / 1e6
    counts = server.counts(by_question=False)
    print(f"\nsoak: {report.questions} questions, {report.failed} without an answer, {seconds:.0f} s")
    print(f"resident memory, MB: {before:.0f} before, {' '.join(f'{mb:.0f}' for mb in memory)}, {after:.0f} at the end")
    print(f"the server saw {json.dumps(counts)}")


def side_by_side(root: Path, server: RunningServer, evaluations: int) -> None:
    names = {f"load-{number:03d}": 40 for number in range(evaluations)}
    workspace = make_workspace(root, server, names)
    pairs = [load_pair(workspace, name, "chat") for name in names]
    started = time.perf_counter()
    with ThreadPoolExecutor(evaluations) as threads:
        reports = list(threads.map(lambda pair: ask(workspace, pair, now=datetime.now(UTC)), pairs))
    seconds = time.perf_counter() - started
    asked = sum(report.asked for report in reports)
    failed = sum(report.failed for report in reports)
    ids = len({report.evaluation_id for report in reports})
    print(f"\nside by side: {evaluations} evaluations, {ids} ids, {asked} asked, {failed} failed, {seconds:.1f} s")


def make_workspace(root: Path, server: RunningServer, benchmarks: dict[str, int]) -> Workspace:
    """Converted benchmarks of made-up questions over one short document, and two systems."""
    workspace = Workspace(root)
    for name, questions in benchmarks.items():
        folder = workspace.sources / name
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text(
            f"name: {name}\nversion: 1.0.0\nsource: questions.jsonl\ntables: {{docs: docs.jsonl}}\n"
            "questions: {question: question, answer: answer, contexts: contexts}\n"
            "documents: SELECT name, text FROM docs\n"
        )
        with (folder / "questions.jsonl").open("w") as file:
            for number in range(questions):
                row = {
                    "question": f"What is the number {number}?",
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
        f"  endpoint: {{base_url: '{server.openai}'}}\n"
    )
    (systems / "blueprint.config.yaml").write_text(
        f"kind: nvidia\nsettings:\n  rag: {{base_url: '{server.rag}'}}\n  collection: c\n"
    )
    for name in benchmarks:
        convert(workspace, name)
    return workspace


if __name__ == "__main__":
    main()
