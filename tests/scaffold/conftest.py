"""Scratch workspaces in which a benchmark is started from files that a test wrote."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import duckdb
import pytest

from rag_eval_pipeline.conversion import sql_worker
from rag_eval_pipeline.conversion.planning import Plan, plan
from rag_eval_pipeline.scaffold.init import Proposal, start_benchmark
from rag_eval_pipeline.storage import process
from rag_eval_pipeline.workspace import Workspace
from tests import forked_workers

Files = Mapping[str, str | bytes]


def write(folder: Path, files: Files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.fixture(scope="package", autouse=True)
def _sql_here() -> Iterator[None]:
    """SQL runs in the process of the tests, which lists DuckDB's functions once: a fifth of the time of a query.

    tests/conversion and tests/faults test its own process.
    """
    list_functions, listed = sql_worker._functions, []

    def functions(connection: duckdb.DuckDBPyConnection) -> tuple[set[str], dict[str, set[int]]]:
        if not listed:
            listed.append(list_functions(connection))
        return listed[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_run", partial(forked_workers.run_sql_here, process._run))
        patch.setattr(sql_worker, "_functions", functions)
        yield


@pytest.fixture
def empty(tmp_path: Path) -> Workspace:
    """A workspace without benchmarks."""
    (tmp_path / "workspace" / "data" / "sources").mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def started(empty: Workspace, tmp_path: Path) -> Callable[[Files], Proposal]:
    """`started({file: content})` starts `scratch` from a folder of these files."""
    return lambda files: start_benchmark(empty, "scratch", write(tmp_path / "origin", files))[1]


@pytest.fixture
def planned(empty: Workspace, started: Callable[[Files], Proposal]) -> Callable[[Files], Plan]:
    """`planned({file: content})` is the plan of the benchmark that was proposed for a folder of these files."""

    def make(files: Files) -> Plan:
        started(files)
        return plan(empty.benchmark("scratch"))

    return make
