"""The first page tells the alerts of the last nights: what, where to look, and whether it is still so."""

from datetime import timedelta

import pytest

from rag_eval_pipeline.report.data import ALERT_NIGHTS, ALERTS_SHOWN, ReportData, recent_alerts
from rag_eval_pipeline.report.site import render_report
from rag_eval_pipeline.reporting.alerts import SUFFIX, Alert, AlertedMetric, alerts_folder
from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.leaderboard import Trust
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import FIRST, publish_night, register


@pytest.fixture
def nightly(tmp_path):
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    for night in range(2):
        publish_night(workspace, "harbour", "asked", night, questions=8, skill=0.5, number=1)
    return workspace


def tell(workspace, name, *, days=0, **parts):
    alert = Alert(
        alert_id=name, kind=parts.pop("kind", "regressed"), subject=parts.pop("subject", "asked on harbour fell"),
        night=FIRST + timedelta(days=days), created_at=FIRST, **parts,
    )  # fmt: skip
    alert.write(alerts_folder(workspace) / f"{name}{SUFFIX}")
    return alert


def morning_of(workspace, *kinds):
    """A morning on which the pair's comparison has a verdict of each kind."""

    class Found:
        def __init__(self, kind):
            self.kind = kind

    from rag_eval_pipeline.reporting.history import read_history

    verdicts = {f"metric{n}": Found(kind) for n, kind in enumerate(kinds)}
    row = Comparison("baseline", "harbour", "baseline", "asked", verdicts)
    by_pair = read_history(workspace).by_pair
    return ReportData(workspace, by_pair, by_pair, {}, (), Trust(()), [row], {}, {})


def changed(kind="regressed"):
    return {"benchmark": "harbour", "system": "asked", "evaluation_id": "eval_run_20261002_001",
            "changes": (AlertedMetric(metric="metric0", kind=kind, sentence="metric0 fell."),)}  # fmt: skip


def test_an_alert_leads_to_its_comparison_and_to_the_run_it_was_seen_in(nightly):
    tell(nightly, "a", **changed())

    [shown] = recent_alerts(morning_of(nightly, "regressed")).shown

    assert shown.page == "comparisons/harbour.asked.against.baseline.html"
    assert shown.run == "runs/eval_run_20261002_001/index.html"
    assert shown.status == "still regressed"


def test_a_change_that_is_gone_is_no_longer_so(nightly):
    tell(nightly, "a", **changed())

    assert recent_alerts(morning_of(nightly, "inconclusive")).shown[0].status == "no longer regressed"


def test_without_a_comparison_it_leads_to_the_benchmark_and_says_nothing_of_today(nightly):
    tell(nightly, "a", **changed())

    [shown] = recent_alerts(morning_of(nightly)).shown

    assert (shown.page, shown.status) == ("benchmarks/harbour.html", "")


def test_newest_first_and_older_ones_are_counted(nightly):
    tell(nightly, "old", days=-ALERT_NIGHTS - 1)
    for number in range(ALERTS_SHOWN + 2):
        tell(nightly, f"n{number:02d}", days=number % 2)

    decisive = recent_alerts(morning_of(nightly))

    assert len(decisive.shown) == ALERTS_SHOWN
    assert [one.alert.night for one in decisive.shown] == sorted(
        (one.alert.night for one in decisive.shown), reverse=True
    )
    assert decisive.n_older == 3


def test_a_damaged_alert_costs_itself_and_is_named(nightly):
    tell(nightly, "a")
    (alerts_folder(nightly) / f"b{SUFFIX}").write_text("{")

    decisive = recent_alerts(morning_of(nightly))

    assert [one.alert.alert_id for one in decisive.shown] == ["a"]
    assert f"b{SUFFIX}" in decisive.damaged[0]
    assert f"b{SUFFIX}" in render_report(nightly)


def test_the_page_tells_a_failed_run_and_its_text_is_text(nightly):
    tell(nightly, "a", kind="run_failed", subject="A run failed: <b>evaluate</b>", error="<script>alert(1)</script>")

    page = render_report(nightly)

    assert "A run failed: &lt;b&gt;evaluate&lt;/b&gt;" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_alerts_are_told_where_nothing_is_evaluated_yet(workspace):
    tell(workspace, "a", kind="run_failed", subject="A run failed: convert", error="no such host")

    page = render_report(workspace)

    assert "A run failed: convert" in page
    assert "no such host" in page
