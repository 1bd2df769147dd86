"""The page of a comparison, with its chart and its table of questions, and that of all systems side by side."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX
from rag_eval_pipeline.metrics.verdict_rules import CHANGES
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import HEADLINE
from rag_eval_pipeline.monitoring.verdict_records import Comparison, Verdict, metric_of, shown_interval, tested_text
from rag_eval_pipeline.site.baseline_runs import Earlier, baseline_ids, by_weight, pair_incident
from rag_eval_pipeline.site.benchmark_page import NIGHTS_DRAWN, NIGHTS_FOR_TREND, night_days, trend_chart
from rag_eval_pipeline.site.charts import Change, changes_chart
from rag_eval_pipeline.site.data import ReportData, comparison_name
from rag_eval_pipeline.site.display_text import data_script, shortened
from rag_eval_pipeline.site.metric_labels import metric_view
from rag_eval_pipeline.site.page_writer import SiteFolder, render
from rag_eval_pipeline.site.question_nights import QuestionNight
from rag_eval_pipeline.site.question_table import cell_text, comparison_table, systems_table
from rag_eval_pipeline.site.run_data import AskedQuestions, DatasetCache

TRENDS_SHOWN = 2  # charts over nights, of the metrics that changed first


def write_comparison(
    site: SiteFolder,
    report: ReportData,
    row: Comparison,
    nights: Mapping[str, QuestionNight],
    questions: Callable[[str], AskedQuestions],
    readable: Collection[str],
    datasets: DatasetCache,
) -> None:
    """Write the page of a comparison and its table of questions.

    Args:
        questions: Returns those of an evaluation whose questions have pages.
        readable: These evaluations.
    """
    nights_of_new = report.nights[row.benchmark, row.new]
    new = next((one for one in nights_of_new[::-1] if one.evaluation_id == row.evaluation_id), nights_of_new[-1])
    asked = questions(new.evaluation_id) if new.evaluation_id in readable else None
    values, table = comparison_values(report, row, new, nights, asked, readable, datasets)
    name = comparison_name(row)
    if table is not None:
        table["page"] = f"../runs/{new.evaluation_id}/question.html"
        site.write(f"comparisons/{name}.js", data_script("comparison", table))
    site.write(f"comparisons/{name}.html", render("comparison.html", root="../", **values))


def comparison_values(
    report: ReportData,
    row: Comparison,
    new: ResultsHeader,
    nights: Mapping[str, QuestionNight],
    asked: AskedQuestions | None,
    readable: Collection[str],
    datasets: DatasetCache,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what the page of a comparison shows, and its table of questions.

    Args:
        new: The newer side.
        asked: Its questions; without them there is no table.
    """
    provisional = report.provisional(row)
    old_ids = baseline_ids(report, row)
    olds = [nights[one] for one in old_ids if one in nights]
    table: dict[str, Any] | None = None
    queries: Mapping[str, EvaluationQuery] = {}
    if asked is not None and olds:
        label = "the baseline" if row.kind == "baseline" else row.old
        queries = datasets.of(new, asked.file.dataset_id).queries
        labels = ("Baseline answer", "Present answer") if row.kind == "baseline" else (row.old, row.new)
        if provisional:
            labels = "Answer before", "Present answer"
        old = olds[-1].header.evaluation_id
        table = comparison_table(
            asked.rows, nights[new.evaluation_id], Earlier(label, olds), queries,
            old_label=labels[0], new_label=labels[1],
            old_page=f"../runs/{old}/question.html" if old in readable else None, is_regression=bool(row.regressed),
        )  # fmt: skip
    ordered = by_weight(row.verdicts)
    dots = [
        Change(
            metric_view(metric).label,
            found.estimate,
            shown_interval(found)[1] or found.confidence_interval,
            found.kind if found.kind in CHANGES else "quietly",
        )
        for metric, found in ordered
        if found.estimate is not None
    ]
    moved = {question.query_id for questions_of in row.moved.values() for question in questions_of}
    title = f"Changes of {row.new} against {row.old} with adjusted intervals, in points"
    return {
        "row": row,
        "name": comparison_name(row),
        "cause": _cause(report, row, table),
        "ordered": ordered,
        "chart": changes_chart(dots, title, margin=report.settings.equivalence_margin) if dots else None,
        "trends": _trends(report, row, new),
        "new_run": new.evaluation_id,
        "old_runs": [one for one in old_ids if one in readable],
        "n_old": len(old_ids),
        "evidence": _evidence(row, ordered),
        "n_quiet": _quiet_nights(row, len(old_ids)),
        "provisional": provisional,
        "rerun_page": f"runs/{row.rerun}/index.html" if row.rerun in nights else None,
        "has_table": table is not None,
        "texts": {
            one.query_id: shortened(one.query_text, 160)
            for one in (asked.rows if asked else ())
            if one.query_id in moved
        },
        "shown_ids": {query_id: queries[query_id].display_id for query_id in moved if query_id in queries},
        "n_shown": len(asked.rows) if asked else 0,
        "n_rows": len(nights[new.evaluation_id].scores),
    }, table


