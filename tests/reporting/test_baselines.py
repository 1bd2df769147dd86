"""A baseline is five runs that are alike, collected by the first nights or pinned by a person, and never moves itself."""

import json
from datetime import timedelta

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.reporting.baselines import (
    all_published,
    earlier_runs,
    pin,
    pin_first_nights,
    published_evaluations,
)
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import PRINTS, START, made_evaluation

OTHER_SYSTEM = PRINTS.model_copy(update={"system": "other"})
OTHER_DATASET = PRINTS.model_copy(update={"dataset": "other"})
NOW = START + timedelta(days=100)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def test_pin_first_nights_takes_the_first_five(workspace):
    ids = [made_evaluation(workspace, day) for day in range(4)]
    assert pin_first_nights(workspace, "b", "s") is None
    ids += [made_evaluation(workspace, day) for day in (4, 5)]

    assert pin_first_nights(workspace, "b", "s").evaluations == tuple(ids[:5])
    assert pin_first_nights(workspace, "b", "s") is None  # it is there


def test_pin_first_nights_takes_one_of_a_deterministic_system(workspace):
    name = made_evaluation(workspace, 0, deterministic=True)

    assert pin_first_nights(workspace, "b", "s").evaluations == (name,)


def test_pin_first_nights_starts_anew_with_another_version(workspace):
    for day in range(3):
        made_evaluation(workspace, day)
    ids = [made_evaluation(workspace, day, prints=OTHER_SYSTEM) for day in range(3, 8)]

    assert pin_first_nights(workspace, "b", "s").evaluations == tuple(ids)


def test_pin_first_nights_ignores_nights_on_an_earlier_dataset(workspace):
    for day in range(5):
        made_evaluation(workspace, day, prints=OTHER_DATASET)
    made_evaluation(workspace, 5)

    assert pin_first_nights(workspace, "b", "s") is None


def test_earlier_runs_are_those_before_the_last(workspace):
    ids = [made_evaluation(workspace, day) for day in range(3)]
    evaluations = published_evaluations(workspace, "b", "s")

    assert [one.folder.name for one in earlier_runs(evaluations)] == ids[:2]
    assert earlier_runs(evaluations[:1]) == []


def test_pin_takes_the_newest_five_that_are_alike(workspace):
    ids = [made_evaluation(workspace, day) for day in range(7)]

    pinned = pin(workspace, "b", "s", now=NOW, note="after the upgrade")

    assert pinned.evaluations == tuple(ids[2:])
    assert read_baseline(workspace, "b", "s") == pinned
    assert (pinned.pinned_at, pinned.pinned_by, pinned.note) == (NOW, "a person", "after the upgrade")


def unlike(workspace):
    return [made_evaluation(workspace, 0), made_evaluation(workspace, 1, prints=OTHER_SYSTEM)]


def of_another_pair(workspace):
    return [made_evaluation(workspace, 0, system="t")]


def unfinished(workspace):
    return [made_evaluation(workspace, 0, state="answered")]


def twice(workspace):
    return [made_evaluation(workspace, 0)] * 2


FAULTS = {
    "nothing was evaluated": (lambda workspace: [], "no_evaluations"),
    "an evaluation that is not there": (lambda workspace: ["eval_run_20200101_001"], "missing_file"),
    "of two versions of the system": (unlike, "different_runs"),
    "of another system": (of_another_pair, "other_pair"),
    "not published": (unfinished, "not_published"),
    "the same one twice": (twice, "repeated_runs"),
    "a path": (lambda workspace: ["../runs"], "bad_evaluation_id"),
}


@pytest.mark.parametrize(("make", "code"), FAULTS.values(), ids=FAULTS)
def test_pin_refuses_and_changes_nothing(make, code, workspace):
    with pytest.raises(InputError) as caught:
        pin(workspace, "b", "s", make(workspace), now=NOW)

    assert caught.value.code == code
    assert read_baseline(workspace, "b", "s") is None


def test_published_evaluations_of_one_second_are_in_the_order_of_their_ids(workspace):
    ids = [made_evaluation(workspace, 0) for _ in range(3)]

    assert [one.folder.name for one in published_evaluations(workspace, "b", "s")] == ids
    assert load_evaluation(workspace, ids[0]).record.opened_at == START


def names(workspace, system="s"):
    return [one.record.evaluation_id for one in published_evaluations(workspace, "b", system)]


def test_published_evaluations_are_of_the_pair_and_oldest_first(tmp_path):
    workspace = Workspace(tmp_path)
    second, first = (made_evaluation(workspace, day) for day in (2, 1))
    other = made_evaluation(workspace, 1, system="t")
    made_evaluation(workspace, 3, state="scored")

    assert names(workspace) == [first, second]
    assert names(workspace, "t") == [other]
    assert set(all_published(workspace)) == {("b", "s"), ("b", "t")}


def test_published_evaluations_include_one_published_later(tmp_path):
    workspace = Workspace(tmp_path)
    name = made_evaluation(workspace, 1, state="scored")
    assert names(workspace) == []

    path = workspace.runs / name / "evaluation.json"
    path.write_text(path.read_text().replace('"scored"', '"published"'))

    assert names(workspace) == [name]


def test_published_evaluations_leave_out_removed_and_damaged_ones(tmp_path):
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


def test_published_evaluations_leave_out_records_of_a_later_version(tmp_path):
    workspace = Workspace(tmp_path)
    name = made_evaluation(workspace, 1)
    path = workspace.runs / name / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": "9.0"}))

    assert names(workspace) == []
