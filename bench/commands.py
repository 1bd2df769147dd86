"""Seconds of each command on a bundled benchmark: processor time with child processes, and wall clock.

    python bench/commands.py [--runs 5] [--only list --only status] [--keep DIR]

The workspace is made by the commands themselves, with two evaluations of which the first is the baseline. Each
command then runs `--runs` times as users run it, a process each; the medians are printed, and the heavy packages that
the command's own process loaded. The aim is 1.0 s by the clock on a quiet machine of two cores for all but `report`,
`convert` and `evaluate`, and 0.15 s for `--help`. On a busy machine only the processor time says something.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BENCHMARK, SYSTEM = "skarn-railway", "embedded"
HEAVY = ("apprise", "dagster", "duckdb", "numpy", "pandas", "playwright", "pyarrow", "pypdfium2", "scipy", "tantivy")
RAG_EVAL = (sys.executable, "-m", "rag_eval_pipeline.cli")
COMMANDS: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "init": ("init", "started", "--from", "train.csv"),
    "plan": ("plan", BENCHMARK),
    "list": ("list",),
    "status": ("status",),
    "leaderboard": ("leaderboard",),
    "compare": ("compare", BENCHMARK, SYSTEM),
    "history": ("history",),
    "system probe": ("system", "probe", SYSTEM),
    "audit": ("audit", BENCHMARK),
    "recipes": ("recipes",),
    "report": ("report",),
    "convert": ("convert", BENCHMARK),
    "evaluate": ("evaluate", BENCHMARK, "--system", SYSTEM),
}  # fmt: skip


def run(root: Path, *arguments: str, python: tuple[str, ...] = RAG_EVAL) -> tuple[float, float, str]:
    """Run a command; return its processor and wall seconds, and what it wrote on standard error."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([*python, *arguments], cwd=root, env=environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):  # 3: `compare` found a regression
        sys.exit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, done.stderr


def make_workspace(root: Path) -> None:
    run(root.parent, "new", str(root))
    (root / "train.csv").write_text("question,answer,url\nWhich colour?,Blue,https://example.org/blue.html\n")
    shutil.copytree(REPOSITORY / "data" / "sources" / BENCHMARK, root / "data" / "sources" / BENCHMARK)
    run(root, "convert", BENCHMARK)
    run(root, "evaluate", BENCHMARK, "--system", SYSTEM)
    run(root, "pin", BENCHMARK, SYSTEM)
    run(root, "evaluate", BENCHMARK, "--system", SYSTEM)
    run(root, "report")


def loaded(root: Path, arguments: tuple[str, ...]) -> list[str]:
    """Return the heavy packages that a command loads in its own process."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    code += "from rag_eval_pipeline.cli import main; main()"
    _, _, error = run(root, *arguments, python=(sys.executable, "-c", code))
    names = {name.partition(".")[0] for name in error.splitlines()[-1].split()}
    return [name for name in HEAVY if name in names]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--only", action="append", choices=COMMANDS)
    arguments.add_argument("--keep", type=Path, help="make the workspace here, or use the one that is here")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-commands-") as folder:
        root = given.keep or Path(folder) / "workspace"
        if not root.exists():
            make_workspace(root.resolve())
        print(f"{'command':14}{'processor s':>12}{'wall s':>8}  loads")
        for name in given.only or COMMANDS:
            times = []
            for _ in range(given.runs):
                command = tuple(f"{word}-{time.time_ns()}" if word == "started" else word for word in COMMANDS[name])
                times.append(run(root, *command)[:2])
            cpu, wall = (statistics.median(column) for column in zip(*times, strict=True))
            if name == "init":
                command = ("init", f"started-{time.time_ns()}", *COMMANDS[name][2:])
            print(f"{name:14}{cpu:12.2f}{wall:8.2f}  {', '.join(loaded(root, command))}", flush=True)


if __name__ == "__main__":
    main()
