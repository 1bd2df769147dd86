"""What every room's tests share: where other people's benchmarks lie, when they are there."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real benchmarks and official scorers' outputs; tests that need it are skipped without it."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no ../shared/data beside the repository: real benchmarks are not part of the project")
    return SHARED
