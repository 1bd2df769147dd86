"""Assets over all benchmarks and systems: leaderboard, regressions, report, week; and the job that pins a baseline."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import CheckFact
from rag_eval_pipeline.defs.checks import check_result, check_sentence, check_specs
from rag_eval_pipeline.defs.execution import as_dagster_failure
from rag_eval_pipeline.defs.metadata import (
    LEADERBOARD_TABLES,
    OWNERS,
    ROW_COUNT,
    leaderboard_table,
    not_compared_table,
    numbers,
    report_link,
    svg_image,
    table,
    trend_lines,
    verdict_table,
)
from rag_eval_pipeline.defs.partitions import pair_names, pairs
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.systems.config import read_common_settings
from rag_eval_pipeline.workspace import Workspace, default_root

GROUP = "aggregation"
WORKSPACE_CHECKS = {
    "all_configs_valid": CheckFact(False, "Every benchmark, system and settings file has a valid name and content."),
    "no_night_is_late": CheckFact(False, "Every nightly pair was published within the last `late_after_hours`."),
    "every_pair_is_evaluated": CheckFact(False, "Each benchmark and nightly system has up-to-date results."),
    "no_result_is_damaged": CheckFact(False, "Every results file can be read and is as it was published."),
}
VERDICT_CHECKS = {
    # With `blocking: true` it fails the run in `report`, which would otherwise not be made.
    "nothing_has_regressed": CheckFact(False, "No pair is worse than its pinned baseline, confirmed by a rerun."),
    "quality_thresholds_are_met": CheckFact(False, "The thresholds of verdicts.config.yaml hold for every pair."),
}
ALL_PAIRS = dg.AssetDep("evaluation_results", partition_mapping=dg.AllPartitionMapping())
ROOT = Workspace(Path(default_root()))
SYSTEMS = [read_common_settings(ROOT.system_file(name)) for name in ROOT.systems()]
# Nightly runs begin at 02:00 UTC, and are overdue at 06:00. Without a nightly system nothing is.
AT_SIX = dg.FreshnessPolicy.cron(deadline_cron="0 6 * * *", lower_bound_delta=timedelta(hours=4))
FRESHNESS = AT_SIX if any(system is not None and system.is_nightly for system in SYSTEMS) else None


@dg.asset(
    group_name=GROUP, kinds={"json", "csv"}, deps=[ALL_PAIRS], owners=OWNERS, freshness_policy=FRESHNESS,
    check_specs=check_specs("leaderboard", WORKSPACE_CHECKS),
)  # fmt: skip
def leaderboard(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The newest results of every benchmark and system; Plots shows each metric over time.

    Source: Evaluation Data Formats 4.2 (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.monitoring.history_tables import history_with_events
    from rag_eval_pipeline.monitoring.leaderboard import write_leaderboard
    from rag_eval_pipeline.monitoring.regressions import workspace_checks
    from rag_eval_pipeline.monitoring.summary_lines import leaderboard_headline

    with as_dagster_failure(context):
        history = history_with_events(workspace.workspace)
        board = write_leaderboard(workspace.workspace, history)
        checks = workspace_checks(workspace.workspace, history, now=clock.now())
    for note in board.notes:
        context.log.warning(note)
    return dg.MaterializeResult(
        metadata={
            "headline": dg.MetadataValue.md(leaderboard_headline(board)),
            "report": report_link(workspace.workspace),
            **{name: table(leaderboard_table(board.cells(), columns)) for name, columns in LEADERBOARD_TABLES.items()},
            "chart": svg_image(board.chart(), "F1 by benchmark and system"),
            **numbers(trend_lines(board.trends, n_pairs=len(board.rows))),
            "path": dg.MetadataValue.path(board.path),
            ROW_COUNT: len(board.rows),
        },
        check_results=[check_result(check) for check in checks],
    )


@dg.asset(
    group_name=GROUP, kinds={"json"}, deps=["leaderboard"], owners=OWNERS, freshness_policy=FRESHNESS,
    check_specs=check_specs("regressions", VERDICT_CHECKS),
)  # fmt: skip
def regressions(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Each pair against its pinned baseline, and systems against each other: better, worse, or not sure enough.

    A night is compared with earlier runs of its system by the exact test of run labels within questions or documents,
    Holm-corrected for the number of metrics. A change alerts only after reruns have confirmed it.

    Source: Evaluation Data Formats 2.3, `statistical_analysis` (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.monitoring.alerts import send_change_alerts
    from rag_eval_pipeline.monitoring.regressions import verdict_checks, write_comparisons
    from rag_eval_pipeline.monitoring.summary_lines import comparisons_headline

    with as_dagster_failure(context):
        found = write_comparisons(workspace.workspace)
        checks = verdict_checks(workspace.workspace, found)
        sent = send_change_alerts(workspace.workspace, found.nights, now=clock.now())
    for line in [*(alert.subject for alert in sent.new), *sent.faults]:
        context.log.warning(line)
    return dg.MaterializeResult(
        metadata={
            "headline": dg.MetadataValue.md(comparisons_headline(found.rows)),
            "report": report_link(workspace.workspace),
            **numbers({**found.counts, "alerts": len(sent.new), "alerts_undelivered": len(sent.faults)}),
            "verdicts": table(verdict_table(found.cells())),
            "not_compared": table(not_compared_table(found.cells())),
            "declines": table(found.declines()),
            "path": dg.MetadataValue.path(found.path),
            ROW_COUNT: len(found.rows),
        },
        check_results=[check_result(check) for check in checks],
    )


@dg.asset(
    group_name=GROUP, kinds={"html"}, deps=["leaderboard", "regressions"], owners=OWNERS, freshness_policy=FRESHNESS,
)  # fmt: skip
def report(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Iterator[dg.MaterializeResult]:
    """The report: a site of static files that needs no network.

    With `blocking: true` in verdicts.config.yaml, the run fails here after the report of a regression is written.

    Source: Citation Accuracy Evaluation 9.2 (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.monitoring.regressions import read_comparisons, verdict_checks
    from rag_eval_pipeline.monitoring.summary_lines import comparisons_headline
    from rag_eval_pipeline.site.site import write_report

    with as_dagster_failure(context):
        found = read_comparisons(workspace.workspace)
        path = write_report(workspace.workspace, found)
        checks = verdict_checks(workspace.workspace, found)
    yield dg.MaterializeResult(
        metadata={
            "headline": dg.MetadataValue.md(comparisons_headline(found.rows)),
            "report": report_link(workspace.workspace),
            "path": dg.MetadataValue.path(path),
        }
    )
    for check in checks:
        if check.blocking and not check.passed:
            raise dg.Failure(f"{check.name}: {check_sentence(check)}", allow_retries=False)


class WeekConfig(dg.Config):
    """Which week."""

    monday: str | None = Field(
        None, description="The day after the week, such as 2026-11-23; the most recent Monday if absent."
    )


@dg.asset(group_name=GROUP, kinds={"json"}, deps=["regressions"], owners=OWNERS)
def weekly_results(
    context: dg.AssetExecutionContext, config: WeekConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult:
    """`benchmark_weekly_<date>.results.json`: the last night of the week of each pair with its verdicts.

    Source: Evaluation Data Formats 3.2 (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.monitoring.weekly import write_week

    with as_dagster_failure(context):
        found = write_week(workspace.workspace, config.monday, now=clock.now())
    return dg.MaterializeResult(
        metadata={
            **numbers(found.counts),
            "verdicts": table(verdict_table(found.cells())),
            "not_compared": table(not_compared_table(found.cells())),
            "path": dg.MetadataValue.path(found.path),
        }
    )


@dg.asset(group_name=GROUP, kinds={"json"}, deps=["leaderboard"], owners=OWNERS)
def benchmark_files(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The four `data/benchmarks/**.benchmark.json`: latency, throughput, retrieval quality, citation accuracy.

    Source: Evaluation Data Formats 3.2 (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.monitoring.weekly import write_benchmark_files

    with as_dagster_failure(context):
        paths = write_benchmark_files(workspace.workspace)
    return dg.MaterializeResult(metadata={path.name: dg.MetadataValue.path(path) for path in paths})


class PinConfig(dg.Config):
    """What to pin."""

    evaluations: list[str] = Field(
        default_factory=list, description="Evaluation ids; the newest ones that are alike if empty."
    )
    note: str = Field("", description="The reason; it is stored with the baseline.")


@dg.op(name="pin")
def pin_newest(context: dg.OpExecutionContext, config: PinConfig, workspace: WorkspaceResource) -> None:
    """Set the baseline of a pair."""
    from rag_eval_pipeline.monitoring.baselines import baseline_warnings, pin

    root, (benchmark, system) = workspace.workspace, pair_names(context)
    with as_dagster_failure(context):
        pinned = pin(root, benchmark, system, config.evaluations, now=clock.now(), note=config.note or None)
        warnings = baseline_warnings(root, pinned)
    context.log.info(f"{system} on {benchmark} is compared with {', '.join(pinned.evaluations)} from now on")
    for warning in warnings:
        context.log.warning(warning)


@dg.job(
    partitions_def=pairs,
    description="Pins the newest evaluation of a pair as the baseline that later ones are compared with, like "
    "`rag-eval pin`. After the first nights nothing is pinned automatically: a regression never becomes the baseline "
    "by itself.",
)
def pin_baseline() -> None:
    """Pin the baseline of a pair."""
    pin_newest()
