"""The pages of a run: its metrics, its questions, and the page of one question."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import msgspec

from rag_eval_pipeline.evaluation.compared_runs import TASKS
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.judges.corrected_rates import labelling_order
from rag_eval_pipeline.metrics.claims import FACT_COUNTS, FACT_MEASURES
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.leaderboard import HEADLINE
from rag_eval_pipeline.monitoring.verdict_records import NOT_CALIBRATED
from rag_eval_pipeline.site.baseline_runs import Earlier, PairBaseline, TileChange, run_banner, tile_changes
from rag_eval_pipeline.site.charts import latency_histogram
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.display_text import data_script, replace_control_chars, shortened, spreadsheet
from rag_eval_pipeline.site.marked_pages import PageImages, likely_spans, stated_spans
from rag_eval_pipeline.site.metric_labels import (
    CATEGORY_HEADINGS,
    PAGE,
    MetricCell,
    custom_metric_view,
    metric_groups,
    metric_view,
    shown,
)
from rag_eval_pipeline.site.page_writer import SiteFolder, render
from rag_eval_pipeline.site.question_nights import QuestionNight
from rag_eval_pipeline.site.question_page import Details, question_details
from rag_eval_pipeline.site.question_table import Facet, Slice, facets, question_sheet, question_table, slices
from rag_eval_pipeline.site.run_data import QuestionRow, RunFile, RunSources, rank_measure

TILES = HEADLINE
FIRST_SCORES = ("exact_match", "f1", "citation_span_accuracy", "judged_correct", "strict_vital_score", "faithfulness")
VALUE_LENGTH = 400  # code points of a setting
# Why a question has no pictures, and after the mark the command to which its id belongs.
SOME_PICTURED = (
    "No page is drawn for this question: first come those that changed most, then the wrong ones. "
    "To have its pages too: `rag-eval report --question"
)
RUN_UNPICTURED = "Pages are drawn only for the newest run, the last one of the baseline, and runs with an alert."
CORPUS_CHANGED = "The documents have changed since this run."
QUESTIONS_A_FILE = 40  # some 300 kB: one file is read in the time of a click


def write_run(
    site: SiteFolder,
    report: ReportData,
    run: RunSources,
    *,
    night: QuestionNight,
    earlier: Earlier | None,
    baseline: PairBaseline,
    pictures: PageImages | None,
    pictured: Collection[str] = (),
) -> None:
    """Write the pages of a run with its questions.

    Args:
        earlier: What its questions are compared with; None for the first run.
        pictures: None if the corpus is not what the run saw, or pages of this run are not drawn.
        pictured: The questions whose pages are drawn, in this order while there is room.
    """
    folder = f"runs/{run.header.evaluation_id}"
    moved = earlier.changes(night) if earlier else {}
    latencies = array("d")
    measures = ("exact_match", "f1", rank_measure(run.header.retrieval_level), "citation_span_accuracy")
    scores: dict[str, list[float | None]] = {name: [] for name in measures}
    known: dict[float | None, float | None] = {}  # each number once: most scores are 0 or 1
    changes = []

    def queries() -> Iterator[EvaluationQuery | None]:
        for row in run.rows:
            if row.status == "ok" and row.latency_ms is not None:
                latencies.append(row.latency_ms)
            changes.append(moved.get(row.query_id))
            for name, column in scores.items():
                score = row.score(name)
                column.append(known.setdefault(score, score))
            yield run.dataset.query(row.query_id)

    found = facets(queries())
    shown_facets = [facet._replace(values=list(compress(facet.values, run.is_shown))) for facet in found]
    table = question_table(run, night, earlier, moved, shown_facets)
    table["label"] = _labelling_order(report, run)
    site.write(f"{folder}/data/questions.js", data_script("questions", table))
    pages = ["question", "conversation"] if "conversations" in table else ["question"]
    del table
    site.write_lines(f"{folder}/questions.csv", spreadsheet(*question_sheet(run, night, earlier, moved)))
    by_id = {row.query_id: row for row in run.shown if row.query_id in pictured}
    drawn = {name: run_details(run, night, by_id[name], earlier, pictures) for name in pictured if name in by_id}
    for first in range(0, len(run.shown), QUESTIONS_A_FILE):
        details = [
            drawn.get(row.query_id) or run_details(run, night, row, earlier, None)
            for row in run.shown[first : first + QUESTIONS_A_FILE]
        ]
        name = f"details-{first // QUESTIONS_A_FILE:03d}"
        site.write(f"{folder}/data/{name}.js", data_script(name, details))
    if pictures:
        site.keep(sorted(pictures.used))
    unpictured = SOME_PICTURED if pictures else RUN_UNPICTURED if run.dataset.has_corpus else CORPUS_CHANGED
    values = question_values(report, run) | {"chunk": QUESTIONS_A_FILE, "unpictured": unpictured}
    for kind in pages:
        site.write(f"{folder}/{kind}.html", render("question.html", root="../../", kind=kind, **values))
    sliced = {name: column for name, column in scores.items() if any(value is not None for value in column)}
    parts = [(facet, slices(facet, changes, list(sliced.values()))) for facet in found]
    parts.sort(key=lambda part: (part[0].name == "document", -_spread(part[1])))
    write_run_page(
        site, report, run.header, baseline=baseline, run=run, latencies=latencies, parts=parts, sliced=list(sliced)
    )


def run_details(
    run: RunSources, night: QuestionNight, row: QuestionRow, earlier: Earlier | None, pictures: PageImages | None
) -> Details:
    """Return the data of a question's page; `pictures` is None if its pages are not drawn."""
    answer, query, texts = run.answers[row.query_id], run.dataset.queries.get(row.query_id), run.dataset.texts
    drawn = pictures.of([*stated_spans(answer, query), *likely_spans(answer, query, texts)]) if pictures else []
    judged = run.judgements.get(row.query_id)
    outcome = night.outcome(row.query_id, query)
    return question_details(
        row, answer, query, judged, outcome=outcome, texts=texts, pictures=drawn, earlier=earlier,
        history=run.history(query) if query else (),
    )  # fmt: skip


