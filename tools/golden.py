"""Compare everything the pipeline produces before and after a change.

    python tools/golden.py BASE [WORKSPACE ...] [--systems A,B] [--keep DIR]

Runs the commit BASE and the work tree one after the other on this machine: converts every benchmark, evaluates two
systems, compares them and writes the report. Corpus, datasets and texts are compared by bytes, results by benchmark,
system, metric, value, interval and counts, the report's data field by field. Prints the first differences of each kind
and exits with 1 when there is one that `tools/golden_allowed.txt` does not list.

Without WORKSPACE the bundled benchmarks of BASE are converted. A WORKSPACE is a folder with `data/sources`; it is
copied, never written to. Both sides convert the same sources, each with the settings of its own commit.

A line of the allow list is a pattern of differences (`*` stands for anything), or `old -> new` for a renamed metric or
field, and a reason after ` # `.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

REPOSITORY = Path(__file__).resolve().parent.parent
ALLOWED = REPOSITORY / "tools" / "golden_allowed.txt"
PRODUCTS = ("corpus", "data/datasets", "data/evaluation/datasets", "data/evaluation/ground_truth")
SOURCES = ("data/sources", "examples/benchmarks/sources")  # where a commit has its small benchmarks
REPORT_DATA = ("report.json", "leaderboard.json", "regressions.json")
# What differs between two runs of the same code: clocks, load, and what is named or hashed from them.
VOLATILE = re.compile(
    r"timestamp|newest|latency|_ms$|_seconds$|resource_usage|system_load|^software$|^fingerprints?$|_fingerprint$|"
    r"^seed$|code_version|source_digest"
)
EVALUATION_ID = re.compile(r"eval_run_\d{8}_\d+")  # numbered in the order in which a workspace evaluates
STAMPS = ("conversion.json",)  # says which code made the files beside it
# The fields that name an item of a list, so that an added item does not shift all the others.
NAMES = ("query_id", "kind", "benchmark", "system", "old", "new", "metric", "name", "title")
SHOWN = 5


class Difference(NamedTuple):
    """One value that is not the same on both sides; a missing one is shown as "-"."""

    where: str
    before: Any
    after: Any


def main() -> int:
    """Run both sides and print what differs; 1 when something does that the allow list does not name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the commit to compare with, such as main or HEAD~3")
    parser.add_argument("workspaces", nargs="*", type=Path, help="folders with data/sources; the bundled ones if none")
    parser.add_argument("--systems", default="embedded,embedded-weak", help="two systems of data/config/systems")
    parser.add_argument("--keep", type=Path, help="keep both sides' workspaces in this folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        root = arguments.keep or Path(scratch)
        tree = Path(scratch) / "base"
        check_out(arguments.base, tree)
        differences: list[Difference] = []
        for number, given in enumerate(arguments.workspaces or [tree]):
            sides = []
            for side, code in (("before", tree), ("after", REPOSITORY)):
                workspace = root / f"{number}-{side}"
                prepare(workspace, sources=given, code=code)
                run(workspace, code, arguments.systems.split(","))
                sides.append(workspace)
            differences += compare(*sides, renames=allowed()[1])
    return print_differences(differences, allowed()[0])


def check_out(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder, with an environment of its own if its pinned packages differ."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    pins = folder / "requirements" / "dev.txt"
    pins = pins if pins.exists() else folder / "requirements.txt"  # its place before 0.1.0
    if pins.read_bytes() != (REPOSITORY / "requirements" / "dev.txt").read_bytes():
        subprocess.run(["make", "-s", ".venv/.installed"], cwd=folder, check=True)


def prepare(workspace: Path, *, sources: Path, code: Path) -> None:
    """Lay out a workspace: the sources that both sides share, and the settings of the side's own commit."""
    shutil.rmtree(workspace, ignore_errors=True)
    for folder in SOURCES:
        if (sources / folder).is_dir():
            shutil.copytree(sources / folder, workspace / "data" / "sources", dirs_exist_ok=True)
    settings = (
        sources if (sources / "data" / "config").is_dir() and not (sources / "rag_eval_pipeline").is_dir() else code
    )
    for folder in ("data/config", "examples/benchmarks/config"):
        if (settings / folder).is_dir():
            shutil.copytree(settings / folder, workspace / "data" / "config", dirs_exist_ok=True)
    (workspace / "corpus").mkdir()


def run(workspace: Path, code: Path, systems: list[str]) -> None:
    """Convert, evaluate, compare and report by the commands of a commit."""
    module, _, function = tomllib.loads((code / "pyproject.toml").read_text())["project"]["scripts"][
        "rag-eval"
    ].partition(":")
    own = code / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONHASHSEED": "0"}
    environment.pop("DAGSTER_HOME", None)

    def command(*arguments: str) -> str:
        call = [
            python,
            "-c",
            f"from {module} import {function}; {function}()",
            *arguments,
            "--workspace",
            str(workspace),
        ]
        done = subprocess.run(call, cwd=workspace, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):  # 3: `compare` found a regression
            raise SystemExit(
                f"{code}: rag-eval {' '.join(arguments)} exited with {done.returncode}\n{done.stderr[-3000:]}"
            )
        return done.stdout

    names = sorted(path.parent.name for path in workspace.glob("data/sources/*/benchmark.yaml"))
    command("convert", *names)
    for system in systems:
        command("evaluate", *names, "--system", system)
    newest = {(r["benchmark"], r["system"]): r["evaluation_id"] for r in read_results(workspace)}
    comparisons = [
        json.loads(command("compare", newest[name, systems[1]], newest[name, systems[0]], "--json")) for name in names
    ]
    (workspace / "compared.json").write_text(json.dumps(comparisons))
    command("report")


def compare(before: Path, after: Path, *, renames: dict[str, str]) -> list[Difference]:
    """Return every difference between the products, results and report data of two workspaces."""
    found = []
    files = sorted({path.relative_to(side) for side in (before, after) for path in product_files(side)})
    for file in files:
        found += compare_files(str(file), before / file, after / file)
    found += compare_values(by_pair(before), by_pair(after), "results", renames)
    for name in (*(f"data/reports/{name}" for name in REPORT_DATA), "compared.json"):
        old, new = (
            json.loads((side / name).read_text()) if (side / name).exists() else None for side in (before, after)
        )
        found += compare_values(old, new, name.rpartition("/")[2], renames)
    return found


def product_files(workspace: Path) -> Iterator[Path]:
    """Yield the files that must be the same to the byte."""
    for folder in PRODUCTS:
        for path in (workspace / folder).rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(workspace).parts)
            if path.is_file() and not hidden and path.name not in STAMPS:
                yield path


def compare_files(name: str, before: Path, after: Path) -> list[Difference]:
    """Compare two files by bytes; of tables and JSON, name the columns and fields that differ."""
    if not before.exists() or not after.exists():
        return [Difference(name, "a file" if before.exists() else "-", "a file" if after.exists() else "-")]
    if before.read_bytes() == after.read_bytes():
        return []
    if name.endswith(".parquet"):
        old, new = (pq.read_table(path) for path in (before, after))
        columns = list(dict.fromkeys([*old.column_names, *new.column_names]))
        values = ({c: t.column(c).to_pylist() for c in columns if c in t.column_names} for t in (old, new))
        return compare_values(*values, name, {}) or [Difference(name, "the same values", "in other bytes")]
    if name.endswith((".json", ".jsonl")):
        texts = (path.read_text() for path in (before, after))
        old, new = (
            [json.loads(line) for line in t.splitlines()] if name.endswith("l") else json.loads(t) for t in texts
        )
        return compare_values(old, new, name, {}) or [Difference(name, "the same values", "in other bytes")]
    return [Difference(name, f"{before.stat().st_size} bytes", f"{after.stat().st_size} other bytes")]


def read_results(workspace: Path) -> list[dict[str, Any]]:
    """Return the published results of a workspace, in the order of their evaluations."""
    return [json.loads(path.read_text()) for path in sorted(workspace.glob("data/evaluation/results/*.results.json"))]


def by_pair(workspace: Path) -> dict[str, Any]:
    """Return the results of each benchmark and system."""
    return {f"{result['benchmark']} {result['system']}": result for result in read_results(workspace)}


def compare_values(before: Any, after: Any, where: str, renames: dict[str, str]) -> list[Difference]:
    """Compare two values of JSON leaf by leaf."""
    old, new = dict(leaves(before, where, renames)), dict(leaves(after, where, {}))
    keys = dict.fromkeys([*old, *new])
    return [Difference(k, old.get(k, "-"), new.get(k, "-")) for k in keys if old.get(k, "-") != new.get(k, "-")]


def leaves(value: Any, where: str, renames: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield each scalar with its place; volatile fields are left out, and an interval counts as one value."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not VOLATILE.search(key):
                yield from leaves(item, f"{where} {renames.get(key, key)}", renames)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        seen: dict[str, int] = defaultdict(int)
        for index, item in enumerate(value):
            named = (
                [str(item[name]) for name in NAMES if isinstance(item.get(name), str)] if isinstance(item, dict) else []
            )
            label = "/".join(named) or str(index)
            if VOLATILE.search(label):
                continue
            seen[label] += 1
            yield from leaves(item, f"{where} {label}" + (f"#{seen[label]}" if seen[label] > 1 else ""), renames)
    elif isinstance(value, str):
        yield where, EVALUATION_ID.sub("an evaluation", value)
    else:
        yield where, value


def allowed() -> tuple[list[str], dict[str, str]]:
    """Return the patterns of allowed differences and the renamed keys."""
    lines = [line.partition(" # ")[0].strip() for line in ALLOWED.read_text().splitlines()] if ALLOWED.exists() else []
    lines = [line for line in lines if line and not line.startswith("#")]
    renames = dict(line.split(" -> ") for line in lines if " -> " in line)
    return [line for line in lines if " -> " not in line], renames


def print_differences(differences: list[Difference], patterns: list[str]) -> int:
    """Print the first differences of each group, and how many are allowed; 1 when some are not."""
    rest = [d for d in differences if not any(fnmatch.fnmatchcase(d.where, pattern) for pattern in patterns)]
    groups: dict[str, list[Difference]] = defaultdict(list)
    for difference in rest:
        groups[" ".join(difference.where.split()[:4])].append(difference)
    for group, members in groups.items():
        for where, old, new in members[:SHOWN]:
            print(f"{where}: {_short(old)} -> {_short(new)}")
        if len(members) > SHOWN:
            print(f"{group}: {len(members) - SHOWN} more")
    print(f"{len(rest)} differences, {len(differences) - len(rest)} more that {ALLOWED.name} allows")
    return 1 if rest else 0


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 100 else f"{text[:97]}..."


if __name__ == "__main__":
    sys.exit(main())
