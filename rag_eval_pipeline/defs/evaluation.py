"""Assets of the evaluation, one partition per benchmark and system: answers, scores, results."""

from collections.abc import Iterator

import dagster as dg
import pydantic

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import Check, CheckFact
from rag_eval_pipeline.defs.checks import check_result, check_specs
from rag_eval_pipeline.defs.execution import as_dagster_failure, progress_log
from rag_eval_pipeline.defs.metadata import labelled, numbers, report_link, svg_image, table, text
from rag_eval_pipeline.defs.partitions import pair_names, pairs
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.errors import InputError

GROUP = "evaluation"
RESPONSES_CHECKS = {
    "answers_cover_the_dataset": CheckFact(False, "Enough questions were answered for a verdict (98 % unless set)."),
}
RETRIEVAL_CHECKS = {
    "retrieved_documents_known": CheckFact(False, "Every retrieved passage names a document of the corpus."),
}
JUDGE_CHECKS = {"answers_were_judged": CheckFact(False, "The judge returned a verdict on every answer.")}


class ResponsesConfig(dg.Config):
    """Whether the system is asked again."""

    new_answers: bool = pydantic.Field(
        False,
        description="Ask every question, as nightly runs do. When false, stored answers are scored again after a "
        "change of metrics or judge, and only missing ones are asked; where nothing has changed, every question is.",
    )


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=["evaluation_dataset", "ground_truth"],
    check_specs=check_specs("responses", RESPONSES_CHECKS, pairs), output_required=False,
)  # fmt: skip
def responses(
    context: dg.AssetExecutionContext, config: ResponsesConfig, workspace: WorkspaceResource
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """The system's answer to each question, with its contexts and citations.

    A benchmark that the system's file excludes is skipped, and so is everything after it: a backfill of all pairs asks
    and pays for none that is not wanted.

    A run that was interrupted asks only what is missing when it is started again. An unchanged deterministic system is
    not asked again at all, and no system is asked because a metric or the judge has changed.

    Source: Evaluation Data Formats 2.3, `query_results` (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.evaluation.asking import ask
    from rag_eval_pipeline.evaluation.pair import EXCLUDED, load_pair

    root = workspace.workspace
    try:
        with as_dagster_failure(context, unless=EXCLUDED):
            report = ask(
                root,
                load_pair(root, *pair_names(context)),
                now=clock.now(),
                progress=progress_log(context, "questions"),
                which="all" if config.new_answers else "missing",
            )
    except InputError as error:
        context.log.warning(f"Nothing is asked: {error}")
        yield dg.AssetCheckResult(
            check_name="answers_cover_the_dataset", passed=True, description="Not evaluated: excluded."
        )
        return
    coverage = Check(
        name="answers_cover_the_dataset",
        passed=report.is_covered,
        blocking=False,
        numbers={"coverage": report.coverage},
    )
    answered = f"{report.questions - report.failed} of {report.questions}"
    yield dg.MaterializeResult(
        metadata={
            "headline": dg.MetadataValue.md(f"**{answered} questions answered**, {report.asked} asked now"),
            **numbers(report.counts),
            "preview": table(report.preview),
            "evaluation_id": report.evaluation_id,
        },
        check_results=[check_result(coverage)],
    )


def _score(context: dg.AssetExecutionContext, resource: WorkspaceResource, metrics: list[str]) -> dg.MaterializeResult:
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.pipeline import score_pair
    from rag_eval_pipeline.metrics.registry import metric_label, scored_share

    asset, root = context.asset_key.path[-1], resource.workspace
    with as_dagster_failure(context):
        report = score_pair(root, load_pair(root, *pair_names(context)), asset)
        checks = [report.retrieved.check()] if report.retrieved else []
        if report.judgements:
            judging = report.judgements.report
            found = {"failed": judging.failed, "judged": judging.judged, **judging.reasons}
            checks = [Check(name="answers_were_judged", passed=not judging.failed, blocking=False, numbers=found)]
    counts = {outcome: report.count(outcome) for outcome in ("scored", "failed", "skipped")}
    means = {metric: report.mean(metric) for metric in metrics}
    return dg.MaterializeResult(
        metadata={
            "headline": dg.MetadataValue.md(
                ", ".join(
                    f"{metric_label(name)} **{value:.3f}**{scored_share(report.scored(name), len(report.rows))}"
                    for name, value in means.items()
                    if value is not None
                )
                or "**Nothing was scored.**"
            ),
            **labelled(means),
            **numbers(counts),
            "evaluation_id": report.evaluation_id,
        },
        check_results=[check_result(check) for check in checks],
    )


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=["responses"],
    check_specs=check_specs("retrieval_scores", RETRIEVAL_CHECKS, pairs),
)  # fmt: skip
def retrieval_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """hit, recall, precision, nDCG, MRR and MAP of each question, by document and by page.

    Source: Evaluation Data Formats 2.3, `retrieval_metrics` (docs/reference/specifications.md),
    computed as trec_eval does.
    """
    return _score(context, workspace, ["hit@1", "hit@5", "recall@10", "ndcg@10", "mrr", "page/ndcg@10"])


@dg.asset(partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=["responses"])
def citation_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Overlap of each answer's citations with the located gold texts.

    Source: Citation Accuracy Evaluation 3.1 and 4.2 (docs/reference/specifications.md).
    """
    return _score(context, workspace, ["exact_jaccard", "tolerance_jaccard", "span_f1", "char_f1"])


@dg.asset(partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=["responses"])
def answer_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Exact match and F1 of each answer, and whether the system abstained.

    Source: the official SQuAD 2.0 scorer; Evaluation Data Formats 2.3, `answer_quality_metrics`
    (docs/reference/specifications.md).
    """
    return _score(context, workspace, ["exact_match", "f1", "abstained"])


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"parquet"}, deps=["responses"],
    check_specs=check_specs("judge_scores", JUDGE_CHECKS, pairs),
)  # fmt: skip
def judge_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The judge's verdict on each answer: correctness, support of its claims and citations, ratings.

    These scores decide nothing until the judge has been calibrated against human labels.

    Source: Citation Accuracy Evaluation 3.2, 3.3 and 4.3 (docs/reference/specifications.md).
    """
    return _score(
        context, workspace, ["judged_correct", "faithfulness", "citation_completeness", "citation_correctness"]
    )


@dg.asset(
    partitions_def=pairs, group_name=GROUP, kinds={"json"},
    deps=["retrieval_scores", "citation_scores", "answer_scores", "judge_scores"],
)  # fmt: skip
def evaluation_results(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`.results.json` of the evaluation: every metric with its interval, or null with a reason.

    Source: Evaluation Data Formats 2.3 (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.pipeline import publish_pair
    from rag_eval_pipeline.monitoring.leaderboard import metric_bars
    from rag_eval_pipeline.monitoring.summary_lines import results_headline

    root = workspace.workspace
    with as_dagster_failure(context):
        published = publish_pair(root, load_pair(root, *pair_names(context)))
        headline = results_headline(root, published.evaluation_id)
    for fault in published.faults:
        context.log.warning(fault)
    return dg.MaterializeResult(
        metadata={
            "headline": dg.MetadataValue.md(headline),
            "report": report_link(root, f"runs/{published.evaluation_id}/index.html"),
            **labelled(published.headline),
            "chart": svg_image(metric_bars(published.metrics, published.title), "scores"),
            "preview": table(published.preview),
            "warnings": text(" ".join(published.warnings) or "none"),
            "evaluation_id": published.evaluation_id,
            "path": dg.MetadataValue.path(published.path),
        }
    )
