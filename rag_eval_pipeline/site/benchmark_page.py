"""The page of a benchmark: its systems now and over nights, verdicts, abstention and runs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.metrics.declines import Watched
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.incidents import decline_of, follow_declines, headline_order, verdict_order
from rag_eval_pipeline.monitoring.night_records import Night
from rag_eval_pipeline.monitoring.verdict_records import Comparison, Verdict
from rag_eval_pipeline.site.audit_page import Counts
from rag_eval_pipeline.site.baseline_runs import by_weight, strongest
from rag_eval_pipeline.site.charts import Line, Point, evidence_chart, trend
from rag_eval_pipeline.site.data import COMPARED_AS, ReportData, comparison_name
from rag_eval_pipeline.site.metric_labels import MetricCell, MetricView, metric_groups
from rag_eval_pipeline.site.overview_page import board_rows, headline_metrics
from rag_eval_pipeline.site.page_writer import SiteFolder, render
from rag_eval_pipeline.site.run_data import RunFile

NIGHTS_DRAWN = 90  # a quarter of a year; older nights are in the list of runs
NIGHTS_FOR_TREND = 3
CHARTS_SHOWN = 3  # the others are folded


def write_benchmark(
    site: SiteFolder, report: ReportData, benchmark: str, audited: Counts | None, systems: str | None
) -> None:
    """Write the page of a benchmark.

    Args:
        audited: How many questions its audit suspects; None if that has no page.
        systems: The page that has its systems side by side.
    """
    pairs = [(benchmark, system) for system in report.systems if (benchmark, system) in report.by_pair]
    rows = [report.nights[pair][-1] for pair in pairs]
    metrics = headline_metrics(rows)
    days = night_days(report, benchmark, report.systems)
    charts = []
    if len(days) >= NIGHTS_FOR_TREND:
        drawn = days[-NIGHTS_DRAWN:]
        histories = {system: report.verdict_nights.get((benchmark, system), ()) for system in report.systems}
        followed = {system: (history, follow_declines(history)) for system, history in histories.items()}
        charts = [
            (view, trend_chart(report, benchmark, view, drawn), *_evidence(followed, view, drawn)) for view in metrics
        ]
        charts.sort(key=lambda chart: not _is_marked(report, benchmark, chart[0]))
    page = render(
        "benchmark.html",
        root="../",
        benchmark=benchmark,
        audited=audited,
        systems=systems,
        report=report,
        rows=rows,
        board=board_rows(report, rows, metrics),
        metrics=metrics,
        further=_further(report, rows, {view.name for view in metrics}),
        charts=charts,
        n_charts=CHARTS_SHOWN,
        n_nights=len(days),
        nights_for_trend=NIGHTS_FOR_TREND,
        has_unanswerable=any(_n_unanswerable(row) for row in rows),
        comparisons=[
            (
                row,
                comparison_name(row),
                strongest(row.verdicts),
                by_weight(row.verdicts),
                _decisive(row),
                report.provisional(row),
            )
            for row in report.comparisons
            if row.benchmark == benchmark
        ],
        stamp=report.stamps.get(benchmark),
        runs=sorted(
            (header for pair in pairs for header in report.by_pair[pair]),
            key=lambda header: (header.timestamp, header.evaluation_id),
            reverse=True,
        ),
        marked={name: _by_kind(marks) for name, marks in report.marks.items()},
        reruns=report.reruns,
    )
    site.write(f"benchmarks/{benchmark}.html", page)


def _by_kind(marks: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in headline_order(marks):
        found.setdefault(marks[name], []).append(name)
    return found


def _decisive(row: Comparison) -> list[tuple[str, Verdict]]:
    """Return the metrics that changed with their verdicts; the first of all metrics if none did."""
    ordered = [(name, row.verdicts[name]) for name in verdict_order(row.verdicts)]
    return [one for one in ordered if one[1].kind in CHANGES] or ordered[:1]


def _n_unanswerable(row: ResultsHeader) -> int:
    counts = row.answer_quality_metrics.get("abstention", {})
    return sum(counts.get(name) or 0 for name in ("unanswerable_answered", "unanswerable_abstained"))


def _further(
    report: ReportData, rows: Sequence[ResultsHeader], shown: set[str]
) -> dict[str, list[tuple[MetricView, list[MetricCell | None]]]]:
    """Return all metrics that have a value and are not shown above by heading, each with its cell of every system."""
    found: dict[str, dict[str, dict[int, MetricCell]]] = {}
    for place, row in enumerate(rows):
        for group in metric_groups(row, RunFile(), report.trust):
            for cell in group.rows:
                if cell.view.name not in shown and cell.metric.value is not None:
                    found.setdefault(group.heading, {}).setdefault(cell.view.name, {})[place] = cell
    return {
        heading: [
            (next(iter(cells.values())).view, [cells.get(n) for n in range(len(rows))]) for cells in names.values()
        ]
        for heading, names in found.items()
    }


def _is_marked(report: ReportData, benchmark: str, view: MetricView) -> bool:
    pairs = [pair for pair in report.nights if pair[0] == benchmark]
    return any(point.mark for pair in pairs for point in report.points(pair, view.name))


def _evidence(
    followed: Mapping[str, tuple[Sequence[Night], Mapping[str, Sequence[Watched]]]],
    view: MetricView,
    days: Sequence[str],
) -> tuple[Any, list[str]]:
    """Draw the evidence that a metric of each system declines, with a sentence each; nothing where none is known."""
    lines, found = [], []
    for system, (history, evidence) in followed.items():
        bare = COMPARED_AS.get(view.name, view.name)
        name = bare if bare in evidence else PAGE_PREFIX + bare
        by_day = {}
        if name in evidence:
            nights = zip(history, evidence[name], strict=True)
            by_day = {f"{night.opened_at:%Y-%m-%d}": Point(state.evidence) for night, state in nights}
            found.append((system, decline_of(history, name, evidence[name][-1])))
        lines.append(Line(system, [by_day.get(day, Point(None)) for day in days]))
    if not found:
        return None, []
    sentences = [f"{system}: {one.finding}" for system, one in found]
    title = f"Evidence that {view.label} declines, over {counted(len(days), 'night')}"
    return evidence_chart(lines, len(days), max(one.alert_at for _, one in found), title), sentences


def night_days(report: ReportData, benchmark: str, systems: Sequence[str]) -> list[str]:
    """Return the days on which any of the systems was evaluated, oldest first."""
    nights = (header for system in systems for header in report.nights.get((benchmark, system), ()))
    return sorted({f"{header.timestamp:%Y-%m-%d}" for header in nights})


def trend_chart(
    report: ReportData, benchmark: str, view: MetricView, days: Sequence[str], systems: Collection[str] = ()
) -> Any:
    """Draw a line for each system over days; of several runs on one day the last, or the one with a verdict.

    Args:
        systems: Those to draw; by default all.
    """
    lines = []
    for system in report.systems:
        pair = benchmark, system
        placed: dict[str, Point] = {}
        if pair in report.by_pair and (not systems or system in systems):
            for header, point in zip(report.nights[pair], report.points(pair, view.name), strict=True):
                day = f"{header.timestamp:%Y-%m-%d}"
                if point.mark or not (day in placed and placed[day].mark):
                    placed[day] = point
        lines.append(Line(system, [placed.get(day, Point(None)) for day in days]))
    title = f"{view.label} over {counted(len(days), 'night')}"
    return trend(lines, [day[5:] for day in days], title, is_share=view.is_share)