def question_values(report: ReportData, run: RunSources) -> dict[str, Any]:
    """Return what the pages of a run's questions have in common."""
    # Claims and verdicts of a judge that is not calibrated are shown in grey.
    is_doubted = run.judgements and any(report.trust.doubt(run.header, name) for name in TASKS)
    names = set(run.metrics)
    if not report.trust.doubt(run.header, "strict_vital_score"):
        names -= {*FACT_MEASURES, *FACT_COUNTS}  # which need no labels, as other scores by rules
    level = PAGE if run.header.retrieval_level == "page" else ""
    return {
        "run": run.header,
        "history": run.header.fingerprints.get("history") or "gold",
        "title": f"{run.header.benchmark} × {run.header.system}",
        "doubt": NOT_CALIBRATED if is_doubted else "",
        "judged": [n for n in sorted(names) if n in run.header.judge_metrics or metric_view(n).category == "claims"],
        "rerun_of": report.reruns.get(run.header.evaluation_id),
        "first_scores": [*FIRST_SCORES, *(f"{level}{name}" for name in ("hit@1", "hit@5", "ndcg@10", "mrr"))],
    }


def _labelling_order(report: ReportData, run: RunSources) -> list[str]:
    """Return the questions whose labels are worth most, without those that are labelled."""
    given = report.labelled(run.header.evaluation_id)
    judged = ((row.query_id, run.judgements.get(row.query_id)) for row in run.shown)
    passed = {
        query_id: one.correctness.verdict == "correct"
        for query_id, one in judged
        if one is not None and one.correctness is not None and query_id not in given
    }
    return [replace_control_chars(name) for name in labelling_order(passed, report.trust.labels(run.header))]


