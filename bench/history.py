"""A year of nights: seconds and memory of the commands that look over all of them, and how both grow.

    python bench/history.py [--benchmarks 10] [--systems 3] [--nights 365] [--questions 200] [--keep DIR]

One evaluation of every pair is written by the project's own writers; the other nights are copies of its files with ids
and times of their own (results, history tables, records; the scores' parquet files are linked), because a
year's worth of scoring is not what is measured. Each command is a process of its own, so that its peak memory is its
own. `first` reads everything: the history's file is not there yet. `again` is what every later call takes.

Nothing here is a limit of a test: machines differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the writer of made-up nights belongs to the tests

from rag_eval_pipeline.workspace import Workspace  # noqa: E402

AGGREGATE = """
from datetime import UTC, datetime
from pathlib import Path
from rag_eval_pipeline.workspace import Workspace
from rag_eval_pipeline.reporting.{module} import {name}
{name}(Workspace(Path({root!r})))
"""
SQL = {
    "figures": "SELECT benchmark, system, avg(value) FROM results WHERE metric = 'f1' GROUP BY ALL",
    "questions": "SELECT benchmark, query_id, avg(value) AS f1 FROM questions WHERE metric = 'f1' GROUP BY ALL "
    "ORDER BY f1 LIMIT 20",
}

WRITTEN = 6  # nights by the writers: five for the baseline, and one that makes the file of nights


class Copied(NamedTuple):
    """The files of one evaluation, to be copied for other nights."""

    evaluation_id: str
    time: str
    results: bytes
    record: bytes
    tables: dict[str, Any]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--benchmarks", type=int, default=10)
    arguments.add_argument("--systems", type=int, default=3)
    arguments.add_argument("--nights", type=int, default=365)
    arguments.add_argument("--questions", type=int, default=200)
    arguments.add_argument("--keep", type=Path, help="A folder for the nights, which is used again when it is there.")
    arguments.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.make:
        make(Workspace(given.make), given)
        return
    with tempfile.TemporaryDirectory(prefix="bench-history-") as folder:
        root = given.keep or Path(folder)
        if not (root / "data").exists():
            began = time.perf_counter()
            # In a process of its own: a child's peak memory begins with that of its parent.
            subprocess.run([sys.executable, *sys.argv, "--make", str(root)], check=True)
            print(f"made in {time.perf_counter() - began:.0f} s")
        measure(Workspace(root))


def make(workspace: Workspace, given: argparse.Namespace) -> None:
    """Every pair's first nights by the writers, then a copy of the last of them a night."""
    from rag_eval_pipeline.reporting.baselines import pin
    from rag_eval_pipeline.reporting.history import update_history
    from rag_eval_pipeline.reporting.regressions import write_comparisons
    from tests.reporting.made_nights import FIRST, publish_night, register

    first = -given.nights  # all of them lie in the past, or retention would say that the clock is behind
    benchmarks = [f"benchmark-{n:02d}" for n in range(given.benchmarks)]
    systems = [f"system-{'abcdefgh'[n]}" for n in range(given.systems)]
    register(workspace, benchmarks, systems)
    (workspace.config / "verdicts.config.yaml").write_text("units: questions\n")  # no dataset says what they share
    pairs = [(benchmark, system) for benchmark in benchmarks for system in systems]
    for number, (benchmark, system) in enumerate(pairs, start=1):
        for night in range(first, first + WRITTEN):
            publish_night(
                workspace, benchmark, system, night, questions=given.questions, skill=0.7, number=number,
                with_responses=True,
            )  # fmt: skip
    update_history(workspace)
    for benchmark, system in pairs:
        names = sorted(path.name for path in workspace.runs.glob("eval_run_*"))
        of_pair = [name for name in names if int(name[-3:]) == pairs.index((benchmark, system)) + 1]
        pin(workspace, benchmark, system, of_pair[:5], now=FIRST + timedelta(days=first + 4, hours=12))
    write_comparisons(workspace)
    for benchmark, system in pairs:
        number = pairs.index((benchmark, system)) + 1
        copied = read_night(workspace, f"eval_run_{FIRST + timedelta(days=first + 5):%Y%m%d}_{number:03d}")
        for night in range(first + WRITTEN, 0):
            copy_night(workspace, copied, night)
        lengthen_nights(workspace, benchmark, system, range(first + WRITTEN, -1))
        pointer = workspace.runs / "by_pair" / benchmark / f"{system}.json"
        pointer.parent.mkdir(parents=True, exist_ok=True)
        last = FIRST + timedelta(days=-1)
        pointer.write_text(json.dumps({"evaluation_id": f"eval_run_{last:%Y%m%d}_{number:03d}"}))


