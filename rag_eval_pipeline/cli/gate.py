"""`rag-eval gate`, and the canary of `rag-eval evaluate`: a regression found after a few questions."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from rag_eval_pipeline.monitoring.canary import Canary

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
    found = ask_canary(root, benchmark, system, canary, is_gate=True)
    if found.decision != "undecided":
        show_canary(found, as_json, junit, markdown)
        return
    if found.asked:
        print_notes([f"canary: {found.sentence} The rest is asked."])
    with progress_bars(f"{benchmark} x {system}:") as begin:
        _, published = evaluate(root, load_pair(root, benchmark, system), begin, which="all")
    print_notes([*published.warnings, *published.faults])
    compare(benchmark, system, root.root, as_json, junit, markdown)


def ask_canary(root: Workspace, benchmark: str, system: str, questions: int, *, is_gate: bool = False) -> "Canary":
    """Run a canary, and print the age of its reference."""
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.monitoring.canary import run_canary

    pair, now = load_pair(root, benchmark, system), clock.now()
    with progress_bars(f"{benchmark} x {system}:") as begin:
        found = run_canary(root, pair, questions=questions, now=now, progress=begin("canary"), keep_undecided=is_gate)
    print_notes(filter(None, [found.reference_sentence(now), found.warning(now)]))
    return found


def show_canary(found: "Canary", as_json: bool, junit: Path | None, markdown: Path | None) -> None:
    """Print a canary and write its files; exits 3 on a regression."""
    from rag_eval_pipeline.monitoring.canary import write_canary_junit, write_canary_markdown

    emit(canary_record(found), as_json, _lines(found))
    if junit is not None:
        write_canary_junit(junit, found)
    if markdown is not None:
        write_canary_markdown(markdown, found, clock.now())
    if found.decision == "regression":
        raise typer.Exit(REGRESSION)


def canary_record(found: "Canary") -> dict[str, Any]:
    """Return a canary as JSON."""
    import msgspec

    return dict(msgspec.to_builtins(found)) | {"sentence": found.sentence}


def _lines(found: "Canary") -> Iterator[str]:
    word = painted(found.decision.upper(), COLOURS.get(WORDS.get(found.decision, ""), "yellow"))
    yield f"{word}  {found.benchmark} x {found.system}: {found.sentence}"
    yield from (f"  {one.sentence}" for one in found.wrong)
