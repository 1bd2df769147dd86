"""The data of the report: alerts of the last nights, marked nights, provisional comparisons."""

import itertools
import json
import re
import shutil
from datetime import timedelta

import msgspec
import pytest

from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.judges.trust_card import TrustCard
from rag_eval_pipeline.monitoring.alert_files import SUFFIX, Alert, AlertedMetric, alerts_folder
from rag_eval_pipeline.monitoring.history import JudgeHeader, MetricHeader, read_history
from rag_eval_pipeline.monitoring.leaderboard import Trust
from rag_eval_pipeline.monitoring.regressions import Comparisons, write_comparisons
from rag_eval_pipeline.monitoring.verdict_records import Comparison
from rag_eval_pipeline.site.baseline_runs import PairBaseline, tile_changes
from rag_eval_pipeline.site.data import (
    ALERT_NIGHTS,
    ALERTS_SHOWN,
    ReportData,
    data_part,
    read_report_data,
    recent_alerts,
)
from rag_eval_pipeline.site.site import write_report, write_site
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import FIRST, publish_night, register
from tests.verdict_examples import verdict_of


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
    """The data of a report in which the pair's comparison has a verdict of each kind."""
    verdicts = {f"metric{n}": verdict_of(kind) for n, kind in enumerate(kinds)}
    row = Comparison(kind="baseline", benchmark="harbour", old="baseline", new="asked", verdicts=verdicts)
    by_pair = read_history(workspace).by_pair
    return ReportData(workspace, by_pair, by_pair, {}, {}, (), Trust(()), [row], {}, {}, {})


def judged_nights(workspace, *models):
    """The pair's nights with a model judge's metrics, each judged by one of the models."""
    [headers] = read_history(workspace).by_pair.values()
    metrics = {name: MetricHeader(0.5) for name in ("judged_correct", "faithfulness")}
    return [
        msgspec.structs.replace(
            one, judge_metrics=metrics, judge=JudgeHeader((model,)), fingerprints={**one.fingerprints, "judge": "j"}
        )
        for one, model in zip(headers, models, strict=True)
    ]


@pytest.mark.parametrize(("models", "shown"), [(("m-1", "m-1"), {"judged_correct", "f1"}), (("m-1", "m-2"), {"f1"})])
def test_tile_has_no_change_where_the_judge_answers_as_another_model(models, shown, nightly):
    before, now = judged_nights(nightly, *models)

    assert tile_changes(report_data(nightly), now, PairBaseline((before,)), ["judged_correct", "f1"]).keys() == shown


def test_recommendations_name_the_metrics_of_the_judge_that_decide_nothing(nightly):
    nights = {("harbour", "asked"): judged_nights(nightly, "m-1", "m-1")}
    agreed = {"both_yes": 50, "labels_yes_judge_no": 0, "labels_no_judge_yes": 0, "both_no": 50}
    task = {"task": "correctness", "n_labels": 100, "n_compared": 100, "kappa": {}, "kappa_sure": {},
            "confusion": agreed, "is_calibrated": True}  # fmt: skip
    card = TrustCard(benchmark="harbour", judge="j", judge_fingerprint="j", labels_by="human", seed=1, tasks=[task])
    report = ReportData(nightly, nights, nights, {}, {}, (), Trust([card]), [], {}, {}, {})

    [text] = [one["text"] for one in data_part(report)["recommendations"] if one["where"] == "The judge"]
    assert text.startswith("The judge's metrics (Faithfulness) decide nothing on harbour until its verdicts")


def test_run_page_counts_the_judges_requests_and_its_cached_replies(nightly):
    name = max(path.name for path in nightly.results.glob("*.results.json")).removesuffix(".results.json")
    path = nightly.results_file(name)
    results = json.loads(path.read_text())
    results["performance_metrics"]["judge_usage"] = {"requests": 0, "cached": 8, "total_tokens": 0}
    path.write_text(json.dumps(results))

    page = (write_site(nightly, write_comparisons(nightly)).root / "runs" / name / "index.html").read_text()
    assert "<dt>Judge</dt><dd>0 tokens, –; 0 requests, 8 replies from the cache</dd>" in page


