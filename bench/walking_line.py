"""The bundled benchmarks all the way, first and again: what an unchanged night costs.

    python bench/walking_line.py

Wall-clock seconds of this process, one run; compare the columns of one run with each other, not with another machine's.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        shutil.copytree(REPOSITORY / "data" / "config", workspace.config)
        for sources in (REPOSITORY / "data" / "sources", REPOSITORY / "examples" / "benchmarks" / "sources"):
            shutil.copytree(sources, workspace.sources, dirs_exist_ok=True)
        print(f"{'':34}{'first':>7}{'again':>9}{'ratio':>8}")
        for name in workspace.benchmarks():
            first, again = (seconds(lambda name=name: convert(workspace, name)) for _ in range(2))
            print(f"{'convert ' + name:34.34}{first:7.2f}{again:9.2f}{first / again:7.1f}x")
        for name in workspace.benchmarks():
            first, again = (
                seconds(lambda name=name: evaluate(workspace, load_pair(workspace, name, "embedded"))) for _ in range(2)
            )
            print(f"{'evaluate ' + name:34.34}{first:7.2f}{again:9.2f}{first / again:7.1f}x")


if __name__ == "__main__":
    main()
