"""The history of pairs for people: each evaluation, its part in the nights, its figures, and what was said of it."""

from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import nights_file, read_baseline
from rag_eval_pipeline.reporting.history import History, read_history
from rag_eval_pipeline.reporting.nightly import Night, Nights
from rag_eval_pipeline.workspace import Workspace

FIGURES = ("hit@1", "ndcg@10", "exact_match", "f1")


def history_rows(
    workspace: Workspace, benchmark: str | None = None, system: str | None = None, *, anew: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row an evaluation, oldest first within each pair, and a line for each file that is damaged.

    Args:
        workspace: Where.
        benchmark: Only this one.
        system: Only this one.
        anew: Read every results file again.
    """
    history = read_history(workspace, anew=anew)
    damaged = list(history.damaged)
    rows = []
    for pair in sorted(history.by_pair):
        if (benchmark is None or pair[0] == benchmark) and (system is None or pair[1] == system):
            try:
                rows += _rows(workspace, history, *pair)
            except InputError as error:
                damaged.append(str(error))
    return rows, damaged


def _rows(workspace: Workspace, history: History, benchmark: str, system: str) -> list[dict[str, Any]]:
    baseline = read_baseline(workspace, benchmark, system)
    nights: tuple[Night, ...] = ()
    if baseline is not None and (path := nights_file(workspace, benchmark, system, baseline)).exists():
        nights = Nights.read(path).nights
    by_id = {night.evaluation_id: night for night in nights}
    roles = dict.fromkeys(baseline.evaluations if baseline else (), "baseline")
    roles |= {night.rerun: f"rerun of {night.evaluation_id}" for night in nights if night.rerun}
    return [
        {
            "evaluation_id": header.evaluation_id,
            "timestamp": header.timestamp.isoformat(),
            "benchmark": benchmark,
            "system": system,
            "role": roles.get(header.evaluation_id),
            "figures": {name: header.metric(name).value for name in FIGURES},
            "verdict": _said(by_id.get(header.evaluation_id)),
        }
        for header in history.by_pair[benchmark, system]
    ]


def _said(night: Night | None) -> str | None:
    """What a night showed, in a line: its reason, what was flagged, or that nothing was."""
    if night is None:
        return None
    if night.reason:
        return night.reason
    flagged = [metric.sentence for metric in night.metrics.values() if metric.confirmation is not None]
    return " ".join(flagged) or "nothing was flagged"