def _evidence(row: Comparison, ordered: Sequence[tuple[str, Verdict]]) -> list[str]:
    """Return how the metrics were tested, how steady the unchanged system is, and the first metric that declines."""
    tested = sorted(
        (found for _, found in ordered if found.p_corrected is not None or found.is_certain), key=lambda one: one.n
    )
    meanings = (
        "A question counts as lower (higher) if each of its scores now is below (above) each of its scores before. The "
        "effect is the mean change divided by the spread of the questions' changes."
    )
    declines = (f"{one.sentence}." for one in row.declines[:1])
    return [*map(tested_text, tested[-1:]), meanings, *filter(None, [row.note]), *declines]


def _trends(report: ReportData, row: Comparison, new: ResultsHeader) -> list[tuple[str, Any]]:
    """Return the label and the chart over nights of the first metrics, with a line for each system compared."""
    systems = [new.system, row.old] if row.kind == "systems" else [new.system]
    days = night_days(report, row.benchmark, systems)[-NIGHTS_DRAWN:]
    moved = {metric_of(name).removeprefix(PAGE_PREFIX) for name, found in row.verdicts.items() if found.kind in CHANGES}
    drawn = [name for name in HEADLINE if name in moved or not moved] if len(days) >= NIGHTS_FOR_TREND else []
    return [
        (metric_view(name).label, trend_chart(report, row.benchmark, metric_view(name), days, systems))
        for name in drawn[:TRENDS_SHOWN]
    ]


def write_systems(
    site: SiteFolder,
    report: ReportData,
    benchmark: str,
    nights: Mapping[str, QuestionNight],
    questions: Callable[[str], AskedQuestions],
    full: Collection[str],
    datasets: DatasetCache,
) -> str | None:
    """Write the page that has a benchmark's systems side by side and return its path.

    Of each system it has the newest run on the dataset of the newest one; None if there are fewer than two.

    Args:
        full: Runs whose questions have pages.
    """
    headers = {
        system: report.nights[benchmark, system] for system in report.systems if (benchmark, system) in report.nights
    }
    newest = max((of[-1] for of in headers.values()), key=lambda header: header.timestamp)
    shown = {
        system: nights[header.evaluation_id]
        for system, of in headers.items()
        for header in of
        if header.fingerprints.get("dataset") == newest.fingerprints.get("dataset")
        and nights[header.evaluation_id].given
    }
    if len(shown) < 2:
        return None
    name = f"{benchmark}.systems"
    newest = max((of.header for of in shown.values()), key=lambda header: header.timestamp)
    rows = questions(newest.evaluation_id).rows
    for system, night in shown.items():
        given = [night.given.get(row.query_id) for row in rows]
        answers = [cell_text(one.answer or "") if one else "" for one in given]
        site.write(f"comparisons/{name}.{system}.js", data_script(f"{name}.{system}.js", answers))
    table = systems_table(name, rows, shown, datasets.of(newest, nights[newest.evaluation_id].dataset_id).queries, full)
    table["page"] = f"../runs/{newest.evaluation_id}/question.html"
    site.write(f"comparisons/{name}.js", data_script("comparison", table))
    page = render(
        "systems.html", root="../", benchmark=benchmark, name=name, newest=newest,
        runs=[night.header for night in shown.values()], others=[one for one in headers if one not in shown],
    )  # fmt: skip
    site.write(f"comparisons/{name}.html", page)
    return f"comparisons/{name}.html"


def _quiet_nights(row: Comparison, n_old: int) -> int:
    """Return how many nights after the pinned runs a night was compared with as well."""
    runs = max((found.reference_runs for found in row.verdicts.values()), default=0)
    return max(0, runs - n_old) if row.kind == "baseline" else 0


def _cause(report: ReportData, row: Comparison, table: Mapping[str, Any] | None) -> tuple[str, str | None] | None:
    """Return where a regression comes from, and the address of the questions that have it in common."""
    incident = pair_incident(report, (row.benchmark, row.new)) if row.kind == "baseline" else None
    cause = incident.cause if incident else None
    if cause is None:
        return None
    if cause.group is None or table is None:
        return cause.sentence, None
    field = cause.group.field
    name = field if field in ("type", "difficulty", "document") else f"meta.{field}"
    words = next((facet["words"] for facet in table["facets"] if facet["name"] == name), ())
    return cause.sentence, urlencode({name: cause.group.value}) if cause.group.value in words else None
