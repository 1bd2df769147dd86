"""Commands on evaluations: evaluate, rescore, calibrate, leaderboard, report."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli.compare import change_text, newest_verdict, verdict_text
from rag_eval_pipeline.cli.output import (
    BENCHMARK,
    EVALUATION,
    EVALUATIONS,
    NOTHING_PUBLISHED,
    ONLY_SYSTEM_HELP,
    STRICT,
    SYSTEM,
    AsJson,
    BenchmarkName,
    Names,
    Root,
    Strict,
    SystemName,
    emit,
    find_workspace,
    for_each,
    metrics_line,
    only_system,
    print_next,
    print_notes,
    progress_bars,
    results,
)
from rag_eval_pipeline.errors import InputError, counted, did_you_mean, printable, shortened, unknown_name_hint
from rag_eval_pipeline.workspace import SYSTEM_SUFFIX, Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.asking import AskingReport
    from rag_eval_pipeline.evaluation.pair import Pair
    from rag_eval_pipeline.evaluation.pipeline import Published

CAUSE_CHARS = 160  # of an error
CAUSES_SHOWN = 3
TIMEOUTS = frozenset({"attempt_timeout", "total_timeout", "timeout"})  # error codes of questions
_LABELS_BY: tuple[Literal["human", "own", "model ratings"], ...] = ("human", "own", "model ratings")


def _sortable_metrics() -> dict[str, str]:
    """Return the metrics of the leaderboard by the names that `--sort` takes."""
    from rag_eval_pipeline.monitoring.leaderboard import COLUMNS, HEADLINE

    return {name.lower().replace(" ", "_"): name for name in (*HEADLINE, *COLUMNS)}


def evaluate(
    names: Names,
    system: Annotated[str | None, typer.Option(**SYSTEM, help=ONLY_SYSTEM_HELP)] = None,
    workspace: Root = None,
    as_json: AsJson = False,
    strict: Strict = False,
    failed_only: Annotated[
        bool, typer.Option("--failed-only", help="Ask only the questions that the newest evaluation has no answer to.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Ask only the first N questions, whatever the system's file says."),
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Ask at most N questions that the baseline's runs had right, until a drop is significant or a large "
            "one is excluded; publish nothing, exit 3 on a regression.",
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --canary: also write the result here, as JUnit XML.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be asked and what it would cost; ask nothing.")
    ] = False,
) -> None:
    """Ask a system a benchmark's questions, score the answers, publish the results.

    Example: rag-eval evaluate skarn-railway --system embedded
    """
    from rag_eval_pipeline.evaluation.evaluation_folders import published_evaluations
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.pipeline import evaluate as run
    from rag_eval_pipeline.monitoring.power import USUAL, power_of_questions
    from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings
    from rag_eval_pipeline.monitoring.workspace_states import not_nightly_hint

    root = find_workspace(workspace)
    system = system or only_system(root, *names)
    which: Literal["missing", "failed"] = "failed" if failed_only else "missing"
    command = f"rag-eval evaluate {' '.join(names)} --system {system}{f' --limit {limit}' if limit else ''}"

    def load(name: str) -> "Pair":
        return load_pair(root, name, system, limit=limit)

    if junit is not None and canary is None:
        raise InputError("bad_option", "--junit", "--canary N beside it", hint="Or: rag-eval compare ... --junit FILE")
    if canary is not None:
        from rag_eval_pipeline.cli.gate import run_canary

        if len(names) > 1 or dry_run or failed_only or limit is not None:
            expected = "one benchmark, without --dry-run, --failed-only and --limit"
            raise InputError("bad_option", "--canary", expected)
        run_canary(root, names[0], system, canary, as_json, junit)
        return
    if dry_run:
        for_each(names, lambda name: _estimate(root, load(name), which), _estimate_line, as_json)
        print_next(as_json, command)
        return
    failed, is_undecided = 0, False

    def one(name: str) -> dict[str, Any]:
        nonlocal failed, is_undecided
        pair = load(name)
        is_undecided = pair.system_file.is_nightly_undecided
        detects = warning = None
        if not published_evaluations(root, name, system):  # printed once, with the first evaluation
            settings = read_verdict_settings(root)
            is_deterministic = pair.system_file.is_deterministic
            power = power_of_questions(pair.queries, settings, [USUAL])
            detects, warning = (
                power.sentence(settings),
                power.warning(name, is_deterministic=is_deterministic),
            )
        try:
            with progress_bars(f"{name} x {system}:") as begin:
                answered, published = run(root, pair, begin, which=which)
        except KeyboardInterrupt:
            print_notes([f"interrupted; the answers are kept, go on with: {command}"])
            raise
        judging = published.judging
        failed += answered.failed + len(published.faults) + judging.failed
        print_notes([*published.warnings, *published.faults, *_notes(f"{name} x {system}", answered, published)])
        return {
            "benchmark": name,
            "system": system,
            "evaluation_id": published.evaluation_id,
            "results": str(published.path),
            "counts": answered.counts,
            "causes": [cause._asdict() for cause in answered.causes],
            "in_flight": answered.in_flight,
            "headline": published.headline,
            "retrieval_level": published.retrieval_level,
            "warnings": list(published.warnings),
            "partial": published.partial,
            "in_sentences": published.is_in_sentences,
            "reasons": {name: metric.reason for name, metric in published.metrics.items() if metric.reason},
            "judge": {"judged": judging.judged, "failed": judging.failed, "reasons": judging.reasons},
            "corrected": {"judged_correct": published.corrected.model_dump()} if published.corrected else {},
            "rescored_from": published.rescored_from,
            "detects": detects,
            "warning": warning,
            "verdict": newest_verdict(root, name, system),
        }

    for done in for_each(names, one, _evaluation_line, as_json):
        print_notes(filter(None, [done["warning"]]))
    if strict and failed:
        raise typer.Exit(STRICT)
    print_next(as_json, "rag-eval report --open")
    if not as_json and is_undecided:
        print_notes([f"{system} is {not_nightly_hint(system)}"])


def _evaluation_line(done: dict[str, Any]) -> str:
    """Return what came out, in a few lines for a terminal."""
    from rag_eval_pipeline.formats.results import CorrectedRate
    from rag_eval_pipeline.monitoring.verdict_records import IN_SENTENCES

    numbers = dict(done["headline"])
    questions, unanswered = numbers.pop("queries"), numbers.pop("failed")
    text = (
        f"{done['benchmark']} x {done['system']}: {counted(questions, 'question')}, {unanswered:,} "
        f"failed ({done['evaluation_id']})"
    )
    if done["causes"]:
        text += f"\n  {_causes_line(done['causes'])}"
    exact_match = numbers.pop("exact_match") if done["in_sentences"] else None
    nothing = f"Nothing was scored: {', '.join(dict.fromkeys(done['reasons'].values()))}."
    means = metrics_line(numbers, done["partial"], level=done["retrieval_level"], in_flight=done["in_flight"])
    text += f"\n  {means or nothing}"
    if exact_match is not None:
        by = f"{exact_match:.3f}, from right refusals alone" if exact_match else "0"
        text += f"\n  Exact match is {by}{IN_SENTENCES}."
    if means and "no_relevant_documents" in done["reasons"].values():
        text += "\n  Retrieval is not scored, because no question has a gold document [no_relevant_documents]."
    for name, corrected in done["corrected"].items():
        found = CorrectedRate(**corrected)
        text += f"\n  {metrics_line({name: numbers[name]})}, {found.text}. {found.basis}"
    if done["verdict"] is not None:
        text += f"\n  {verdict_text(done['verdict'])}"
    return f"{text}\n  {done['detects']}" if done["detects"] else text


def _causes_line(causes: list[dict[str, Any]]) -> str:
    """Return why questions failed: `Failed: 4 python_error (KeyError: 'page'), 1 timeout (no answer within 30 s).`."""
    texts = []
    for cause in causes[:CAUSES_SHOWN]:
        message = shortened(printable(" ".join(cause["message"].split())), CAUSE_CHARS)
        texts.append(f"{cause['questions']:,} {cause['code']} ({message})")
    others = len(causes) - len(texts)
    return f"Failed: {', '.join(texts)}{f', and {others} other reasons' if others else ''}."


def _notes(pair: str, answered: "AskingReport", published: "Published") -> list[str]:
    notes = []
    late = sum(cause.questions for cause in answered.causes if cause.code in TIMEOUTS)
    if late and answered.in_flight is not None:
        benchmark, system = pair.split(" x ")
        notes.append(
            f"{pair}: {late} of {answered.questions} questions timed out with {answered.in_flight} in flight: lower "
            "`in_flight` or raise `attempt_seconds` and `total_seconds` in "
            f"data/config/systems/{system}{SYSTEM_SUFFIX}, and ask these again: "
            f"rag-eval evaluate {benchmark} --system {system} --failed-only"
        )
    if published.rescored_from is not None and not answered.asked:
        notes.append(
            f"{pair}: nothing was asked: the answers of {published.rescored_from} were scored again with today's "
            "metrics and judge. Evaluate once more for new answers."
        )
    elif answered.reused == answered.questions:
        notes.append(
            f"{pair}: nothing was asked: the system is deterministic and nothing has changed, so the answers of an "
            "earlier evaluation were taken over."
        )
    if sentence := published.judging.sentence:
        again = f"rag-eval rescore {pair.replace(' x ', ' ')} {published.evaluation_id}"
        notes.append(f"{pair}: {sentence}. To judge them again without asking the system: {again}")
    return notes


def _estimate(root: Workspace, pair: "Pair", which: Literal["missing", "failed"]) -> dict[str, Any]:
    import msgspec
    from pydantic import BaseModel

    from rag_eval_pipeline.evaluation.budget import estimate

    found = estimate(root, pair, now=clock.now(), which=which)
    facts = msgspec.to_builtins(found, enc_hook=BaseModel.model_dump)
    facts |= {"spent_today": facts.pop("spent"), "exceeds": list(found.exceeds)}
    return {"benchmark": pair.paths.name, "system": pair.system, **facts}


def _estimate_line(found: dict[str, Any]) -> str:
    def shown(value: float | None, unit: str) -> str:
        return f"{unit} unknown" if value is None else f"about {value:,.4g} {unit}"

    basis = f"as measured in {found['basis']}" if found["basis"] else "nothing was measured yet"
    judge = f", and about {counted(found['judge_requests'], 'request')} of the judge" if found["judge_requests"] else ""
    over = f"; more than today's budget of {', '.join(found['exceeds'])}" if found["exceeds"] else ""
    return (
        f"{found['benchmark']} x {found['system']}: {found['to_ask']} of {found['questions']} questions to ask, "
        f"{shown(found['requests'], 'requests')}, {shown(found['tokens'], 'tokens')}, "
        f"{shown(found['usd'], 'US dollars')} ({basis}){judge}{over}"
    )


def leaderboard(
    benchmark: Annotated[str | None, typer.Option(**BENCHMARK, help="Only this benchmark.")] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC",
            autocompletion=lambda: list(_sortable_metrics()),
            help="Show this metric first, the best system on top.",
        ),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with all metrics.")] = False,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest results of every benchmark and system.

    Example: rag-eval leaderboard --sort f1
    """
    from dataclasses import replace

    from rag_eval_pipeline.monitoring.leaderboard import leaderboard_table, ranked, read_leaderboard

    root = find_workspace(workspace)
    if as_csv and as_json:
        raise InputError("bad_option", "leaderboard", "one of --csv and --json")
    if benchmark is not None:
        root.existing_benchmark(benchmark)
    metrics = _sortable_metrics()
    if sort is not None and sort not in metrics:
        hint = unknown_name_hint(sort, metrics, "metrics")
        raise InputError("unknown_metric", "--sort", "a metric of the leaderboard", found=sort, hint=hint)
    by = None if sort is None else metrics[sort]
    board = read_leaderboard(root)
    board = replace(board, rows=[row for row in board.rows if benchmark in (None, row.benchmark)])
    print_notes(board.notes)
    if not board.rows:
        print_notes([NOTHING_PUBLISHED])
    if as_json or as_csv:
        if by is not None:
            board = replace(board, rows=[one.row for one in ranked(board.rows, board.trust, by=by)])
        emit(board.records(), as_json, board.csv().splitlines())
        return
    from rich.console import Console

    if board.rows:
        Console(file=results()).print(leaderboard_table(board, by=by))
    print_next(as_json, "rag-eval report --open" if board.rows else "rag-eval status")


