"""`rag-eval gate`, and the canary of `rag-eval evaluate`: a regression found after a few questions."""

from pathlib import Path
from typing import Annotated

import typer

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli.compare import COLOURS, compare
from rag_eval_pipeline.cli.output import (
    REGRESSION,
    AsJson,
    BenchmarkName,
    Root,
    SystemName,
    emit,
    find_workspace,
    only_system,
    painted,
    print_notes,
    progress_bars,
)
from rag_eval_pipeline.workspace import Workspace

WORDS = {"regression": "regressed", "pass": "unchanged"}  # of verdicts, for their colours


def gate(
    benchmark: BenchmarkName,
    system: SystemName = None,
    workspace: Root = None,
    as_json: AsJson = False,
    canary: Annotated[
        int, typer.Option(min=0, metavar="N", help="Questions that are asked first; 0 asks all at once.")
    ] = 30,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the verdicts here, as JUnit XML.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write them here, as Markdown for the summary of a CI step."),
    ] = None,
) -> None:
    """Ask a few questions, and the rest if these do not decide, against the baseline; exits 3 on a regression.

    The service is always asked anew. Questions of the canary are not asked again.

    Example: rag-eval gate skarn-railway embedded
    """
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.pipeline import evaluate

    root = find_workspace(workspace)
    system = system or only_system(root, benchmark)
    if run_canary(root, benchmark, system, canary, as_json, junit, markdown, is_gate=True) != "undecided":
        return
    with progress_bars(f"{benchmark} x {system}:") as begin:
        _, published = evaluate(root, load_pair(root, benchmark, system), begin, which="all")
    print_notes([*published.warnings, *published.faults])
    compare(benchmark, system, root.root, as_json, junit, markdown)


def run_canary(
    root: Workspace,
    benchmark: str,
    system: str,
    questions: int,
    as_json: bool,
    junit: Path | None = None,
    markdown: Path | None = None,
    *,
    is_gate: bool = False,
) -> str:
    """Run a canary, print the age of its reference and its decision, and return that; exits 3 on a regression.

    Of an undecided one of a gate only a note is printed, and no file is written.
    """
    from dataclasses import asdict

    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.monitoring import canary

    pair, now = load_pair(root, benchmark, system), clock.now()
    with progress_bars(f"{benchmark} x {system}:") as begin:
        found = canary.run_canary(
            root, pair, questions=questions, now=now, progress=begin("canary"), keep_undecided=is_gate
        )
    print_notes([found.reference_sentence(now)])
    if is_gate and found.decision == "undecided":
        print_notes([f"canary: {found.sentence} The rest is asked."] if found.asked else [])
        return found.decision
    word = painted(found.decision.upper(), COLOURS.get(WORDS.get(found.decision, ""), "yellow"))
    record = asdict(found) | {"sentence": found.sentence, "reference_at": found.reference_at.isoformat()}
    emit(record, as_json, [f"{word}  {benchmark} x {system}: {found.sentence}", *found.wrong])
    canary.write_canary(found, now, junit=junit, markdown=markdown)
    if found.decision == "regression":
        raise typer.Exit(REGRESSION)
    return found.decision