def test_report_says_where_results_are_whose_benchmark_is_gone(nightly):
    shutil.rmtree(nightly.root / "data" / "sources" / "harbour")

    page = (write_site(nightly, write_comparisons(nightly)).root / "index.html").read_text()
    assert "Results of folders and files that are gone stay in <code>data/evaluation</code>" in page
    assert "Nothing is evaluated" not in page


STATUS = {
    "still so": (["regressed"], "comparisons/harbour.asked.against.baseline.html", "still regressed"),
    "gone": (["inconclusive"], "comparisons/harbour.asked.against.baseline.html", "no longer regressed"),
    "without a comparison": ([], "benchmarks/harbour.html", ""),
}


@pytest.mark.parametrize(("kinds", "page", "status"), STATUS.values(), ids=STATUS)
def test_recent_alert_links_to_its_comparison_and_its_run(kinds, page, status, nightly):
    change = AlertedMetric(metric="metric0", kind="regressed", sentence="metric0 fell.")
    parts = {"benchmark": "harbour", "system": "asked", "evaluation_id": "eval_run_20261002_001"}
    write_alert(nightly, "a", **parts, changes=(change,))

    [shown] = recent_alerts(report_data(nightly, *kinds)).shown

    assert (shown.page, shown.status) == (page, status)
    assert shown.run == "runs/eval_run_20261002_001/index.html"


def test_recent_alerts_are_the_newest_and_name_a_damaged_file(nightly):
    write_alert(nightly, "old", days=-ALERT_NIGHTS - 1)
    for number in range(ALERTS_SHOWN + 2):
        write_alert(nightly, f"n{number:02d}", days=number % 2)
    (alerts_folder(nightly) / f"b{SUFFIX}").write_text("{")

    shown, damaged = recent_alerts(report_data(nightly))

    nights = [one.alert.night for one in shown]
    assert (len(shown), nights) == (ALERTS_SHOWN, sorted(nights, reverse=True))
    assert f"b{SUFFIX}" in damaged[0]
    assert f"b{SUFFIX}" in write_report(nightly).read_text()


def test_recent_alert_is_shown_before_anything_is_evaluated_and_escaped(tmp_path):
    workspace = Workspace(tmp_path)
    write_alert(workspace, "a", kind="run_failed", subject="A run failed: <b>convert</b>", error="<script>")

    page = write_report(workspace).read_text()

    assert "A run failed: &lt;b&gt;convert&lt;/b&gt;" in page
    assert "&lt;script&gt;" in page


def test_report_data_marks_the_night_and_not_its_rerun(nightly):
    publish_night(nightly, "harbour", "asked", 1, questions=8, skill=0.5, number=2)
    verdicts = {"f1": verdict_of("regressed"), "page/hit@1": verdict_of("inconclusive")}
    row = Comparison(
        kind="baseline", benchmark="harbour", old="baseline", new="asked", verdicts=verdicts,
        evaluation_id="eval_run_20261002_001", rerun="eval_run_20261002_002",
    )  # fmt: skip

    report = read_report_data(
        nightly, Comparisons([row], nightly.reports / "regressions.json", (), read_history(nightly))
    )

    assert [point.mark for point in report.points(("harbour", "asked"), "f1")] == [None, "regressed", None]
    assert [point.mark for point in report.points(("harbour", "asked"), "hit@1")] == [None, None, None]
    assert report.n_days == 2


PAGE = "comparisons/harbour.asked.against.baseline"
QUESTIONS = 80


@pytest.fixture
def nights(tmp_path):
    """Publishes nights, the last one with another skill, and returns the site's folder."""
    workspace = Workspace(tmp_path / "workspace")
    register(workspace, ["harbour"], ["asked"])
    published = itertools.count()

    def publish(n, *, last=0.7):
        for skill in [*[0.7] * (n - 1), last]:
            publish_night(workspace, "harbour", "asked", next(published), questions=QUESTIONS, skill=skill, number=1)
        return write_site(workspace, write_comparisons(workspace)).root

    return publish


