"""Where the official scorers' outputs and the real benchmarks lie: beside the repository, not in it."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.conftest import shared_folder

# A property's first example pays for scipy's import, and the machine is shared: no limit on time.
settings.register_profile("metrics", deadline=None)
settings.load_profile("metrics")


@pytest.fixture(scope="session")
def oracles() -> Path:
    return shared_folder("oracles")


@pytest.fixture(scope="session")
def benchmarks() -> Path:
    return shared_folder("data")
