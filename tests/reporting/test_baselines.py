"""A baseline is five runs that are alike, collected by the first nights or pinned by a person, and never moves itself."""

from datetime import timedelta

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.reporting.baselines import earlier_runs, pin, pin_first_nights
from rag_eval_pipeline.reporting.published import published_evaluations
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import PRINTS, START, made_evaluation

OTHER_SYSTEM = PRINTS.model_copy(update={"system": "other"})
OTHER_DATASET = PRINTS.model_copy(update={"dataset": "other"})
NOW = START + timedelta(days=100)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def test_the_first_five_nights_are_the_baseline(workspace):
    ids = [made_evaluation(workspace, day) for day in range(4)]
    assert pin_first_nights(workspace, "b", "s") is None
    ids += [made_evaluation(workspace, day) for day in (4, 5)]

    assert pin_first_nights(workspace, "b", "s").evaluations == tuple(ids[:5])
    assert pin_first_nights(workspace, "b", "s") is None  # it is there


def test_a_deterministic_system_needs_one(workspace):
    name = made_evaluation(workspace, 0, deterministic=True)

    assert pin_first_nights(workspace, "b", "s").evaluations == (name,)


def test_nights_of_another_version_begin_the_collection_anew(workspace):
    for day in range(3):
        made_evaluation(workspace, day)
    ids = [made_evaluation(workspace, day, prints=OTHER_SYSTEM) for day in range(3, 8)]

    assert pin_first_nights(workspace, "b", "s").evaluations == tuple(ids)


def test_nights_on_an_earlier_dataset_collect_nothing(workspace):
    for day in range(5):
        made_evaluation(workspace, day, prints=OTHER_DATASET)
    made_evaluation(workspace, 5)

    assert pin_first_nights(workspace, "b", "s") is None


def test_while_nothing_is_pinned_a_night_is_compared_with_those_before_it(workspace):
    ids = [made_evaluation(workspace, day) for day in range(3)]
    evaluations = published_evaluations(workspace, "b", "s")

    assert [one.folder.name for one in earlier_runs(evaluations)] == ids[:2]
    assert earlier_runs(evaluations[:1]) == []


def test_pinning_takes_the_newest_five_that_are_alike(workspace):
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
def test_what_cannot_be_pinned_is_refused_and_changes_nothing(make, code, workspace):
    with pytest.raises(InputError) as caught:
        pin(workspace, "b", "s", make(workspace), now=NOW)

    assert caught.value.code == code
    assert read_baseline(workspace, "b", "s") is None


def test_evaluations_that_began_in_one_second_are_in_the_order_of_their_ids(workspace):
    ids = [made_evaluation(workspace, 0) for _ in range(3)]

    assert [one.folder.name for one in published_evaluations(workspace, "b", "s")] == ids
    assert load_evaluation(workspace, ids[0]).record.opened_at == START
