"""Ids of evaluations are never taken twice, and taking one does not list those of the day."""

import shutil
from pathlib import Path

import pytest

from rag_eval_pipeline.workspace import Workspace
from tests.forked_workers import call_at_once
from tests.monitoring.made_runs import made_evaluation


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
    def take_fifty():
        return [made_evaluation(workspace, 2) for _ in range(50)]

    one, other = call_at_once(take_fifty, [()] * 2)

    assert len({*one, *other}) == len(one) + len(other) == 100
