"""What the UI's pages show: owners, descriptions, links to the report, and tables that fit."""

import dagster as dg
import pytest

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.metadata import (
    LEADERBOARD_TABLES,
    MAX_TREND_LINES,
    REPORT_URL_VARIABLE,
    TABLE_ROWS,
    leaderboard_table,
    not_compared_table,
    report_link,
    table,
    trend_lines,
    verdict_table,
)
from rag_eval_pipeline.monitoring.leaderboard import HEADLINE


def specs():
    return [spec for asset in defs.assets for spec in asset.specs]


def test_assets_have_a_description_a_source_kinds_and_owners():
    for spec in specs():
        first, *_, last = spec.description.split("\n\n")

        assert (first[-1], last[:8], spec.owners) == (".", "Source: ", ["team:rag-evaluation"]), spec.key
        assert spec.kinds, spec.key


def test_every_sensor_schedule_job_and_check_has_a_description():
    checks = [spec for asset in defs.assets for spec in asset.check_specs]
    named = [*defs.sensors, *defs.schedules, *checks, *(defs.resolve_job_def(job.name) for job in defs.jobs)]

    assert [one.name for one in named if not (one.description or "").endswith(".")] == []


LINKS = {
    "nobody serves it": ("", None, None),
    "make up serves it": ("", "http://127.0.0.1:3001/", "http://127.0.0.1:3001/runs/e1/index.html"),
    "the team publishes it": (
        "report_url: https://reports.example/rag",
        "http://127.0.0.1:3001/",
        "https://reports.example/rag/runs/e1/index.html",
    ),
    "the settings are broken": ("report_url: [", "http://127.0.0.1:3001/", "http://127.0.0.1:3001/runs/e1/index.html"),
}


@pytest.mark.parametrize(("settings", "served", "link"), LINKS.values(), ids=LINKS)
def test_report_link_is_an_address_where_the_report_is_served(settings, served, link, workspace, monkeypatch):
    (workspace.config / "alerts.config.yaml").write_text(settings)
    monkeypatch.delenv(REPORT_URL_VARIABLE, raising=False)
    if served:
        monkeypatch.setenv(REPORT_URL_VARIABLE, served)

    found = report_link(workspace, "runs/e1/index.html")

    if link is None:
        assert isinstance(found, dg.PathMetadataValue)
        assert found.value == str(workspace.reports / "runs" / "e1" / "index.html")
    else:
        assert isinstance(found, dg.UrlMetadataValue)
        assert found.value == link


CELLS = [
    {"benchmark": "frames", "system": "mine", "questions": 40, "failed": 0, "level": "document", "f1": "0.300"},
]


def test_leaderboard_table_shows_a_missing_column_as_a_dash():
    assert leaderboard_table(CELLS, ("questions", "level", "f1", "tolerance_jaccard")) == [
        {
            "benchmark": "frames", "system": "mine", "questions": 40, "level": "doc", "F1": "0.300",
            "Citation overlap": "-",
        }
    ]  # fmt: skip


def test_leaderboard_tables_name_columns_that_exist():
    known = {*HEADLINE, "questions", "failed", "level"}

    assert {column for columns in LEADERBOARD_TABLES.values() for column in columns} <= known


@pytest.mark.parametrize(
    ("pairs", "measures"), [(1, len(HEADLINE)), (30, len(HEADLINE)), (36, 11), (200, 2), (400, 1), (401, 0)]
)
def test_trend_lines_are_whole_metrics_up_to_the_limit(pairs, measures):
    figures = {f"{column}/b{pair}/s": 0.5 for pair in range(pairs) for column in HEADLINE}

    kept = trend_lines(figures, n_pairs=pairs)

    assert len(kept) == measures * pairs <= MAX_TREND_LINES
    assert {name.partition("/")[0] for name in trend_lines(figures, n_pairs=200)} == {"Exact match", "F1"}


def cell(metric, verdict, text="", comparison="new against old"):
    return {"benchmark": "frames", "comparison": comparison, "metric": metric, "verdict": verdict, "sentence": text}


def test_verdict_table_puts_changes_first_and_merges_equal_rows():
    few = "No verdict: 12 questions, 30 are needed."
    cells = [cell(name, "no verdict", few) for name in ("hit@1", "hit@5", "mrr", "f1", "exact_match")]
    cells.insert(2, cell("ndcg@10", "regressed", "nDCG@10 fell 5.0 points."))

    assert verdict_table(cells) == [
        {"who": "frames: new against old", "verdict": "nDCG@10 fell 5.0 points."},
        {"who": "frames: new against old", "verdict": f"Hit@1, Hit@5, MRR and 2 more: {few}"},
    ]


def test_not_compared_table_gives_the_reason():
    cells = [cell("all", "is_baseline"), cell("all", "different_dataset"), cell("f1", "improved", "f1 rose.")]

    assert [row["why"] for row in not_compared_table(cells)] == [
        "this evaluation is the baseline; later ones are compared with it",
        "different dataset",
    ]
    assert len(verdict_table(cells)) == 1
    week = {"benchmark": "frames", "system": "mine", "metric": "all", "verdict": "no_baseline", "sentence": ""}

    assert not_compared_table([week])[0]["who"] == "frames: mine"


def test_table_ends_with_the_number_of_rows_left_out():
    records = table([{"name": f"n{number}", "f1": 0.5} for number in range(TABLE_ROWS + 7)]).records

    assert len(records) == TABLE_ROWS + 1
    assert records[-1].data == {"name": "and 7 more", "f1": ""}
    assert len(table([{"name": "one"}] * TABLE_ROWS).records) == TABLE_ROWS
