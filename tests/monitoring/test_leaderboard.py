"""The leaderboard says how many questions each value is of, and ranks no doubted value first."""

import io
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rich.console import Console

from rag_eval_pipeline.formats.results import Metric
from rag_eval_pipeline.monitoring.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import Leaderboard, leaderboard_table, main_metric, ranked, verdict_of

TRUST = SimpleNamespace(doubt=lambda row, _: "not calibrated" if row.judge == "new" else None)


def row(system, value, scored=100, asked=100, *, name="f1", judge="known", level="document"):
    metric, none = Metric(value=value, n_scored=scored), Metric(value=None, reason="nothing_to_score")
    return SimpleNamespace(
        benchmark="b", system=system, evaluation_id=system, judge=judge, retrieval_level=level,
        summary={"total_queries": asked}, metric=lambda key: metric if key == name else none,
    )  # fmt: skip


COUNTS = {
    "all of all": ([row("x", 0.5), row("y", 0.4)], ["b n = 100", "x 0.500", "y 0.400"]),
    "equally few": ([row("x", 0.5, 90), row("y", 0.4, 90)], ["b n = 100", "x 0.500", "y 0.400", "questions scored 90"]),
    "fewer of one": ([row("x", 0.5), row("y", 0.4, 10)], ["b n = 100", "x 0.500", "y 0.400", "questions scored 10"]),
    "a limit": ([row("x", 0.9, 3, 3), row("y", 0.4)], ["b n = 100", "x 0.900", "questions scored 3", "y 0.400"]),
}


@pytest.mark.parametrize(("rows", "lines"), COUNTS.values(), ids=COUNTS)
def test_leaderboard_table_has_the_questions_of_each_value(rows, lines):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(leaderboard_table(Leaderboard(rows, None, (), TRUST)))

    assert [" ".join(line.split()) for line in console.export_text().splitlines()[3:]] == lines


def test_leaderboard_table_has_the_change_of_a_metric_by_page():
    one = row("x", 0.5, name="hit@1", level="page")
    verdict = SimpleNamespace(kind="regressed", estimate=-0.25)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(leaderboard_table(Leaderboard([one], None, (), TRUST, {"x": {"page/hit@1": verdict}}), by="hit@1"))

    assert "−25.0" in console.export_text()


def header(system, level, by_document, by_page):
    summary = {"total_queries": 100, "failed_queries": 0}
    hits = [{"hit@1": MetricHeader(value, n_scored=100)} for value in (by_document, by_page)]
    quality, speed = {"abstention": {"f1": {"value": None}}}, {"latency_stats": {"p50": None}}
    night = datetime(2026, 11, 1, tzinfo=UTC)
    return ResultsHeader(system, night, "b", system, "1", "1", {}, summary, level, *hits, {}, quality, speed)


@pytest.mark.parametrize(("level", "change"), [("page", -0.25), ("document", None)])
def test_a_value_of_retrieval_has_the_verdict_of_its_level(level, change):
    verdicts = {"page/hit@1": SimpleNamespace(estimate=-0.25), "f1": SimpleNamespace(estimate=0.5)}
    shown = header("pages", level, 0.8, 0.4)  # by document only because another system has no pages

    found = {name: verdict_of(shown, name, verdicts) for name in ("hit@1", "f1", "mrr")}

    assert {name: one and one.estimate for name, one in found.items()} == {"hit@1": change, "f1": 0.5, "mrr": None}


@pytest.mark.parametrize(
    ("level", "best", "values"), [("document", "pages", [0.8, 0.7]), ("page", "files", [0.5, 0.4])]
)
def test_retrieval_is_ranked_at_a_level_that_all_systems_have(level, best, values):
    rows = [header("files", level, 0.7, None if level == "document" else 0.5), header("pages", "page", 0.8, 0.4)]

    found = ranked(rows, SimpleNamespace(doubt=lambda *_: None), by="hit@1")

    assert [one.row.metric("hit@1").value for one in found] == values
    assert [(one.row.system, one.row.retrieval_level) for one in found if "hit@1" in one.best] == [(best, level)]


def test_main_metric_is_one_that_varies():
    rows = [row("x", 0.0, name="exact_match"), row("x", 0.3)]

    assert main_metric(rows, TRUST) == "f1"
    assert main_metric([*rows, row("y", 0.1, name="exact_match")], TRUST) == "exact_match"
    assert main_metric(rows[:1], TRUST) == "exact_match"


def test_ranked_has_doubted_values_after_the_others():
    rows = [row("sure", 0.5, name="judged_correct"), row("doubted", 0.9, name="judged_correct", judge="new")]

    assert [one.row.system for one in ranked(rows, TRUST)] == ["sure", "doubted"]
