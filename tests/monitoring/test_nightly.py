"""A night is compared with the baseline, a flagged one is run again, and a confirmed change alerts once."""

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.evaluation.baseline_files import nights_file
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE, Budget
from rag_eval_pipeline.monitoring.baselines import flip_share_of, pin
from rag_eval_pipeline.monitoring.history import history_rows
from rag_eval_pipeline.monitoring.night_records import Nights
from rag_eval_pipeline.monitoring.nightly import alerts_due, due_reruns
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.monitoring.made_runs import PRINTS, START, five_runs, made_evaluation, made_history, made_run

FELL = range(20)  # 10 of 100 points


def exact(night):
    return night.metrics["exact_match"]


RERUNS = {
    #                 runs                                                        kind            confirmation     state          alerts
    "no change":     ([made_run("n1")],                                           ("equivalent",   None,            "unflagged"),   {}),
    "no rerun yet":  ([made_run("n1", FELL)],                                     ("regressed",    "pending",       "unconfirmed"), {}),
    "seen again":    ([made_run("n1", FELL), made_run("n1b", FELL, hours=13 / 6)], ("regressed", "confirmed",    "regressed"),   {"n1": ["exact_match"]}),
    "not seen again": ([made_run("n1", FELL), made_run("n1b", hours=3)],          ("inconclusive", "not_confirmed", "unconfirmed"), {}),
}  # fmt: skip


@pytest.mark.parametrize(("runs", "expected", "alerts"), RERUNS.values(), ids=RERUNS)
def test_night_with_its_rerun(runs, expected, alerts):
    [night] = made_history(*runs)

    assert (exact(night).kind, exact(night).confirmation, exact(night).state) == expected
    assert night.awaits_rerun == (expected[1] == "pending")
    assert night.runs == tuple(run.evaluation_id for run in runs)
    assert alerts_due([night]) == alerts
    if expected[0] == "regressed":
        assert exact(night).sentence.startswith("Exact match fell 10.0 points")
        assert {(moved.before, moved.after) for moved in exact(night).questions} == {(1.0, 0.0)}


def test_night_is_rerun_until_its_runs_decide_together():
    """4 of 100 points fall for good: one rerun shows p = 21^-4 for one of two metrics, below 1 / 730 / 12 pairs."""
    four = [made_run(name, range(4), hours=hours, n=100) for name, hours in (("n1", 0), ("a", 3), ("b", 6), ("c", 9))]
    pinned = five_runs(n=100)

    def after(runs, n_pairs):
        [night] = made_history(*four[:runs], pinned=pinned, budget=Budget(0.5, n_pairs))
        return exact(night).confirmation, len(night.reruns), exact(night).rose + exact(night).fell

    assert [after(runs, 12) for runs in (1, 2)] == [("pending", 0, 4), ("confirmed", 1, 4)]
    assert [after(runs, 500) for runs in (2, 3)] == [("pending", 1, 4), ("confirmed", 2, 4)]
    assert [after(runs, 10**4) for runs in (3, 4)] == [("pending", 2, 4), ("confirmed", 3, 4)]
    assert after(4, 10**6) == ("not_confirmed", 3, 4)


def test_night_is_compared_with_quiet_nights_as_well_until_there_are_20():
    quiet = [made_run(f"q{n}", [n % 7], hours=24 * n) for n in range(18)]
    found = made_history(*quiet[:3], made_run("bad", FELL, hours=80), made_run("again", FELL, hours=90), *quiet[4:])

    assert [len(night.reference) for night in found] == [5, 6, 7, 8, *range(8, 20), 20, 20][: len(found)]
    assert {name for night in found for name in night.reference} & {"bad", "again"} == set()
    assert found[-1].reference == found[-2].reference
    assert exact(found[-1]).reference_runs == 20


def test_night_on_which_a_whole_run_shares_noise_is_not_confirmed():
    """Each run loses other questions of the 40 that waver, and one pinned run lost as many as tonight's two."""
    pinned = [*five_runs()[:4], made_run("bad hour", range(60, 72))]

    [night] = made_history(made_run("n1", range(12)), made_run("n1b", range(12), hours=3), pinned=pinned)

    assert exact(night).confirmation == "not_confirmed"
    assert "a reference run is as far from the others" in exact(night).sentence


def test_night_of_one_failed_question_of_128_is_decided():
    """One answer failed, and 17 of the others are wrong: that one cannot overturn it."""
    fell = [made_run(name, range(17), hours=hours, failed=[127], n=128) for name, hours in (("n1", 0), ("n1b", 3))]

    [night] = made_history(*fell, pinned=five_runs(n=128))

    assert (exact(night).kind, exact(night).n, exact(night).n_missing) == ("regressed", 127, 1)
    assert "1 question without a score would change nothing" in exact(night).sentence


def test_night_that_lost_a_metric_of_the_whole_baseline_has_no_verdict_on_it():
    def with_hits(run):
        return replace(run, columns={"hit@1": run.columns["exact_match"], **run.columns})

    pinned = [with_hits(run) for run in five_runs()]
    by_chance = [pinned[0], *five_runs()[1:]]

    [night] = made_history(made_run("n1"), pinned=pinned)
    lost = night.metrics["hit@1"]
    [other] = made_history(made_run("n1"), pinned=by_chance)

    assert (lost.kind, lost.sentence) == ("withheld", "Withheld: 200 questions without a score, and none with one.")
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
    found = made_history(made_run("n1", wrong), made_run("n2", wrong, **options))

    assert [night.runs for night in found] == [("n1",), ("n2",)]
    assert alerts_due(found) == {}


