"""The page of one benchmark: its systems side by side, their nights, and every run."""

from typing import Any

from rag_eval_pipeline.reporting.leaderboard import COLUMNS
from rag_eval_pipeline.reporting.site.comparison_pages import by_weight, comparison_name, strongest
from rag_eval_pipeline.reporting.site.drawing import SERIES
from rag_eval_pipeline.reporting.site.figures import shown
from rag_eval_pipeline.reporting.site.folder import SiteFolder
from rag_eval_pipeline.reporting.site.interval_charts import Dot, values_chart
from rag_eval_pipeline.reporting.site.known_figures import Figure
from rag_eval_pipeline.reporting.site.meanings import figure_of
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.night_charts import Line, Point, trend
from rag_eval_pipeline.reporting.site.rendering import render

NIGHTS_DRAWN = 90  # a quarter of a year; older nights are in the list of runs


def write_benchmark(site: SiteFolder, morning: Morning, benchmark: str) -> None:
    """Writes the page of a benchmark."""
    pairs = [(benchmark, system) for system in morning.systems if (benchmark, system) in morning.by_pair]
    rows = [morning.nights[pair][-1] for pair in pairs]
    figures = [figure_of(name) for name in COLUMNS if any(row.metric(name).value is not None for row in rows)]
    page = render(
        "benchmark.html",
        root="../",
        benchmark=benchmark,
        rows=rows,
        places=[morning.systems.index(row.system) for row in rows],
        figures=figures,
        shown={(row.system, figure.name): shown(row, figure.name, morning.trust) for row in rows for figure in figures},
        side_by_side=[(figure, _dots(morning, rows, figure)) for figure in figures if figure.is_share],
        trends=[(figure, _trend(morning, benchmark, figure)) for figure in figures],
        n_nights=len({header.timestamp.date() for pair in pairs for header in morning.nights[pair]}),
        n_runs=max(len(morning.nights[pair]) for pair in pairs),
        comparisons=[
            (row, comparison_name(row), strongest(row), by_weight(row.verdicts), morning.provisional(row))
            for row in morning.comparisons
            if row.benchmark == benchmark
        ],
        stamp=morning.stamps.get(benchmark),
        runs=sorted(
            (header for pair in pairs for header in morning.by_pair[pair]),
            key=lambda header: (header.timestamp, header.evaluation_id),
            reverse=True,
        ),
        marks=morning.marks,
        reruns=morning.reruns,
    )
    site.write(f"benchmarks/{benchmark}.html", page)


def _dots(morning: Morning, rows: list[Any], figure: Figure) -> Any:
    dots = []
    for row in rows:
        found = shown(row, figure.name, morning.trust)
        css = "doubted" if found.doubt else f"s{morning.systems.index(row.system) % SERIES}"
        dots.append(Dot(row.system, found.metric.value, found.metric.confidence_interval, css))
    return values_chart(dots, f"{figure.label} of each system with 95 % intervals")


def _trend(morning: Morning, benchmark: str, figure: Figure) -> Any:
    """Lines of all systems, drawn in their own colours, over the days on which any was evaluated."""
    nights = {}
    for system in morning.systems:
        pair = benchmark, system
        if pair in morning.by_pair:
            nights[system] = zip(morning.nights[pair], morning.points(pair, figure.name), strict=True)
    # Several nights on one day, as a person may make them: the n-th of a day of each system share a place.
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
        Line(system, [placed.get(system, {}).get(label, Point(None)) for label in labels]) for system in morning.systems
    ]
    title = f"{figure.label} over {len({day for day, _ in labels})} nights"
    return trend(lines, [day[5:] for day, _ in labels], title, is_share=figure.is_share)
