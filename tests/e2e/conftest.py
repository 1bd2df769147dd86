"""Real benchmarks, converted and evaluated once a session: real files, real browser, nothing replaced."""

import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.stamp import StepRecord
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import MadeOnce, copy_benchmark, copy_settings
from tests.e2e.reading import NAMES, SYSTEMS
from tests.real_benchmarks import build

RECORDS, RESULTS = "records.pickle", "results.pickle"


@dataclass(frozen=True)
class ConvertedBenchmarks:
    """A workspace with four converted benchmarks; tests read it and never write to it.

    Args:
        records: Benchmark -> step -> what the step used and found.
    """

    workspace: Workspace
    records: dict[str, dict[str, StepRecord]]


@pytest.fixture(scope="session")
def converted(shared: Path, made_once: MadeOnce) -> ConvertedBenchmarks:
    def make(root: Path) -> None:
        copy_settings(root)
        records = {}
        for name in NAMES:
            build(root, name)
            records[name] = {report.record.step: report.record for report in convert(Workspace(root), name)}
        (root / RECORDS).write_bytes(pickle.dumps(records))

    root = made_once("real-benchmarks", make)
    return ConvertedBenchmarks(Workspace(root), pickle.loads((root / RECORDS).read_bytes()))


@pytest.fixture(scope="session")
def scored(converted: ConvertedBenchmarks, made_once: MadeOnce, pytestconfig: pytest.Config) -> Workspace:
    """The four benchmarks evaluated with both systems; SQuAD's with a sixth of its questions, in `make test-long` all."""

    def make(root: Path) -> None:
        copy_settings(root)
        published = {}
        for name in NAMES:
            copy_benchmark(converted.workspace, name, root)
            for system in SYSTEMS:
                pair = load_pair(Workspace(root), name, system)
                if name == "squad2" and pytestconfig.getoption("markexpr"):
                    pair = pair.only(range(0, len(pair.queries), 6))
                _, found = evaluate(Workspace(root), pair)
                published[name, system] = found.path
        (root / RESULTS).write_bytes(pickle.dumps(published))

    return Workspace(made_once("real-results", make))


@pytest.fixture(scope="session")
def results(scored: Workspace) -> dict[tuple[str, str], EvaluationResults]:
    """What both systems did on the four benchmarks, read back from the published files."""
    paths = pickle.loads((scored.root / RESULTS).read_bytes())
    return {pair: EvaluationResults.read(path) for pair, path in paths.items()}


@pytest.fixture
def scratch(shared: Path, tmp_path: Path) -> Iterator[Path]:
    """A workspace with the bundled systems' settings and no benchmark, removed when the test is done."""
    root = tmp_path / "workspace"
    copy_settings(root)
    (root / "data" / "sources").mkdir()
    yield root
    shutil.rmtree(root)
