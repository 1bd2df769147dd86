"""The cause of a change: metrics that moved together, the group and the documents concerned, the worst questions."""

import json

import pytest

from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.storage import read_scores, write_scores
from rag_eval_pipeline.metrics.verdicts import Evidence, Verdict
from rag_eval_pipeline.reporting.causes import change_text, find_cause, headline_order
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import MEASURES, publish_night, register

ASKED = 12


def verdict(kind, before, after, *, confirmation="confirmed", better=True, p=0.004):
    evidence = Evidence(
        metric="m", n_pairs=ASKED, baseline_mean=before, current_mean=after, estimate=after - before, value_range=1.0,
        higher_is_better=better, adjusted_interval=None, confidence_interval=None, p_value=p, p_corrected=p,
        effect_size=None, n_units=ASKED, is_clustered=False, coverage=1.0, smallest_drop=0.1,
    )  # fmt: skip
    return Verdict(kind, "", confirmation, evidence)


FELL = verdict("regressed", 1.0, 0.5)


def rewrite(workspace, name, *, wrong=()):
    """Let every question of an evaluation have a full score but those at some places."""
    evaluation = load_evaluation(workspace, name)
    for kind, measures in {"answer_scores": ("exact_match", "f1", "abstained"), "retrieval_scores": MEASURES}.items():
        rows = read_scores(evaluation.scores(kind))
        for place, row in enumerate(rows):
            row.scores.update(dict.fromkeys(measures, 0.0 if place in wrong else 1.0))
        write_scores(evaluation.scores(kind), rows, measures, evaluation_id=name)


@pytest.fixture
def nights(tmp_path):
    """Two nights of twelve questions of three documents, of which those of two, the lines, are then answered wrongly."""
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    old, new = (publish_night(workspace, "b", "s", n, questions=ASKED, skill=1.0, number=1) for n in range(2))
    rewrite(workspace, old)
    rewrite(workspace, new, wrong=[*range(4), 5, 6])
    path = workspace.eval_json("b", "1.0.0")
    dataset = json.loads(path.read_text())
    for place, query in enumerate(dataset["queries"]):
        query["relevant_documents"] = [f"d{place // 4}.pdf"]
        query["ground_truth_answer"] = f"gold {place}"
        query["metadata"] = {"section": "lines" if place < 8 else "depots", "source_id": f"HR-{place:03d}"}
    path.write_text(json.dumps(dataset))
    return workspace, old, new


def test_find_cause_names_group_documents_and_worst_questions(nights):
    workspace, old, new = nights

    cause = find_cause(
        workspace, new, [old], {"f1": FELL, "exact_match": FELL, "hit@1": verdict("inconclusive", 1, 0.9)}
    )

    assert cause.where == (
        "6 of the 6 changed questions have section “lines”, which 8 questions have.",
        "Changed questions by document: d0.pdf (4 of 4), d1.pdf (2 of 4).",
    )
    assert [(one.name, one.expected, one.before, one.after) for one in cause.questions] == [
        ("HR-000", "gold 0", 1.0, 0.0), ("HR-001", "gold 1", 1.0, 0.0), ("HR-002", "gold 2", 1.0, 0.0),
    ]  # fmt: skip
    assert all(one.text and one.answer_before and one.answer_after for one in cause.questions)
    assert cause.together == ("hit@1",)
    assert cause.look_at == "Look at retrieval first: Hit@1 100.0 % → 90.0 %."


STAGES = {
    "failures before all else": (
        {"Failure rate": verdict("regressed", 0.0, 0.25, better=False), "hit@1": verdict("regressed", 1, 0.5)},
        "Look at the failed questions first: Failure rate 0.0 % → 25.0 %.",
    ),
    "retrieval as it was": (
        {"f1": FELL, "page/hit@1": verdict("inconclusive", 0.5, 0.49)},
        "Retrieval is much as it was (Hit@1 by page 50.0 % → 49.0 %): look at the prompt and the model.",
    ),
    "no retrieval": ({"f1": FELL}, ""),
    "an improvement": ({"f1": verdict("improved", 0.5, 1.0), "hit@1": verdict("inconclusive", 0.5, 1.0)}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("verdicts", "look_at"), STAGES.values(), ids=STAGES)
def test_find_cause_without_runs_names_the_stage(verdicts, look_at, tmp_path):
    cause = find_cause(Workspace(tmp_path), "gone", ["gone too"], verdicts)

    assert (cause.look_at, cause.questions) == (look_at, ())


def test_change_text_has_means_points_p_and_confirmation():
    assert change_text("exact_match", FELL) == (
        "Exact match 100.0 % → 50.0 % (−50.0 points, p = 0.004, confirmed by a rerun)"
    )
    rose = verdict("improved", 0.5, 0.625, confirmation="pending", p=0.0004)
    assert (
        change_text("page/hit@1", rose) == "Hit@1 by page 50.0 % → 62.5 % (+12.5 points, p < 0.001, awaits its rerun)"
    )


def test_headline_order_puts_other_metrics_last():
    assert headline_order(["thanks", "page/hit@1", "f1", "exact_match"]) == [
        "exact_match",
        "f1",
        "page/hit@1",
        "thanks",
    ]
