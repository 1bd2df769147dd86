"""The Dagster UI as a user sees it: graph, materializing, figures, and folders that are dropped in.

Clicks go through the browser; what they led to is asked by GraphQL, because words such as "Success" are on a page
before anything has happened.
"""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

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
SYSTEMS = ["embedded"]
AUTOMATIONS = [
    "aggregation_sensor",
    "check_hourly",
    "confirmation_sensor",
    "nightly",
    "recheck",
    "run_failure_alerts",
    "weekly",
    "workspace_sensor",
]
SCHEDULE = """query ($selector: ScheduleSelector!) { scheduleOrError(scheduleSelector: $selector) {
    ... on Schedule { name partitionSet { name } } } }"""
UNFINISHED = {"QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING"}

Screenshot = Callable[[str], None]


def succeeded(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.status == "SUCCESS"]


def by_sensor(runs: list[Run]) -> list[Run]:
    """Without those that a night brings when the tests run at 02:00 UTC."""
    return [run for run in runs if run.tags.get("dagster/sensor_name") == "workspace_sensor"]


def evaluated(server: Server, benchmark: str) -> bool:
    return all(server.materialization("evaluation_results", f"{benchmark}|{system}") for system in SYSTEMS)


def is_quiet(server: Server) -> bool:
    return not any(run.status in UNFINISHED for run in server.runs())


def partition_page(asset: str, partition: str) -> str:
    return f"/assets/{asset}?view=partitions&partition={quote(partition)}"


def shown(page: Page, label: str) -> str:
    """What a metadata table has beside a label."""
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=label, exact=True))
    return row.get_by_role("cell").nth(1).inner_text()


def test_graph_shows_the_assets_in_three_groups(page: Page, screenshot: Screenshot) -> None:
    page.goto("/asset-groups", wait_until="domcontentloaded")
    graph = page.locator("foreignObject")

    for group, assets in GROUPS.items():
        graph.get_by_text(group, exact=True).dblclick()
        for asset in assets:
            expect(graph.get_by_text(asset, exact=True)).to_be_visible()

    for asset in sum(GROUPS.values(), []):
        expect(graph.get_by_text(asset, exact=True)).to_be_in_viewport()  # the graph moves until all of it is in sight
    screenshot("graph")


def test_a_dropped_folder_is_converted_evaluated_and_aggregated(server: Server, page: Page, screenshot: Screenshot):
    server.wait("the first benchmarks", lambda: "gannet-sound" in server.partitions("questions"))

    server.drop(BUNDLED / "tarrow-lights")

    server.wait("its partition", lambda: "tarrow-lights" in server.partitions("questions"))
    server.wait("its conversion", lambda: succeeded(server.runs("convert", "tarrow-lights")))
    pairs = [f"tarrow-lights|{system}" for system in SYSTEMS]
    evaluations = [server.wait(p, lambda p=p: by_sensor(succeeded(server.runs("evaluate", p))))[0] for p in pairs]
    ended = max(run.ended for run in evaluations if run.ended)
    server.wait("a later aggregation", lambda: [r for r in succeeded(server.runs("aggregate")) if r.started > ended])
    assert len(by_sensor(server.runs("convert", "tarrow-lights"))) == 1
    assert [len(by_sensor(server.runs("evaluate", pair))) for pair in pairs] == [1]
    leaderboard = server.materialization("leaderboard")
    assert leaderboard is not None
    assert {f"f1/tarrow-lights/{system}" for system in SYSTEMS} <= leaderboard.metadata.keys()
    page.goto("/runs", wait_until="domcontentloaded")
    expect(page.get_by_text("partition: tarrow-lights|embedded").first).to_be_visible()
    screenshot("runs")


def test_a_partition_is_materialized_from_the_page_of_its_job(server: Server, page: Page, screenshot: Screenshot):
    # Not beside the sensor's evaluations: a conversion takes the stamp away that they ask for.
    server.wait("the sensors to have done their work", lambda: evaluated(server, "tarrow-lights") and is_quiet(server))

    page.goto("/jobs", wait_until="domcontentloaded")
    page.get_by_role("link", name="convert").click()
    page.get_by_role("button", name="Materialize all…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Select a partition or create one").click()
    page.get_by_role("menuitem").filter(has_text="tarrow-lights").click()
    page.keyboard.press("Escape")  # the list may lie over the button
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
    page.goto(f"/runs/{run.run_id}", wait_until="domcontentloaded")
    expect(page.get_by_text("RUN_SUCCESS")).to_be_visible()
    screenshot("run")


def test_the_figures_of_a_pair_are_on_the_page_of_its_results(server: Server, page: Page, screenshot: Screenshot):
    pair = "gannet-sound|embedded"
    made = server.wait("the pair's results", lambda: server.materialization("evaluation_results", pair))

    page.goto(partition_page("evaluation_results", pair), wait_until="domcontentloaded")

    expect(page.get_by_role("link", name=made.run_id[:8])).to_be_visible()
    for measure in ("hit@1", "ndcg@10", "mrr", "exact_match", "f1"):
        assert float(shown(page, measure)) == made.metadata[measure]
    assert 0 < made.metadata["f1"] < made.metadata["ndcg@10"] <= 1
    screenshot("results")