def test_night_that_stays_regressed_alerts_once_and_again_after_three_quiet_ones():
    found = made_history(
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
    found = made_history(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        made_run("n2", FELL, hours=24, failed=range(100, 102)),
        made_run("n3", FELL, hours=48, failed=range(100, 130)),
        made_run("n3b", FELL, hours=51, failed=range(100, 130)),
    )

    assert [night.evaluation_id for night in found] == ["n1", "n2", "n3"]
    assert alerts_due(found) == {"n1": ["exact_match"], "n3": [FAILURE_RATE]}
    # What the 30 answers would have been cannot overturn that 20 others are wrong.
    assert exact(found[-1]).kind == "regressed"


def test_known_change_of_a_night_without_a_rerun_is_not_called_confirmed_by_one():
    found = made_history(made_run("n1", FELL), made_run("n1b", FELL, hours=3), made_run("n2", FELL, hours=24))

    assert [exact(night).standing for night in found] == ["confirmed by a rerun", "confirmed on an earlier night"]


@pytest.mark.parametrize(("again", "state"), [(FELL, "regressed"), ((), "unconfirmed")], ids=["stays", "is gone"])
def test_rerun_for_another_metric_decides_a_known_change_as_well(again, state):
    found = made_history(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        made_run("n2", FELL, hours=24, failed=range(100, 130)),
        made_run("n2b", again, hours=27, failed=range(100, 130)),
    )

    assert (exact(found[-1]).state, exact(found[-1]).runs) == (state, 2)
    assert alerts_due(found) == {"n1": ["exact_match"], "n2": [FAILURE_RATE]}


def test_night_with_an_improvement_is_confirmed_with_four_runs_provisional_and_of_a_deterministic_system_sure():
    low = [made_run(f"base{n}", FELL) for n in range(5)]
    [improved] = made_history(made_run("n1"), made_run("n1b", hours=3), pinned=low)
    assert (exact(improved).kind, exact(improved).state) == ("improved", "improved")

    [provisional] = made_history(made_run("n1", FELL), pinned=five_runs()[:4])
    [sure] = made_history(made_run("n1", FELL, deterministic=True), pinned=[made_run("base", deterministic=True)])

    assert exact(provisional).sentence.endswith("provisional until the baseline has its runs.")
    assert (provisional.awaits_rerun, alerts_due([provisional])) == (False, {})
    assert alerts_due([sure]) == {"n1": ["exact_match"]}


@pytest.mark.fault(52)
@pytest.mark.parametrize("part", ["dataset", "corpus", "metrics", "judge", "system"])
def test_night_on_other_fingerprints_is_not_compared_unless_the_system_changed(part):
    [night] = made_history(made_run("n1", FELL, prints=PRINTS.model_copy(update={part: "other"})))

    assert (night.reason, bool(night.metrics)) == ((None, True) if part == "system" else (f"different_{part}", False))


def test_flip_share_counts_answers_that_differ_between_runs():
    assert flip_share_of([made_run("a"), made_run("b", FELL)]) == 0.1
    assert flip_share_of([made_run("a")]) is None


def test_night_tests_documents():
    # Twenty wrong answers, all on one of 37 documents: one unit that fell is no evidence.
    clusters = {str(q): str(q // 5 if q >= 20 else 0) for q in range(200)}

    [night] = made_history(made_run("n1", FELL), clusters=clusters)

    assert (exact(night).is_clustered, exact(night).n_units, exact(night).kind) == (True, 37, "inconclusive")


def test_nights_are_read_as_they_were_written(tmp_path):
    found = made_history(made_run("n1", FELL), made_run("n1b", FELL, hours=3), made_run("n2", hours=24))
    book = Nights(benchmark="b", system="s", baseline=("base0",), nights=found)
    book.write(tmp_path / "a.json")

    assert Nights.read(tmp_path / "a.json") == book
    former = json.loads((tmp_path / "a.json").read_text())
    for night in former["nights"]:
        night["rerun"] = next(iter(night.pop("reruns")), None)
        for name in ("reference", "n_pairs"):
            del night[name]
    (tmp_path / "former.json").write_text(json.dumps(former))
    assert [night.runs for night in Nights.read(tmp_path / "former.json").nights] == [("n1", "n1b"), ("n2",)]
    assert [night.metrics["exact_match"].n for night in found] == [200, 200]


def test_due_reruns_begin_two_hours_after_a_flagged_night(tmp_path):
    workspace = Workspace(tmp_path)
    pinned = [made_evaluation(workspace, day) for day in range(5)]
    baseline = pin(workspace, "b", "s", pinned, now=START + timedelta(days=4, hours=12))
    flagged = made_evaluation(workspace, 5)
    run = made_run(flagged, FELL, hours=120)
    book = Nights(benchmark="b", system="s", baseline=baseline.evaluations, nights=made_history(run))
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
    # The night alone; its verdict is of the night and its rerun together.
    assert after["metrics"]["exact_match"]["value"] == before["metrics"]["exact_match"]["value"]
    assert after["metrics"]["exact_match"]["value"] < verdict["verdicts"]["exact_match"]["current_mean"] < 0.6
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
