"""A night is compared with the baseline, a flagged one is run again, and a confirmed change alerts once."""

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.evaluation.baseline_files import nights_file
from rag_eval_pipeline.metrics.verdicts import FAILURE_RATE
from rag_eval_pipeline.monitoring.baselines import flip_share_of, pin
from rag_eval_pipeline.monitoring.comparison import VerdictSettings
from rag_eval_pipeline.monitoring.history import history_rows
from rag_eval_pipeline.monitoring.nightly import BaselineRuns, Nights, add_run, alerts_due, due_reruns
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.monitoring.made_runs import PRINTS, START, five_runs, made_evaluation, made_run

BASELINE = BaselineRuns(five_runs(), VerdictSettings())
FELL = range(20)  # 10 of 100 points


def nights(*runs, baseline=BASELINE):
    found = ()
    for run in runs:
        found = add_run(found, run, baseline)
    return found


def exact(night):
    return night.metrics["exact_match"]


RERUNS = {
    #                 runs                                                        kind            confirmation     state          alerts
    "no change":     ([made_run("n1")],                                           ("equivalent",   None,            "unflagged"),   {}),
    "no rerun yet":  ([made_run("n1", FELL)],                                     ("regressed",    "pending",       "unconfirmed"), {}),
    "seen again":    ([made_run("n1", FELL), made_run("n1b", range(1, 21), hours=13 / 6)], ("regressed", "confirmed",    "regressed"),   {"n1": ["exact_match"]}),
    "not seen again": ([made_run("n1", FELL), made_run("n1b", hours=3)],          ("inconclusive", "not_confirmed", "unconfirmed"), {}),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "expected", "alerts"), RERUNS.values(), ids=RERUNS)
def test_night_with_its_rerun(runs, expected, alerts):
    [night] = nights(*runs)

    assert (exact(night).kind, exact(night).confirmation, exact(night).state) == expected
    assert night.awaits_rerun == (expected[1] == "pending")
    assert night.rerun == (runs[1].evaluation_id if len(runs) > 1 else None)
    assert alerts_due([night]) == alerts
    if expected[0] == "regressed":
        assert exact(night).sentence.startswith("Exact match fell 10.0 points")
        # What the first run showed, not the rerun: questions 0 to 19.
        assert [moved.query_id for moved in exact(night).questions] == [str(q) for q in range(10)]
        assert {(moved.before, moved.after) for moved in exact(night).questions} == {(1.0, 0.0)}


def test_night_that_lost_a_metric_of_the_whole_baseline_has_no_verdict_on_it():
    def with_hits(run):
        return replace(run, columns={"hit@1": run.columns["exact_match"], **run.columns})

    pinned = [with_hits(run) for run in five_runs()]
    by_chance = [pinned[0], *five_runs()[1:]]

    [night] = nights(made_run("n1"), baseline=BaselineRuns(pinned, VerdictSettings()))
    lost = night.metrics["hit@1"]
    [other] = nights(made_run("n1"), baseline=BaselineRuns(by_chance, VerdictSettings()))

    assert (lost.kind, lost.sentence) == ("withheld", "Withheld: coverage 0.0 %, 98 % is needed.")
    assert exact(night) == exact(other)  # p is corrected for the same metrics
    assert "hit@1" not in other.metrics


NO_RERUNS = {
    "within two hours": (FELL, {"hours": 2}),  # the first one ended at 0:10
    "of another system": (FELL, {"hours": 3, "prints": PRINTS.model_copy(update={"system": "other"})}),
    "of a server that was set up anew": (FELL, {"hours": 3, "prints": PRINTS.model_copy(update={"server": "new"})}),
    "by a clock that went back": (FELL, {"hours": -24}),
    "after a night without a change": ((), {"hours": 24}),
}


@pytest.mark.parametrize(("wrong", "options"), NO_RERUNS.values(), ids=NO_RERUNS)
def test_night_is_not_taken_for_a_rerun(wrong, options):
    found = nights(made_run("n1", wrong), made_run("n2", wrong, **options))

    assert [(night.evaluation_id, night.rerun) for night in found] == [("n1", None), ("n2", None)]
    assert alerts_due(found) == {}


def test_night_that_stays_regressed_alerts_once_and_again_after_three_quiet_ones():
    found = nights(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        made_run("n2", FELL, hours=24),
        *(made_run(f"q{n}", hours=24 * n) for n in (2, 3, 4)),
        made_run("n6", FELL, hours=120),
        made_run("n6b", FELL, hours=123),
    )

    assert [exact(night).state for night in found] == ["regressed"] * 2 + ["unflagged"] * 3 + ["regressed"]
    assert [night.awaits_rerun for night in found] == [False] * 6
    assert alerts_due(found) == {"n1": ["exact_match"], "n6": ["exact_match"]}


def test_night_on_which_another_metric_falls_is_rerun_and_alerts():
    found = nights(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        made_run("n2", FELL, hours=24, failed=range(100, 103)),
        made_run("n3", FELL, hours=48, failed=range(100, 130)),
        made_run("n3b", FELL, hours=51, failed=range(100, 130)),
    )

    assert [night.evaluation_id for night in found] == ["n1", "n2", "n3"]
    assert alerts_due(found) == {"n1": ["exact_match"], "n3": [FAILURE_RATE]}
    # 30 of 200 without an answer: too few pairs for exact match, but the failure rate itself is never withheld.
    assert found[-1].metrics["exact_match"].kind == "withheld"


