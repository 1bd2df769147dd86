"""Many evaluations at once of a server that fails now and then: what is lost, and what grows.

    python bench/load.py [--evaluations 64] [--questions 5000] [--faults 0.1]
    python bench/load.py --evaluations 1 --questions 100000

The questions are those of all evaluations together; each evaluation has a benchmark of its own and asks 64 at once. All
run in threads of one process, which is more than Dagster does, as it gives each a process. The mock server, a process
too, answers each request after 50 ms; one attempt in ten fails as servers do: 429, 500, 503, reset, silence, a
stream that is cut, what is not JSON or half of it.

Every question must have exactly one terminal answer, in the journal and in responses.parquet; the exit code is 1 if one
has not. Resident memory, threads, child processes and descriptors are sampled twice a second and shown at each tenth of
the questions. The slopes are least squares from the third to the ninth tenth, when everything is open; `after` is what
remains after the last evaluation. The journal's share is the time inside `append`, commits included, of the time of all
evaluations.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
from evaluation import LATENCY_MS, make_workspace, mock_rag_server, timed_journal

from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.pair import Pair, load_pair
from rag_eval_pipeline.evaluation.score_tables import iter_responses
from rag_eval_pipeline.storage.journal import read_journal
from rag_eval_pipeline.workspace import Workspace

SAMPLE_SECONDS = 0.5
TENTHS = 10
ATTEMPT_SECONDS = 2.0, 30.0  # for one evaluation; at most for many, whose server answers 4,096 requests at once
FAULTS = ("http_429", "http_500", "http_503", "reset", "half_open", "cut", "not_json", "truncated_json")
MEASURED = ("memory MB", "threads", "processes", "descriptors")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--evaluations", type=int, default=64)
    arguments.add_argument("--questions", type=int, default=5000, help="of all evaluations together")
    arguments.add_argument("--faults", type=float, default=0.1, help="share of the attempts that fail")
    given = arguments.parse_args()
    each, more = divmod(given.questions, given.evaluations)
    benchmarks = {f"load-{n:03d}": each + (n < more) for n in range(given.evaluations)}
    faults = {"rate": given.faults, "kinds": FAULTS}
    with (
        tempfile.TemporaryDirectory(prefix="bench-load-") as folder,
        mock_rag_server(canned=True, latency_ms=LATENCY_MS, faults=faults) as server,
    ):
        seconds = min(given.evaluations * ATTEMPT_SECONDS[0], ATTEMPT_SECONDS[1])
        workspace = make_workspace(Path(folder), server, benchmarks, attempt_seconds=seconds, documents=False)
        pairs = [load_pair(workspace, name, "chat") for name in benchmarks]
        return load(workspace, pairs, benchmarks) | seen_by(server.counts(by_question=False))


def load(workspace: Workspace, pairs: list[Pair], benchmarks: dict[str, int]) -> int:
    """Ask everything and print what was lost and what has grown."""
    lock, answered, seconds = threading.Lock(), [0], [0.0]

    def note(done: int, total: int) -> None:
        with lock:
            answered[0] += 1

    def one(pair: Pair) -> str:
        started = time.perf_counter()
        report = ask(workspace, pair, now=datetime.now(UTC), progress=note)
        with lock:
            seconds[0] += time.perf_counter() - started
        return report.evaluation_id

    total, before, started = sum(benchmarks.values()), sample(), time.perf_counter()
    with timed_journal() as spent, sampled(answered) as samples, ThreadPoolExecutor(len(pairs)) as threads:
        ids = list(threads.map(one, pairs))
    took = time.perf_counter() - started
    after = sample()
    lost, failed = 0, Counter[str]()
    for name, pair in zip(ids, pairs, strict=True):
        evaluation = load_evaluation(workspace, name)
        expected = sorted(query.query_id for query in pair.queries)
        answers = list(iter_responses(evaluation.responses))
        journal = sorted(answer["query_id"] for answer in read_journal(evaluation.journal))
        lost += not (expected == journal == sorted(answer.query_id for answer in answers))
        failed.update(answer.error_code or answer.status for answer in answers if answer.status != "ok")
    print(f"{len(pairs)} evaluations, {len(set(ids))} ids, {total} questions, {took:.0f} s, {total / took:.0f}/s")
    print(f"evaluations whose terminal rows differ from their questions: {lost}")
    print(f"questions without an answer: {failed.total()} {dict(failed)}")
    print(f"the journal's share of the time of all evaluations: {spent[0] / seconds[0]:.2%}")
    table(np.array(samples), before, after, total)
    return int(lost > 0 or len(set(ids)) < len(pairs))


def table(samples: np.ndarray, before: list[float], after: list[float], total: int) -> None:
    """Print the samples at each tenth of the questions, and their slopes."""
    marks = [min(len(samples) - 1, int(np.searchsorted(samples[:, 0], total * n / TENTHS))) for n in range(TENTHS + 1)]
    steady = samples[(samples[:, 0] >= 0.3 * total) & (samples[:, 0] <= 0.9 * total)]
    print(f"{'':12}{'before':>8} | {'at each tenth of the questions':^{7 * (TENTHS + 1)}} | {'after':>7} {'slope':>16}")
    for column, name in enumerate(MEASURED, 1):
        shown = "".join(f"{samples[mark, column]:7.0f}" for mark in marks)
        slope = np.polyfit(steady[:, 0], steady[:, column], 1)[0] * 10_000 if len(steady) > 1 else float("nan")
        print(f"{name:12}{before[column - 1]:8.0f} | {shown} | {after[column - 1]:7.0f} {slope:+9.1f} / 10,000")


def seen_by(counts: dict[str, object]) -> int:
    """Print what the server was asked."""
    print(f"the server saw {json.dumps(counts)}")
    return 0


def sample() -> list[float]:
    """Return `MEASURED` of this process; the resource samplers of the evaluations are among the threads."""
    process = psutil.Process()
    children = [child for child in process.children(recursive=True) if "mock_server" not in " ".join(cmdline(child))]
    return [process.memory_info().rss / 1e6, process.num_threads(), len(children), len(os.listdir("/proc/self/fd"))]


def cmdline(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


@contextlib.contextmanager
def sampled(answered: list[int]) -> Iterator[list[list[float]]]:
    """Sample in a block: rows of the questions answered so far and `MEASURED`."""
    rows: list[list[float]] = [[0, *sample()]]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            rows.append([answered[0], *sample()])

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield rows
    finally:
        stop.set()
        thread.join()
        rows.append([answered[0], *sample()])


if __name__ == "__main__":
    sys.exit(main())
