"""A night is compared with the baseline, a flagged one is run again, and only a confirmed change alerts, once."""

import pytest

from rag_eval_pipeline.metrics.verdicts import FAILURE_RATE
from rag_eval_pipeline.reporting.comparison import VerdictSettings
from rag_eval_pipeline.reporting.nightly import BaselineRuns, Nights, add_run, alerts_due
from tests.reporting.made_runs import PRINTS, five_runs, made_run

BASELINE = BaselineRuns(five_runs(), VerdictSettings())
FELL = range(20)  # 10 of 100 points


def nights(*runs, baseline=BASELINE):
    history = ()
    for run in runs:
        history = add_run(history, run, baseline)
    return history


def exact(night):
    return night.metrics["exact_match"]


def test_night_without_a_change_is_equivalent():
    [night] = nights(made_run("n1"))

    assert (exact(night).kind, exact(night).state, night.awaits_rerun) == ("equivalent", "unflagged", False)
    assert exact(night).sentence.startswith("Any change is smaller than 2 points (95 % ")


def test_night_that_is_flagged_awaits_its_rerun_and_does_not_alert():
    [night] = nights(made_run("n1", FELL))

    assert (exact(night).kind, exact(night).state, night.awaits_rerun) == ("regressed", "unconfirmed", True)
    assert exact(night).sentence.startswith("Exact match fell 10.0 points")
    assert exact(night).sentence.endswith("not yet seen again in a rerun.")
    assert alerts_due([night]) == {}


def test_rerun_that_shows_the_change_again_confirms_it():
    [night] = nights(made_run("n1", FELL), made_run("n1b", range(1, 21), hours=3))

    assert (night.rerun, exact(night).confirmation, exact(night).state) == ("n1b", "confirmed", "regressed")
    assert alerts_due([night]) == {"n1": ["exact_match"]}
    # What the first look saw, not the second: questions 0 to 19.
    assert [moved.query_id for moved in exact(night).moved] == [str(q) for q in range(10)]
    assert {(moved.before, moved.after) for moved in exact(night).moved} == {(1.0, 0.0)}


def test_rerun_that_does_not_show_the_change_makes_it_inconclusive():
    [night] = nights(made_run("n1", FELL), made_run("n1b", hours=3))

    assert (exact(night).kind, exact(night).confirmation, exact(night).state) == (
        "inconclusive", "not_confirmed", "unconfirmed",
    )  # fmt: skip
    assert alerts_due([night]) == {}


NO_RERUNS = {
    "within two hours": {"hours": 2},  # the first one ended at 0:10
    "of another system": {"hours": 3, "prints": PRINTS.model_copy(update={"system": "other"})},
    "of a server that was set up anew": {"hours": 3, "prints": PRINTS.model_copy(update={"server": "new"})},
    "by a clock that went back": {"hours": -24},
}


@pytest.mark.parametrize("options", NO_RERUNS.values(), ids=NO_RERUNS)
def test_evaluation_that_is_not_a_rerun_is_a_night_of_its_own(options):
    history = nights(made_run("n1", FELL), made_run("n2", FELL, **options))

    assert [(night.evaluation_id, night.rerun) for night in history] == [("n1", None), ("n2", None)]
    assert alerts_due(history) == {}


def test_night_that_was_not_flagged_has_no_rerun():
    assert len(nights(made_run("n1"), made_run("n2", hours=24))) == 2


def test_regression_that_stays_alerts_once_and_is_rerun_once():
    history = nights(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        made_run("n2", FELL, hours=24),
        made_run("n3", FELL, hours=48),
    )

    assert [exact(night).state for night in history] == ["regressed"] * 3
    assert [night.awaits_rerun for night in history] == [False] * 3
    assert alerts_due(history) == {"n1": ["exact_match"]}


def test_another_metric_that_falls_later_is_rerun_and_alerts():
    history = nights(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        made_run("n2", FELL, hours=24, failed=range(100, 103)),
        made_run("n3", FELL, hours=48, failed=range(100, 130)),
        made_run("n3b", FELL, hours=51, failed=range(100, 130)),
    )

    assert [night.evaluation_id for night in history] == ["n1", "n2", "n3"]
    assert alerts_due(history) == {"n1": ["exact_match"], "n3": [FAILURE_RATE]}
    # 30 of 200 without an answer: too few pairs for exact match, but the failure rate itself is never withheld.
    assert history[-1].metrics["exact_match"].kind == "withheld"


def test_change_alerts_again_after_three_quiet_nights():
    history = nights(
        made_run("n1", FELL),
        made_run("n1b", FELL, hours=3),
        *(made_run(f"q{n}", hours=24 * n) for n in (1, 2, 3)),
        made_run("n5", FELL, hours=96),
        made_run("n5b", FELL, hours=99),
    )

    assert alerts_due(history) == {"n1": ["exact_match"], "n5": ["exact_match"]}


def test_improvement_is_confirmed_by_its_rerun():
    baseline = BaselineRuns([made_run(f"base{n}", FELL) for n in range(5)], VerdictSettings())

    [night] = nights(made_run("n1"), made_run("n1b", hours=3), baseline=baseline)

    assert (exact(night).kind, exact(night).state) == ("improved", "improved")


def test_night_against_fewer_than_five_runs_is_provisional():
    baseline = BaselineRuns(five_runs()[:4], VerdictSettings())

    [night] = nights(made_run("n1", FELL), baseline=baseline)

    assert exact(night).sentence.endswith("provisional until the baseline has its runs.")
    assert (night.awaits_rerun, alerts_due([night])) == (False, {})


def test_night_of_a_deterministic_system_alerts_without_a_rerun():
    baseline = BaselineRuns([made_run("base", deterministic=True)], VerdictSettings())

    [night] = nights(made_run("n1", FELL, deterministic=True), baseline=baseline)

    assert alerts_due([night]) == {"n1": ["exact_match"]}


@pytest.mark.parametrize("part", ["dataset", "corpus", "metrics", "judge"])
def test_night_on_other_fingerprints_is_not_compared(part):
    [night] = nights(made_run("n1", FELL, prints=PRINTS.model_copy(update={part: "other"})))

    assert (night.reason, night.metrics) == (f"different_{part}", {})


def test_night_of_another_version_of_the_system_is_compared():
    [night] = nights(made_run("n1", prints=PRINTS.model_copy(update={"system": "other"})))

    assert night.reason is None


def test_night_tests_documents_if_so_set():
    # Twenty wrong answers, all on one of 40 documents: one unit that fell is no evidence.
    clusters = {str(q): str(q // 5 if q >= 20 else 0) for q in range(200)}
    baseline = BaselineRuns(five_runs(), VerdictSettings(units="documents"), clusters=clusters)

    [night] = nights(made_run("n1", FELL), baseline=baseline)

    assert exact(night).is_clustered
    assert exact(night).n_units == 37
    assert exact(night).kind == "inconclusive"


def test_nights_are_read_as_they_were_written(tmp_path):
    history = nights(made_run("n1", FELL), made_run("n1b", FELL, hours=3), made_run("n2", hours=24))
    book = Nights(benchmark="b", system="s", baseline=("base0",), nights=history)
    book.write(tmp_path / "a.json")

    assert Nights.read(tmp_path / "a.json") == book
    assert [night.metrics["exact_match"].verdict("exact_match").evidence.n_pairs for night in history] == [200, 200]
