"""What questions that got worse have in common is named only if most of the others do not have it."""

from dataclasses import replace

import pytest

from rag_eval_pipeline.evaluation.compared_runs import Column
from rag_eval_pipeline.evaluation.score_tables import read_scores, write_scores
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.monitoring.causes import (
    Cause,
    MetricMove,
    _compared_questions,
    chance_of_sharing,
    mean_text,
    shared_group,
    worse_questions,
)
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.monitoring.made_runs import made_run

PLACES = 60  # question n is about document n // 5, and about the section of its 20
SECTIONS = ("pilotage", "berths", "cargo")
QUESTIONS = [
    EvaluationQuery(
        query_id=str(n),
        query_text="?",
        relevant_documents=(f"{n // 5}.pdf",),
        difficulty="easy",
        metadata={"section": SECTIONS[n // 20], "source_id": "all"},
    )
    for n in range(PLACES)
]
GROUPS = {
    #                              worse               what they share, and in a sentence
    "a section":                  (range(18),           ("section", "pilotage"), "all 18 questions that got worse are of section pilotage, which has 20"),
    "a section, and some others": ((*range(18), 30, 50), ("section", "pilotage"), "18 of the 20 questions of section pilotage got worse, 2 of the 40 others"),
    "a document":                 (range(20, 25),       ("document", "4.pdf"),     "all 5 questions that got worse are of document 4.pdf, which has 5"),
    "nothing":                    (range(0, 60, 4),     None,                                   None),
    "too few to know":            ((0,),                None,                                   None),
    "none":                       ((),                  None,                                   None),
    "all":                        (range(60),           None,                                   None),
}  # fmt: skip


@pytest.mark.parametrize(("worse", "group", "text"), GROUPS.values(), ids=GROUPS)
def test_shared_group_of_worse_questions(worse, group, text):
    found = shared_group(QUESTIONS, {place: place in worse for place in range(PLACES)})

    assert (found and (found.field, found.value)) == group
    assert (found and found.text) == text


def test_questions_that_a_metric_does_not_apply_to_are_no_others():
    # 14 of 20 and 8 of 20 are worse; the 20 of the last section are unanswerable, and retrieval is not scored.
    compared = {place: place < 14 or 20 <= place < 28 for place in range(40)}

    assert shared_group(QUESTIONS, compared | dict.fromkeys(range(40, 60), False)) is not None
    assert shared_group(QUESTIONS, compared) is None


def test_question_that_a_metric_does_not_apply_to_is_not_worse():
    right, n = (1.0,) * 4, 4
    asked = (True, True, False, True)
    base = made_run("base", n=n)
    now = made_run("now", n=n, failed=(3,))
    now.columns["exact_match"] = Column((1.0, 0.0, None, None), asked)

    assert base.columns["exact_match"].scores == right
    # The second is wrong now, the third does not apply, the fourth failed now.
    assert _compared_questions("exact_match", [now, base]) == {0: False, 1: True, 3: True}


def test_move_of_a_fraction_of_a_point_is_not_rounded_to_none():
    assert MetricMove("failure_rate", 0.0, 0.004, True).text.endswith(" 0 → 0.4")


@pytest.mark.parametrize(("runs", "which"), [(1, ""), (2, " in the night's first run")])
def test_counts_of_one_run_say_which_where_the_means_are_of_several(runs, which):
    move = MetricMove("failure_rate", 0.0, 0.18, True)

    cause = Cause("failures", (move,), 200, (40, 0), (0, 0), None, (), runs=runs)

    assert cause.sentence == f"Look at the errors: 40 of 200 questions failed{which}, 0 before."


def test_worse_questions_are_found_by_f1_where_no_answer_ever_matches_exactly(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["harbour"], ["asked"])
    names = [
        publish_night(workspace, "harbour", "asked", n, questions=4, skill=1.0, number=1, failing=0.0) for n in (0, 1)
    ]
    for name, f1 in zip(names, ([0.6, 0.6, 0.6, 0.6], [0.6, 0.1, 0.7, 0.4]), strict=True):
        path = workspace.runs / name / "answer_scores.parquet"
        rows = [
            replace(row, scores={"exact_match": 0.0, "f1": score})
            for row, score in zip(read_scores(path), f1, strict=True)
        ]
        write_scores(path, rows, ["exact_match", "f1"], evaluation_id=name)

    assert [one.query_id for one in worse_questions(workspace, names[1], names[0])] == ["1", "3"]


@pytest.mark.parametrize(
    ("count", "total", "size", "drawn"),
    [(2, 5, 3, 3), (0, 40, 7, 9), (5, 40, 7, 9), (9, 40, 35, 9), (40, 400_000, 900, 1500)],
)
def test_chance_of_sharing_is_scipys(count, total, size, drawn):
    from scipy import stats  # loaded by this test alone: each process of the suite imports all tests

    assert chance_of_sharing(count, total, size, drawn) == pytest.approx(
        stats.hypergeom.sf(count - 1, total, size, drawn), rel=1e-8
    )


@pytest.mark.parametrize(
    ("mean", "text"),
    [(0.735, "74"), (0.7349999999999999, "74"), (0.575, "58"), (0.9999, "100.0"), (1.0, "100"), (None, "–")],
)
def test_equal_means_have_one_text(mean, text):
    assert mean_text(mean) == text
