"""Commands on evaluations: evaluate, compare, leaderboard, report."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_eval_pipeline.cli.options import AsJson, Names, Root, Strict
from rag_eval_pipeline.cli.output import (
    REGRESSION,
    STRICT,
    emit,
    find_workspace,
    for_each,
    progress_bars,
)
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    pass


def evaluate(
    names: Names,
    system: Annotated[str, typer.Option(help="A system: name of a file in data/config/systems.")],
    workspace: Root = None,
    as_json: AsJson = False,
    strict: Strict = False,
) -> None:
    """Ask a system a benchmark's questions, score the answers, publish the results.

    Example: rag-eval evaluate tarrow-lights --system embedded
    """
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.passes import evaluate as run

    root = find_workspace(workspace)
    failed = 0

    def one(name: str) -> dict[str, Any]:
        nonlocal failed
        with progress_bars() as bar:
            answered, published = run(root, load_pair(root, name, system), bar(f"{name} x {system}"))
        failed += answered.report.failed
        return {
            "benchmark": name,
            "system": system,
            "evaluation_id": published.evaluation_id,
            "results": str(published.path),
            "counts": answered.counts,
            "headline": published.headline,
        }

    def line(done: dict[str, Any]) -> str:
        figures = ", ".join(f"{k} {v:.3f}" for k, v in done["headline"].items() if v is not None)
        return f"{done['evaluation_id']}: {done['benchmark']} x {system}: {figures}"

    for_each(names, one, line, as_json)
    if strict and failed:
        raise typer.Exit(STRICT)


def leaderboard(workspace: Root = None, as_json: AsJson = False) -> None:
    """Print the newest results of every benchmark and system.

    Example: rag-eval leaderboard
    """
    from rag_eval_pipeline.reporting.leaderboard import read_leaderboard
    from rag_eval_pipeline.reporting.terminal import leaderboard_table

    board = read_leaderboard(find_workspace(workspace))
    for note in board.notes:
        print(f"rag-eval: {note}", file=sys.stderr)
    if as_json:
        emit(board.records(), as_json, ())
    else:
        from rich.console import Console

        Console().print(leaderboard_table(board))


def compare(
    old: Annotated[str, typer.Argument(help="An evaluation id, such as eval_run_20250830_001.")],
    new: Annotated[str, typer.Argument(help="Another one, of the same benchmark.")],
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Say whether an evaluation is better or worse than another; exits 3 on a regression.

    Example: rag-eval compare eval_run_20250830_001 eval_run_20250831_001
    """
    from rag_eval_pipeline.evaluation.runs import load_evaluation
    from rag_eval_pipeline.reporting.comparison import compare_evaluations, comparison_record

    root = find_workspace(workspace)
    found = compare_evaluations(
        "evaluations", load_evaluation(root, new), [load_evaluation(root, old)], old=old, new=new
    )
    if found.reason:
        raise InputError(
            "not_comparable", f"{old} and {new}", "two evaluations of the same questions", found=found.reason
        )
    emit(
        comparison_record(found),
        as_json,
        (f"{name}: {verdict.kind.replace('_', ' ')}. {verdict.sentence}" for name, verdict in found.verdicts.items()),
    )
    if any(verdict.kind == "regressed" for verdict in found.verdicts.values()):
        raise typer.Exit(REGRESSION)


def report(workspace: Root = None, as_json: AsJson = False) -> None:
    """Write the leaderboard, the verdicts and the HTML report; print the report's path.

    Example: rag-eval report
    """
    from rag_eval_pipeline.reporting.comparison import write_comparisons
    from rag_eval_pipeline.reporting.leaderboard import write_leaderboard
    from rag_eval_pipeline.reporting.report import write_report

    root = find_workspace(workspace)
    paths = {
        "leaderboard": str(write_leaderboard(root).path),
        "regressions": str(write_comparisons(root).path),
        "report": str(write_report(root)),
    }
    emit(paths, as_json, [paths["report"]])
