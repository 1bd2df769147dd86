"""What the tests of several machines need: Postgres and Redis from Debian's packages, in folders of their own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.local_cluster import cluster_folder, missing_programs

REQUIRED = "RAG_EVAL_TEST_CLUSTER"  # set where the servers must be there: a missing one is a failure


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder for a cluster; skips where its servers are missing."""
    if missing := missing_programs():
        reason = f"not installed: {', '.join(missing)} (Debian's packages postgresql and redis-server)"
        if os.environ.get(REQUIRED):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with cluster_folder() as made:
        yield made
