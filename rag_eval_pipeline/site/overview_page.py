"""The first page: the verdict, the matrix of benchmarks and systems, and the leaderboard."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.incidents import Incident, headline_order, nothing_sure
from rag_eval_pipeline.monitoring.leaderboard import COLUMNS, HEADLINE, main_metric, ranked, verdict_of
from rag_eval_pipeline.monitoring.verdict_records import Comparison, withheld_text
from rag_eval_pipeline.site.baseline_runs import by_weight, strongest
from rag_eval_pipeline.site.charts import sparkline
from rag_eval_pipeline.site.data import ReportData, comparison_name, recent_alerts
from rag_eval_pipeline.site.display_text import Cell, shortened, spreadsheet
from rag_eval_pipeline.site.metric_labels import MetricView, metric_view, shown
from rag_eval_pipeline.site.page_writer import SiteFolder, render

NIGHTS_IN_SPARKLINE = 30
DECISIVE = (*CHANGES, "equivalent")
ADVICE_SHOWN = 4  # pairs; the others are folded
ANSWER_LENGTH = 240  # code points of an answer in a card


def overview_page(site: SiteFolder, report: ReportData, data: dict[str, Any]) -> bytes:
    """Render `index.html`; `data` is the content of `report.json`."""
    baselines = [row for row in report.comparisons if row.kind == "baseline"]
    others = [
        (row, comparison_name(row), strongest(row.verdicts), by_weight(row.verdicts, headline_order(row.verdicts)))
        for row in report.comparisons
        if row.kind == "systems"
    ]
    costs = {row.evaluation_id: _cost(row) for row in report.newest}
    metrics = headline_metrics(report.newest)
    kinds = [one.kind for one in report.incidents]
    return render(
        "overview.html",
        newest=max((row.timestamp for row in report.newest), default=None),
        report=report,
        rows=report.newest,
        cards=[_card(site, report, one) for one in report.incidents],
        n_regressed=kinds.count("regressed"),
        n_improved=kinds.count("improved"),
        compared=[row for row in baselines if row.verdicts],
        unsure=nothing_sure(baselines),
        withheld=[(row, text) for row in baselines if (text := withheld_text(row.verdicts.values()))],
        waiting=_waiting(report, baselines),
        refused=[row for row in baselines if row.reason not in (None, "no_baseline", "is_baseline")],
        decisive=[other for other in others if other[2] in DECISIVE],
        undecided=[other for other in others if other[2] not in DECISIVE],
        alerts=recent_alerts(report),
        metrics=metrics,
        first_shown=main_metric(report.newest, report.trust),
        matrices={view.name: _matrix(report, view) for view in metrics},
        board=board_rows(report, report.newest, metrics),
        most_cost=max((cost or 0.0 for cost in costs.values()), default=0.0),
        costs=costs,
        todo=_advice(report, data["recommendations"]),
        n_advice=ADVICE_SHOWN,
    )


def headline_metrics(rows: Sequence[ResultsHeader]) -> list[MetricView]:
    """Return the metrics of `HEADLINE` that any of the rows has."""
    return [metric_view(name) for name in HEADLINE if any(row.metric(name).value is not None for row in rows)]


class BoardRow(NamedTuple):
    """A row of a leaderboard.

    Args:
        cells: Metric -> its cell, whether no other system on the benchmark is better, and the verdict against the
            baseline or None.
    """

    row: ResultsHeader
    place: int
    cells: Mapping[str, tuple[Any, bool, Any]]


def board_rows(report: ReportData, rows: Sequence[ResultsHeader], metrics: Sequence[MetricView]) -> list[BoardRow]:
    """Return the rows of a leaderboard by benchmark, on each the best system first."""
    found = []
    for one in ranked(rows, report.trust):
        changes = report.changes.get(one.row.evaluation_id, {})
        cells = {}
        for name in (view.name for view in metrics):
            cell, verdict = shown(one.row, name, report.trust), verdict_of(one.row, name, changes)
            cells[name] = cell, name in one.best, verdict
        found.append(BoardRow(one.row, report.systems.index(one.row.system), cells))
    return found


class _Card(NamedTuple):
    """An incident with its pages.

    Args:
        questions: Name, text, gold answer, answer before and now, and the page or None.
    """

    incident: Incident
    provisional: str
    comparison: str
    spark: Any
    questions: Sequence[tuple[str, str, str | None, str, str, str | None]]


def _card(site: SiteFolder, report: ReportData, one: Incident) -> _Card:
    row = next(
        row
        for row in report.comparisons
        if (row.kind, row.benchmark, row.new) == ("baseline", one.benchmark, one.system)
    )
    progress = report.provisional(row)
    page = f"runs/{one.evaluation_id}/question.html"
    questions = [
        (
            worst.name,
            shortened(worst.question, ANSWER_LENGTH),
            None if worst.gold is None else shortened(worst.gold, ANSWER_LENGTH),
            shortened(worst.answer_before, ANSWER_LENGTH),
            shortened(worst.answer_after, ANSWER_LENGTH),
            f"{page}#{worst.query_id}" if site.has(page) else None,
        )
        for worst in (one.cause.worst if one.cause else ())
    ]
    view = metric_view(one.lead[0])
    pair = one.benchmark, one.system
    points = report.points(pair, view.name.removeprefix("page/"))[-NIGHTS_IN_SPARKLINE:]
    title = f"{view.label} of {one.system} on {one.benchmark}, last {counted(len(points), 'night')}"
    spark = sparkline(points, title, report.systems.index(one.system), is_share=view.is_share)
    words = progress.words if progress else ""
    return _Card(one, words, f"comparisons/{comparison_name(row)}.html", spark, questions)


def _waiting(report: ReportData, baselines: Sequence[Comparison]) -> dict[str, list[tuple[Comparison, str | None]]]:
    """Return the pairs without a baseline, by how far they are, each with its page if it has one."""
    found: dict[str, list[tuple[Comparison, str | None]]] = {}
    for row in baselines:
        page = f"comparisons/{comparison_name(row)}.html" if row.verdicts else None
        if row.reason == "is_baseline":
            found.setdefault("this night is the baseline; the next one is compared with it", []).append((row, page))
        elif progress := report.progress(row):
            found.setdefault(progress.sentence, []).append((row, page))
    return found


def _advice(report: ReportData, recommendations: Sequence[Mapping[str, str]]) -> list[tuple[str, str, list[str]]]:
    """Return place, page and texts of what helps; comparisons are shown above, and a baseline needs no advice."""
    embedded = {f"{row.benchmark} × {row.system}" for row in report.newest if row.system in report.embedded}
    found: dict[str, tuple[str, str, list[str]]] = {}
    for one in recommendations:
        if not one["page"].startswith("comparisons/") and one["where"] not in embedded:
            found.setdefault(one["where"], (one["where"], one["page"], []))[2].append(one["text"])
    return list(found.values())


def leaderboard_sheet(report: ReportData) -> bytes:
    """Return the leaderboard with intervals as a spreadsheet."""
    header = ["benchmark", "system", "evaluation_id", "timestamp", "queries", "failed", "level"]
    for name in COLUMNS:
        header += [name, f"{name}_low", f"{name}_high", f"{name}_n", f"{name}_doubt"]

    def cells(row: Any) -> list[Cell]:
        line: list[Cell] = [row.benchmark, row.system, row.evaluation_id, row.timestamp.isoformat()]
        line += [row.summary.get("total_queries"), row.summary.get("failed_queries"), row.retrieval_level]
        for name in COLUMNS:
            found = shown(row, name, report.trust)
            limits = found.metric.confidence_interval or (None, None)
            line += [found.metric.value, *limits, found.metric.n_scored, found.doubt]
        return line

    return b"".join(spreadsheet(header, (cells(row) for row in report.newest)))


def _matrix(report: ReportData, view: MetricView) -> dict[str, dict[str, Any]]:
    """Return benchmark -> system -> header, cell, sparkline and mark."""
    matrix: dict[str, dict[str, Any]] = {}
    for row in report.newest:
        pair = row.benchmark, row.system
        points = report.points(pair, view.name)[-NIGHTS_IN_SPARKLINE:]
        title = f"{view.label} of {row.system} on {row.benchmark}, last {counted(len(points), 'night')}"
        spark = sparkline(points, title, report.systems.index(row.system), is_share=view.is_share)
        mark = points[-1].mark
        matrix.setdefault(row.benchmark, {})[row.system] = (row, shown(row, view.name, report.trust), spark, mark)
    return matrix


def _cost(row: ResultsHeader) -> float | None:
    """Return the cost of an evaluation as far as it is known; None if nothing is."""
    usages = (row.performance_metrics.get(name, {}) for name in ("api_usage", "judge_usage"))
    return sum(usage.get("estimated_cost_usd") or 0.0 for usage in usages) or None
