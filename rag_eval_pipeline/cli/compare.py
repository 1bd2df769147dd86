"""`rag-eval compare`: two evaluations, question by question."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.output import (
    EVALUATION,
    REGRESSION,
    AsJson,
    Root,
    emit,
    find_workspace_if_any,
    only_system,
    painted,
    print_next,
)
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.monitoring.causes import WorseQuestion
    from rag_eval_pipeline.monitoring.verdict_records import Comparison

COLOURS = {"regressed": "red", "improved": "green", "equivalent": "green", "unchanged": "green"}
QUESTION_CHARS, ANSWER_CHARS = 120, 160
OLD, NEW = (EVALUATION | {"metavar": name} for name in ("OLD", "NEW"))


def compare(
    old: Annotated[str, typer.Argument(**OLD, help="An evaluation id, a results file, or a benchmark.")],
    new: Annotated[
        str | None,
        typer.Argument(
            **NEW | {"metavar": "[NEW]"},
            help="Another evaluation of the same benchmark, or a system; by default its only one that is not built in.",
        ),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the verdicts here, as JUnit XML.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write them here, as Markdown for the summary of a CI step."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the report's page of them here, with its questions, as one file to send."
        ),
    ] = None,
) -> None:
    """Compare two evaluations and print whether the new one is better or worse; exits 3 on a regression.

    With a benchmark and a system, the newest evaluation is compared with the pinned baseline.

    Example: rag-eval compare eval_run_20250830_001 eval_run_20250831_001
    With the baseline: rag-eval compare skarn-railway embedded
    """
    from rag_eval_pipeline.evaluation.baseline_files import read_baseline
    from rag_eval_pipeline.monitoring.comparison import compare_named
    from rag_eval_pipeline.monitoring.comparison_files import write_junit, write_markdown
    from rag_eval_pipeline.monitoring.incidents import comparison_headline
    from rag_eval_pipeline.monitoring.regressions import compare_with_baseline

    root = find_workspace_if_any(workspace)
    before: tuple[str, ...] = (old,)
    if new is None:
        if root is None or old not in root.benchmarks():
            raise InputError("bad_option", "compare", "two evaluations, or a benchmark and a system", found=old)
        new = only_system(root, old)
    if root is not None and old in root.benchmarks():
        root.existing_system_file(new)
        found = compare_with_baseline(root, old, new)
        pinned = read_baseline(root, old, new)
        before = () if pinned is None else pinned.evaluations
    else:
        if root is not None and not Path(old).is_file() and new in (*root.systems(), *root.benchmarks()):
            root.existing_benchmark(old)  # a benchmark and a system were meant
        found = compare_named(root, old, new)
    word, change = comparison_headline(found)
    cause, worst = (None, None) if as_json and markdown is None else _worst(root, found, before)
    lines = () if as_json else [*_head(found, word, change), *_body(found, cause, worst)]
    emit(found.model_dump() | {"verdict": word, "headline": change}, as_json, lines)
    if junit is not None:
        write_junit(junit, found)
    if markdown is not None:
        write_markdown(markdown, found, f"{word.capitalize()}: {change}", cause=cause, worst=worst)
    if html is not None:
        from rag_eval_pipeline.site.comparison_file import comparison_file
        from rag_eval_pipeline.storage.atomic_files import atomic_write

        if root is None:
            raise InputError("bad_option", "--html", "evaluations of a workspace", hint="Name it: --workspace DIR")
        atomic_write(html, comparison_file(root, found))
    if found.regressed:
        raise typer.Exit(REGRESSION)
    print_next(as_json, "rag-eval report --open")


def newest_verdict(root: Workspace, benchmark: str, system: str) -> dict[str, str | None] | None:
    """Return the verdict of a pair's newest evaluation against its baseline, and where a regression comes from.

    None without a baseline, and for an evaluation that is part of it.
    """
    from rag_eval_pipeline.evaluation.baseline_files import read_baseline
    from rag_eval_pipeline.monitoring.incidents import comparison_headline
    from rag_eval_pipeline.monitoring.regressions import compare_with_baseline

    pinned = read_baseline(root, benchmark, system)
    if pinned is None:
        return None
    try:
        found = compare_with_baseline(root, benchmark, system)
    except InputError as error:
        return None if error.code == "is_baseline" else {"word": "not compared", "change": str(error), "cause": None}
    word, change = comparison_headline(found)
    return {"word": word, "change": change, "cause": _worst(root, found, pinned.evaluations)[0]}


def change_text(row: "Comparison") -> str:
    """Return the verdict of a pair's newest night as a line; "" if nothing changed, and of systems side by side."""
    from rag_eval_pipeline.metrics.verdict_rules import CHANGES
    from rag_eval_pipeline.monitoring.incidents import comparison_headline

    if row.kind != "baseline" or not row.verdicts:
        return ""
    word, change = comparison_headline(row)
    return verdict_text({"word": word, "change": change, "cause": None}) if word in CHANGES else ""


def verdict_text(verdict: dict[str, str | None]) -> str:
    """Return a verdict as a line: `REGRESSED  F1 33 -> 23 (...). Look at retrieval: ...`."""
    word, cause = verdict["word"] or "", verdict["cause"]
    line = f"{painted(word.upper(), COLOURS.get(word, 'yellow'))}  {verdict['change']}"
    return f"{line}. {cause}" if cause else line


def _head(found: "Comparison", word: str, change: str) -> Iterator[str]:
    from rag_eval_pipeline.monitoring.comparison_files import about_comparison

    yield f"{painted(word.upper(), COLOURS.get(word, 'yellow'))}  {painted(change, 'bold')}"
    yield f"{found.benchmark}: {found.new} against {found.old}"
    yield from about_comparison(found)
    yield ""


def _worst(
    root: Workspace | None, found: "Comparison", before: tuple[str, ...]
) -> "tuple[str | None, Sequence[WorseQuestion] | None]":
    """Return where a regression comes from, and the worst questions; None if the evaluations' folders are gone."""
    from rag_eval_pipeline.monitoring.causes import find_cause, worse_questions

    now = found.evaluation_id or found.new
    if root is None or not all((root.runs / name / "evaluation.json").exists() for name in (*before, now)):
        return None, None
    cause = find_cause(root, now, before, found.verdicts)
    if cause is not None:
        return cause.sentence, cause.worst
    return None, worse_questions(root, now, before[-1])


def _body(found: "Comparison", cause: str | None, worst: "Sequence[WorseQuestion] | None") -> Iterator[str]:
    """Yield a line for each metric, then where a regression comes from, and the worst questions with both answers."""
    from rag_eval_pipeline.monitoring.comparison_files import comparison_lines, moved_lines
    from rag_eval_pipeline.site.display_text import shortened

    for line, verdict in comparison_lines(found):
        yield painted(line, COLOURS.get(verdict.kind))
    if cause is not None:
        yield f"\n{shortened(cause, 500)}"
    if worst is None:
        yield from moved_lines(found)
    if worst:
        yield "\nQuestions that got worse most:"
    for one in worst or ():
        yield f"  {shortened(one.name, 40)}  {shortened(one.question, QUESTION_CHARS)}"
        yield f"    expected  {shortened(one.expected, ANSWER_CHARS)}"
        yield f"    before    {painted(shortened(one.answer_before, ANSWER_CHARS), 'green')}"
        yield f"    now       {painted(shortened(one.answer_after, ANSWER_CHARS), 'red')}"
