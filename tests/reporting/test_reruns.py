"""A rerun looks at a night again and is no night: what is shown as now is the night, everywhere the same."""

import json

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.reporting.history import history_rows
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

NIGHT, RERUN = "eval_run_20261006_001", "eval_run_20261007_001"


@pytest.fixture
def rag_eval(tmp_path):
    def run(*words):
        done = CliRunner().invoke(app, [*words, "--workspace", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


@pytest.fixture
def workspace(tmp_path):
    """Five nights of a baseline, a night of many wrong answers, and the same again a day later: its rerun."""
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    for night, skill in enumerate((0.9, 0.9, 0.9, 0.9, 0.9, 0.5)):
        publish_night(workspace, "b", "s", night, questions=100, skill=skill, number=1)
    return workspace


def test_leaderboard_verdict_and_drawn_nights_are_of_the_night_that_was_flagged(rag_eval, workspace):
    rag_eval("report", "--json")
    publish_night(workspace, "b", "s", 6, questions=100, skill=0.6, number=1)

    [before] = rag_eval("leaderboard", "--json")  # already known for what it is, before anything is compared
    rag_eval("report", "--json")

    [after] = rag_eval("leaderboard", "--json")
    report = json.loads((workspace.reports / "report.json").read_text())
    [verdict] = json.loads((workspace.reports / "regressions.json").read_text())
    assert (verdict["evaluation_id"], verdict["rerun"]) == (NIGHT, RERUN)
    assert verdict["verdicts"]["exact_match"]["confirmation"] == "confirmed"
    assert [shown["evaluation_id"] for shown in (before, after, *report["summary"]["pairs"])] == [NIGHT] * 3
    assert after["metrics"]["exact_match"]["value"] == pytest.approx(
        verdict["verdicts"]["exact_match"]["current_mean"],
        abs=0.01,  # of the pairs: a question had no answer
    )
    trends = [one for one in report["visualizations"] if one["kind"] == "trend"]
    assert {one["nights"][-1] for one in trends} == {NIGHT}
    assert {len(one["values"]) for one in trends} == {6}
    assert [mark for one in trends for mark in one["marks"] if mark][0] == "regressed"


def test_a_rerun_is_labelled_where_runs_are_listed(rag_eval, workspace):
    rag_eval("report", "--json")
    publish_night(workspace, "b", "s", 6, questions=100, skill=0.5, number=1)
    rag_eval("report", "--json")

    listed = (workspace.reports / "benchmarks" / "b.html").read_text()
    own = (workspace.reports / "runs" / RERUN / "index.html").read_text()
    roles = {row["evaluation_id"]: row["role"] for row in history_rows(workspace)[0]}

    assert f"rerun of {NIGHT}" in listed
    assert "Over 6 nights" in listed
    assert "rerun of" in own
    assert (roles[RERUN], roles[NIGHT]) == (f"rerun of {NIGHT}", None)


def test_an_evaluation_that_is_no_rerun_is_the_newest_night(rag_eval, workspace):
    rag_eval("report", "--json")
    publish_night(workspace, "b", "s", 6, questions=100, skill=0.5, number=1)
    rag_eval("report", "--json")
    later = publish_night(workspace, "b", "s", 7, questions=100, skill=0.9, number=1)

    [row] = rag_eval("leaderboard", "--json")

    assert row["evaluation_id"] == later