def report(
    show: Annotated[
        bool, typer.Option("--open", help="Open the report in the browser; without one, only its path is printed.")
    ] = False,
    question: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Also draw the documents' pages of this question, from now on; repeatable."),
    ] = None,
    runs: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            **EVALUATION,
            help="An older run whose questions are to be listed too, also in later reports (10 runs); repeatable.",
        ),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Write the leaderboard, the verdicts and the HTML report; print the report's path.

    Example: rag-eval report --open
    """
    from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS
    from rag_eval_pipeline.monitoring.verdict_records import read_comparison_rows
    from rag_eval_pipeline.site.report_state import inputs_digest, is_made

    root = find_workspace(workspace)
    files = {"leaderboard": "leaderboard.json", "regressions": "regressions.json", "report": "index.html"}
    paths = {asset: str(root.reports / name) for asset, name in files.items()}
    inputs = inputs_digest(root)
    if question or runs or not is_made(root, inputs):
        _make_report(root, inputs, question or (), runs or ())
    emit(paths, as_json, [paths["report"]])
    rows = read_comparison_rows(root.reports / REGRESSIONS)
    print_notes(f"{row.benchmark} x {row.new}: {text}" for row in rows if (text := change_text(row)))
    if show and not open_in_browser(Path(paths["report"])):
        print_notes(["no browser could be opened here; open the file above in one"])
    print_next(as_json, "rag-eval up")


def _make_report(root: Workspace, inputs: str, asked: Sequence[str], listed: Sequence[str]) -> None:
    from rag_eval_pipeline.monitoring.history_tables import history_with_events
    from rag_eval_pipeline.monitoring.leaderboard import write_leaderboard
    from rag_eval_pipeline.monitoring.regressions import write_comparisons
    from rag_eval_pipeline.site.report_state import making_report
    from rag_eval_pipeline.site.site import write_report

    with making_report(root, inputs):
        found = write_comparisons(root, history_with_events(root))
        write_leaderboard(root, found.history)
        write_report(root, found, asked=asked, listed=listed)


def open_in_browser(path: Path) -> bool:
    """Open a file in the user's browser; return whether there is one."""
    import subprocess
    import webbrowser

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        named = os.environ.get(
            "BROWSER"
        )  # without a display, only one that the user names; others open in the terminal
        if not named:
            return False
    try:
        return webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError, subprocess.SubprocessError):
        return False


