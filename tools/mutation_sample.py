"""Put random small faults into the package, one at a time, and see whether the tests of the same folder notice them.

Each fault is a turned comparison, an integer raised by one, `return None`, or `and` for `or`. Survivors are printed
with file, line and change, for a person to look at: some change nothing that anyone could notice.

Example: python tools/mutation_sample.py --number 60 --seed 1 --package metrics
"""

import argparse
import ast
import copy
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = "rag_eval_pipeline"
LIMIT_S = 1200.0
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


class Fault(NamedTuple):
    """A change of one expression."""

    path: Path
    line: int
    before: str
    after: str
    text: str  # of the whole file after the change


def faults_of(path: Path) -> Iterator[Fault]:
    """Yield each fault that can be put into a module."""
    source = path.read_text()
    tree = ast.parse(source)
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef) for n in _body(f)}
    for node in ast.walk(tree):
        if id(node) in inside and (changed := _changed(node)) is not None:
            yield _fault(path, source, node, changed)


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)


def _changed(node: ast.AST) -> ast.expr | None:
    """Return what an expression becomes; None where it stays."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in TURNED:
        turned = copy.deepcopy(node)
        turned.ops[0] = TURNED[type(node.ops[0])]()
        return turned
    if isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return other
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


def returned_values(path: Path) -> Iterator[Fault]:
    """Yield `return None` for each value that a function of a module returns."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
            yield _fault(path, source, node.value, ast.Constant(None))


def _fault(path: Path, source: str, node: ast.AST, changed: ast.expr) -> Fault:
    assert isinstance(node, ast.expr)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    data, after = source.encode(), f"({ast.unparse(changed)})"
    text = (data[:start] + after.encode() + data[end:]).decode()
    return Fault(path, node.lineno, data[start:end].decode(), after, text)


def tests_of(path: Path) -> Path:
    """Return the folder of tests of a module's package."""
    return REPOSITORY / "tests" / path.relative_to(REPOSITORY / PACKAGE).parts[0]


def is_noticed(fault: Fault, tree: Path) -> bool:
    """Return whether a test fails when the fault is in a copy of the project."""
    target = tree / fault.path.relative_to(REPOSITORY)
    kept = target.read_text()
    target.write_text(fault.text)
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "--max-worker-restart=0",
        str(tests_of(fault.path).relative_to(REPOSITORY)),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            ["env", f"PYTHONPATH={tree}", *command], cwd=tree, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True  # the suite would hang, which is noticed
    finally:
        target.write_text(kept)
    return done.returncode != 0


def main() -> int:
    """Print each fault with its outcome and the share that was noticed; 1 when it is below `--share`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", action="append", help="repeatable; all packages that have tests if none")
    parser.add_argument("--share", type=float, default=0.8)
    options = parser.parse_args()
    paths = [path for path in sorted((REPOSITORY / PACKAGE).glob("*/**/*.py")) if tests_of(path).is_dir()]
    if options.package:
        paths = [path for path in paths if path.relative_to(REPOSITORY / PACKAGE).parts[0] in options.package]
    chance = random.Random(options.seed)
    found = [fault for path in paths for fault in (*faults_of(path), *returned_values(path))]
    chosen = chance.sample(found, min(options.number, len(found)))
    noticed = 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree)], cwd=REPOSITORY, check=True)
        try:
            for number, fault in enumerate(chosen, 1):
                seen = is_noticed(fault, tree)
                noticed += seen
                where = f"{fault.path.relative_to(REPOSITORY)}:{fault.line}"
                change = " ".join(f"{fault.before} -> {fault.after}".split())
                print(f"{number:3} {'noticed ' if seen else 'SURVIVED'} {where}: {change[:160]}", flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=REPOSITORY, check=True)
    print(f"{noticed} of {len(chosen)} noticed")
    return int(noticed < options.share * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