def test_night_with_an_improvement_is_confirmed_with_four_runs_provisional_and_of_a_deterministic_system_sure():
    low = BaselineRuns([made_run(f"base{n}", FELL) for n in range(5)], VerdictSettings())
    [improved] = nights(made_run("n1"), made_run("n1b", hours=3), baseline=low)
    assert (exact(improved).kind, exact(improved).state) == ("improved", "improved")
    four = BaselineRuns(five_runs()[:4], VerdictSettings())
    one = BaselineRuns([made_run("base", deterministic=True)], VerdictSettings())

    [provisional] = nights(made_run("n1", FELL), baseline=four)
    [sure] = nights(made_run("n1", FELL, deterministic=True), baseline=one)

    assert exact(provisional).sentence.endswith("provisional until the baseline has its runs.")
    assert (provisional.awaits_rerun, alerts_due([provisional])) == (False, {})
    assert alerts_due([sure]) == {"n1": ["exact_match"]}


@pytest.mark.fault(52)
@pytest.mark.parametrize("part", ["dataset", "corpus", "metrics", "judge", "system"])
def test_night_on_other_fingerprints_is_not_compared_unless_the_system_changed(part):
    [night] = nights(made_run("n1", FELL, prints=PRINTS.model_copy(update={part: "other"})))

    assert (night.reason, bool(night.metrics)) == ((None, True) if part == "system" else (f"different_{part}", False))


def test_flip_share_counts_answers_that_differ_between_runs():
    assert flip_share_of([made_run("a"), made_run("b", FELL)]) == 0.1
    assert flip_share_of([made_run("a")]) is None


def test_night_tests_documents_if_so_set():
    # Twenty wrong answers, all on one of 40 documents: one unit that fell is no evidence.
    clusters = {str(q): str(q // 5 if q >= 20 else 0) for q in range(200)}
    baseline = BaselineRuns(five_runs(), VerdictSettings(units="documents"), clusters=clusters)

    [night] = nights(made_run("n1", FELL), baseline=baseline)

    assert (exact(night).is_clustered, exact(night).n_units, exact(night).kind) == (True, 37, "inconclusive")


def test_nights_are_read_as_they_were_written(tmp_path):
    found = nights(made_run("n1", FELL), made_run("n1b", FELL, hours=3), made_run("n2", hours=24))
    book = Nights(benchmark="b", system="s", baseline=("base0",), nights=found)
    book.write(tmp_path / "a.json")

    assert Nights.read(tmp_path / "a.json") == book
    assert [night.metrics["exact_match"].n for night in found] == [200, 200]


def test_due_reruns_begin_two_hours_after_a_flagged_night(tmp_path):
    workspace = Workspace(tmp_path)
    pinned = [made_evaluation(workspace, day) for day in range(5)]
    baseline = pin(workspace, "b", "s", pinned, now=START + timedelta(days=4, hours=12))
    flagged = made_evaluation(workspace, 5)
    run = made_run(flagged, FELL, hours=120)
    book = Nights(benchmark="b", system="s", baseline=baseline.evaluations, nights=nights(run))
    book.write(nights_file(workspace, "b", "s", baseline))

    def due(**later):
        now = run.ended_at + timedelta(**later)
        return [flagged for _, _, flagged in due_reruns(workspace, [("b", "s"), ("b", "t")], now=now)]

    assert (due(minutes=119), due(hours=2)) == ([], [flagged])
    made_evaluation(workspace, 6)
    assert due(days=1) == []  # the pair has been evaluated since


NIGHT, RERUN = "eval_run_20261006_001", "eval_run_20261007_001"


def test_leaderboard_report_and_history_show_the_flagged_night_and_not_its_rerun(tmp_path):
    """Five nights of a baseline, a night of many wrong answers, its rerun a day later, and a night after it."""

    def rag_eval(*words):
        done = CliRunner().invoke(app, [*words, "--json", "--workspace", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    for night, skill in enumerate((0.9, 0.9, 0.9, 0.9, 0.9, 0.5)):
        publish_night(workspace, "b", "s", night, questions=100, skill=skill, number=1)
    rag_eval("report")
    publish_night(workspace, "b", "s", 6, questions=100, skill=0.6, number=1)
    [before] = rag_eval("leaderboard")  # it is known for a rerun before it is compared
    rag_eval("report")

    [after] = rag_eval("leaderboard")
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
    listed = (workspace.reports / "benchmarks" / "b.html").read_text()
    assert f"rerun of {NIGHT}" in re.sub(r"<[^>]*>", "", listed)
    assert "Over 6 nights" in listed
    assert "rerun of" in (workspace.reports / "runs" / RERUN / "index.html").read_text()
    roles = {row["evaluation_id"]: row["role"] for row in history_rows(workspace)[0]}
    assert (roles[RERUN], roles[NIGHT]) == (f"rerun of {NIGHT}", None)
    later = publish_night(workspace, "b", "s", 7, questions=100, skill=0.9, number=1)
    assert [row["evaluation_id"] for row in rag_eval("leaderboard")] == [later]
