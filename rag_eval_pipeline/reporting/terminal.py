"""The leaderboard and the verdicts as a terminal shows them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
    """A row a pair; below a figure stands the number of questions that it is of, where that is not the pair's n."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    table.add_column("benchmark", no_wrap=True)
    table.add_column("system", no_wrap=True)
    for heading in SHOWN.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for cells in board.cells():
        shown = cells | {"level": "page" if cells["level"] == "page" else "doc"}
        # A figure's own n stands below it: beside it the table would be too wide for 80 columns.
        table.add_row(*(str(shown[name]).replace("/", "\n/") for name in ("benchmark", "system", *SHOWN)))
    return table


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
