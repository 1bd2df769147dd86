"""What every room's tests share: where other people's benchmarks lie, when they are there."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
# A busy machine is no fault of what is tested.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
CONVERTED = ("skarn-railway", "cairnmoor-observatory")
# These wait for servers, daemons and browsers more than they compute: they begin first, and the others fill their time.
WAITING = ("ui", "deployment", "e2e", "nights", "hostile")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests that wait before the others; else their order stays."""
    items.sort(key=lambda item: not set(WAITING) & set(item.path.relative_to(REPOSITORY).parts))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real benchmarks and official scorers' outputs; tests that need it are skipped without it."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no ../shared/data beside the repository: real benchmarks are not part of the project")
    return SHARED


@pytest.fixture(scope="session")
def _converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bundled benchmarks, converted once by the real converter with the real browser."""
    root = tmp_path_factory.mktemp("converted")
    for name in CONVERTED:
        shutil.copytree(REPOSITORY / "data" / "sources" / name, root / "data" / "sources" / name)
    shutil.copytree(REPOSITORY / "data" / "config", root / "data" / "config")
    for name in CONVERTED:
        convert(Workspace(root), name)
    return root


@pytest.fixture
def workspace(_converted: Path, tmp_path: Path) -> Workspace:
    """A workspace of the test's own with two converted benchmarks, one of 40 questions, and nothing evaluated."""
    root = tmp_path / "workspace"
    shutil.copytree(_converted, root, symlinks=True)
    return Workspace(root)
