"""The leaderboard: the newest results of every benchmark and system as files, SVG and terminal tables."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich import box
from rich.table import Table
from rich.text import Text

from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS
from rag_eval_pipeline.evaluation.compared_runs import task_of
from rag_eval_pipeline.formats.results import CorrectedRate, Metric
from rag_eval_pipeline.judges.agreement import Confusion
from rag_eval_pipeline.judges.corrected_rates import LabelledAnswers, correction, labelled_evaluations
from rag_eval_pipeline.judges.trust_card import TrustCard, is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, find_metric_info, metric_label, scored_share
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE
from rag_eval_pipeline.monitoring.history import History, ResultsHeader, read_history
from rag_eval_pipeline.monitoring.history_tables import history_with_events
from rag_eval_pipeline.monitoring.verdict_records import NOT_CALIBRATED, Verdict, format_points, read_comparison_rows
from rag_eval_pipeline.storage.atomic_files import atomic_write, atomic_write_json
from rag_eval_pipeline.workspace import Workspace

WIDTH, LABEL, ROW, TOP = 760, 250, 18, 36
COLOUR, FAINT = "#2f6f9f", "#777"


class Bar(NamedTuple):
    """A share in [0, 1] with its interval."""

    name: str
    value: float | None
    interval: tuple[float, float] | None


def bars(rows: Sequence[Bar], title: str) -> str:
    """Draw horizontal bars from 0 to 1 as SVG; a bar without a value is labelled "no value"."""
    height = TOP + ROW * len(rows)
    parts = [_text(0, 14, title, weight="bold")]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path d="M{_x(tick):.1f} {TOP}V{height}" stroke="#ddd"/>')
        parts.append(_text(_x(tick) - 6, 30, f"{tick:g}", colour=FAINT))
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        parts.append(_text(14, y + 13, row.name))
        if row.value is None:
            parts.append(_text(LABEL, y + 13, "no value", colour=FAINT))
            continue
        end, length = _x(row.value), _x(row.value) - LABEL
        parts.append(f'<rect x="{LABEL}" y="{y + 2}" width="{length:.1f}" height="{ROW - 5}" fill="{COLOUR}"/>')
        if row.interval is not None:
            low, high = (_x(limit) for limit in row.interval)
            parts.append(f'<path d="M{low:.1f} {y + 8.5}H{high:.1f}" stroke="#222" stroke-width="1.5"/>')
            end = max(end, high)
        parts.append(_text(end + 6, y + 13, f"{row.value:.3f}"))
    size = f'width="{WIDTH}" height="{height + 8}" viewBox="0 0 {WIDTH} {height + 8}"'
    style = "font-family:system-ui,sans-serif;font-size:12px"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}">{"".join(parts)}</svg>'


def metric_bars(metrics: Mapping[str, Metric], title: str) -> str:
    """Draw a bar for each metric, with its interval."""
    return bars([Bar(name, metric.value, metric.confidence_interval) for name, metric in metrics.items()], title)


def _x(value: float) -> float:
    return LABEL + (WIDTH - LABEL - 60) * value


def _text(x: float, y: float, text: str, *, weight: str = "normal", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'


COLUMNS = (
    "hit@1", "hit@5", "ndcg@10", "mrr", "exact_match", "f1", "abstention_f1", "citation_jaccard", "judged_correct",
    "strict_vital_score", "faithfulness", "latency_p50_ms",
)  # fmt: skip

# What pages, alerts and Dagster show first, in this order; all other metrics are folded. Files have `COLUMNS`.
HEADLINE = (
    "exact_match", "f1", "judged_correct", "strict_vital_score", "abstention_f1", "tolerance_jaccard", "faithfulness",
    "hit@1", "hit@5", "ndcg@10", "mrr", FAILURE_RATE, "latency_p50_ms",
)  # fmt: skip


class Trust:
    """The trust cards of a workspace: whether a judge's metrics may be relied on."""

    def __init__(self, cards: Sequence[TrustCard]) -> None:
        self._cards = cards

    @classmethod
    def of(cls, workspace: Workspace) -> "Trust":
        """Read the workspace's cards."""
        return cls(read_trust_cards(workspace.trust_cards))

    def doubt(self, row: ResultsHeader, column: str) -> str | None:
        """Return why a metric must not be relied on; None if it needs no judge or its judge is calibrated."""
        task = task_of(column, row.fingerprints.get("judge"))
        if task is None:
            return None
        known = is_calibrated(
            self._cards, benchmark=row.benchmark, fingerprint=row.fingerprints.get("judge"), task=task
        )
        return None if known else NOT_CALIBRATED

    def corrected(self, row: ResultsHeader, column: str) -> CorrectedRate | None:
        """Return a judge's rate corrected by people's labels, as they are now; None without enough of them."""
        if column != "judged_correct":
            return None
        metric = row.metric(column)
        return correction(
            self._cards, benchmark=row.benchmark, fingerprint=row.fingerprints.get("judge"), system=row.system,
            models=row.judge_models, answers_of=(row.evaluation_id, row.performance_metrics.get("reused_from")),
            rate=metric.value, interval=metric.confidence_interval,
        )  # fmt: skip

    def labels(self, row: ResultsHeader) -> Confusion | None:
        """Return the labels of an evaluation's answers against the judge's verdicts; None without any."""
        fingerprint = row.fingerprints.get("judge")
        found = labelled_evaluations(self._cards, benchmark=row.benchmark, fingerprint=fingerprint)
        own = [part for part in found[0] if part.evaluation == row.evaluation_id] if found else []
        return LabelledAnswers.pooled(own).table if own else None


