"""The leaderboard: the newest results of every benchmark and system as files, SVG and terminal tables."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from rag_eval_pipeline.judges.trust_card import TrustCard, is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.reporting.charts import Bar, bars
from rag_eval_pipeline.reporting.comparison import NOT_CALIBRATED, TASKS
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history, update_history
from rag_eval_pipeline.reporting.regressions import read_comparisons
from rag_eval_pipeline.storage.files import atomic_write, atomic_write_json
from rag_eval_pipeline.workspace import Workspace

COLUMNS = (
    "hit@1", "hit@5", "ndcg@10", "mrr", "exact_match", "f1", "abstention_f1", "citation_jaccard", "judged_correct",
    "faithfulness", "latency_p50_ms",
)  # fmt: skip


class Trust:
    """The trust cards of a workspace: whether a judge's metrics may be relied on is looked up when they are shown."""

    def __init__(self, cards: Sequence[TrustCard]) -> None:
        self._cards = cards

    @classmethod
    def of(cls, workspace: Workspace) -> "Trust":
        """Read the workspace's cards."""
        return cls(read_trust_cards(workspace.trust_cards))

    def doubt(self, row: ResultsHeader, column: str) -> str | None:
        """Return why a metric must not be relied on; None if it needs no judge or its judge is calibrated."""
        task = TASKS.get(column)
        if task is None:
            return None
        known = is_calibrated(
            self._cards, benchmark=row.benchmark, fingerprint=row.fingerprints.get("judge"), task=task
        )
        return None if known else NOT_CALIBRATED


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Newest results a pair, and where the files are."""

    rows: Sequence[ResultsHeader]
    path: Path
    notes: Sequence[str]
    trust: Trust

    @property
    def trends(self) -> dict[str, float | None]:
        """Figures named so that Dagster plots each as a line a night: `f1/<benchmark>/<system>`."""
        return {
            f"{column}/{row.benchmark}/{row.system}": row.metric(column).value
            for row in self.rows
            for column in COLUMNS
        }

    def cells(self) -> list[dict[str, Any]]:
        """A row a pair, figures to three digits, "-" where there is none, `/n` where not every question has a score."""
        return [
            {
                "benchmark": row.benchmark,
                "system": row.system,
                "questions": int(row.summary["total_queries"] or 0),
                "failed": int(row.summary["failed_queries"] or 0),
                "level": row.retrieval_level,
                **{column: _cell(row, column) for column in COLUMNS},
            }
            for row in self.rows
        ]

    def records(self) -> list[dict[str, Any]]:
        """A record a pair, as `leaderboard.json` has them: numbers, intervals, and null with a reason."""
        return [_record(row, self.trust) for row in self.rows]

    def chart(self) -> str:
        """F1 with its interval, a bar a pair, as SVG."""
        return bars([_bar(row) for row in self.rows], "F1 with 95 % intervals")


def write_leaderboard(workspace: Workspace) -> Leaderboard:
    """Reads the newest results, takes new ones into the history, and publishes `leaderboard.json` and its CSV."""
    faults = update_history(workspace)
    history = read_history(workspace)
    notes = list(dict.fromkeys((*history.damaged, *faults)))
    board = Leaderboard(history.newest(), workspace.reports / "leaderboard.json", notes, Trust.of(workspace))
    atomic_write_json(board.path, board.records())
    atomic_write(board.path.with_suffix(".csv"), _csv(board))
    return board


def read_leaderboard(workspace: Workspace) -> Leaderboard:
    """The same without writing anything."""
    history = read_history(workspace)
    return Leaderboard(history.newest(), workspace.reports / "leaderboard.json", history.damaged, Trust.of(workspace))


def _record(row: ResultsHeader, trust: Trust) -> dict[str, Any]:
    figures = {
        column: {
            "value": metric.value,
            "confidence_interval": metric.confidence_interval,
            "n": metric.n_scored,
            "reason": metric.reason,
            **({"doubt": doubt} if (doubt := trust.doubt(row, column)) else {}),
        }
        for column in COLUMNS
        for metric in [row.metric(column)]
    }
    return {
        "benchmark": row.benchmark,
        "system": row.system,
        "evaluation_id": row.evaluation_id,
        "timestamp": row.timestamp.isoformat(),
        "queries": row.summary["total_queries"],
        "failed": row.summary["failed_queries"],
        "retrieval_level": row.retrieval_level,
        "metrics": figures,
    }


def _csv(board: Leaderboard) -> bytes:
    """Names match `^[a-z0-9][a-z0-9_-]*$`, so no cell can be read as a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        ["benchmark", "system", "evaluation_id", "queries", "failed", "level", *COLUMNS, *(f"{c}_n" for c in COLUMNS)]
    )
    for row in board.rows:
        counts = [int(row.summary[name] or 0) for name in ("total_queries", "failed_queries")]
        figures = ["" if (value := row.metric(column).value) is None else value for column in COLUMNS]
        scored = [row.metric(column).n_scored for column in COLUMNS]
        facts = [row.benchmark, row.system, row.evaluation_id, *counts, row.retrieval_level]
        writer.writerow([*facts, *figures, *scored])
    return text.getvalue().encode()


def _bar(row: ResultsHeader) -> Bar:
    metric = row.metric("f1")
    return Bar(row.benchmark, row.system, metric.value, metric.confidence_interval)


def _cell(row: ResultsHeader, column: str) -> str:
    metric = row.metric(column)
    if metric.value is None:
        return "-"
    of = "" if metric.n_scored == row.summary["total_queries"] else f"/{metric.n_scored}"
    return f"{metric.value:.3f}{of}"


# Short headings: a table of 80 columns fits a terminal and a README.
SHOWN = {
    "questions": "n",
    "level": "by",
    "hit@1": "hit@1",
    "ndcg@10": "nDCG",
    "exact_match": "EM",
    "f1": "F1",
    "abstention_f1": "abst",
    "citation_jaccard": "cite",
}


def leaderboard_table(board: Leaderboard) -> Table:
    """One row per pair; where scores are of fewer questions than n, a line below a benchmark's systems counts them."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("benchmark", no_wrap=True)
    table.add_column("system", no_wrap=True)
    for heading in SHOWN.values():
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [cells | {"level": "page" if cells["level"] == "page" else "doc"} for cells in board.cells()]
    for cells, following in zip_longest(rows, rows[1:]):
        values, counts = zip(*(str(cells[name]).partition("/")[::2] for name in SHOWN), strict=True)
        table.add_row(cells["benchmark"], cells["system"], *values)
        if any(counts) and (following is None or _counts(following) != _counts(cells)):
            table.add_row("  questions scored", "", *counts, style="dim")
    return table


def _counts(cells: dict[str, Any]) -> list[str]:
    return [cells["benchmark"], *(str(cells[name]).partition("/")[2] for name in SHOWN)]


def verdict_lines(workspace: Workspace) -> Iterator[str]:
    """One line a comparison of two systems: its strongest words, else on what moved most, or why there is none."""
    for row in read_comparisons(workspace).rows:
        if row.kind != "systems":
            continue
        head = f"{row.benchmark}: {row.new} against {row.old}: "
        moved = [found for found in row.verdicts.values() if found.kind in ("regressed", "improved")]
        if row.reason:
            yield head + row.reason
        elif moved:
            yield head + " ".join(found.sentence for found in moved)
        else:
            name, found = max(row.verdicts.items(), key=lambda item: abs(item[1].evidence.estimate or 0.0))
            yield f"{head}{metric_label(name)}: {found.sentence}"
