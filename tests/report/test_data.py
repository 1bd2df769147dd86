"""The first page tells the alerts of the last nights: what, where to look, and whether it is still so."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest

from rag_eval_pipeline.report.data import ALERT_NIGHTS, ALERTS_SHOWN, ReportData, read_report_data, recent_alerts
from rag_eval_pipeline.report.site import write_report, write_site
from rag_eval_pipeline.reporting.alerts import SUFFIX, Alert, AlertedMetric, alerts_folder
from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.leaderboard import Trust
from rag_eval_pipeline.reporting.regressions import Comparisons, write_comparisons
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import FIRST, publish_night, register


@pytest.fixture
def nightly(tmp_path):
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    for night in range(2):
        publish_night(workspace, "harbour", "asked", night, questions=8, skill=0.5, number=1)
    return workspace


def write_alert(workspace, name, *, days=0, **parts):
    alert = Alert(
        alert_id=name, kind=parts.pop("kind", "regressed"), subject=parts.pop("subject", "asked on harbour fell"),
        night=FIRST + timedelta(days=days), created_at=FIRST, **parts,
    )  # fmt: skip
    alert.write(alerts_folder(workspace) / f"{name}{SUFFIX}")
    return alert


def report_data(workspace, *kinds):
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


def test_recent_alert_links_to_its_comparison_and_its_run(nightly):
    write_alert(nightly, "a", **changed())

    [shown] = recent_alerts(report_data(nightly, "regressed")).shown

    assert shown.page == "comparisons/harbour.asked.against.baseline.html"
    assert shown.run == "runs/eval_run_20261002_001/index.html"
    assert shown.status == "still regressed"


def test_recent_alert_of_a_change_that_is_gone_says_so(nightly):
    write_alert(nightly, "a", **changed())

    assert recent_alerts(report_data(nightly, "inconclusive")).shown[0].status == "no longer regressed"


def test_recent_alert_without_a_comparison_links_to_the_benchmark(nightly):
    write_alert(nightly, "a", **changed())

    [shown] = recent_alerts(report_data(nightly)).shown

    assert (shown.page, shown.status) == ("benchmarks/harbour.html", "")


def test_recent_alerts_are_newest_first_and_older_ones_counted(nightly):
    write_alert(nightly, "old", days=-ALERT_NIGHTS - 1)
    for number in range(ALERTS_SHOWN + 2):
        write_alert(nightly, f"n{number:02d}", days=number % 2)

    decisive = recent_alerts(report_data(nightly))

    assert len(decisive.shown) == ALERTS_SHOWN
    assert [one.alert.night for one in decisive.shown] == sorted(
        (one.alert.night for one in decisive.shown), reverse=True
    )
    assert decisive.n_older == 3


def test_recent_alerts_name_a_damaged_one(nightly):
    write_alert(nightly, "a")
    (alerts_folder(nightly) / f"b{SUFFIX}").write_text("{")

    decisive = recent_alerts(report_data(nightly))

    assert [one.alert.alert_id for one in decisive.shown] == ["a"]
    assert f"b{SUFFIX}" in decisive.damaged[0]
    assert f"b{SUFFIX}" in write_report(nightly).read_text()


def test_recent_alert_of_a_failed_run_is_escaped(nightly):
    write_alert(
        nightly, "a", kind="run_failed", subject="A run failed: <b>evaluate</b>", error="<script>alert(1)</script>"
    )

    page = write_report(nightly).read_text()

    assert "A run failed: &lt;b&gt;evaluate&lt;/b&gt;" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_recent_alerts_are_shown_before_anything_is_evaluated(workspace):
    write_alert(workspace, "a", kind="run_failed", subject="A run failed: convert", error="no such host")

    page = write_report(workspace).read_text()

    assert "A run failed: convert" in page
    assert "no such host" in page


PAIR = "harbour", "asked"
NIGHT, RERUN = "eval_run_20261002_001", "eval_run_20261002_002"


@pytest.fixture
def three_evaluations(tmp_path):
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    for night, number in ((0, 1), (1, 1), (1, 2)):
        publish_night(workspace, *PAIR, night, questions=8, skill=0.5, number=number)
    return workspace


def test_report_data_marks_the_night_and_not_its_rerun(three_evaluations):
    verdicts = {"f1": SimpleNamespace(kind="regressed"), "page/hit@1": SimpleNamespace(kind="inconclusive")}
    row = Comparison("baseline", "harbour", "baseline", "asked", verdicts, None, {}, NIGHT, RERUN)

    report = read_report_data(three_evaluations, Comparisons([row], three_evaluations.reports / "regressions.json"))

    assert [point.mark for point in report.points(PAIR, "f1")] == [None, "regressed", None]
    assert [point.mark for point in report.points(PAIR, "hit@1")] == [None, None, None]


def test_report_data_counts_a_rerun_as_no_night(three_evaluations):
    assert (
        read_report_data(three_evaluations, Comparisons([], three_evaluations.reports / "regressions.json")).n_days == 2
    )


PAGE = "comparisons/harbour.asked.against.baseline"


@pytest.fixture
def empty(tmp_path):
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    return workspace


def nights(workspace, n, *, last=0.7):
    for night in range(n):
        skill = last if night == n - 1 else 0.7
        publish_night(workspace, "harbour", "asked", night, questions=120, skill=skill, number=1)
    return write_site(workspace, write_comparisons(workspace)).root


def test_provisional_comparison_says_how_many_nights_there_are(empty):
    root = nights(empty, 3)

    page = (root / f"{PAGE}.html").read_text()
    assert "provisional: 3 of 5 nights" in page
    assert "asked against its nights so far" in page
    assert "before: 2 earlier runs" in page
    assert "provisional: 3 of 5 nights" in (root / "index.html").read_text()
    assert "provisional: 3 of 5 nights" in (root / "benchmarks/harbour.html").read_text()


def test_provisional_comparison_has_a_table_of_questions_with_links_to_both_sides(empty):
    root = nights(empty, 2, last=0.3)

    text = (root / f"{PAGE}.js").read_text()
    table = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    places = {column["name"]: n for n, column in enumerate(table["columns"])}
    assert len(table["values"][places["id"]]) > 100
    assert {link["column"]: link["href"] for link in table["links"]} == {
        "question": "../runs/eval_run_20261002_001/question.html#", "old": "../runs/eval_run_20261001_001/question.html#",
    }  # fmt: skip
    before, now, change = (table["values"][places[name]] for name in ("f1_before", "f1", "change"))
    assert [None if None in (a, b) else round(b - a, 4) for a, b in zip(before, now, strict=True)] == change


def test_provisional_comparison_ends_with_the_baseline(empty):
    root = nights(empty, 6)

    assert "provisional:" not in (root / f"{PAGE}.html").read_text()
    assert "before: 5 pinned runs" in (root / f"{PAGE}.html").read_text()
    assert "provisional:" not in (root / "index.html").read_text()


def test_provisional_comparison_needs_a_second_night(empty):
    root = nights(empty, 1)

    assert not (root / f"{PAGE}.html").exists()
    assert "No baseline is pinned for 1 pair" in (root / "index.html").read_text()