class RankedRow(NamedTuple):
    """A system on a benchmark, and the metrics in which no system on it is better."""

    row: ResultsHeader
    best: frozenset[str]


def main_metric(rows: Iterable[ResultsHeader], trust: Trust) -> str:
    """Return the first metric of `HEADLINE` that is not 0 in all of the rows and that needs no uncalibrated judge."""
    rows = list(rows)
    scores = [name for name in HEADLINE if not is_lower_better(name)]
    return next((name for name in scores if any(_trusted_value(row, name, trust) for row in rows)), HEADLINE[0])


def ranked(rows: Iterable[ResultsHeader], trust: Trust, *, by: str | None = None) -> list[RankedRow]:
    """Return rows by benchmark, on each the best system first, with what each is best in.

    Retrieval is compared by page only where all systems of a benchmark have pages; else all rows are by document.

    Args:
        by: The metric that is sorted by; `main_metric` of the benchmark by default.
    """
    found = []
    for _, group in groupby(sorted(rows, key=lambda row: row.benchmark), key=lambda row: row.benchmark):
        same = list(group)
        level = "page" if all(row.retrieval_level == "page" for row in same) else "document"
        same = [
            row if row.retrieval_level == level else msgspec.structs.replace(row, retrieval_level=level) for row in same
        ]
        best = {name: _best(same, name, trust) for name in HEADLINE}
        metric = by or main_metric(same, trust)
        same.sort(key=lambda row: (_rank_key(row, metric, trust), row.system))
        found += [
            RankedRow(row, frozenset(n for n, value in best.items() if None is not value == row.metric(n).value))
            for row in same
        ]
    return found


def _best(rows: Sequence[ResultsHeader], name: str, trust: Trust) -> float | None:
    """Return the best value of a metric; None if fewer than two rows have one or all are equal."""
    values = [value for row in rows if (value := _trusted_value(row, name, trust)) is not None]
    if len(values) < 2 or len(set(values)) == 1:
        return None
    return min(values) if is_lower_better(name) else max(values)


def _trusted_value(row: ResultsHeader, name: str, trust: Trust) -> float | None:
    return None if trust.doubt(row, name) else row.metric(name).value


def _rank_key(row: ResultsHeader, name: str, trust: Trust) -> tuple[bool, bool, float]:
    value, is_doubted = row.metric(name).value, trust.doubt(row, name) is not None
    return value is None, is_doubted, (value or 0.0) * (1 if is_lower_better(name) else -1)


