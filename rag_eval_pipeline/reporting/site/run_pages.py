"""The pages of one run: its figures, its table of questions, each question's details, and the CSV of all."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rag_eval_pipeline.reporting.history import MetricHeader
from rag_eval_pipeline.reporting.site.details import placed_spans, question_details
from rag_eval_pipeline.reporting.site.figures import Shown, figure_of, shown
from rag_eval_pipeline.reporting.site.folder import SiteFolder
from rag_eval_pipeline.reporting.site.inert import data_script, inert, shortened
from rag_eval_pipeline.reporting.site.latency_charts import latency_histogram
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.page_pictures import PagePictures
from rag_eval_pipeline.reporting.site.question_nights import QuestionNight, change
from rag_eval_pipeline.reporting.site.questions import GOOD, OUTCOMES, Outcome, QuestionRow, rank_measure
from rag_eval_pipeline.reporting.site.rendering import render
from rag_eval_pipeline.reporting.site.run_sources import RunSources
from rag_eval_pipeline.reporting.site.spreadsheet import Cell, spreadsheet
from rag_eval_pipeline.reporting.trust import NOT_CALIBRATED, TASKS

QUESTIONS_A_FILE = 40  # some 300 kB: one file is read in the time of a click
PICTURED_QUESTIONS = 12  # a run: changed most, then wrong, then the first
TEXT_IN_TABLE = 240  # code points; the whole text is on the question's page

_WORDS = list(OUTCOMES.items())
_PLACE = {name: place for place, name in enumerate(OUTCOMES)}


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
    site.write(f"{folder}/data/questions.js", data_script("questions", _table(run, outcomes, changes)))
    site.write(f"{folder}/questions.csv", spreadsheet(*_sheet(run, outcomes, changes)))
    pictured = _worth_looking_at(outcomes, changes) if pictures else set()
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
    judged = sorted({name for row in rows for name in row.individual_metrics} & _judged_names(run))
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
    nights = morning.by_pair[header.benchmark, header.system]
    place = next(n for n, other in enumerate(nights) if other.evaluation_id == header.evaluation_id)
    stats = header.performance_metrics.get("latency_stats", {})
    marks = [(name, stats[name]) for name in ("p50", "p95", "p99") if stats.get(name) is not None]
    values = {
        "run": header,
        "sources": run,
        "previous": nights[place - 1] if place else None,
        "groups": list(_groups(morning, header)),
        "abstention": header.answer_quality_metrics.get("abstention", {}),
        "stats": stats,
        "usage": header.performance_metrics.get("api_usage", {}),
        "judge_usage": header.performance_metrics.get("judge_usage", {}),
        "reused_from": header.performance_metrics.get("reused_from"),
        "latency_chart": latency_histogram(latencies, marks, "Latency of the answered questions")
        if latencies
        else None,
        "outcomes": [(name, label, outcomes.count(name)) for name, label in OUTCOMES.items() if name in outcomes],
        "n_outcomes": len(outcomes),
        "tiles": [shown(header, name, morning.trust) for name in _tiles(header)],
        "system_place": morning.systems.index(header.system),
    }
    site.write(f"runs/{header.evaluation_id}/index.html", render("run.html", root="../../", **values))


def _tiles(header: Any) -> list[str]:
    return ["f1", "exact_match", "ndcg@10", "abstention_f1", "citation_jaccard", "judged_correct", "latency_p50_ms"]


def _groups(morning: Morning, header: Any) -> Iterator[tuple[str, list[Shown]]]:
    """Figures by kind, each kind with a heading; kinds without figures are left out."""
    doubts = morning.trust

    def group(metrics: Any, *, is_judged: bool = False) -> list[Shown]:
        rows = []
        for name, metric in metrics.items():
            doubt = doubts.doubt(header, name if name in TASKS else "judged_correct") if is_judged else None
            rows.append(Shown(figure_of(name), metric, doubt if metric.value is not None else None))
        return rows

    is_page = header.retrieval_level == "page"
    document = ("Retrieval, by document", group(header.retrieval_metrics))
    page = ("Retrieval, by page", group(header.page_retrieval_metrics))
    yield from (page, document) if is_page else (document, page)
    quality = header.answer_quality_metrics
    answers = ("exact_match", "f1", "answerable_exact_match", "answerable_f1", "unanswerable_exact_match")
    yield "Answers", [_shown_raw(name, quality.get(name)) for name in answers if name in quality]
    spans = header.citation_metrics.get("span_accuracy", {})
    cited = [_shown_raw(f"span {name}", spans[name]) for name in ("precision", "recall", "f1") if spans.get(name)]
    yield "Citations", [shown(header, "citation_jaccard", doubts), *cited]
    judged = group(header.judge_metrics, is_judged=True)
    if judged:
        yield "The judge", judged


def _shown_raw(name: str, raw: Any) -> Shown:
    return Shown(figure_of(name), msgspec.convert(raw, MetricHeader), None)


def _doubt(morning: Morning, run: RunSources) -> str:
    """Why claims and verdicts of the run's judge are shown in grey; empty for a calibrated one, and without judge."""
    doubts = [morning.trust.doubt(run.header, name) for name in TASKS]
    return NOT_CALIBRATED if run.judgements and any(doubts) else ""


