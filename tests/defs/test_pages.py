"""What the UI's pages say: owners, descriptions, links, tables that fit, and checks in a sentence."""

import dagster as dg
import pytest

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import owners
from rag_eval_pipeline.defs.boards import TABLES, TRENDS, compared, not_compared, themed, trends
from rag_eval_pipeline.defs.links import REPORT_URL_VARIABLE, report_link, run_page
from rag_eval_pipeline.defs.shell import TABLE_ROWS, check_evaluation, check_result, sentence, table
from rag_eval_pipeline.reporting.leaderboard import COLUMNS


def specs():
    return [spec for asset in defs.assets for spec in asset.specs]


@pytest.mark.parametrize("spec", specs(), ids=lambda spec: spec.key.to_user_string())
def test_an_asset_says_what_it_means_what_it_follows_of_what_kind_it_is_and_whose(spec):
    first, *_, last = spec.description.split("\n\n")

    assert first.endswith(".")
    assert last.startswith("Source: ")
    assert spec.kinds
    assert spec.owners == ["team:rag-evaluation"]


def test_owners_are_those_that_the_machine_names(monkeypatch):
    monkeypatch.setenv(owners.VARIABLE, "team:search, ada@example.com,")

    [spec] = (spec for asset in owners.owned([defs.assets[0]]) for spec in asset.specs)

    assert spec.owners == ["team:search", "ada@example.com"]


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
def test_a_runs_page_is_a_link_where_the_report_is_served(settings, served, link, workspace, monkeypatch):
    (workspace.config / "alerts.config.yaml").write_text(settings)
    monkeypatch.delenv(REPORT_URL_VARIABLE, raising=False)
    if served:
        monkeypatch.setenv(REPORT_URL_VARIABLE, served)

    found = report_link(workspace, run_page("e1"))

    if link is None:
        assert isinstance(found, dg.PathMetadataValue)
        assert found.value == str(workspace.reports / "runs" / "e1" / "index.html")
    else:
        assert isinstance(found, dg.UrlMetadataValue)
        assert found.value == link


CELLS = [
    {"benchmark": "frames", "system": "mine", "questions": 40, "failed": 0, "level": "document", "f1": "0.300"},
]


def test_a_table_has_its_columns_short_and_what_is_not_there_is_a_dash():
    assert themed(CELLS, {"n": "questions", "by": "level", "F1": "f1", "cite": "citation_jaccard"}) == [
        {"benchmark": "frames", "system": "mine", "n": 40, "by": "doc", "F1": "0.300", "cite": "-"}
    ]


def test_the_tables_show_columns_that_the_leaderboard_has():
    known = {*COLUMNS, "questions", "failed", "level"}

    assert {column for columns in TABLES.values() for column in columns.values()} <= known


@pytest.mark.parametrize(("pairs", "measures"), [(1, len(COLUMNS)), (36, len(COLUMNS)), (200, 2), (400, 1), (401, 0)])
def test_whole_measures_become_lines_as_many_as_a_page_can_draw(pairs, measures):
    figures = {f"{column}/b{pair}/s": 0.5 for pair in range(pairs) for column in COLUMNS}

    kept = trends(figures, pairs=pairs)

    assert len(kept) == measures * pairs <= TRENDS
    assert {name.partition("/")[0] for name in trends(figures, pairs=200)} == {"f1", "ndcg@10"}


def cell(metric, verdict, text="", comparison="new against old"):
    return {"benchmark": "frames", "comparison": comparison, "metric": metric, "verdict": verdict, "sentence": text}


def test_verdicts_that_say_something_come_first_and_equal_ones_share_a_row():
    few = "No verdict: 12 questions, 30 are needed."
    cells = [cell(name, "no verdict", few) for name in ("hit@1", "hit@5", "mrr", "f1", "em")]
    cells.insert(2, cell("ndcg@10", "regressed", "ndcg@10 fell 5.0 points."))

    assert compared(cells) == [
        {"who": "frames: new against old", "verdict": "ndcg@10 fell 5.0 points."},
        {"who": "frames: new against old", "verdict": f"hit@1, hit@5, mrr and 2 more: {few}"},
    ]


def test_who_has_no_verdict_is_told_apart_with_the_reason_in_words():
    cells = [cell("all", "is_baseline"), cell("all", "different_dataset"), cell("f1", "improved", "f1 rose.")]

    assert [row["why"] for row in not_compared(cells)] == [
        "this evaluation is the baseline; from the next one on they are compared",
        "different dataset",
    ]
    assert len(compared(cells)) == 1


def test_a_week_is_named_by_its_system():
    week = {"benchmark": "frames", "system": "mine", "metric": "all", "verdict": "no_baseline", "sentence": ""}

    assert not_compared([week])[0]["who"] == "frames: mine"


def test_a_long_table_ends_with_how_many_rows_are_left_out():
    records = table([{"name": f"n{number}", "f1": 0.5} for number in range(TABLE_ROWS + 7)]).records

    assert len(records) == TABLE_ROWS + 1
    assert records[-1].data == {"name": "and 7 more", "f1": ""}
    assert len(table([{"name": "one"}] * TABLE_ROWS).records) == TABLE_ROWS


SENTENCES = {
    #                           passed  numbers                                     sentence
    "numbers":                  (True,  {"rows": 17, "accepted": 16, "share": 0.5}, "Holds: rows 17, accepted 16, share 0.5."),
    "offenders by name":        (False, {"late": 2, "which": ["a x b", "c x d"]},   "Does not hold: late 2, which: a x b; c x d."),
    "nobody":                   (True,  {"which": []},                              "Holds: which: none."),
    "a sentence in it":         (False, {"which": ["Rename it."]},                  "Does not hold: which: Rename it."),
    "nothing to say":           (True,  {},                                         "Holds."),
}  # fmt: skip


@pytest.mark.parametrize(("passed", "numbers", "text"), SENTENCES.values(), ids=SENTENCES)
def test_a_check_says_in_a_sentence_what_it_was_decided_on(passed, numbers, text):
    check = Check(name="it_holds", passed=passed, blocking=False, numbers=numbers)

    assert sentence(check) == text
    assert check_result(check).description == check_evaluation("leaderboard", check).description == text


def test_a_check_that_blocks_is_an_error_and_one_that_does_not_a_warning():
    severities = [
        check_result(Check(name="it", passed=False, blocking=blocking)).severity for blocking in (True, False)
    ]

    assert severities == [dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN]


def test_an_endless_list_of_offenders_is_cut():
    check = Check(name="it_holds", passed=False, numbers={"which": [f"row {number}" for number in range(10_000)]})

    result = check_result(check)

    assert len(result.description) < 400
    assert len(result.metadata["which"].value) == 2000
