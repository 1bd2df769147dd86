"""Tables for the UI: its metadata column is as wide as six narrow columns, and what it cuts off is not seen.

Dagster's own width at a window of 1,600 pixels was measured; the whole leaderboard is in the report and in its CSV.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Table -> heading -> column of the leaderboard. What people ask first stands in the first one.
TABLES = {
    "leaderboard": {"n": "questions", "failed": "failed", "nDCG@10": "ndcg@10", "F1": "f1"},
    "answers": {"correct": "judged_correct", "EM": "exact_match", "abst.": "abstention_f1"},
    "evidence": {"cite": "citation_jaccard", "faith.": "faithfulness", "p50 ms": "latency_p50_ms"},
    "documents": {"by": "level", "hit@1": "hit@1", "MRR": "mrr"},
}
SHORT = {"document": "doc"}
# Every number of the metadata is a row of the table and a plot; the page is still quick with so many.
TRENDS = 400
# The first ones stay when there are too many pairs for all.
TREND_ORDER = ("f1", "ndcg@10", "judged_correct", "citation_jaccard", "exact_match", "abstention_f1", "hit@1")
WORDS = {
    "is_baseline": "this evaluation is the baseline; from the next one on they are compared",
    "no_baseline": "no earlier evaluation to compare with",
    "not_published": "no published evaluation",
}
LOUD = ("regressed", "improved")
ALL = "all"  # the metric of a row that says why nothing was compared
METRICS_SHOWN = 3


def themed(cells: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The leaderboard's rows with some of its columns; a column that it has not is "-"."""
    return [
        {"benchmark": row["benchmark"], "system": row["system"]}
        | {heading: SHORT.get(cell := row.get(column, "-"), cell) for heading, column in columns.items()}
        for row in cells
    ]


def trends(figures: Mapping[str, float | None], *, pairs: int) -> dict[str, float | None]:
    """The figures that become lines over nights: whole measures, as many as `TRENDS` lines allow.

    Args:
        figures: `<measure>/<benchmark>/<system>` -> value.
        pairs: How many lines a measure has.
    """
    measures = list(dict.fromkeys([*TREND_ORDER, *(name.partition("/")[0] for name in figures)]))
    kept = measures[: TRENDS // max(1, pairs)]
    return {name: value for name, value in figures.items() if name.partition("/")[0] in kept}


def compared(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The verdicts, those first that say that something has changed; metrics of which the same is said share a row."""
    metrics: dict[tuple[bool, str, str], list[str]] = {}
    for cell in cells:
        if cell["metric"] != ALL:
            said = (cell["verdict"] not in LOUD, _who(cell), cell["sentence"] or cell["verdict"])
            metrics.setdefault(said, []).append(cell["metric"])
    rows = sorted(metrics.items(), key=lambda row: row[0][0])
    return [{"who": who, "verdict": _said(names, sentence)} for (_, who, sentence), names in rows]


def _said(names: Sequence[str], sentence: str) -> str:
    """The sentence, and of which metrics it is said where it does not begin with their name."""
    if len(names) == 1 and sentence.startswith(names[0]):
        return sentence
    left = len(names) - METRICS_SHOWN
    return f"{', '.join(names[:METRICS_SHOWN])}{f' and {left} more' if left > 0 else ''}: {sentence}"


def not_compared(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Who has no verdict at all, and why."""
    return list(_refused(cells))


def _refused(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        if cell["metric"] == ALL:
            reason = str(cell["verdict"])
            words = WORDS.get(reason, reason.replace("_", " "))
            yield {"who": _who(cell), "why": words}


def _who(cell: Mapping[str, Any]) -> str:
    """The comparison of a night, or the system whose week it is."""
    return f"{cell['benchmark']}: {cell.get('comparison') or cell['system']}"