def rescore(
    benchmark: BenchmarkName,
    system: SystemName = None,
    evaluations: Annotated[
        list[str] | None, typer.Argument(**EVALUATIONS, help="Evaluation ids; by default all with outdated scores.")
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Score stored answers again with the current metrics and judge; the system is not asked.

    Example: rag-eval rescore skarn-railway embedded
    """
    from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
    from rag_eval_pipeline.evaluation.judging import JudgementCounts
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.monitoring.rescoring import rescore as run

    root = find_workspace(workspace)
    system = system or only_system(root, benchmark)
    done = []
    for rescored in run(root, load_pair(root, benchmark, system), evaluations or ()):
        done.append({"evaluation_id": rescored.evaluation_id, "benchmark": benchmark, "system": system})
        print_notes(f"{rescored.evaluation_id}: {fault.message}" for fault in rescored.metric_faults)
        if sentence := JudgementCounts.read(load_evaluation(root, rescored.evaluation_id)).report.sentence:
            print_notes([f"{rescored.evaluation_id}: {sentence}."])
    emit(done, as_json, (str(one["evaluation_id"]) for one in done))
    print_next(as_json, "rag-eval report --open")


def calibrate(
    name: BenchmarkName,
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Labels of the answers, .jsonl, .csv or .xlsx, one file per system; by default the "
            "labels written on the report's pages.",
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            **SYSTEM, help="System whose newest evaluation was labelled; repeatable, for one card over all systems."
        ),
    ] = None,
    evaluation: Annotated[
        list[str] | None,
        typer.Option(
            **EVALUATION, help="Evaluation id instead of a system, such as eval_run_20250830_001; repeatable."
        ),
    ] = None,
    labels_by: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            autocompletion=lambda: list(_LABELS_BY),
            help="Source of the labels: human, own or 'model ratings'. Only human labels calibrate a judge.",
        ),
    ] = "human",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the trust card; by default the workspace's.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Judge only once; the card then lacks the judge's agreement with itself.")
    ] = False,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Compare the judge's verdicts with labels; write a trust card and print its path.

    Example: rag-eval calibrate skarn-railway --system embedded --labels labels.csv
    Several: rag-eval calibrate NAME --system a --labels a.csv --system b --labels b.csv
    """
    from rag_eval_pipeline.evaluation.judge_calibration import Labelled, calibrate_judge
    from rag_eval_pipeline.judges.trust_card import summary_lines, write_trust_card

    root = find_workspace(workspace)
    if labels_by not in _LABELS_BY:
        hint = did_you_mean(labels_by, _LABELS_BY)
        raise InputError("bad_option", "--labels-by", f"one of {', '.join(_LABELS_BY)}", found=labels_by, hint=hint)
    evaluations = evaluation or []
    systems = system or ([] if evaluations else [only_system(root, name)])
    if systems and evaluations:
        raise InputError("bad_option", "calibrate", "one of --system and --evaluation")
    named = [*systems, *evaluations]
    files: list[Path | None] = [*labels] if labels else [None] * len(named)
    if len(named) != len(files) or len(set(named)) < len(named):
        raise InputError(
            "bad_option", "--labels", "one file for each system or evaluation, in the same order, none of them twice",
            found=f"{len(files)} for {', '.join(named)}",
        )  # fmt: skip
    labelled = [
        Labelled(path, system=one) if systems else Labelled(path, evaluation=one)
        for path, one in zip(files, named, strict=True)
    ]
    with progress_bars() as begin:
        card, kept = calibrate_judge(root, name, labelled, labels_by=labels_by, judges_twice=not once, progress=begin)
    path = write_trust_card(card, root.trust_cards if out is None else out)
    lines = [*summary_lines(card), str(path), f"For people, with the worst disagreements: {path.with_suffix('.md')}"]
    if kept is not None:
        kept.write(path)
        lines.append(
            f"Each evaluation judges {counted(len(kept.cases), 'labelled answer')} again: has the judge changed?"
        )
    emit(card.model_dump(mode="json") | {"path": str(path)}, as_json, lines)
    print_next(as_json, "rag-eval report --open")
