"""The questions of a run as its page's table and as a spreadsheet, and those whose pages are worth drawing."""

from collections.abc import Iterator, Sequence
from typing import Any

from rag_eval_pipeline.reporting.site.inert import inert, shortened
from rag_eval_pipeline.reporting.site.questions import GOOD, OUTCOMES, Outcome, QuestionRow, rank_measure
from rag_eval_pipeline.reporting.site.run_sources import RunSources
from rag_eval_pipeline.reporting.site.spreadsheet import Cell

PICTURED_QUESTIONS = 12  # a run: changed most, then wrong, then the first
TEXT_IN_TABLE = 240  # code points; the whole text is on the question's page

_WORDS = list(OUTCOMES.items())
_PLACE = {name: place for place, name in enumerate(OUTCOMES)}
_MEANINGS = {
    "f1": "Words shared with the gold answer",
    "rank": "How high the relevant documents stand",
    "citation": "Overlap of cited and gold spans",
    "change": "F1 less that of the night before, in points",
}


def question_table(run: RunSources, outcomes: Sequence[Outcome], changes: Sequence[float | None]) -> dict[str, Any]:
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
    column: dict[str, Any] = {"name": name, "label": label, "kind": kind}
    if name in _MEANINGS:
        column["meaning"] = _MEANINGS[name]
    if kind == "outcome":
        column["words"] = _WORDS
    return column


def _answer_text(row: QuestionRow) -> str:
    return row.generated_answer if row.generated_answer is not None else row.error or ""


def question_sheet(
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


def worth_looking_at(outcomes: Sequence[Outcome], changes: Sequence[float | None]) -> set[int]:
    """Questions whose pages are drawn: those that changed most, then those that went wrong, then the first."""

    def order(place: int) -> tuple[float, bool, int]:
        return -abs(changes[place] or 0.0), outcomes[place] in GOOD, place

    return set(sorted(range(len(outcomes)), key=order)[:PICTURED_QUESTIONS])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
