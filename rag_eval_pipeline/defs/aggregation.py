"""Assets over all benchmarks and systems: leaderboard, regressions, report."""

import dagster as dg

from rag_eval_pipeline.defs.evaluation import evaluation_results
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.shell import numbers, one_line_errors, picture, table

GROUP = "aggregation"
ALL_PAIRS = dg.AssetDep(evaluation_results, partition_mapping=dg.AllPartitionMapping())


@dg.asset(group_name=GROUP, kinds={"json", "csv"}, deps=[ALL_PAIRS])
def leaderboard(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Newest results of every benchmark and system; each figure is a line a night under Plots."""
    import rag_eval_pipeline.reporting.leaderboard as reporting

    with one_line_errors():
        board = reporting.write_leaderboard(workspace.workspace)
    for note in board.notes:
        context.log.warning(note)
    return dg.MaterializeResult(
        metadata={
            "leaderboard": table(board.cells()),
            "chart": picture(board.chart(), "F1 by benchmark and system"),
            "path": dg.MetadataValue.path(board.path),
            **numbers(board.trends),
        }
    )


@dg.asset(group_name=GROUP, kinds={"json"}, deps=[leaderboard])
def regressions(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Each pair against its pinned baseline, and systems against each other: better, worse, or nobody can tell."""
    import rag_eval_pipeline.reporting.comparison as reporting

    with one_line_errors():
        found = reporting.write_comparisons(workspace.workspace)
    return dg.MaterializeResult(
        metadata={**numbers(found.counts), "path": dg.MetadataValue.path(found.path), "verdicts": table(found.cells())}
    )


@dg.asset(group_name=GROUP, kinds={"html"}, deps=[leaderboard, regressions])
def report(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The report to look at in the morning: one HTML file that needs no network."""
    import rag_eval_pipeline.reporting.report as reporting

    with one_line_errors():
        path = reporting.write_report(workspace.workspace)
    return dg.MaterializeResult(metadata={"path": dg.MetadataValue.path(path)})


ASSETS = [leaderboard, regressions, report]