def read_night(workspace: Workspace, evaluation_id: str) -> Copied:
    import pyarrow.parquet as pq

    from rag_eval_pipeline.reporting.history import TABLES, history_folder

    results = (workspace.results / f"{evaluation_id}.results.json").read_bytes()
    return Copied(
        evaluation_id,
        json.loads(results)["timestamp"],
        results,
        (workspace.runs / evaluation_id / "evaluation.json").read_bytes(),
        {
            name: pq.read_table(history_folder(workspace) / name / f"{evaluation_id}.parquet")
            for name in TABLES.values()
        },
    )


def copy_night(workspace: Workspace, copied: Copied, night: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rag_eval_pipeline.reporting.history import history_folder
    from tests.reporting.made_nights import FIRST

    opened = FIRST + timedelta(days=night)
    name = f"eval_run_{opened:%Y%m%d}_{copied.evaluation_id[-3:]}"
    stated = opened.isoformat().replace("+00:00", "Z")
    results = copied.results.replace(copied.evaluation_id.encode(), name.encode())
    results = results.replace(copied.time.encode(), stated.encode())
    (workspace.results / f"{name}.results.json").write_bytes(results)
    folder = workspace.runs / name
    folder.mkdir()
    record = copied.record.replace(copied.evaluation_id.encode(), name.encode())
    (folder / "evaluation.json").write_bytes(record.replace(copied.time.encode(), stated.encode()))
    for path in (workspace.runs / copied.evaluation_id).glob("*.parquet"):
        os.link(path, folder / path.name)
    for table, rows in copied.tables.items():
        for column, value, kind in (
            ("evaluation_id", name, pa.string()),
            ("timestamp", opened, pa.timestamp("us", "UTC")),
        ):
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, column, pa.array([value] * rows.num_rows, kind))
        pq.write_table(rows, history_folder(workspace) / table / f"{name}.parquet", compression="zstd")


def lengthen_nights(workspace: Workspace, benchmark: str, system: str, nights: range) -> None:
    """The pair's file of nights with its first night again and again; the last night is left to be compared."""
    from tests.reporting.made_nights import FIRST

    for path in (workspace.root / "data" / "evaluation" / "nights" / benchmark / system).glob("*.json"):
        book = json.loads(path.read_text())
        first = book["nights"][-1]
        for night in nights:
            opened = FIRST + timedelta(days=night)
            ended = opened + timedelta(minutes=10)
            name = f"eval_run_{opened:%Y%m%d}_{first['evaluation_id'][-3:]}"
            times = {"opened_at": opened.isoformat(), "ended_at": ended.isoformat()}
            book["nights"].append({**first, "evaluation_id": name, **times})
        path.write_text(json.dumps(book, indent=2))


def measure(workspace: Workspace) -> None:
    files = list(workspace.results.glob("eval_run_*"))
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} results, {size / 1e6:.0f} MB")
    (workspace.results.parent / "history" / "results.parquet").unlink(missing_ok=True)
    newest, other = (path.name.partition(".")[0] for path in sorted(files)[-1:-7:-5])
    cli = [sys.executable, "-m", "rag_eval_pipeline.cli"]
    where = ["--workspace", str(workspace.root)]
    for name, command in commands(workspace):
        run(name, [sys.executable, "-c", command])
    run("leaderboard", [*cli, "leaderboard", *where])
    run("history, all pairs", [*cli, "history", *where])
    run("history, one pair", [*cli, "history", workspace.benchmarks()[0], workspace.systems()[0], *where])
    run("history --verify", [*cli, "history", "--verify", *where])
    for name, sql in SQL.items():
        run(f"history --sql, {name}", [*cli, "history", "--sql", sql, *where])
    run("compare", [*cli, "compare", other, newest, *where], codes=(0, 2, 3))
    run("prune --dry-run", [*cli, "prune", "--dry-run", *where])
    run("prune", [*cli, "prune", *where])


def commands(workspace: Workspace) -> Iterator[tuple[str, str]]:
    root = str(workspace.root)
    board = AGGREGATE.format(module="leaderboard", name="write_leaderboard", root=root)
    yield "write_leaderboard, first", board
    yield "write_leaderboard, again", board
    yield "write_comparisons, a night", AGGREGATE.format(module="regressions", name="write_comparisons", root=root)
    yield "write_comparisons, again", AGGREGATE.format(module="regressions", name="write_comparisons", root=root)
    yield "write_benchmark_files", AGGREGATE.format(module="summaries", name="write_benchmark_files", root=root)


def run(name: str, command: list[str], codes: tuple[int, ...] = (0,)) -> None:
    """Runs a process and prints its seconds and peak memory."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=REPOSITORY)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode not in codes:
            out.seek(0)
            sys.exit(f"{name} exited {process.returncode}:\n{out.read().decode()[-2000:]}")
    busy = usage.ru_utime + usage.ru_stime
    print(f"{name:28} {seconds:6.1f} s, {busy:6.1f} s of processor, peak memory {usage.ru_maxrss / 1024:4.0f} MB")


if __name__ == "__main__":
    main()
