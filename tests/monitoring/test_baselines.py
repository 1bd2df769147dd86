"""A baseline is five runs with equal fingerprints: the first nights, or those that a person pins."""

import json
import shutil
from datetime import timedelta

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.evaluation_folders import (
    Evaluation,
    all_published,
    load_evaluation,
    published_evaluations,
)
from rag_eval_pipeline.monitoring.baselines import earlier_runs, pin, pin_first_nights
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_runs import PRINTS, START, made_evaluation

OTHER_SYSTEM = PRINTS.model_copy(update={"system": "other"})
OTHER_DATASET = PRINTS.model_copy(update={"dataset": "other"})
NOW = START + timedelta(days=100)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def made(workspace, *prints, **options):
    return [made_evaluation(workspace, day, prints=one, **options) for day, one in enumerate(prints)]


FIRST_NIGHTS = {
    #                              fingerprints of the nights          the pinned ones
    "too few":                     ([PRINTS] * 4,                      None),
    "the first five of six":       ([PRINTS] * 6,                      slice(0, 5)),
    "of another version, anew":    ([PRINTS] * 3 + [OTHER_SYSTEM] * 5, slice(3, 8)),
    "on an earlier dataset":       ([OTHER_DATASET] * 5 + [PRINTS],    None),
}  # fmt: skip


@pytest.mark.parametrize(("prints", "pinned"), FIRST_NIGHTS.values(), ids=FIRST_NIGHTS)
def test_pin_first_nights(prints, pinned, workspace):
    ids = made(workspace, *prints)

    baseline = pin_first_nights(workspace, "b", "s", published_evaluations(workspace, "b", "s"))

    assert (baseline and baseline.evaluations) == (pinned and tuple(ids[pinned]))
    assert (
        pin_first_nights(workspace, "b", "s", published_evaluations(workspace, "b", "s")) is None
    )  # too few still, or it is there


def test_pin_first_nights_takes_one_of_a_deterministic_system(workspace):
    [name] = made(workspace, PRINTS, deterministic=True)

    assert pin_first_nights(workspace, "b", "s", published_evaluations(workspace, "b", "s")).evaluations == (name,)


def test_run_with_too_few_answers_is_in_no_baseline(workspace):
    ids = [made_evaluation(workspace, day, coverage=0.11 if day in (1, 6) else 0.99) for day in range(7)]
    evaluations = published_evaluations(workspace, "b", "s")
    good = tuple(name for day, name in enumerate(ids) if day not in (1, 6))

    assert tuple(one.folder.name for one in earlier_runs(evaluations[:3])) == good[:1]
    assert pin_first_nights(workspace, "b", "s", evaluations).evaluations == good
    assert pin(workspace, "b", "s", now=NOW).evaluations == good


def test_pin_takes_the_newest_five_that_are_alike(workspace):
    ids = made(workspace, *[PRINTS] * 7)
    evaluations = published_evaluations(workspace, "b", "s")
    assert [one.folder.name for one in earlier_runs(evaluations[:3])] == ids[:2]
    assert earlier_runs(evaluations[:1]) == []

    pinned = pin(workspace, "b", "s", now=NOW, note="after the upgrade")

    assert pinned.evaluations == tuple(ids[2:])
    assert read_baseline(workspace, "b", "s") == pinned
    assert (pinned.pinned_at, pinned.pinned_by, pinned.note) == (NOW, "a person", "after the upgrade")


FAULTS = {
    "nothing was evaluated": (lambda workspace: [], "no_evaluations"),
    "an evaluation that is not there": (lambda workspace: ["eval_run_20200101_001"], "no_evaluation"),
    "of two versions of the system": (lambda workspace: made(workspace, PRINTS, OTHER_SYSTEM), "different_runs"),
    "of another system": (lambda workspace: made(workspace, PRINTS, system="t"), "other_pair"),
    "not published": (lambda workspace: made(workspace, PRINTS, state="answered"), "not_published"),
    "the same one twice": (lambda workspace: made(workspace, PRINTS) * 2, "repeated_runs"),
    "a path": (lambda workspace: ["../runs"], "bad_evaluation_id"),
}


@pytest.mark.parametrize(("make", "code"), FAULTS.values(), ids=FAULTS)
def test_pin_refuses_and_changes_nothing(make, code, workspace):
    with pytest.raises(InputError) as caught:
        pin(workspace, "b", "s", make(workspace), now=NOW)

    assert caught.value.code == code
    assert read_baseline(workspace, "b", "s") is None


def names(workspace, system="s"):
    return [one.record.evaluation_id for one in published_evaluations(workspace, "b", system)]


def edit(workspace, name, **changes):
    path = workspace.runs / name / "evaluation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_ids_are_in_the_order_of_their_numbers(workspace):
    names = ["eval_run_20260907_998", "eval_run_20260907_999", "eval_run_20260907_1000", "eval_run_20260908_001"]
    for name in names:
        evaluation = load_evaluation(workspace, made_evaluation(workspace, 0))
        evaluation.folder.rename(workspace.runs / name)
        Evaluation(workspace.runs / name, evaluation.record).save(evaluation_id=name)

    assert [one.record.evaluation_id for one in published_evaluations(workspace, "b", "s")] == names
    with pytest.raises(InputError, match=f"The newest are {', '.join(names[::-1])}"):
        load_evaluation(workspace, "absent")


def test_published_evaluations_are_of_the_pair_and_oldest_first(workspace):
    third, first, second = (made_evaluation(workspace, day) for day in (2, 1, 1))  # equal times: in order of ids
    other = made_evaluation(workspace, 1, system="t")
    later = made_evaluation(workspace, 3, state="scored")

    assert (names(workspace), names(workspace, "t")) == ([first, second, third], [other])
    assert set(all_published(workspace)) == {("b", "s"), ("b", "t")}
    edit(workspace, later, state="published")
    assert names(workspace) == [first, second, third, later]


def test_published_evaluations_leave_out_removed_and_damaged_ones(workspace):
    removed, damaged, newer, kept = made(workspace, *[PRINTS] * 4)
    assert names(workspace) == [removed, damaged, newer, kept]

    shutil.rmtree(workspace.runs / removed)
    (workspace.runs / damaged / "evaluation.json").write_text("{")
    edit(workspace, newer, schema_version="9.0")

    assert names(workspace) == [kept]
    new = made_evaluation(workspace, 9)
    assert names(workspace) == [kept, new]
