"""Assets of the evaluation, one partition a benchmark and system: answers, scores, results."""

from typing import TYPE_CHECKING

import dagster as dg
import pydantic

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.conversion.step_checks import CheckFact
from rag_eval_pipeline.defs.conversion import evaluation_dataset, ground_truth
from rag_eval_pipeline.defs.links import report_link, run_page
from rag_eval_pipeline.defs.partitions import pairs
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.shell import (
    check_result,
    check_specs,
    numbers,
    one_line_errors,
    picture,
    progress_log,
    table,
)

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.pair import Pair
    from rag_eval_pipeline.evaluation.score_rows import ScoringReport

GROUP = "evaluation"
RESPONSES_CHECKS = {
    "answers_cover_the_dataset": CheckFact(False, "Enough questions were answered for a verdict (98 % unless set)."),
}
RETRIEVAL_CHECKS = {
    "retrieved_documents_known": CheckFact(False, "Every retrieved passage names a document of the corpus."),
}
JUDGE_CHECKS = {"answers_were_judged": CheckFact(False, "Every answer that arrived has the judge's word.")}
RESULTS_CHECKS = {"results_validate": CheckFact(True, "The `.results.json` is valid, and its counts add up.")}


def _pair(context: dg.AssetExecutionContext, resource: WorkspaceResource) -> "Pair":
    from rag_eval_pipeline.evaluation.pair import load_pair

    assert isinstance(context.partition_key, dg.MultiPartitionKey)
    names = context.partition_key.keys_by_dimension
    return load_pair(resource.workspace, names["benchmark"], names["system"])


class ResponsesConfig(dg.Config):
    """Whether a system is asked."""

    new_answers: bool = pydantic.Field(
        False,
        description="Ask every question, as nights do. Off, stored answers are scored again after a change of metrics "
        "or judge, and only what they lack is asked; where nothing has changed, every question is.",
    )


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=[evaluation_dataset, ground_truth],
    check_specs=check_specs("responses", RESPONSES_CHECKS, pairs),
)  # fmt: skip
def responses(
    context: dg.AssetExecutionContext, config: ResponsesConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult:
    """The system's answer to each question, asked once, with its contexts and citations.

    A run that was ended asks only what is missing when it is started again; an unchanged deterministic system is not
    asked again at all, and no system is asked because a metric or the judge has changed.

    Source: Evaluation Data Formats 2.3, Evaluation Results Format: `query_results`.
    """
    import rag_eval_pipeline.evaluation.passes as passes

    with one_line_errors():
        report = passes.ask_pair(
            workspace.workspace,
            _pair(context, workspace),
            progress_log(context, "questions"),
            which="all" if config.new_answers else "missing",
        )
    covered = Check(
        name="answers_cover_the_dataset",
        passed=report.is_covered,
        blocking=False,
        numbers={"coverage": report.coverage},
    )
    return dg.MaterializeResult(
        metadata={"evaluation_id": report.evaluation_id, **numbers(report.counts), "preview": table(report.preview)},
        check_results=[check_result(covered)],
    )


def _scores(
    context: dg.AssetExecutionContext, resource: WorkspaceResource, measures: list[str]
) -> dg.MaterializeResult:
    import rag_eval_pipeline.evaluation.passes as passes

    with one_line_errors():
        report = passes.score_pair(resource.workspace, _pair(context, resource), context.asset_key.path[-1])
    return _scored(report, measures, [check_result(report.retrieved.check())] if report.retrieved else [])


def _scored(report: "ScoringReport", measures: list[str], checks: list[dg.AssetCheckResult]) -> dg.MaterializeResult:
    counts = {outcome: report.count(outcome) for outcome in ("scored", "failed", "skipped")}
    means = {measure: report.mean(measure) for measure in measures}
    return dg.MaterializeResult(
        metadata={"evaluation_id": report.evaluation_id, **numbers({**counts, **means})}, check_results=checks
    )


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=[responses],
    check_specs=check_specs("retrieval_scores", RETRIEVAL_CHECKS, pairs),
)  # fmt: skip
def retrieval_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """hit, recall, precision, nDCG, MRR and MAP of each question, by document and by page.

    Source: Evaluation Data Formats 2.3, `retrieval_metrics`; computed as trec_eval does.
    """
    return _scores(context, workspace, ["hit@1", "hit@5", "recall@10", "ndcg@10", "mrr", "page/ndcg@10"])


@dg.asset(partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=[responses])
def citation_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Overlap of each answer's citations with the located gold texts.

    Source: Citation Accuracy Evaluation 3.1, Span-Level Accuracy Metrics, and 4.2, Span Matching Algorithm.
    """
    return _scores(context, workspace, ["exact_jaccard", "tolerance_jaccard", "span_f1", "char_f1"])


@dg.asset(partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=[responses])
def answer_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Exact match and F1 of each answer, and whether the system abstained.

    Source: the official SQuAD 2.0 scorer; Evaluation Data Formats 2.3, `answer_quality_metrics`.
    """
    return _scores(context, workspace, ["exact_match", "f1", "abstained"])


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=[responses],
    check_specs=check_specs("judge_scores", JUDGE_CHECKS, pairs),
)  # fmt: skip
def judge_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """What the judge says of each answer: correctness, support of its claims and citations, ratings.

    These figures decide nothing until the judge was calibrated against people's labels.

    Source: Citation Accuracy Evaluation 3.2 and 3.3, and 4.3, LLM-Based Evaluation.
    """
    import rag_eval_pipeline.evaluation.passes as passes
    from rag_eval_pipeline.evaluation.judging import judging_report
    from rag_eval_pipeline.evaluation.runs import load_evaluation

    with one_line_errors():
        report = passes.score_pair(workspace.workspace, _pair(context, workspace), "judge_scores")
        judging = judging_report(load_evaluation(workspace.workspace, report.evaluation_id))
    measures = ["judged_correct", "faithfulness", "citation_completeness", "citation_correctness"]
    judged = Check(
        name="answers_were_judged",
        passed=not judging.failed,
        blocking=False,
        numbers={"failed": judging.failed, "judged": judging.judged, **judging.reasons},
    )
    return _scored(report, measures, [check_result(judged)])


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"json"},
    deps=[retrieval_scores, citation_scores, answer_scores, judge_scores],
    check_specs=check_specs("evaluation_results", RESULTS_CHECKS, pairs),
)  # fmt: skip
def evaluation_results(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`.results.json` of the evaluation: every figure with its interval, or null with a reason.

    Source: Evaluation Data Formats 2.3, Comprehensive Evaluation Results.
    """
    import rag_eval_pipeline.evaluation.passes as passes
    from rag_eval_pipeline.reporting.charts import metric_bars

    with one_line_errors():
        published = passes.publish_pair(workspace.workspace, _pair(context, workspace))
    check = Check(name="results_validate", passed=not published.findings, numbers={"findings": published.findings})
    return dg.MaterializeResult(
        metadata={
            "evaluation_id": published.evaluation_id,
            "report": report_link(workspace.workspace, run_page(published.evaluation_id)),
            "path": dg.MetadataValue.path(published.path),
            **numbers(published.headline),
            "chart": picture(metric_bars(published.metrics, published.title), "scores"),
            "preview": table(published.preview),
            "warnings": dg.MetadataValue.text(" ".join(published.warnings) or "none"),
        },
        check_results=[check_result(check)],
    )


ASSETS = [responses, retrieval_scores, citation_scores, answer_scores, judge_scores, evaluation_results]
