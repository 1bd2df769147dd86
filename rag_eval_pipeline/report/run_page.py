"""The pages of a run: its metrics, its questions, and the page of one question."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rag_eval_pipeline.report.charts import latency_histogram
from rag_eval_pipeline.report.data import ReportData
from rag_eval_pipeline.report.metrics import (
    CATEGORY_HEADINGS,
    PAGE,
    custom_metric_view,
    metric_groups,
    metric_view,
    shown,
)
from rag_eval_pipeline.report.page_images import PageImages
from rag_eval_pipeline.report.question import (
    document_spans,
    question_details,
    question_sheet,
    question_table,
    select_for_images,
)
from rag_eval_pipeline.report.render import SiteFolder, render
from rag_eval_pipeline.report.runs import (
    OUTCOMES,
    Outcome,
    QuestionNight,
    QuestionsFile,
    RunFile,
    RunSources,
    change,
)
from rag_eval_pipeline.report.text import data_script, replace_control_chars, shortened, spreadsheet
from rag_eval_pipeline.reporting.comparison import NOT_CALIBRATED, TASKS

TILES = ("f1", "exact_match", "ndcg@10", "abstention_f1", "citation_jaccard", "judged_correct", "latency_p50_ms")
VALUE_LENGTH = 400  # code points of a setting
QUESTIONS_A_FILE = 40  # some 300 kB: one file is read in the time of a click


def write_run(
    site: SiteFolder,
    report: ReportData,
    run: RunSources,
    *,
    night: QuestionNight,
    before: QuestionNight | None,
    pictures: PageImages | None,
) -> None:
    """Write the pages of a run with its questions.

    Args:
        night: Its scores.
        before: The night before; None for the first.
        pictures: None if the corpus is not what the run saw, or the run is not the newest.
    """
    folder = f"runs/{run.header.evaluation_id}"
    rows = run.file.query_results
    queries = run.dataset.queries
    outcomes = [
        row.outcome(is_impossible=q.is_impossible if (q := queries.get(row.query_id)) else None) for row in rows
    ]
    changes = [change(night.scores.get(row.query_id), before, row.query_id) for row in rows]
    site.write(f"{folder}/data/questions.js", data_script("questions", question_table(run, outcomes, changes)))
    site.write(f"{folder}/questions.csv", spreadsheet(*question_sheet(run, outcomes, changes)))
    pictured = select_for_images(outcomes, changes) if pictures else set()
    for first in range(0, len(rows), QUESTIONS_A_FILE):
        details = []
        for place in range(first, min(first + QUESTIONS_A_FILE, len(rows))):
            row = rows[place]
            answer, query = run.answers[row.query_id], queries.get(row.query_id)
            drawn = pictures.of(document_spans(answer, query)) if pictures and place in pictured else []
            details.append(
                question_details(
                    row, answer, query, run.judgements.get(row.query_id), texts=run.dataset.texts, pictures=drawn
                )
            )
        name = f"details-{first // QUESTIONS_A_FILE:03d}"
        site.write(f"{folder}/data/{name}.js", data_script(name, details))
    if pictures:
        site.keep(sorted(pictures.used))
        pictures.used.clear()
    # Claims and verdicts of a judge that is not calibrated are shown in grey.
    is_doubted = run.judgements and any(report.trust.doubt(run.header, name) for name in TASKS)
    title = f"{run.header.benchmark} × {run.header.system}"
    names = {name for row in rows for name in row.individual_metrics}
    judged = [n for n in sorted(names) if n in run.header.judge_metrics or metric_view(n).category == "claims"]
    doubt = NOT_CALIBRATED if is_doubted else ""
    values = {"run": run.header, "title": title, "chunk": QUESTIONS_A_FILE, "doubt": doubt, "judged": judged}
    site.write(f"{folder}/question.html", render("question.html", root="../../", **values))
    latencies = [row.latency_ms for row in rows if row.status == "ok" and row.latency_ms is not None]
    write_run_page(site, report, run.header, run=run, latencies=latencies, outcomes=outcomes)


def write_run_page(
    site: SiteFolder,
    report: ReportData,
    header: Any,
    *,
    run: RunSources | None = None,
    latencies: Sequence[float] = (),
    outcomes: Sequence[Outcome] = (),
) -> None:
    """Write the page of a run's metrics; without `run`, of an older one whose questions are not in the report."""
    nights = [
        one
        for one in report.by_pair[header.benchmark, header.system]
        if one.evaluation_id not in report.reruns or one.evaluation_id == header.evaluation_id
    ]
    place = next(n for n, other in enumerate(nights) if other.evaluation_id == header.evaluation_id)
    stats = header.performance_metrics.get("latency_stats", {})
    marks = [(name, stats[name]) for name in ("p50", "p95", "p99") if stats.get(name) is not None]
    values = {
        "run": header,
        "sources": run,
        "previous": nights[place - 1] if place else None,
        "rerun_of": report.reruns.get(header.evaluation_id),
        "groups": metric_groups(header, run.file if run else RunFile(), report.trust),
        "abstention": header.answer_quality_metrics.get("abstention", {}),
        "stats": stats,
        "latency_limits": header.performance_metrics.get("latency_intervals", {}),
        "usage": header.performance_metrics.get("api_usage", {}),
        "judge_usage": header.performance_metrics.get("judge_usage", {}),
        "reused_from": header.performance_metrics.get("reused_from"),
        "latency_chart": latency_histogram(latencies, marks, "Latency of the answered questions")
        if latencies
        else None,
        "outcomes": [(name, label, outcomes.count(name)) for name, label in OUTCOMES.items() if name in outcomes],
        "tiles": [shown(header, name, report.trust) for name in TILES],
        "configuration": _configuration(run) if run else [],
    }
    site.write(f"runs/{header.evaluation_id}/index.html", render("run.html", root="../../", **values))


def _configuration(run: RunSources) -> list[tuple[str, str]]:
    stated = {name: value for name, value in run.file.configuration.items() if value is not None}
    texts = {name: v if isinstance(v, str) else msgspec.json.encode(v).decode() for name, v in stated.items()}
    return [(name, shortened(text, VALUE_LENGTH)) for name, text in texts.items()]


def metric_meanings(files: Iterable[QuestionsFile]) -> dict[str, tuple[str, str, str]]:
    """Return label, meaning with direction, and heading of each metric of the questions that are shown."""
    found = {}
    for file in files:
        for name in {name: None for row in file.query_results for name in row.individual_metrics}:
            custom = file.own_metrics.get(name)
            view = custom_metric_view(name, custom) if custom else metric_view(name)
            heading = "Retrieval, by page" if name.startswith(PAGE) else CATEGORY_HEADINGS[view.category]
            way = f"{view.way.capitalize()}." if view.way else ""
            label, meaning = map(replace_control_chars, (view.label, f"{view.meaning} {way}".strip()))
            found[replace_control_chars(name)] = label, meaning, heading
    return found
