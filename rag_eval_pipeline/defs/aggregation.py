"""Assets over all benchmarks and systems: leaderboard, regressions, report; and the week."""

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from rag_eval_pipeline.defs.boards import TABLES, compared, not_compared, themed, trends
from rag_eval_pipeline.defs.evaluation import evaluation_results
from rag_eval_pipeline.defs.links import benchmark_page, report_link
from rag_eval_pipeline.defs.partitions import pairs
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.shell import check_result, check_specs, numbers, one_line_errors, picture, table
from rag_eval_pipeline.defs.standing import LEADERBOARD_CHECKS, leaderboard_checks
from rag_eval_pipeline.reporting.morning import CHECKS

GROUP = "aggregation"
ALL_PAIRS = dg.AssetDep(evaluation_results, partition_mapping=dg.AllPartitionMapping())
# A night begins at 02:00 UTC; who has no report at 06:00 is told that it is late.
EVERY_MORNING = dg.FreshnessPolicy.cron(deadline_cron="0 6 * * *", lower_bound_delta=timedelta(hours=4))


@dg.asset(
    group_name=GROUP, kinds={"json", "csv"}, deps=[ALL_PAIRS], freshness_policy=EVERY_MORNING,
    check_specs=check_specs("leaderboard", LEADERBOARD_CHECKS),
)  # fmt: skip
def leaderboard(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Newest results of every benchmark and system; each figure is a line a night under Plots.

    Source: Evaluation Data Formats 4.2, Results Storage.
    """
    import rag_eval_pipeline.reporting.leaderboard as reporting

    with one_line_errors():
        board = reporting.write_leaderboard(workspace.workspace)
        checks = leaderboard_checks(workspace.workspace, datetime.now(UTC))
    for note in board.notes:
        context.log.warning(note)
    return dg.MaterializeResult(
        metadata={
            "report": report_link(workspace.workspace),
            **{name: table(themed(board.cells(), columns)) for name, columns in TABLES.items()},
            "chart": picture(board.chart(), "F1 by benchmark and system"),
            "path": dg.MetadataValue.path(board.path),
            **numbers(trends(board.trends, pairs=len(board.rows))),
        },
        check_results=[check_result(check) for check in checks],
    )


@dg.asset(group_name=GROUP, kinds={"json"}, deps=[leaderboard], freshness_policy=EVERY_MORNING)
def regressions(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Each pair against its pinned baseline, and systems against each other: better, worse, or nobody can tell.

    A change is called one when a paired sign-flip test over the questions, corrected by Holm for the number of metrics,
    says so; before it alerts it is seen again in a rerun.

    Source: Evaluation Data Formats 2.3, `statistical_analysis`.
    """
    import rag_eval_pipeline.reporting.alerts as alerts
    import rag_eval_pipeline.reporting.comparison as reporting

    with one_line_errors():
        found = reporting.write_comparisons(workspace.workspace)
        told = alerts.tell_changes(workspace.workspace, found.nights, now=datetime.now(UTC))
    for line in [*(alert.subject for alert in told.new), *told.faults]:
        context.log.warning(line)
    counts = numbers({**found.counts, "alerts": len(told.new), "alerts_undelivered": len(told.faults)})
    return dg.MaterializeResult(
        metadata={
            "report": report_link(workspace.workspace),
            **counts,
            "verdicts": table(compared(found.cells())),
            "not_compared": table(not_compared(found.cells())),
            "path": dg.MetadataValue.path(found.path),
        }
    )


@dg.asset(
    group_name=GROUP, kinds={"html"}, deps=[leaderboard, regressions], freshness_policy=EVERY_MORNING,
    check_specs=check_specs("report", CHECKS),
)  # fmt: skip
def report(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The report to look at in the morning: a site of plain files that needs no network.

    Source: Citation Accuracy Evaluation 9.2, Automated Evaluation Pipeline: summary, visualizations,
    analysis, recommendations.
    """
    import rag_eval_pipeline.reporting.report as reporting
    from rag_eval_pipeline.reporting.comparison import read_comparisons
    from rag_eval_pipeline.reporting.morning import morning_checks

    with one_line_errors():
        found = read_comparisons(workspace.workspace)
        path = reporting.write_report(workspace.workspace, found)
        checks = morning_checks(workspace.workspace, found)
    return dg.MaterializeResult(
        metadata={"report": report_link(workspace.workspace), "path": dg.MetadataValue.path(path)},
        check_results=[check_result(check) for check in checks],
    )


class WeekConfig(dg.Config):
    """Which week."""

    monday: str | None = Field(
        None, description="The day after the week, such as 2026-11-23; absent, the newest Monday that has come."
    )


@dg.asset(group_name=GROUP, kinds={"json"}, deps=[regressions])
def weekly_results(
    context: dg.AssetExecutionContext, config: WeekConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult:
    """`benchmark_weekly_<date>.results.json`: the mean of seven nights of each pair against its pinned baseline.

    Source: Evaluation Data Formats 3.2, Directory Structure.
    """
    import rag_eval_pipeline.reporting.weekly as reporting

    with one_line_errors():
        found = reporting.write_week(workspace.workspace, config.monday, now=datetime.now(UTC))
    return dg.MaterializeResult(
        metadata={
            **numbers(found.counts),
            "verdicts": table(compared(found.cells())),
            "not_compared": table(not_compared(found.cells())),
            "path": dg.MetadataValue.path(found.path),
        }
    )


@dg.asset(group_name=GROUP, kinds={"json"}, deps=[leaderboard])
def benchmark_files(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The four `data/benchmarks/**.benchmark.json`: latency, throughput, retrieval quality, citation accuracy.

    Source: Evaluation Data Formats 3.2, Directory Structure.
    """
    import rag_eval_pipeline.reporting.benchmark_files as reporting

    with one_line_errors():
        paths = reporting.write_benchmark_files(workspace.workspace)
    return dg.MaterializeResult(metadata={path.name: dg.MetadataValue.path(path) for path in paths})


class PinConfig(dg.Config):
    """Whether and what to pin."""

    pin: bool = Field(
        False, description="Pin now. Off, nothing changes, so that `Materialize all` never moves a baseline."
    )
    evaluations: list[str] = Field(
        default_factory=list, description="Evaluation ids; the newest ones that are alike unless named."
    )
    note: str = Field("", description="Why, for people.")


@dg.asset(partitions_def=pairs, group_name=GROUP, kinds={"json"}, deps=[evaluation_results])
def baseline(
    context: dg.AssetExecutionContext, config: PinConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult:
    """The evaluations that a pair is compared with; materialize it with `pin: true` to pin the newest.

    Nothing is pinned by itself after the first nights: a regression never becomes the yardstick unasked.

    Source: Evaluation Data Formats 2.3, `statistical_analysis`. `rag-eval pin` does the same.
    """
    import rag_eval_pipeline.reporting.baselines as reporting
    from rag_eval_pipeline.evaluation.baseline_files import read_baseline

    assert isinstance(context.partition_key, dg.MultiPartitionKey)
    pair = context.partition_key.keys_by_dimension
    root, benchmark, system = workspace.workspace, pair["benchmark"], pair["system"]
    with one_line_errors():
        if config.pin:
            now, note = datetime.now(UTC), config.note or None
            reporting.pin(root, benchmark, system, config.evaluations, now=now, note=note)
        pinned = read_baseline(root, benchmark, system)
    return dg.MaterializeResult(
        metadata={
            "report": report_link(root, benchmark_page(benchmark)),
            "pinned": ", ".join(pinned.evaluations) if pinned else "nothing",
            "note": (pinned.note if pinned else None) or "none",
        }
    )


NIGHTLY = [leaderboard, regressions, report]
WEEKLY = [weekly_results, benchmark_files]
ASSETS = [*NIGHTLY, *WEEKLY, baseline]
