"""The HTML report: one file without script, font or network, so that it can be mailed and opened anywhere.

Questions and answers come from outside; the template escapes everything, and the page's policy forbids what slips
through.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.publishing import results_path
from rag_eval_pipeline.reporting.comparison import Comparison, read_comparisons
from rag_eval_pipeline.reporting.history import ResultsHeader
from rag_eval_pipeline.reporting.leaderboard import COLUMNS, Leaderboard, read_leaderboard
from rag_eval_pipeline.storage.atomic import atomic_write
from rag_eval_pipeline.workspace import Workspace

QUESTIONS_SHOWN = 100  # a benchmark; more are in the results files
GRID = "f1"


class QuestionRow(msgspec.Struct, frozen=True):
    """What the report shows of a question."""

    query_id: str
    query_text: str
    status: str
    generated_answer: str | None
    abstained: bool
    individual_metrics: dict[str, float | None]
    error: str | None = None


class _Questions(msgspec.Struct, frozen=True):
    query_results: list[QuestionRow]


def write_report(workspace: Workspace) -> Path:
    """Publishes `index.html` and returns its path."""
    path = workspace.reports / "index.html"
    atomic_write(path, render_report(workspace).encode())
    return path


def render_report(workspace: Workspace) -> str:
    """The report as HTML; equal results give equal text."""
    import jinja2

    board = read_leaderboard(workspace)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rag_eval_pipeline.reporting", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["figure"] = figure
    return environment.get_template("report.html").render(
        board=board,
        columns=COLUMNS,
        grid=_grid(board),
        grid_column=GRID,
        comparisons=read_comparisons(workspace).rows,
        comparison_rank=_rank,
        conversions=_conversions(workspace, board),
        questions=_questions(workspace, board),
        shown=QUESTIONS_SHOWN,
        newest=max((row.timestamp for row in board.rows), default=None),
    )


def figure(value: float | None, digits: int = 3) -> str:
    """A figure to three digits; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def _grid(board: Leaderboard) -> dict[str, dict[str, ResultsHeader]]:
    """Benchmark -> system -> results."""
    grid: dict[str, dict[str, ResultsHeader]] = {}
    for row in board.rows:
        grid.setdefault(row.benchmark, {})[row.system] = row
    return grid


def _rank(comparison: Comparison) -> int:
    """Regressions first, then improvements, then the rest."""
    kinds = {found.kind for found in comparison.verdicts.values()}
    return 0 if "regressed" in kinds else 1 if "improved" in kinds else 2


def _conversions(workspace: Workspace, board: Leaderboard) -> dict[str, Stamp]:
    stamps = {}
    for name in dict.fromkeys(row.benchmark for row in board.rows):
        try:
            stamps[name] = Stamp.read(workspace.benchmark(name).stamp)
        except InputError:
            continue  # converted before and edited since: its results are still the newest there are
    return stamps


def _questions(workspace: Workspace, board: Leaderboard) -> dict[str, list[dict[str, Any]]]:
    """Benchmark -> its questions with each system's answer; the ones on which systems differ most come first."""
    answers: dict[str, dict[str, dict[str, QuestionRow]]] = {}
    for row in board.rows:
        try:
            questions = _rows(results_path(workspace, row.evaluation_id))
        except (msgspec.MsgspecError, OSError):
            continue  # its figures are shown; a question of it cannot be read
        for question in questions:
            answers.setdefault(row.benchmark, {}).setdefault(question.query_id, {})[row.system] = question
    shown = {}
    for benchmark, asked in answers.items():
        ids = sorted(asked, key=lambda query_id: (-_spread(asked[query_id].values()), _natural(query_id)))
        shown[benchmark] = [
            {"id": query_id, "text": next(iter(by_system.values())).query_text, "by_system": by_system}
            for query_id in ids[:QUESTIONS_SHOWN]
            for by_system in [asked[query_id]]
        ]
    return shown


def _rows(path: Path) -> Sequence[QuestionRow]:
    return msgspec.json.decode(path.read_bytes(), type=_Questions).query_results


def _spread(rows: Iterable[QuestionRow]) -> float:
    values = [value for row in rows if (value := row.individual_metrics.get("f1")) is not None]
    return max(values) - min(values) if values else 0.0


def _natural(query_id: str) -> tuple[int, str]:
    return (int(query_id) if query_id.isdecimal() else 0, query_id)
