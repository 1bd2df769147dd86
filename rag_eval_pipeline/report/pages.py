"""The pages of the report: overview and benchmark."""

from collections.abc import Iterator, Sequence
from typing import Any

from rag_eval_pipeline.report.baseline_runs import by_weight, strongest
from rag_eval_pipeline.report.charts import Line, Point, sparkline, trend
from rag_eval_pipeline.report.data import ReportData, comparison_name, recent_alerts
from rag_eval_pipeline.report.metrics import MetricView, metric_view, shown
from rag_eval_pipeline.report.render import SiteFolder, render
from rag_eval_pipeline.report.text import Cell, spreadsheet
from rag_eval_pipeline.reporting.comparison import Comparison
from rag_eval_pipeline.reporting.leaderboard import COLUMNS

NIGHTS_IN_SPARKLINE = 30
FIRST_SHOWN = "f1"
DECISIVE = ("regressed", "improved", "equivalent")


def overview_page(report: ReportData, data: dict[str, Any]) -> bytes:
    """Render `index.html`; `data` is the content of `report.json`."""
    baselines = [row for row in report.comparisons if row.kind == "baseline"]
    others = [
        (row, comparison_name(row), strongest(row.verdicts), by_weight(row.verdicts))
        for row in report.comparisons
        if row.kind == "systems"
    ]
    kinds = [found.kind for row in baselines for found in row.verdicts.values()]
    costs = {row.evaluation_id: _cost(row) for row in report.newest}
    return render(
        "overview.html",
        newest=max((row.timestamp for row in report.newest), default=None),
        report=report,
        rows=report.newest,
        news=list(_news(report, baselines)),
        n_regressed=kinds.count("regressed"),
        n_improved=kinds.count("improved"),
        unpinned=[row for row in baselines if row.reason == "no_baseline"],
        decisive=[other for other in others if other[2] in DECISIVE],
        undecided=[other for other in others if other[2] not in DECISIVE],
        provisional=_by_progress(report, baselines),
        first=[row for row in baselines if row.reason == "is_baseline"],
        refused=[row for row in baselines if row.reason not in (None, "no_baseline", "is_baseline")],
        alerts=recent_alerts(report),
        metrics=[metric_view(name) for name in COLUMNS],
        first_shown=FIRST_SHOWN,
        matrices={name: _matrix(report, name) for name in COLUMNS},
        shown={(row.evaluation_id, name): shown(row, name, report.trust) for row in report.newest for name in COLUMNS},
        most_cost=max(costs.values(), default=0.0),
        costs=costs,
        # Comparisons are shown above, under what changed.
        todo=[one for one in data["recommendations"] if not one["page"].startswith("comparisons/")],
    )


def _by_progress(report: ReportData, baselines: Sequence[Comparison]) -> dict[str, list[tuple[Comparison, str]]]:
    found: dict[str, list[tuple[Comparison, str]]] = {}
    for row in baselines:
        if progress := report.provisional(row):
            found.setdefault(progress.words, []).append((row, comparison_name(row)))
    return found


def _news(report: ReportData, baselines: Sequence[Comparison]) -> Iterator[tuple[Any, ...]]:
    """Yield comparison, page, worst verdict, whether it is provisional, and the metrics that changed; worst first."""
    for kind in ("regressed", "improved"):
        for row in baselines:
            if strongest(row.verdicts) == kind:
                changed = [(m, f) for m, f in by_weight(row.verdicts) if f.kind in ("regressed", "improved")]
                yield row, comparison_name(row), kind, report.provisional(row), changed


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

    return spreadsheet(header, (cells(row) for row in report.newest))


def _matrix(report: ReportData, name: str) -> dict[str, dict[str, Any]]:
    """Return benchmark -> system -> header, cell, sparkline and mark."""
    matrix: dict[str, dict[str, Any]] = {}
    view = metric_view(name)
    for row in report.newest:
        pair = row.benchmark, row.system
        points = report.points(pair, name)[-NIGHTS_IN_SPARKLINE:]
        title = f"{view.label} of {row.system} on {row.benchmark}, last {len(points)} runs"
        spark = sparkline(points, title, report.systems.index(row.system), is_share=view.is_share)
        mark = points[-1].mark
        matrix.setdefault(row.benchmark, {})[row.system] = (row, shown(row, name, report.trust), spark, mark)
    return matrix


def _cost(row: Any) -> float:
    usage = row.performance_metrics.get("api_usage", {}).get("estimated_cost_usd") or 0.0
    judge = row.performance_metrics.get("judge_usage", {}).get("estimated_cost_usd") or 0.0
    return float(usage + judge)


NIGHTS_DRAWN = 90  # a quarter of a year; older nights are in the list of runs


def write_benchmark(site: SiteFolder, report: ReportData, benchmark: str) -> None:
    """Write the page of a benchmark."""
    pairs = [(benchmark, system) for system in report.systems if (benchmark, system) in report.by_pair]
    rows = [report.nights[pair][-1] for pair in pairs]
    metrics = [metric_view(name) for name in COLUMNS if any(row.metric(name).value is not None for row in rows)]
    page = render(
        "benchmark.html",
        root="../",
        benchmark=benchmark,
        rows=rows,
        places=[report.systems.index(row.system) for row in rows],
        metrics=metrics,
        shown={(row.system, view.name): shown(row, view.name, report.trust) for row in rows for view in metrics},
        trends=[(view, _trend(report, benchmark, view)) for view in metrics],
        n_nights=len({header.timestamp.date() for pair in pairs for header in report.nights[pair]}),
        n_runs=max(len(report.nights[pair]) for pair in pairs),
        comparisons=[
            (row, comparison_name(row), strongest(row.verdicts), by_weight(row.verdicts), report.provisional(row))
            for row in report.comparisons
            if row.benchmark == benchmark
        ],
        stamp=report.stamps.get(benchmark),
        runs=sorted(
            (header for pair in pairs for header in report.by_pair[pair]),
            key=lambda header: (header.timestamp, header.evaluation_id),
            reverse=True,
        ),
        marks=report.marks,
        reruns=report.reruns,
    )
    site.write(f"benchmarks/{benchmark}.html", page)


def _trend(report: ReportData, benchmark: str, view: MetricView) -> Any:
    """Draw a line for each system over the days on which any was evaluated."""
    nights = {}
    for system in report.systems:
        pair = benchmark, system
        if pair in report.by_pair:
            nights[system] = zip(report.nights[pair], report.points(pair, view.name), strict=True)
    # Of several nights on one day, the n-th of each system share a place.
    places: set[tuple[str, int]] = set()
    placed: dict[str, dict[tuple[str, int], Point]] = {}
    for system, own in nights.items():
        seen: dict[str, int] = {}
        for header, point in own:
            day = f"{header.timestamp:%Y-%m-%d}"
            seen[day] = seen.get(day, 0) + 1
            placed.setdefault(system, {})[day, seen[day]] = point
            places.add((day, seen[day]))
    labels = sorted(places)[-NIGHTS_DRAWN:]
    lines = [
        Line(system, [placed.get(system, {}).get(label, Point(None)) for label in labels]) for system in report.systems
    ]
    title = f"{view.label} over {len({day for day, _ in labels})} nights"
    return trend(lines, [day[5:] for day, _ in labels], title, is_share=view.is_share)
