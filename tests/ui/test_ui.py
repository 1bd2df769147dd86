"""`make up` and the Dagster UI as a user sees it: graph, materializing, metadata, dropped folders, and the end.

Clicks go through the browser. Their effects are queried by GraphQL, because words such as "Success" are on a page
before anything has happened. The tests share one server, and the last one stops it.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
from playwright.sync_api import Page, expect

from rag_eval_pipeline.storage.lock import locked
from tests.ports import free_port
from ui.server import BUNDLED, Run, Server

pytestmark = pytest.mark.ui

GROUPS = {
    "conversion": ["questions", "corpus", "corpus_text", "train_json", "evaluation_dataset", "ground_truth"],
    "evaluation": [
        "responses",
        "retrieval_scores",
        "citation_scores",
        "answer_scores",
        "judge_scores",
        "evaluation_results",
    ],  # fmt: skip
    "aggregation": ["leaderboard", "regressions", "report"],
}
PAIR = "tarrow-lights|embedded"
AUTOMATIONS = [
    "aggregation_sensor",
    "lateness_sensor",
    "confirmation_sensor",
    "corpus_shards_sensor",
    "nightly",
    "recheck",
    "run_failure_alerts",
    "weekly",
    "workspace_sensor",
]
SLOW = """name: slow
title: Many pages
version: 1.0.0
license: Apache-2.0
source: {path: questions.csv}
questions: "SELECT question, 'yes' AS answer, [{document: name}] AS contexts FROM source"
documents: "SELECT name, html FROM source ORDER BY name"
"""
SLOW_PAGES = 400  # at least a minute of rendering, so that it is still going on when the signal comes
SCHEDULE = """query ($selector: ScheduleSelector!) { scheduleOrError(scheduleSelector: $selector) {
    ... on Schedule { name partitionSet { name } } } }"""
UNFINISHED = {"QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING"}

Screenshot = Callable[[str], None]


def succeeded(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.status == "SUCCESS"]


def by_sensor(runs: list[Run]) -> list[Run]:
    """Without those that a night brings when the tests run at 02:00 UTC."""
    return [run for run in runs if run.tags.get("dagster/sensor_name") == "workspace_sensor"]


def is_quiet(server: Server) -> bool:
    return not any(run.status in UNFINISHED for run in server.runs())


def partition_page(asset: str, partition: str) -> str:
    return f"/assets/{asset}?view=partitions&partition={quote(partition)}"


def shown(page: Page, label: str) -> str:
    """What a metadata table has beside a label."""
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=label, exact=True))
    return row.get_by_role("cell").nth(1).inner_text()


def test_graph_shows_the_assets_in_three_groups(page: Page, screenshot: Screenshot):
    page.goto("/asset-groups", wait_until="domcontentloaded")
    graph = page.locator("foreignObject")

    for group, assets in GROUPS.items():
        graph.get_by_text(group, exact=True).dblclick()
        for asset in assets:
            expect(graph.get_by_text(asset, exact=True)).to_be_visible()

    for asset in sum(GROUPS.values(), []):
        expect(graph.get_by_text(asset, exact=True)).to_be_in_viewport()  # the graph moves until all of it is in sight
    screenshot("graph")


def test_dropped_folder_is_converted_evaluated_and_aggregated(server: Server, page: Page, screenshot: Screenshot):
    server.wait("the first benchmarks", lambda: "gannet-sound" in server.partitions("questions"))

    server.drop(BUNDLED / "tarrow-lights")

    server.wait("its partition", lambda: "tarrow-lights" in server.partitions("questions"))
    server.wait("its conversion", lambda: succeeded(server.runs("convert", "tarrow-lights")))
    [evaluation] = server.wait("its evaluation", lambda: by_sensor(succeeded(server.runs("evaluate", PAIR))))
    ended = evaluation.ended or 0.0
    server.wait("a later aggregation", lambda: [r for r in succeeded(server.runs("aggregate")) if r.started > ended])
    assert len(by_sensor(server.runs("convert", "tarrow-lights"))) == 1
    assert len(by_sensor(server.runs("evaluate", PAIR))) == 1
    leaderboard = server.materialization("leaderboard")
    assert leaderboard is not None
    assert "F1/tarrow-lights/embedded" in leaderboard.metadata
    page.goto("/runs", wait_until="domcontentloaded")
    expect(page.get_by_text(f"partition: {PAIR}").first).to_be_visible()
    screenshot("runs")


def test_partition_is_materialized_from_the_page_of_its_job(server: Server, page: Page, screenshot: Screenshot):
    # After the sensor's evaluations: a conversion removes the stamp that they need.
    server.wait("the sensors' work", lambda: server.materialization("evaluation_results", PAIR) and is_quiet(server))

    page.goto("/jobs", wait_until="domcontentloaded")
    page.locator("a[href$='/jobs/convert']").click()  # its name also has an icon's
    page.get_by_role("button", name="Materialize all…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_role("menuitem").filter(has_text="tarrow-lights").click()
    page.keyboard.press("Escape")  # the list may cover the button
    expect(page.get_by_role("menu")).to_have_count(0)
    screenshot("materialize")
    dialog.get_by_role("button", name="Launch 1 run").click()

    def launched() -> list[Run]:
        return [r for r in server.runs("convert", "tarrow-lights") if "dagster/from_ui" in r.tags]

    (run,) = server.wait("the run from the UI", launched)
    server.wait("its end", lambda: launched()[0].ended)
    assert launched()[0].status == "SUCCESS"
    for asset in GROUPS["conversion"]:
        made = server.materialization(asset, "tarrow-lights")
        assert made is not None
        assert made.run_id == run.run_id
    page.goto(partition_page("questions", "tarrow-lights"), wait_until="domcontentloaded")
    expect(page.get_by_role("link", name=run.run_id[:8])).to_be_visible()
    assert [shown(page, count) for count in ("rows", "accepted", "dropped", "quarantined")] == ["17", "16", "1", "0"]
    screenshot("questions")


def test_results_page_of_a_pair_shows_its_metrics_and_links_to_the_report(
    server: Server, page: Page, screenshot: Screenshot
):
    pair = "gannet-sound|embedded"
    made = server.wait("the pair's results", lambda: server.materialization("evaluation_results", pair))
    run = made.metadata["evaluation_id"]
    server.wait("the report's page", lambda: (server.workspace.reports / "runs" / run / "index.html").exists())

    page.goto(partition_page("evaluation_results", pair), wait_until="domcontentloaded")

    expect(page.get_by_role("link", name=made.run_id[:8])).to_be_visible()
    for metric in ("Hit@1", "nDCG@10", "MRR", "Exact match", "F1"):
        assert float(shown(page, metric)) == made.metadata[metric]
    assert 0 < made.metadata["F1"] < made.metadata["nDCG@10"] <= 1
    screenshot("results")
    with page.expect_popup() as opened:
        page.get_by_role("link", name=f"{server.report_url}/runs/{run}/index.html").click()
    expect(opened.value.get_by_text(run).first).to_be_visible()
    expect(opened.value.get_by_role("link", name="gannet-sound").first).to_be_visible()


def test_leaderboard_page_shows_owner_deadline_table_chart_and_plots(
    server: Server, page: Page, screenshot: Screenshot
):
    server.wait("a leaderboard", lambda: server.materialization("leaderboard"))

    page.goto("/assets/leaderboard?view=overview", wait_until="domcontentloaded")

    for text in (
        "rag-evaluation",
        "Source: Evaluation Data Formats 4.2 (docs/reference/specifications.md).",
        "Deadline: At 06:00 AM UTC",
    ):
        expect(page.get_by_text(text).first).to_be_visible()
    table = page.get_by_role("table").filter(has=page.get_by_role("columnheader", name="benchmark")).last
    expect(table.get_by_role("cell", name="gannet-sound", exact=True)).to_have_count(1)
    page.get_by_text("[Show Markdown]").scroll_into_view_if_needed()
    screenshot("leaderboard")
    page.get_by_text("[Show Markdown]").click()
    chart = page.get_by_role("dialog").get_by_role("img", name="F1 by benchmark and system")
    expect(chart).to_be_visible()
    assert chart.evaluate("image => image.naturalWidth") > 0
    screenshot("chart")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_text("Plots", exact=True).click()
    expect(page.get_by_text("F1/gannet-sound/embedded", exact=True)).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    screenshot("plots")


@pytest.mark.parametrize(
    ("asset", "check", "texts"),
    [
        ("judge_scores", "answers_were_judged", ["Succeeded", "Passed: 0 failed, "]),
        (
            "leaderboard",
            "all_configs_valid",
            ["Failed: files that are skipped: 1. Which: data/config/systems/torn.config.yaml", "[bad_yaml]"],
        ),
    ],
    ids=["passed", "failed for a torn settings file"],
)
def test_check_page_opens_with_a_sentence(asset, check, texts, server: Server, page: Page, screenshot: Screenshot):
    server.wait("a leaderboard", lambda: server.materialization("leaderboard"))

    page.goto(f"/assets/{asset}?view=checks&checkDetail={check}", wait_until="domcontentloaded")

    for text in texts:
        expect(page.get_by_text(text).first).to_be_visible()
    screenshot(check)


def test_automation_page_lists_every_automation_as_running(page: Page, screenshot: Screenshot):
    page.goto("/automation", wait_until="domcontentloaded")

    for name in AUTOMATIONS:
        expect(page.get_by_role("link", name=re.compile(rf"\b{name}\b"))).to_be_visible()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(len(AUTOMATIONS))
    screenshot("automation")
    page.get_by_role("link", name="workspace_sensor").click()
    expect(page.get_by_text("Makes the partitions match data/sources and data/config/systems.")).to_be_visible()


def test_schedules_have_no_partition_set(server: Server):
    # Dagster would catch up on every missed tick of a schedule that has one, not only on the last.
    for name in ("nightly", "recheck", "weekly"):
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": "rag_eval_pipeline",
            "scheduleName": name,
        }
        assert server.ask(SCHEDULE, selector=selector) == {"name": name, "partitionSet": None}


def test_run_of_a_broken_folder_fails_alone_and_names_the_file(server: Server, page: Page, screenshot: Screenshot):
    (failed,) = server.wait("its failure", lambda: [r for r in server.runs("convert", "broken") if r.ended])

    page.goto(f"/runs/{failed.run_id}", wait_until="domcontentloaded")

    assert failed.status == "FAILURE"
    expect(page.get_by_text("data/sources/broken/benchmark.yaml").first).to_be_visible()
    expect(page.get_by_text("[unknown_column]").first).to_be_visible()
    screenshot("failure")
    server.wait("another's evaluation", lambda: server.materialization("evaluation_results"))
    assert [run for run in server.runs("evaluate") if "broken" in run.tags["dagster/partition"]] == []


def test_up_refuses_a_busy_port_before_a_second_daemon_starts(tmp_path: Path):
    (tmp_path / "data" / "sources").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        command = [sys.executable, "-m", "rag_eval_pipeline.cli", "up", "--workspace", str(tmp_path), "--port", port]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    assert (refused.stdout, refused.stderr.count("\n")) == ("", 1)
    assert f"127.0.0.1:{port}" in refused.stderr


def test_up_refuses_an_instance_that_another_server_has(tmp_path: Path):
    (tmp_path / "data" / "sources").mkdir(parents=True)
    lock = tmp_path / ".dagster" / "serve.lock"
    port = str(free_port())
    command = [sys.executable, "-m", "rag_eval_pipeline.cli", "up", "--workspace", str(tmp_path), "--port", port]
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    with locked(lock, holder="rag-eval up, process 7", exclusive=True):
        refused = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert refused.returncode == 4
    assert "rag-eval up, process 7" in refused.stderr
    assert "[locked]" in refused.stderr


@pytest.mark.fault(70)
def test_serve_ends_its_runs_and_browsers_on_ctrl_c(server: Server, tmp_path: Path):
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "benchmark.yaml").write_text(SLOW)
    rows = [f"Is this page {n}?,page-{n},<p>This is page {n}.</p>" for n in range(SLOW_PAGES)]
    (slow / "questions.csv").write_text("\n".join(["question,name,html", *rows]))
    server.wait("the sensors' work", lambda: is_quiet(server))
    server.drop(slow)
    server.wait("a run that renders", server.has_browser)

    left = server.stop(signal.SIGINT)

    assert left == []
    assert server.process.returncode == 0
    assert not server.is_up()
    log = server.log.read_text()
    assert log.endswith("Stopped.\n")
    assert "Traceback" not in log
    assert re.findall(r"\w*(?:Beta|Preview|Deprecation|Supersession|Experimental)Warning.*", log) == []
    # An interrupted run is retried, unlike a failed step: at the next start, or already queued before the daemon ended.
    with dg.DagsterInstance.from_config(str(server.workspace.root.parent / "home")) as instance:
        *_, run = instance.get_runs(dg.RunsFilter(job_name="convert", tags={"dagster/partition": "slow"}))
        assert "DagsterExecutionInterruptedError" in "".join(str(event) for event in instance.all_logs(run.run_id))