def test_provisional_comparison_has_pages_from_the_second_night_until_the_baseline(nights):
    root = nights(1)
    assert not (root / f"{PAGE}.html").exists()
    assert "asked on harbour: 1 of the 5 nights needed for a baseline." in (root / "index.html").read_text()

    nights(2)
    page = (root / f"{PAGE}.html").read_text()
    assert "asked against its earlier nights" in page
    assert "before: 2 earlier runs" in page
    for name in (f"{PAGE}.html", "benchmarks/harbour.html"):
        assert "provisional: 3 of 5 nights" in (root / name).read_text()
    assert "3 of the 5 nights needed for a baseline" in (root / "index.html").read_text()

    nights(3)
    assert "provisional:" not in (root / f"{PAGE}.html").read_text()
    assert "the first baseline" not in (root / "index.html").read_text()
    assert "before: 5 pinned runs" in (root / f"{PAGE}.html").read_text()
    nights(1)
    assert "before: 5 pinned runs and 1 quiet night" in (root / f"{PAGE}.html").read_text()


def test_provisional_comparison_has_a_table_of_questions_with_links_to_both_sides(nights):
    text = (nights(2, last=0.3) / f"{PAGE}.js").read_text()

    table = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    columns = {column["name"]: column for column in table["columns"]}
    assert len(columns["id"]["values"]) > 60
    assert (table["page"], columns["old"]["page"]) == (
        "../runs/eval_run_20261002_001/question.html", "../runs/eval_run_20261001_001/question.html",
    )  # fmt: skip
    now, before, change = (columns[name]["values"] for name in ("f1", "f1_before", "change"))
    assert [None if None in (a, b) else round(b - a, 4) for a, b in zip(before, now, strict=True)] == change


def test_pages_follow_the_settings_of_verdicts_and_of_the_evaluation(nights):
    def strip(root):
        return float(re.search(r'class="strip"[^>]*? width="([\d.]+)"', (root / f"{PAGE}.html").read_text())[1])

    root = nights(2, last=0.3)
    workspace = Workspace(root.parents[1])
    narrow = strip(root)
    workspace.config.mkdir(parents=True, exist_ok=True)
    (workspace.config / "verdicts.config.yaml").write_text("equivalence_margin: 0.1\n")
    name = publish_night(workspace, "harbour", "asked", 2, questions=QUESTIONS, skill=0.7, number=1, failing=0.05)
    evaluation = load_evaluation(workspace, name)
    evaluation.save(settings=evaluation.record.settings.model_copy(update={"min_coverage": 0.9}))
    comparisons = write_comparisons(workspace)
    write_site(workspace, comparisons)

    assert strip(root) > 2 * narrow
    assert "failures" not in [one["kind"] for one in data_part(read_report_data(workspace))["analysis"]["issues"]]
    evaluation.save(settings=evaluation.record.settings.model_copy(update={"min_coverage": 0.99}))
    [issue] = [one for one in data_part(read_report_data(workspace))["analysis"]["issues"] if one["kind"] == "failures"]
    assert issue["finding"].endswith("99 % must be answered to be pinned.")


def test_run_of_a_regression_has_its_verdict_and_its_changes_against_the_baseline(nights):
    root = nights(6, last=0.3)

    page = (root / "runs/eval_run_20261006_001/index.html").read_text()
    assert "Regressed against its baseline" in page
    assert f'href="../../{PAGE}.html"' in page
    assert 'class="delta worse">−' in page
    assert "the mean of the baseline's 5 runs" in page
    assert "One of the 5 runs of the baseline" in (root / "runs/eval_run_20261005_001/index.html").read_text()
    # The newest three runs have their questions, and so would the last of the baseline if it were older.
    assert not (root / "runs/eval_run_20261003_001/question.html").exists()
    nights(3)
    assert (root / "runs/eval_run_20261005_001/question.html").exists()
    assert not (root / "runs/eval_run_20261006_001/question.html").exists()
