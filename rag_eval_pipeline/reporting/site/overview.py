"""The first page: what changed, every benchmark and system at a glance, what it cost, and what to do."""

from typing import Any

from rag_eval_pipeline.reporting.leaderboard import COLUMNS
from rag_eval_pipeline.reporting.site.comparison_pages import by_weight, comparison_name, strongest
from rag_eval_pipeline.reporting.site.figures import figure_of, shown
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.night_charts import sparkline
from rag_eval_pipeline.reporting.site.rendering import render
from rag_eval_pipeline.reporting.site.spreadsheet import Cell, spreadsheet

NIGHTS_IN_SPARKLINE = 30
FIRST_SHOWN = "f1"


def overview_page(morning: Morning, data: dict[str, Any]) -> bytes:
    """`index.html`.

    Args:
        morning: The report's.
        data: The report's data part.
    """
    baselines = [row for row in morning.comparisons if row.kind == "baseline"]
    news = [
        (row, comparison_name(row), metric, found)
        for kind in ("regressed", "improved")
        for row in baselines
        for metric, found in by_weight(row.verdicts)
        if found.kind == kind
    ]
    return render(
        "overview.html",
        newest=max((row.timestamp for row in morning.newest), default=None),
        morning=morning,
        rows=morning.newest,
        n_nights=max((len(nights) for nights in morning.by_pair.values()), default=0),
        news=news,
        n_regressed=sum(found.kind == "regressed" for *_, found in news),
        n_improved=sum(found.kind == "improved" for *_, found in news),
        unpinned=[row for row in baselines if row.reason == "no_baseline"],
        others=[
            (row, comparison_name(row), strongest(row), by_weight(row.verdicts))
            for row in morning.comparisons
            if row.kind == "systems"
        ],
        first=[row for row in baselines if row.reason == "is_baseline"],
        refused=[row for row in baselines if row.reason not in (None, "no_baseline", "is_baseline")],
        figures=[figure_of(name) for name in COLUMNS],
        first_shown=FIRST_SHOWN,
        matrices={name: _matrix(morning, name) for name in COLUMNS},
        shown={
            (row.evaluation_id, name): shown(row, name, morning.trust) for row in morning.newest for name in COLUMNS
        },
        most_cost=max((_cost(row) for row in morning.newest), default=0.0),
        costs={row.evaluation_id: _cost(row) for row in morning.newest},
        data=data,
    )


def leaderboard_sheet(morning: Morning) -> bytes:
    """The leaderboard with its intervals for a spreadsheet."""
    header = ["benchmark", "system", "evaluation_id", "timestamp", "queries", "failed", "level"]
    for name in COLUMNS:
        header += [name, f"{name}_low", f"{name}_high", f"{name}_doubt"]

    def cells(row: Any) -> list[Cell]:
        line: list[Cell] = [row.benchmark, row.system, row.evaluation_id, row.timestamp.isoformat()]
        line += [row.summary.get("total_queries"), row.summary.get("failed_queries"), row.retrieval_level]
        for name in COLUMNS:
            found = shown(row, name, morning.trust)
            limits = found.metric.confidence_interval or (None, None)
            line += [found.metric.value, *limits, found.doubt]
        return line

    return spreadsheet(header, (cells(row) for row in morning.newest))


def _matrix(morning: Morning, name: str) -> dict[str, dict[str, Any]]:
    """Benchmark -> system -> the figure and its nights."""
    matrix: dict[str, dict[str, Any]] = {}
    figure = figure_of(name)
    for row in morning.newest:
        pair = row.benchmark, row.system
        points = morning.points(pair, name)[-NIGHTS_IN_SPARKLINE:]
        title = f"{figure.label} of {row.system} on {row.benchmark}, last {len(points)} nights"
        spark = sparkline(points, title, morning.systems.index(row.system), is_share=figure.is_share)
        mark = points[-1].mark
        matrix.setdefault(row.benchmark, {})[row.system] = (row, shown(row, name, morning.trust), spark, mark)
    return matrix


def _cost(row: Any) -> float:
    usage = row.performance_metrics.get("api_usage", {}).get("estimated_cost_usd") or 0.0
    judge = row.performance_metrics.get("judge_usage", {}).get("estimated_cost_usd") or 0.0
    return float(usage + judge)
