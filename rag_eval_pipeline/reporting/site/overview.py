"""The first page: what changed, every benchmark and system at a glance, what it cost, and what to do."""

from collections.abc import Iterator, Sequence
from typing import Any

from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.leaderboard import COLUMNS
from rag_eval_pipeline.reporting.site.comparison_pages import by_weight, comparison_name, strongest
from rag_eval_pipeline.reporting.site.figures import shown
from rag_eval_pipeline.reporting.site.meanings import figure_of
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.night_charts import sparkline
from rag_eval_pipeline.reporting.site.numbers import latency_digits, money_digits
from rag_eval_pipeline.reporting.site.rendering import render
from rag_eval_pipeline.reporting.site.spreadsheet import Cell, spreadsheet
from rag_eval_pipeline.reporting.site.told_alerts import told_alerts

NIGHTS_IN_SPARKLINE = 30
FIRST_SHOWN = "f1"
TOLD = ("regressed", "improved", "equivalent")  # verdicts that say something of two systems


def overview_page(morning: Morning, data: dict[str, Any]) -> bytes:
    """`index.html`.

    Args:
        morning: The report's.
        data: The report's data part.
    """
    baselines = [row for row in morning.comparisons if row.kind == "baseline"]
    others = [
        (row, comparison_name(row), strongest(row), by_weight(row.verdicts))
        for row in morning.comparisons
        if row.kind == "systems"
    ]
    kinds = [found.kind for row in baselines for found in row.verdicts.values()]
    costs = {row.evaluation_id: _cost(row) for row in morning.newest}
    return render(
        "overview.html",
        newest=max((row.timestamp for row in morning.newest), default=None),
        morning=morning,
        rows=morning.newest,
        news=list(_news(morning, baselines)),
        n_regressed=kinds.count("regressed"),
        n_improved=kinds.count("improved"),
        unpinned=[row for row in baselines if row.reason == "no_baseline"],
        told=[other for other in others if other[2] in TOLD],
        untold=[other for other in others if other[2] not in TOLD],
        provisional=_by_progress(morning, baselines),
        first=[row for row in baselines if row.reason == "is_baseline"],
        refused=[row for row in baselines if row.reason not in (None, "no_baseline", "is_baseline")],
        alerts=told_alerts(morning),
        figures=[figure_of(name) for name in COLUMNS],
        first_shown=FIRST_SHOWN,
        matrices={name: _matrix(morning, name) for name in COLUMNS},
        shown={
            (row.evaluation_id, name): shown(row, name, morning.trust) for row in morning.newest for name in COLUMNS
        },
        most_cost=max(costs.values(), default=0.0),
        costs=costs,
        money_digits=money_digits(costs.values()),
        latency_digits=latency_digits(_stat(row, name) for row in morning.newest for name in ("p50", "p95", "p99")),
        # What a comparison says stands above already, under what changed.
        todo=[one for one in data["recommendations"] if not one["page"].startswith("comparisons/")],
    )


def _by_progress(morning: Morning, baselines: Sequence[Comparison]) -> dict[str, list[tuple[Comparison, str]]]:
    """Provisional comparisons and their pages, by how far they are."""
    found: dict[str, list[tuple[Comparison, str]]] = {}
    for row in baselines:
        if progress := morning.provisional(row):
            found.setdefault(progress.words, []).append((row, comparison_name(row)))
    return found


def _news(morning: Morning, baselines: Sequence[Comparison]) -> Iterator[tuple[Any, ...]]:
    """Comparison, its page, its worst word, whether it is provisional, and the metrics that changed; worst first."""
    for kind in ("regressed", "improved"):
        for row in baselines:
            if strongest(row) == kind:
                changed = [(m, f) for m, f in by_weight(row.verdicts) if f.kind in ("regressed", "improved")]
                yield row, comparison_name(row), kind, morning.provisional(row), changed


def leaderboard_sheet(morning: Morning) -> bytes:
    """The leaderboard with its intervals for a spreadsheet."""
    header = ["benchmark", "system", "evaluation_id", "timestamp", "queries", "failed", "level"]
    for name in COLUMNS:
        header += [name, f"{name}_low", f"{name}_high", f"{name}_n", f"{name}_doubt"]

    def cells(row: Any) -> list[Cell]:
        line: list[Cell] = [row.benchmark, row.system, row.evaluation_id, row.timestamp.isoformat()]
        line += [row.summary.get("total_queries"), row.summary.get("failed_queries"), row.retrieval_level]
        for name in COLUMNS:
            found = shown(row, name, morning.trust)
            limits = found.metric.confidence_interval or (None, None)
            line += [found.metric.value, *limits, found.metric.n_scored, found.doubt]
        return line

    return spreadsheet(header, (cells(row) for row in morning.newest))


def _matrix(morning: Morning, name: str) -> dict[str, dict[str, Any]]:
    """Benchmark -> system -> the figure and its nights."""
    matrix: dict[str, dict[str, Any]] = {}
    figure = figure_of(name)
    for row in morning.newest:
        pair = row.benchmark, row.system
        points = morning.points(pair, name)[-NIGHTS_IN_SPARKLINE:]
        title = f"{figure.label} of {row.system} on {row.benchmark}, last {len(points)} runs"
        spark = sparkline(points, title, morning.systems.index(row.system), is_share=figure.is_share)
        mark = points[-1].mark
        matrix.setdefault(row.benchmark, {})[row.system] = (row, shown(row, name, morning.trust), spark, mark)
    return matrix


def _cost(row: Any) -> float:
    usage = row.performance_metrics.get("api_usage", {}).get("estimated_cost_usd") or 0.0
    judge = row.performance_metrics.get("judge_usage", {}).get("estimated_cost_usd") or 0.0
    return float(usage + judge)


def _stat(row: Any, name: str) -> float | None:
    value: float | None = row.performance_metrics.get("latency_stats", {}).get(name)
    return value
