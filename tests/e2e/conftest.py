"""Real benchmarks, converted and evaluated once a session: real files, real browser, nothing replaced."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_eval_pipeline.conversion.stamp import StepRecord
from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.passes import evaluate
from rag_eval_pipeline.formats import EvaluationResults
from rag_eval_pipeline.workspace import Workspace
from tests.e2e.reading import NAMES, SYSTEMS
from tests.real_benchmarks import build

CONFIG = Path(__file__).resolve().parents[2] / "data" / "config"


@dataclass(frozen=True)
class House:
    """A workspace with four converted benchmarks; tests read it and never write to it.

    Args:
        records: Benchmark -> step -> what the step used and found.
    """

    workspace: Workspace
    records: dict[str, dict[str, StepRecord]]


@pytest.fixture(scope="session")
def house(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(CONFIG, root / "data" / "config")
    workspace = Workspace(root)
    records = {}
    for name in NAMES:
        build(root, name)
        records[name] = {report.record.step: report.record for report in convert(workspace, name)}
    yield House(workspace, records)
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def results(house: House) -> dict[tuple[str, str], EvaluationResults]:
    """What both systems did on the four benchmarks, read back from the published files."""
    published = {}
    for name in NAMES:
        for system in SYSTEMS:
            _, found = evaluate(house.workspace, load_pair(house.workspace, name, system))
            published[name, system] = EvaluationResults.read(found.path)
    return published


@pytest.fixture
def scratch(shared: Path, tmp_path: Path) -> Iterator[Path]:
    """A workspace with the bundled systems' settings and no benchmark, removed when the test is done."""
    root = tmp_path / "workspace"
    shutil.copytree(CONFIG, root / "data" / "config")
    (root / "data" / "sources").mkdir()
    yield root
    shutil.rmtree(root)


@pytest.fixture
def lend(house: House, scratch: Path) -> Callable[..., Workspace]:
    """`lend(name, ...)` is a workspace of the test's own with these benchmarks converted and nothing evaluated."""

    def copied(*names: str) -> Workspace:
        for name in names:
            paths = house.workspace.benchmark(name)
            for folder in (paths.source, paths.corpus, paths.dataset):
                shutil.copytree(folder, scratch / folder.relative_to(house.workspace.root), symlinks=True)
            for folder in (house.workspace.evaluation_datasets, house.workspace.ground_truth):
                target = scratch / folder.relative_to(house.workspace.root)
                target.mkdir(parents=True, exist_ok=True)
                for file in folder.glob(f"{name}_v*"):
                    shutil.copy2(file, target)
        return Workspace(scratch)

    return copied
