"""Seconds of each command on a bundled benchmark: processor time with child processes, and wall clock.

    python bench/commands.py [--runs 5] [--only list --only status] [--before TREE]

The workspace is made by the commands themselves, with two evaluations of which the first is the baseline. Each
command then runs `--runs` times as users run it, a process each, with compiled modules; the least times are printed,
and the heavy packages that the command's own process loaded, as the table in docs/explanation/scale.md. `--before` is
another checkout (`git worktree add TREE COMMIT`), whose commands run in turn with these in a workspace of its own. The
aim is 1.0 s by the clock on a quiet machine of two cores for all but `audit`, `report`, `convert` and `evaluate`, 0.5 s
for `score` and 0.15 s for `--help`. On a busy machine only the processor time says something.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BENCHMARK, SYSTEM, STARTED = "skarn-railway", "embedded", "started"
HEAVY = ("apprise", "dagster", "duckdb", "numpy", "pandas", "playwright", "pyarrow", "pypdfium2", "scipy", "tantivy")
RAG_EVAL = (sys.executable, "-m", "rag_eval_pipeline.cli")
COMMANDS: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "init": ("init", STARTED, "--from", "train.csv"),
    "plan": ("plan", BENCHMARK),
    "list": ("list",),
    "status": ("status",),
    "leaderboard": ("leaderboard",),
    "compare": ("compare", BENCHMARK, SYSTEM),
    "history": ("history",),
    "system probe": ("system", "probe", SYSTEM),
    "audit": ("audit", BENCHMARK),
    "recipes": ("recipes",),
    "score": ("score", "--qrels", "qrels.test", "--run", "results.test"),
    "report": ("report",),
    "convert": ("convert", BENCHMARK),
    "evaluate": ("evaluate", BENCHMARK, "--system", SYSTEM),
}  # fmt: skip


class Tree:
    """A checkout, and a workspace made by its commands."""

    def __init__(self, code: Path, root: Path) -> None:
        self.code, self.root = code, root
        self.run("new", str(root), cwd=root.parent)
        (root / "train.csv").write_text("question,answer,url\nWhich colour?,Blue,https://example.org/blue.html\n")
        for file in ("qrels.test", "results.test"):
            shutil.copy(REPOSITORY / "tests" / "oracles" / "trec_eval" / file, root)
        shutil.copytree(REPOSITORY / "data" / "sources" / BENCHMARK, root / "data" / "sources" / BENCHMARK)
        self.run("convert", BENCHMARK)
        self.run("evaluate", BENCHMARK, "--system", SYSTEM)
        self.run("pin", BENCHMARK, SYSTEM)
        self.run("evaluate", BENCHMARK, "--system", SYSTEM)
        self.run("report")

    def run(
        self, *arguments: str, python: tuple[str, ...] = RAG_EVAL, cwd: Path | None = None
    ) -> tuple[float, float, str]:
        """Run a command; return its processor and wall seconds, and what it wrote on standard error."""
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        environment = os.environ | {"PYTHONPATH": str(self.code)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled
        done = subprocess.run(
            [*python, *arguments], cwd=cwd or self.root, env=environment, capture_output=True, text=True
        )
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 3):  # 3: `compare` found a regression
            sys.exit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        shutil.rmtree(self.root / "data" / "sources" / STARTED, ignore_errors=True)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, done.stderr

    def loaded(self, arguments: tuple[str, ...]) -> list[str]:
        """Return the heavy packages that a command loads in its own process."""
        code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        code += "from rag_eval_pipeline.cli import main; main()"
        _, _, error = self.run(*arguments, python=(sys.executable, "-c", code))
        names = {name.partition(".")[0] for name in error.splitlines()[-1].split()}
        return [name for name in HEAVY if name in names]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--only", action="append", choices=COMMANDS)
    arguments.add_argument("--before", type=Path, help="another checkout, to compare with")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-commands-") as folder:
        codes = {"before": given.before.resolve()} if given.before else {}
        codes["now"] = REPOSITORY
        trees = {name: Tree(code, Path(folder).resolve() / name) for name, code in codes.items()}
        tags = [f"{name}: " if given.before else "" for name in trees]
        columns = " | ".join(f"{tag}processor s | {tag}by the clock, s" for tag in tags)
        print(f"| command | {columns} | loads |\n|---{'|---:|---:' * len(trees)}|---|")
        for name in given.only or COMMANDS:
            tries = [[tree.run(*COMMANDS[name])[:2] for tree in trees.values()] for _ in range(given.runs)]
            least = [f"{min(column):.2f}" for tree in zip(*tries, strict=True) for column in zip(*tree, strict=True)]
            loads = ", ".join(trees["now"].loaded(COMMANDS[name]))
            print(f"| `{name}` | {' | '.join(least)} | {loads} |", flush=True)


if __name__ == "__main__":
    main()
