"""`rag-eval`: what the assets do, without Dagster.

Exit codes: 0 done; 1 done, but `--strict` found quarantined rows or failed questions; 2 bad use or bad input; 3
`compare` found a regression; 4 a server, judge or browser could not be used; 70 an internal error. Commands load what
they need when they run.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_eval_pipeline.cli_output import (
    BAD_INPUT,
    INTERNAL,
    REGRESSION,
    STRICT,
    UNAVAILABLE,
    emit,
    find_workspace,
    for_each,
    print_notes,
    progress_bars,
    say,
)
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.conversion.records import Counts

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Nightly evaluation of RAG systems: benchmarks in, corpus PDFs and scored results out.",
)

Root = Annotated[
    Path | None,
    typer.Option(
        "--workspace", help="The folder that holds data/sources; else the nearest such folder upwards of here."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 when rows were quarantined or questions failed.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Benchmarks: names of folders in data/sources.")]


@app.command()
def doctor(
    only: Annotated[str | None, typer.Option(help="One check by name: browser, fonts, disk, workspace.")] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check what the pipeline needs of this machine; exits 4 when something is missing.

    Example: rag-eval doctor
    """
    from rag_eval_pipeline.doctor import CHECKS

    if only is not None and only not in CHECKS:
        raise InputError("unknown_check", "--only", f"one of {', '.join(CHECKS)}", found=only)
    root = find_workspace(workspace) if workspace or only in (None, "workspace", "disk") else Workspace(Path.cwd())
    findings = [check(root) for name, check in CHECKS.items() if only in (None, name)]
    emit(
        [finding._asdict() for finding in findings],
        as_json,
        (f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.found}" for finding in findings),
    )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(UNAVAILABLE)


@app.command()
def plan(
    name: Annotated[str, typer.Argument(help="A benchmark: name of a folder in data/sources.")],
    names: Annotated[bool, typer.Option("--names", help="A line a document: url, file name, flags.")] = False,
    workspace: Root = None,
    as_json: AsJson = False,
    strict: Strict = False,
) -> None:
    """Show what a benchmark comes to, without fetching, rendering or writing anything.

    Example: rag-eval plan tarrow-lights
    """
    from dataclasses import asdict

    from rag_eval_pipeline.conversion.planning import plan as make_plan

    paths = find_workspace(workspace).benchmark(name)
    planned = make_plan(paths)
    files = [(document, file) for document in planned.documents for file in document.names]
    if names:
        rows = [{"url": f.url or d.key, "file_name": f.name, "flags": list(f.flags)} for d, f in files]
        emit(rows, as_json, (f"{row['url']}\t{row['file_name']}\t{','.join(row['flags'])}" for row in rows))
    else:
        value = {"benchmark": name, **asdict(planned.counts), "files": len(files), "notes": planned.notes}
        refused = [record for record in planned.quarantine if record.stage != "where"]
        value["quarantine"] = [asdict(record) for record in refused]
        lines = [*(record.message(name) for record in refused), *planned.notes]
        emit(value, as_json, [*_plan_lines(planned.counts, len(files)), *lines])
    if strict and planned.counts.quarantined:
        raise typer.Exit(STRICT)


def _plan_lines(counts: "Counts", files: int) -> Iterable[str]:
    yield (
        f"{counts.rows} rows: {counts.accepted} accepted, {counts.dropped} dropped by where, "
        f"{counts.quarantined} quarantined"
    )
    yield f"{counts.impossible} unanswerable, {counts.contexts} contexts, {counts.documents} documents in {files} files"


@app.command()
def convert(names: Names, workspace: Root = None, as_json: AsJson = False, strict: Strict = False) -> None:
    """Convert benchmarks: corpus PDFs, train.json, .eval.json, .gt.json.

    Example: rag-eval convert tarrow-lights
    """
    from rag_eval_pipeline.conversion.steps import convert as run

    root = find_workspace(workspace)
    quarantined = 0

    def one(name: str) -> dict[str, Any]:
        nonlocal quarantined
        with progress_bars() as bar:
            reports = run(root, name, progress=bar, done=print_notes)
        counts = {report.record.step: report.record.counts for report in reports}
        quarantined += counts["train_json"]["quarantined"]
        return {"benchmark": name, "counts": counts, "train_json": str(root.benchmark(name).train_json)}

    def line(done: dict[str, Any]) -> str:
        rows, files = done["counts"]["train_json"], done["counts"]["corpus"]
        return (
            f"{done['benchmark']}: {rows['accepted']} questions, {rows['dropped']} dropped, "
            f"{rows['quarantined']} quarantined, {files['files']} files ({files['new_or_changed']} new or changed), "
            f"{done['train_json']}"
        )

    for_each(names, one, line, as_json)
    if strict and quarantined:
        raise typer.Exit(STRICT)


@app.command()
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


@app.command()
def validate(
    paths: Annotated[list[Path], typer.Argument(help="train.json, *.eval.json, *.gt.json, *.results.json.")],
    as_json: AsJson = False,
) -> None:
    """Check files against their specification; exits 2 when something is wrong.

    Example: rag-eval validate data/datasets/tarrow-lights/train.json
    """
    from rag_eval_pipeline.formats.validation import validate as check

    findings = {str(path): check(path) for path in paths}
    lines = (line for path, found in findings.items() for line in (found or [f"{path}: valid"]))
    emit(findings, as_json, lines)
    if any(findings.values()):
        raise typer.Exit(BAD_INPUT)


@app.command()
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


@app.command()
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


@app.command()
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


def main() -> None:
    """The entry point: the one place where errors become text and exit codes."""
    try:
        app()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `rag-eval plan x | head` is no error
        raise SystemExit(0) from None
    except (InputError, ServiceError, OSError) as error:
        raise SystemExit(say(error)) from None
    except Exception:
        import traceback

        traceback.print_exc()
        print("rag-eval: internal error [internal]. Please report it with the lines above.", file=sys.stderr)
        raise SystemExit(INTERNAL) from None


if __name__ == "__main__":
    main()