def is_lower_better(name: str) -> bool:
    """Return whether small values of a metric are good."""
    info = find_metric_info(name)
    return info is not None and info.direction == "lower"


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The newest night of each pair; reruns, which only confirm it, are left out.

    Args:
        changes: Evaluation -> metric -> verdict against the baseline, as `regressions.json` has them.
    """

    rows: Sequence[ResultsHeader]
    path: Path
    notes: Sequence[str]
    trust: Trust
    changes: Mapping[str, Mapping[str, Verdict]] = field(default_factory=dict)

    @property
    def trends(self) -> dict[str, float | None]:
        """Return the metrics by names such as `f1/<benchmark>/<system>`, which Dagster plots over nights."""
        return {
            f"{name}/{row.benchmark}/{row.system}": row.metric(name).value for row in self.rows for name in HEADLINE
        }

    def cells(self) -> list[dict[str, Any]]:
        """Return a table row for each pair: "-" without a value, `/n` if not every question has a score."""
        return [
            {
                "benchmark": row.benchmark,
                "system": row.system,
                "questions": int(row.summary["total_queries"] or 0),
                "failed": int(row.summary["failed_queries"] or 0),
                "level": row.retrieval_level,
                **{name: _cell(row, name) for name in HEADLINE},
            }
            for row in self.rows
        ]

    def records(self) -> list[dict[str, Any]]:
        """Return the records of `leaderboard.json`: numbers, intervals, and null with a reason."""
        return [_record(row, self.trust) for row in self.rows]

    def csv(self) -> str:
        """Return the rows of `leaderboard.csv`."""
        return _csv(self).decode()

    def chart(self) -> str:
        """Draw F1 with its interval for each pair as SVG."""
        metrics = [(f"{row.system} on {row.benchmark}", row.metric("f1")) for row in self.rows]
        return bars([Bar(name, f1.value, f1.confidence_interval) for name, f1 in metrics], "F1 with 95 % intervals")


def write_leaderboard(workspace: Workspace, history: History | None = None) -> Leaderboard:
    """Write `leaderboard.json` and its CSV.

    Args:
        history: Of the workspace as it is now; when left out, it is read, and the events of new results are written.
    """
    board = _leaderboard(workspace, history or history_with_events(workspace))
    atomic_write_json(board.path, board.records())
    atomic_write(board.path.with_suffix(".csv"), _csv(board))
    return board


def read_leaderboard(workspace: Workspace) -> Leaderboard:
    """Read the newest results without writing the leaderboard."""
    return _leaderboard(workspace, read_history(workspace))


def _leaderboard(workspace: Workspace, history: History) -> Leaderboard:
    path = workspace.reports / "leaderboard.json"
    rows = read_comparison_rows(workspace.reports / REGRESSIONS)
    changes = {row.evaluation_id: row.verdicts for row in rows if row.kind == "baseline"}
    known = {name: verdicts for name, verdicts in changes.items() if name is not None}
    return Leaderboard(history.newest(), path, history.damaged, Trust.of(workspace), known)


def _record(row: ResultsHeader, trust: Trust) -> dict[str, Any]:
    metrics = {
        column: {
            "value": metric.value,
            "confidence_interval": metric.confidence_interval,
            "n": metric.n_scored,
            "reason": metric.reason,
            **({"doubt": doubt} if (doubt := trust.doubt(row, column)) else {}),
            **({"corrected": found.model_dump()} if (found := trust.corrected(row, column)) else {}),
        }
        for column in COLUMNS
        for metric in [row.metric(column)]
    }
    return {
        "benchmark": row.benchmark,
        "system": row.system,
        "evaluation_id": row.evaluation_id,
        "timestamp": row.timestamp.isoformat(),
        "queries": int(row.summary["total_queries"] or 0),
        "failed": int(row.summary["failed_queries"] or 0),
        "retrieval_level": row.retrieval_level,
        "metrics": metrics,
    }


def _csv(board: Leaderboard) -> bytes:
    # Names match `^[a-z0-9][a-z0-9_-]*$`, so no cell can be read as a formula.
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(
        ["benchmark", "system", "evaluation_id", "queries", "failed", "level", *COLUMNS, *(f"{c}_n" for c in COLUMNS)]
    )
    for row in board.rows:
        counts = [int(row.summary[name] or 0) for name in ("total_queries", "failed_queries")]
        values = ["" if (value := row.metric(column).value) is None else value for column in COLUMNS]
        scored = [row.metric(column).n_scored for column in COLUMNS]
        facts = [row.benchmark, row.system, row.evaluation_id, *counts, row.retrieval_level]
        writer.writerow([*facts, *values, *scored])
    return text.getvalue().encode()


def _cell(row: ResultsHeader, column: str) -> str:
    metric = row.metric(column)
    if metric.value is None:
        return "-"
    return f"{metric.value:.3f}{scored_share(metric.n_scored, row.questions)}"


# A table of 80 columns fits a terminal and a README.
SHOWN = ("f1", "tolerance_jaccard", "hit@1", "ndcg@10")
LEVEL_BELOW = "hit@1"  # the column that says at which level retrieval is scored


def leaderboard_table(board: Leaderboard, *, by: str | None = None) -> Table:
    """Return the systems of each benchmark, the best first, with the best value of each metric in bold.

    The metric that is sorted by has its 95 % interval and its change since the baseline in points, coloured if a
    verdict says so. Below the systems stands how many questions are scored if fewer than asked; below each one where
    they differ.
    """
    metric = by or main_metric(board.rows, board.trust)
    shown = (
        metric,
        *(name for name in SHOWN if name != metric and any(row.metric(name).value is not None for row in board.rows)),
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("benchmark\n  system", overflow="fold")
    headings = [metric_label(name).replace("@10", " @10").replace(" ", "\n") for name in shown]
    for heading in [headings[0], "95 %", "vs\nbase", *headings[1:]]:
        table.add_column(heading, justify="right", no_wrap=True)
    for benchmark, group in groupby(ranked(board.rows, board.trust, by=by), key=lambda one: one.row.benchmark):
        same = list(group)
        first = same[0].row
        asked = f"{max(one.row.summary['total_queries'] or 0 for one in same):.0f}"
        level = "page" if first.retrieval_level == "page" else "doc"
        below = [f"n = {asked}", "", "", *(level if name == LEVEL_BELOW else "" for name in shown[1:])]
        table.add_row(Text(benchmark, style="bold"), *below)
        counts = _shared_counts([one.row for one in same], shown)
        for one in same:
            main, *others = (_value(one, name, board.trust) for name in shown)
            change = _change(verdict_of(one.row, metric, board.changes.get(one.row.evaluation_id, {})))
            table.add_row(f"  {one.row.system}", main, _interval(one.row, metric), change, *others)
            if counts is None:
                _add_counts(table, [_scored({one.row.metric(name).n_scored}, asked) for name in shown])
        if counts is not None:
            _add_counts(table, [_scored(n, asked) for n in counts])
    return table


def verdict_of(row: ResultsHeader, metric: str, verdicts: Mapping[str, Verdict]) -> Verdict | None:
    """Return the verdict on a metric at the level that a row has: of retrieval by page, only metrics by page have one.

    None of a row that is shown by document for the sake of other systems, as its verdict is on other scores.
    """
    return verdicts.get(metric) or (verdicts.get(PAGE_PREFIX + metric) if row.retrieval_level == "page" else None)


def _shared_counts(rows: Sequence[ResultsHeader], names: Sequence[str]) -> list[set[int]] | None:
    """Return how many questions each metric was scored on, if that is the same for all rows that have it."""
    counts = [{n for row in rows if (n := row.metric(name).n_scored)} for name in names]
    return None if any(len(found) > 1 for found in counts) else counts


def _scored(counts: Iterable[int], asked: str) -> str:
    return "".join(f"{n}" for n in counts if n and f"{n}" != asked)


def _add_counts(table: Table, fewer: Sequence[str]) -> None:
    if any(fewer):
        table.add_row("  questions scored", fewer[0], "", "", *fewer[1:], style="dim")


def _value(one: RankedRow, name: str, trust: Trust) -> Text:
    value = one.row.metric(name).value
    style = "bold" if name in one.best else "dim italic" if trust.doubt(one.row, name) else ""
    return Text("-" if value is None else f"{value:.3f}", style=style)


def _interval(row: ResultsHeader, name: str) -> str:
    limits = row.metric(name).confidence_interval
    return "" if limits is None else f"{limits[0]:.2f}-{limits[1]:.2f}"


_CHANGE_STYLES = {"regressed": "bold red", "improved": "bold green"}


def _change(found: Verdict | None) -> Text:
    if found is None or found.estimate is None:
        return Text("")
    return Text(format_points(found.estimate), style=_CHANGE_STYLES.get(found.kind, ""))
