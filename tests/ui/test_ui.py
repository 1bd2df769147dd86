"""The Dagster UI as a user sees it: graph, materializing, figures, and folders that are dropped in.

Clicks go through the browser; what they led to is asked by GraphQL, because words such as "Success" are on a page
before anything has happened.
"""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from ui.server import Run, Server

pytestmark = pytest.mark.ui

GROUPS = {
    "conversion": ["questions", "corpus", "corpus_text", "train_json", "evaluation_dataset", "ground_truth"],
    "evaluation": ["responses", "retrieval_scores", "citation_scores", "answer_scores", "evaluation_results"],
    "aggregation": ["leaderboard", "regressions", "report"],
}
SYSTEMS = ["embedded", "embedded-weak"]
UNFINISHED = {"QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING"}

Screenshot = Callable[[str], None]


def succeeded(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.status == "SUCCESS"]


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


def test_the_graph_shows_fourteen_assets_in_three_groups(page: Page, screenshot: Screenshot) -> None:
    page.goto("/asset-groups", wait_until="domcontentloaded")
    graph = page.locator("foreignObject")

    for group, assets in GROUPS.items():
        graph.get_by_text(group, exact=True).dblclick()
        for asset in assets:
            expect(graph.get_by_text(asset, exact=True)).to_be_visible()

    screenshot("graph")


def test_a_dropped_folder_is_converted_evaluated_and_aggregated(server: Server, page: Page, screenshot: Screenshot):
    server.wait("the first benchmarks", lambda: "gannet-sound" in server.partitions("questions"))

    server.drop("cairnmoor-observatory")

    server.wait("its partition", lambda: "cairnmoor-observatory" in server.partitions("questions"))
    server.wait("its conversion", lambda: succeeded(server.runs("convert", "cairnmoor-observatory")))
    evaluations = [
        server.wait(pair, lambda pair=pair: succeeded(server.runs("evaluate", pair)))[0]
        for pair in (f"cairnmoor-observatory|{system}" for system in SYSTEMS)
    ]
    ended = max(run.ended for run in evaluations if run.ended)
    server.wait("a later aggregation", lambda: [r for r in succeeded(server.runs("aggregate")) if r.started > ended])
    assert len(server.runs("convert", "cairnmoor-observatory")) == 1
    assert all(run.tags["dagster/sensor_name"] == "workspace_sensor" for run in evaluations)
    leaderboard = server.materialization("leaderboard")
    assert leaderboard is not None
    assert {f"f1/cairnmoor-observatory/{system}" for system in SYSTEMS} <= leaderboard.metadata.keys()
    page.goto("/runs", wait_until="domcontentloaded")
    expect(page.get_by_text("partition: cairnmoor-observatory|embedded-weak").first).to_be_visible()
    screenshot("runs")
