"""Ids of evaluations are never taken twice, and taking one does not list those of the day."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.reporting.made_runs import made_evaluation

TAKER = """
import sys
from pathlib import Path
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import made_evaluation
print("ready", flush=True)
sys.stdin.readline()
print(*(made_evaluation(Workspace(Path(sys.argv[1])), 2) for _ in range(50)))
"""


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


@pytest.mark.fault(63)
def test_id_is_higher_than_those_of_runs_and_results_also_where_files_were_removed(workspace):
    first = made_evaluation(workspace, 2)
    day = first.rpartition("_")[0]
    workspace.results.mkdir(parents=True, exist_ok=True)
    (workspace.results / f"{day}_002.results.json").touch()  # copied from elsewhere

    assert (first, made_evaluation(workspace, 2)) == (f"{day}_001", f"{day}_003")
    shutil.rmtree(workspace.runs / f"{day}_003")
    assert made_evaluation(workspace, 2) == f"{day}_004"
    (workspace.results / f"{day}_999.results.json").touch()
    (workspace.runs / ".last_id").unlink()
    assert made_evaluation(workspace, 2) == f"{day}_1000"
    assert made_evaluation(workspace, 3).endswith("_001")
    assert made_evaluation(workspace, 2) == f"{day}_1001"


def test_further_id_of_a_day_lists_no_folder(workspace, monkeypatch):
    first = made_evaluation(workspace, 2)

    monkeypatch.delattr(Path, "glob")
    monkeypatch.delattr(Path, "iterdir")

    assert made_evaluation(workspace, 2) == first.replace("_001", "_002")


@pytest.mark.fault(63)
def test_two_processes_never_take_one_id(workspace):
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", TAKER, workspace.root], cwd=REPOSITORY, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    assert [taker.stdout.readline() for taker in takers] == ["ready\n"] * 2

    for taker in takers:
        taker.stdin.write("go\n")
        taker.stdin.flush()
    taken = [name for taker in takers for name in taker.communicate()[0].split()]

    assert len(set(taken)) == len(taken) == 100