def test_the_leaderboard_shows_its_table_and_its_chart(server: Server, page: Page, screenshot: Screenshot):
    server.wait("a leaderboard", lambda: server.materialization("leaderboard"))

    page.goto("/assets/leaderboard?view=overview", wait_until="domcontentloaded")

    table = page.get_by_role("table").filter(has=page.get_by_role("columnheader", name="benchmark")).last
    expect(table.get_by_role("cell", name="gannet-sound", exact=True)).to_have_count(len(SYSTEMS))
    page.get_by_text("[Show Markdown]").scroll_into_view_if_needed()
    screenshot("leaderboard")
    page.get_by_text("[Show Markdown]").click()
    chart = page.get_by_role("dialog").get_by_role("img", name="F1 by benchmark and system")
    expect(chart).to_be_visible()
    assert chart.evaluate("image => image.naturalWidth") > 0
    screenshot("chart")


def test_a_check_that_holds_is_listed_as_passed(server: Server, page: Page, screenshot: Screenshot):
    server.wait("results", lambda: server.materialization("evaluation_results"))

    page.goto("/assets/evaluation_results?view=checks", wait_until="domcontentloaded")

    expect(page.get_by_text("results_validate", exact=True).first).to_be_visible()
    expect(page.get_by_text("Succeeded", exact=True)).to_be_visible()
    expect(page.get_by_text("Passed: 0 findings.")).to_be_visible()
    screenshot("checks")


def test_a_system_whose_file_is_torn_is_named_by_the_leaderboards_check(
    server: Server, page: Page, screenshot: Screenshot
):
    server.wait("a leaderboard", lambda: server.materialization("leaderboard"))

    page.goto("/assets/leaderboard?view=checks&checkDetail=all_configs_valid", wait_until="domcontentloaded")

    expect(page.get_by_text("Failed: 1 invalid. Which: data/config/systems/torn.config.yaml").first).to_be_visible()
    expect(page.get_by_text("[bad_yaml]").first).to_be_visible()
    screenshot("left_out")


def test_an_assets_page_says_whose_it_is_what_it_follows_and_when_it_is_late(
    server: Server, page: Page, screenshot: Screenshot
):
    server.wait("a leaderboard", lambda: server.materialization("leaderboard"))

    page.goto("/assets/leaderboard?view=overview", wait_until="domcontentloaded")

    for text in (
        "rag-evaluation",
        "Source: Evaluation Data Formats 4.2 (docs/specifications.md).",
        "Deadline: At 06:00 AM UTC",
    ):
        expect(page.get_by_text(text).first).to_be_visible()
    page.get_by_text("Plots", exact=True).click()
    expect(page.get_by_text("f1/gannet-sound/embedded", exact=True)).to_be_visible()
    expect(page.locator("canvas").first).to_be_visible()
    screenshot("plots")


def test_the_results_of_a_pair_link_to_their_page_of_the_report(server: Server, page: Page, screenshot: Screenshot):
    pair = "gannet-sound|embedded"
    made = server.wait("the pair's results", lambda: server.materialization("evaluation_results", pair))
    run = made.metadata["evaluation_id"]
    server.wait("the report's page", lambda: (server.workspace.reports / "runs" / run / "index.html").exists())

    page.goto(partition_page("evaluation_results", pair), wait_until="domcontentloaded")
    link = page.get_by_role("link", name=f"{server.report_url}/runs/{run}/index.html")
    with page.expect_popup() as opened:
        link.click()

    expect(opened.value.get_by_text(run).first).to_be_visible()
    expect(opened.value.get_by_role("link", name="gannet-sound").first).to_be_visible()


def test_every_automation_runs_and_says_what_it_does(server: Server, page: Page, screenshot: Screenshot):
    page.goto("/automation", wait_until="domcontentloaded")

    for name in AUTOMATIONS:
        expect(page.get_by_role("link", name=re.compile(rf"\b{name}\b"))).to_be_visible()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(len(AUTOMATIONS))
    screenshot("automation")
    page.get_by_role("link", name="workspace_sensor").click()
    expect(page.get_by_text("Makes the partitions match data/sources and data/config/systems.")).to_be_visible()


def test_of_the_nights_that_were_missed_one_is_made_up_for(server: Server):
    # Dagster catches up on several ticks only where a schedule has a partition set.
    for name in ("nightly", "recheck", "weekly"):
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": "rag_eval_pipeline",
            "scheduleName": name,
        }
        assert server.ask(SCHEDULE, selector=selector) == {"name": name, "partitionSet": None}


def test_the_log_of_the_server_warns_of_nothing_that_people_could_not_change(server: Server):
    assert (
        re.findall(r"\w*(?:Beta|Preview|Deprecation|Supersession|Experimental)Warning.*", server.log.read_text()) == []
    )


def test_a_broken_folder_fails_alone_and_its_run_says_what_to_mend(server: Server, page: Page, screenshot: Screenshot):
    (failed,) = server.wait("its failure", lambda: [r for r in server.runs("convert", "broken") if r.ended])

    page.goto(f"/runs/{failed.run_id}", wait_until="domcontentloaded")

    assert failed.status == "FAILURE"
    expect(page.get_by_text("data/sources/broken/benchmark.yaml").first).to_be_visible()
    expect(page.get_by_text("[unknown_column]").first).to_be_visible()
    screenshot("failure")
    server.wait("another's evaluation", lambda: server.materialization("evaluation_results"))
    assert [run for run in server.runs("evaluate") if "broken" in run.tags["dagster/partition"]] == []
