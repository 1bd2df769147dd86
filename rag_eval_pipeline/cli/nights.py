"""Commands on the history of evaluations: history, power, trust, pin, prune, ab."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli.output import (
    BAD_INPUT,
    BENCHMARK,
    EVALUATIONS,
    NOTHING_PUBLISHED,
    SYSTEM,
    AsJson,
    BenchmarkName,
    Root,
    SystemName,
    emit,
    find_workspace,
    instance_folder,
    metrics_line,
    only_system,
    print_next,
    print_notes,
    progress_bars,
)
from rag_eval_pipeline.errors import ServiceError


def history(
    benchmark: Annotated[
        str | None, typer.Argument(**BENCHMARK | {"metavar": "[BENCHMARK]"}, help="Only this benchmark.")
    ] = None,
    system: Annotated[str | None, typer.Argument(**SYSTEM | {"metavar": "[SYSTEM]"}, help="Only this system.")] = None,
    workspace: Root = None,
    as_json: AsJson = False,
    sql: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY",
            help="A DuckDB query over the tables `results` (one row per metric) and `questions` (one row per score) of "
            "the benchmark and system, if any are named.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read every results file again, even if its date has not changed."),
    ] = False,
) -> None:
    """Print the published evaluations, oldest first, with the verdict of each night, and name damaged files.

    Example: rag-eval history skarn-railway embedded
    """
    from rag_eval_pipeline.monitoring.history import history_rows
    from rag_eval_pipeline.monitoring.history_tables import query_history

    root = find_workspace(workspace)
    if benchmark is not None:
        root.existing_benchmark(benchmark)
    if system is not None:
        root.existing_system_file(system)
    if sql is not None:
        found, damaged = query_history(root, sql, benchmark, system, verify=verify)
        emit(found, as_json, ("\t".join(str(value) for value in row.values()) for row in found))
    else:
        rows, damaged = history_rows(root, benchmark, system, verify=verify)
        emit(rows, as_json, (_history_line(row) for row in rows))
        if not rows:
            print_notes([NOTHING_PUBLISHED])
            print_next(as_json, "rag-eval status")
    print_notes(damaged)
    if damaged:
        raise typer.Exit(BAD_INPUT)


def _history_line(row: dict[str, Any]) -> str:
    scores = metrics_line(row["figures"], row["partial"], level=row["retrieval_level"])
    verdict = f": {row['verdict']}" if row["verdict"] else ""
    role = f" ({row['role']})" if row["role"] else ""
    return f"{row['evaluation_id']}{role}  {row['benchmark']} x {row['system']}  {scores}{verdict}"


def power(
    benchmark: BenchmarkName,
    system: Annotated[
        str | None,
        typer.Option("--system", **SYSTEM, help="Compute it from the reference runs of this system."),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Print how large a drop can be found in one night and within a week, and with more questions.

    Without a system the noise between runs is assumed.

    Example: rag-eval power skarn-railway
    """
    from rag_eval_pipeline.monitoring.power import power_of
    from rag_eval_pipeline.monitoring.trust import power_of_pair

    root = find_workspace(workspace)
    found = power_of(root, benchmark) if system is None else power_of_pair(root, benchmark, system)
    emit(found.record(), as_json, found.lines())


def trust(benchmark: BenchmarkName, system: SystemName = None, workspace: Root = None, as_json: AsJson = False) -> None:
    """Test each reference run as if it were a new night, and print the noise and the questions that waver.

    Example: rag-eval trust skarn-railway embedded
    """
    from rag_eval_pipeline.monitoring.trust import trust as run

    root = find_workspace(workspace)
    found = run(root, benchmark, system or only_system(root, benchmark))
    emit(found.record(), as_json, found.lines())


def pin(
    benchmark: BenchmarkName,
    system: SystemName = None,
    evaluations: Annotated[
        list[str] | None, typer.Argument(**EVALUATIONS, help="Evaluation ids; by default the newest that are alike.")
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask", help="Run the missing evaluations first: five are needed, one of a deterministic system."
        ),
    ] = False,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The reason; it is stored with the baseline.")
    ] = None,
) -> None:
    """Set the baseline for a system on a benchmark.

    Example: rag-eval pin skarn-railway embedded
    """
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.pipeline import evaluate
    from rag_eval_pipeline.monitoring.baselines import baseline_flip_share, baseline_warnings, missing_runs
    from rag_eval_pipeline.monitoring.baselines import pin as run
    from rag_eval_pipeline.monitoring.verdict_records import flip_sentence

    root = find_workspace(workspace)
    root.existing_benchmark(benchmark)
    system = system or only_system(root, benchmark)
    root.existing_system_file(system)
    while ask and (missing := missing_runs(root, pair := load_pair(root, benchmark, system))):
        with progress_bars(f"{benchmark} x {system}, {missing} to go:") as begin:
            answered, published = evaluate(root, pair, begin)
        if not answered.is_covered:  # it does not count, so asking on might never end
            message = (
                f"{answered.failed} of {answered.questions} questions failed in {published.evaluation_id}, too many "
                f"for a baseline; the most frequent error: {answered.causes[0].message}"
            )
            raise ServiceError("too_few_answers", message, hint="Fix the system's file or its server, then pin again.")
    pinned = run(root, benchmark, system, evaluations or (), now=clock.now(), note=note)
    share, warnings = baseline_flip_share(root, pinned), baseline_warnings(root, pinned)
    record = {"benchmark": benchmark, "system": system, **pinned.model_dump(mode="json"), "flip_share": share}
    record["warnings"] = warnings
    lines = [f"{benchmark} x {system} is compared with {', '.join(pinned.evaluations)}.", flip_sentence(share)]
    print_notes(warnings)
    emit(record, as_json, lines)
    print_next(as_json, "rag-eval up")


def prune(
    workspace: Root = None,
    as_json: AsJson = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove even if the newest evaluation is more than a year old.")
    ] = False,
) -> None:
    """Remove what data/config/retention.config.yaml does not keep: old evaluations, unused downloads and judgements.

    Also removes temporary files that killed runs have left, and the old runs of the workspace's Dagster instance.

    Example: rag-eval prune --dry-run
    """
    from rag_eval_pipeline.corpus.rendering.browser import browser_temp, stale_folders
    from rag_eval_pipeline.monitoring.retention import prune as run
    from rag_eval_pipeline.monitoring.settings_files import read_retention_settings

    root, now = find_workspace(workspace), clock.now()
    found = run(root, now=now, dry_run=dry_run, is_clock_right=yes, leftovers=stale_folders(browser_temp()))
    days, home = read_retention_settings(root).runs, instance_folder(root)
    if days is not None and home is not None:
        from rag_eval_pipeline.serving.instance import prune_instance

        found.runs = prune_instance(home, days=days, now=now, dry_run=dry_run)
    emit(found.record(), as_json, found.lines())


def ab(
    workspace: Root = None,
    as_json: AsJson = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings; by default data/config/ab_testing_config.config.yaml."),
    ] = None,
) -> None:
    """Compare the systems configured as A/B tests and write one results file per test.

    Example: rag-eval ab
    """
    from rag_eval_pipeline.monitoring.weekly import run_ab_tests

    root = find_workspace(workspace)
    done = run_ab_tests(root, config, now=clock.now())
    lines = (line for test in done for line in (str(test.path), *(f"  {sentence}" for sentence in test.sentences())))
    emit([test.record for test in done], as_json, lines)
