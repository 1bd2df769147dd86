"""A workspace in which both bundled benchmarks were evaluated with both bundled systems."""

import shutil
from pathlib import Path

import pytest

from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import CONVERTED, MadeOnce

SYSTEMS = ("embedded", "embedded-weak")


@pytest.fixture(scope="session")
def _four_evaluated(_converted: Path, made_once: MadeOnce) -> Path:
    def make(root: Path) -> None:
        shutil.copytree(_converted, root, symlinks=True, dirs_exist_ok=True)
        workspace = Workspace(root)
        for benchmark in CONVERTED:
            for system in SYSTEMS:
                evaluate(workspace, load_pair(workspace, benchmark, system))

    return made_once("four-evaluated", make)


@pytest.fixture
def evaluated(_four_evaluated: Path, tmp_path: Path) -> Workspace:
    """A copy of the test's own."""
    root = tmp_path / "workspace"
    shutil.copytree(_four_evaluated, root, symlinks=True)
    return Workspace(root)
