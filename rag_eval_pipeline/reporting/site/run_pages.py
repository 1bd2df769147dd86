"""The pages of one run: its figures, its table of questions, each question's details, and the CSV of all."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rag_eval_pipeline.reporting.site.details import question_details
from rag_eval_pipeline.reporting.site.figures import shown
from rag_eval_pipeline.reporting.site.folder import SiteFolder
from rag_eval_pipeline.reporting.site.found_places import placed_spans
from rag_eval_pipeline.reporting.site.inert import data_script, shortened
from rag_eval_pipeline.reporting.site.latency_charts import latency_histogram
from rag_eval_pipeline.reporting.site.meanings import figure_of
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.page_pictures import PagePictures
from rag_eval_pipeline.reporting.site.question_nights import QuestionNight, change
from rag_eval_pipeline.reporting.site.question_table import question_sheet, question_table, worth_looking_at
from rag_eval_pipeline.reporting.site.questions import OUTCOMES, Outcome
from rag_eval_pipeline.reporting.site.rendering import render
from rag_eval_pipeline.reporting.site.run_figures import figure_groups
from rag_eval_pipeline.reporting.site.run_sources import RunFile, RunSources
from rag_eval_pipeline.reporting.site.spreadsheet import spreadsheet
from rag_eval_pipeline.reporting.trust import NOT_CALIBRATED, TASKS

TILES = ("f1", "exact_match", "ndcg@10", "abstention_f1", "citation_jaccard", "judged_correct", "latency_p50_ms")
VALUE_LENGTH = 400  # code points of a setting
QUESTIONS_A_FILE = 40  # some 300 kB: one file is read in the time of a click


def write_run(
    site: SiteFolder,
    morning: Morning,
    run: RunSources,
    *,
    night: QuestionNight,
    before: QuestionNight | None,
    pictures: PagePictures | None,
) -> None:
    """Writes the pages of a run with its questions.

    Args:
        site: Where to.
        morning: The report's.
        run: What is shown.
        night: Its scores.
        before: The night before; None for the first.
        pictures: To draw pages with; None where the corpus is not what the run saw, or the run is not the newest.
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
    pictured = worth_looking_at(outcomes, changes) if pictures else set()
    for first in range(0, len(rows), QUESTIONS_A_FILE):
        details = []
        for place in range(first, min(first + QUESTIONS_A_FILE, len(rows))):
            row = rows[place]
            answer, query = run.answers[row.query_id], queries.get(row.query_id)
            drawn = pictures.of(placed_spans(answer, query)) if pictures and place in pictured else []
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
    doubt = _doubt(morning, run)
    title = f"{run.header.benchmark} × {run.header.system}"
    names = {name for row in rows for name in row.individual_metrics}
    judged = sorted(name for name in names if _is_judged(name, run))
    values = {"run": run.header, "title": title, "chunk": QUESTIONS_A_FILE, "doubt": doubt, "judged": judged}
    site.write(f"{folder}/question.html", render("question.html", root="../../", **values))
    latencies = [row.latency_ms for row in rows if row.status == "ok" and row.latency_ms is not None]
    write_run_page(site, morning, run.header, run=run, latencies=latencies, outcomes=outcomes)


def write_run_page(
    site: SiteFolder,
    morning: Morning,
    header: Any,
    *,
    run: RunSources | None = None,
    latencies: Sequence[float] = (),
    outcomes: Sequence[Outcome] = (),
) -> None:
    """Writes the page of a run's figures; without `run`, of an older one whose questions are not kept in the report."""
    nights = [
        one
        for one in morning.by_pair[header.benchmark, header.system]
        if one.evaluation_id not in morning.reruns or one.evaluation_id == header.evaluation_id
    ]
    place = next(n for n, other in enumerate(nights) if other.evaluation_id == header.evaluation_id)
    stats = header.performance_metrics.get("latency_stats", {})
    marks = [(name, stats[name]) for name in ("p50", "p95", "p99") if stats.get(name) is not None]
    values = {
        "run": header,
        "sources": run,
        "previous": nights[place - 1] if place else None,
        "rerun_of": morning.reruns.get(header.evaluation_id),
        "groups": figure_groups(header, run.file if run else RunFile(), morning.trust),
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
        "tiles": [shown(header, name, morning.trust) for name in TILES],
        "configuration": _configuration(run) if run else [],
    }
    site.write(f"runs/{header.evaluation_id}/index.html", render("run.html", root="../../", **values))


def _configuration(run: RunSources) -> list[tuple[str, str]]:
    """What is stated of the system; what is not stated is left out."""
    stated = ((name, value) for name, value in run.file.configuration.items() if value is not None)
    return [(name, shortened(_plain(value), VALUE_LENGTH)) for name, value in stated]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _doubt(morning: Morning, run: RunSources) -> str:
    """Why claims and verdicts of the run's judge are shown in grey; empty for a calibrated one, and without judge."""
    doubts = [morning.trust.doubt(run.header, name) for name in TASKS]
    return NOT_CALIBRATED if run.judgements and any(doubts) else ""


def _is_judged(name: str, run: RunSources) -> bool:
    return name in run.header.judge_metrics or figure_of(name).room == "claims"
