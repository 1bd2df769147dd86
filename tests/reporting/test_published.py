"""Published evaluations of a pair: each record is read once, and again when it has changed."""

import json

from rag_eval_pipeline.reporting.published import all_published, published_evaluations
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import made_evaluation


def names(workspace, system="s"):
    return [one.record.evaluation_id for one in published_evaluations(workspace, "b", system)]


def test_those_of_a_pair_are_found_oldest_first(tmp_path):
    workspace = Workspace(tmp_path)
    second, first = (made_evaluation(workspace, day) for day in (2, 1))
    other = made_evaluation(workspace, 1, system="t")
    made_evaluation(workspace, 3, state="scored")

    assert names(workspace) == [first, second]
    assert names(workspace, "t") == [other]
    assert set(all_published(workspace)) == {("b", "s"), ("b", "t")}


def test_an_evaluation_that_is_published_later_is_found(tmp_path):
    workspace = Workspace(tmp_path)
    name = made_evaluation(workspace, 1, state="scored")
    assert names(workspace) == []

    path = workspace.runs / name / "evaluation.json"
    path.write_text(path.read_text().replace('"scored"', '"published"'))

    assert names(workspace) == [name]


def test_one_that_was_removed_or_damaged_is_gone_and_costs_no_other(tmp_path):
    workspace = Workspace(tmp_path)
    removed, damaged, kept = (made_evaluation(workspace, day) for day in (1, 2, 3))
    assert names(workspace) == [removed, damaged, kept]

    for file in (workspace.runs / removed).iterdir():
        file.unlink()
    (workspace.runs / removed).rmdir()
    (workspace.runs / damaged / "evaluation.json").write_text("{")

    assert names(workspace) == [kept]
    new = made_evaluation(workspace, 4)
    assert names(workspace) == [kept, new]


def test_a_record_of_a_later_form_is_left_aside(tmp_path):
    workspace = Workspace(tmp_path)
    name = made_evaluation(workspace, 1)
    path = workspace.runs / name / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": "9.0"}))

    assert names(workspace) == []


def test_two_folders_of_runs_are_two(tmp_path):
    one, other = Workspace(tmp_path / "a"), Workspace(tmp_path / "b")
    made_evaluation(one, 1)

    assert (len(names(one)), len(names(other))) == (1, 0)
