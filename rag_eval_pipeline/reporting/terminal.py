"""The leaderboard and the verdicts as a terminal shows them."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.metrics.titles import title_of
from rag_eval_pipeline.reporting.comparison import read_comparisons
from rag_eval_pipeline.reporting.leaderboard import Leaderboard
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rich.table import Table

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


def leaderboard_table(board: Leaderboard) -> "Table":
    """One row per pair; where scores are of fewer questions than n, a line below a benchmark's systems counts them."""
    from rich import box
    from rich.table import Table

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
            yield f"{head}{title_of(name)}: {found.sentence}"