def _judged_names(run: RunSources) -> set[str]:
    return {*run.header.judge_metrics, "factual_consistency", "claims", "citations", "resolved_claims"}


def _table(run: RunSources, outcomes: Sequence[Outcome], changes: Sequence[float | None]) -> dict[str, Any]:
    """The table of questions as the page of a run loads it, a list a column."""
    rows = run.file.query_results
    rank = rank_measure(run.header.retrieval_level)
    columns: list[tuple[str, str, str, list[Any]]] = [
        ("id", "Id", "id", [inert(row.query_id) for row in rows]),
        ("outcome", "Outcome", "outcome", [_PLACE[outcome] for outcome in outcomes]),
        ("question", "Question", "text", [shortened(row.query_text, TEXT_IN_TABLE) for row in rows]),
        ("answer", "Answer", "text", [shortened(_answer_text(row), TEXT_IN_TABLE) for row in rows]),
        ("f1", "F1", "number", [_rounded(row.score("f1")) for row in rows]),
        ("rank", "nDCG@10", "number", [_rounded(row.score(rank)) for row in rows]),
        ("citation", "Citations", "number", [_rounded(row.score("citation_span_accuracy")) for row in rows]),
        ("change", "Δ F1", "points", [_rounded(value) for value in changes]),
        ("latency", "Latency", "ms", [_rounded(row.latency_ms) for row in rows]),
    ]
    return {
        "caption": "Questions of this run",
        "columns": [_column(name, label, kind) for name, label, kind, _ in columns],
        "values": [values for *_, values in columns],
        "filters": [{"column": "outcome", "label": "Outcome"}, {"column": "change", "label": "Since the night before"}],
        "links": [{"column": "question", "href": "question.html#"}],
    }


def _column(name: str, label: str, kind: str) -> dict[str, Any]:
    meanings = {
        "f1": "Words shared with the gold answer",
        "rank": "How high the relevant documents stand",
        "citation": "Overlap of cited and gold spans",
        "change": "F1 less that of the night before, in points",
    }
    column: dict[str, Any] = {"name": name, "label": label, "kind": kind}
    if name in meanings:
        column["meaning"] = meanings[name]
    if kind == "outcome":
        column["words"] = _WORDS
    return column


def _answer_text(row: QuestionRow) -> str:
    return row.generated_answer if row.generated_answer is not None else row.error or ""


def _sheet(
    run: RunSources, outcomes: Sequence[Outcome], changes: Sequence[float | None]
) -> tuple[list[str], Iterator[list[Cell]]]:
    """The same as a spreadsheet, texts whole and every score in a column."""
    rows = run.file.query_results
    names = list(dict.fromkeys(name for row in rows for name in row.individual_metrics))
    header = ["query_id", "outcome", "status", "question", "answer", "error", "latency_ms", "change_f1", *names]

    def cells() -> Iterator[list[Cell]]:
        for row, outcome, moved in zip(rows, outcomes, changes, strict=True):
            texts: list[Cell] = [
                row.query_id,
                OUTCOMES[outcome],
                row.status,
                row.query_text,
                row.generated_answer,
                row.error,
            ]
            yield [*texts, row.latency_ms, moved, *(row.score(name) for name in names)]

    return header, cells()


def _worth_looking_at(outcomes: Sequence[Outcome], changes: Sequence[float | None]) -> set[int]:
    """Questions whose pages are drawn: those that changed most, then those that went wrong, then the first."""

    def order(place: int) -> tuple[float, bool, int]:
        return -abs(changes[place] or 0.0), outcomes[place] in GOOD, place

    return set(sorted(range(len(outcomes)), key=order)[:PICTURED_QUESTIONS])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