def _spread(parts: Sequence[Slice]) -> float:
    """Return by how much the changes of parts differ: where it is large, one of them is the cause."""
    changes = [part.change for part in parts if part.change is not None]
    return max(changes, default=0.0) - min(changes, default=0.0)


def write_run_page(
    site: SiteFolder,
    report: ReportData,
    header: ResultsHeader,
    *,
    baseline: PairBaseline,
    run: RunSources | None = None,
    latencies: Sequence[float] = (),
    parts: Sequence[tuple[Facet, Sequence[Slice]]] = (),
    sliced: Sequence[str] = (),
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
    groups = metric_groups(header, run.file if run else RunFile(), report.trust)
    values = {
        "run": header,
        "sources": run,
        "previous": nights[place - 1] if place else None,
        "rerun_of": report.reruns.get(header.evaluation_id),
        "banner": run_banner(report, header, baseline),
        "n_baseline": len(baseline.runs),
        "provisional": baseline.provisional,
        "groups": groups,
        "n_metrics": sum(len(group.rows) for group in groups),
        "abstention": header.answer_quality_metrics.get("abstention", {}),
        "stats": stats,
        "latency_limits": header.performance_metrics.get("latency_intervals", {}),
        "in_flight": header.performance_metrics.get("in_flight"),
        "usage": header.performance_metrics.get("api_usage", {}),
        "judge_usage": header.performance_metrics.get("judge_usage", {}),
        "reused_from": header.performance_metrics.get("reused_from"),
        "latency_chart": latency_histogram(latencies, marks, "Latency of the answered questions")
        if latencies
        else None,
        "tiles": _tiles(report, header, baseline),
        "parts": parts,
        "sliced": [metric_view(name) for name in sliced],
        "n_shown": len(run.shown) if run else 0,
        "n_rows": len(run.rows) if run else 0,
        "configuration": _configuration(run) if run else [],
    }
    site.write(f"runs/{header.evaluation_id}/index.html", render("run.html", root="../../", **values))


def _tiles(
    report: ReportData, header: ResultsHeader, baseline: PairBaseline
) -> list[tuple[MetricCell, TileChange | None, bool]]:
    """Return the headline metrics, each with its change and whether it says little, those with a verdict first."""
    changes = tile_changes(report, header, baseline, TILES)
    tiles = []
    for name in TILES:
        if (cell := shown(header, name, report.trust)).metric.value is not None:
            change = changes.get(name)
            has_verdict = change is not None and change.way != ""
            is_quiet = cell.view.unit == "ms" or cell.view.better == "lower" and not cell.metric.value
            tiles.append((cell, change, is_quiet and not has_verdict))
    ways = ("worse", "better", "")
    return sorted(tiles, key=lambda tile: (tile[2], ways.index(tile[1].way if tile[1] else "")))


def _configuration(run: RunSources) -> list[tuple[str, str]]:
    stated = {name: value for name, value in run.file.configuration.items() if value is not None}
    texts = {name: v if isinstance(v, str) else msgspec.json.encode(v).decode() for name, v in stated.items()}
    return [(name, shortened(text, VALUE_LENGTH)) for name, text in texts.items()]


def metric_meanings(metrics: Iterable[str], file: RunFile) -> dict[str, tuple[str, str, str]]:
    """Return label, meaning with direction, and heading of metrics."""
    found = {}
    for name in metrics:
        custom = file.custom_metrics.get(name)
        view = custom_metric_view(name, custom) if custom else metric_view(name)
        heading = "Retrieval, by page" if name.startswith(PAGE) else CATEGORY_HEADINGS[view.category]
        way = f"{view.way.capitalize()}." if view.way else ""
        label, meaning = map(replace_control_chars, (view.label, f"{view.meaning} {way}".strip()))
        found[replace_control_chars(name)] = label, meaning, heading
    return found
