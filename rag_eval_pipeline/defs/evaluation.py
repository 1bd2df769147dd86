"""Assets of the evaluation, one partition per benchmark and system: answers, scores, results."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import dagster as dg
import pydantic

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import Check, CheckFact
from rag_eval_pipeline.defs.checks import check_result, check_specs
from rag_eval_pipeline.defs.execution import as_dagster_failure, progress_log
from rag_eval_pipeline.defs.metadata import OWNERS, ROW_COUNT, labelled, numbers, report_link, svg_image, table, text
from rag_eval_pipeline.defs.partitions import pair_names, pairs
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.pair import Pair

GROUP = "evaluation"
Results = Iterator[dg.MaterializeResult | dg.AssetCheckResult]
RESPONSES_CHECKS = {
    "answers_cover_the_dataset": CheckFact(False, "Enough questions were answered for a verdict (98 % unless set)."),
}
RETRIEVAL_CHECKS = {
    "retrieved_documents_known": CheckFact(False, "Every retrieved passage names a document of the corpus."),
}
JUDGE_CHECKS = {"answers_were_judged": CheckFact(False, "The judge returned a verdict on every answer.")}


# Asset -> the metrics that its page shows.
METRICS = {
    "retrieval_scores": ("hit@1", "hit@5", "recall@10", "ndcg@10", "mrr", "page/ndcg@10"),
    "citation_scores": ("exact_jaccard", "tolerance_jaccard", "span_f1", "char_f1"),
    "answer_scores": ("exact_match", "f1", "abstained"),
    "judge_scores": ("judged_correct", "faithfulness", "citation_completeness", "citation_correctness"),
    "evaluation_results": (
        "hit@1", "hit@5", "ndcg@10", "mrr", "exact_match", "f1", "abstention_f1", "citation_jaccard", "judged_correct",
        "faithfulness", "latency_p50_ms",
    ),
}  # fmt: skip


class ResponsesConfig(dg.Config):
    """Whether the system is asked again."""

    new_answers: bool = pydantic.Field(
        False,
        description="Ask every question, as nightly runs do. When false, stored answers are scored again after a "
        "change of metrics or judge, and only missing ones are asked; where nothing has changed, every question is.",
    )


def _unless_excluded(
    context: dg.AssetExecutionContext, resource: WorkspaceResource, make: Callable[["Pair"], dg.MaterializeResult]
) -> Results:
    """Yield what `make` returns for the run's pair; for one that the system's file excludes, only its checks.

    Pairs are all benchmarks times all systems, and Dagster cannot leave some of these partitions out. An asset of an
    excluded one is skipped, alone as in a whole run, so that a backfill of all pairs asks and pays for none of them.
    """
    from rag_eval_pipeline.evaluation.pair import EXCLUDED, load_pair

    try:
        with as_dagster_failure(context, unless=EXCLUDED):
            result = make(load_pair(resource.workspace, *pair_names(context)))
    except InputError as error:
        context.log.warning(f"Skipped: {error}")
        for check in context.selected_asset_check_keys:
            yield dg.AssetCheckResult(check_name=check.name, passed=True, description="Not evaluated: excluded.")
        return
    yield result


@dg.asset(
    partitions_def=pairs, group_name=GROUP, owners=OWNERS, kinds={"parquet"}, output_required=False,
    deps=["evaluation_dataset", "ground_truth"], check_specs=check_specs("responses", RESPONSES_CHECKS, pairs),
)  # fmt: skip
def responses(context: dg.AssetExecutionContext, config: ResponsesConfig, workspace: WorkspaceResource) -> Results:
    """The system's answer to each question, with its contexts and citations.

    A benchmark that the system's file excludes is skipped, and so is everything after it.

    A run that was interrupted asks only what is missing when it is started again. An unchanged deterministic system is
    not asked again at all, and no system is asked because a metric or the judge has changed.

    Source: Evaluation Data Formats 2.3, `query_results` (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.evaluation.asking import ask

    def make(pair: "Pair") -> dg.MaterializeResult:
        report = ask(
            workspace.workspace,
            pair,
            now=clock.now(),
            progress=progress_log(context, "questions"),
            which="all" if config.new_answers else "missing",
        )
        coverage = Check(
            name="answers_cover_the_dataset",
            passed=report.is_covered,
            blocking=False,
            numbers={"coverage": report.coverage},
        )
        answered = f"{report.questions - report.failed} of {report.questions}"
        return dg.MaterializeResult(
            metadata={
                "headline": dg.MetadataValue.md(f"**{answered} questions answered**, {report.asked} asked now"),
                **numbers(report.counts),
                "preview": table(report.preview),
                "evaluation_id": report.evaluation_id,
                ROW_COUNT: report.questions,
            },
            check_results=[check_result(coverage)],
            data_version=dg.DataVersion(report.evaluation_id),
        )

    yield from _unless_excluded(context, workspace, make)


def _score(context: dg.AssetExecutionContext, resource: WorkspaceResource) -> Results:
    from rag_eval_pipeline.evaluation.pipeline import score_pair
    from rag_eval_pipeline.metrics.registry import metric_label, scored_share

    def make(pair: "Pair") -> dg.MaterializeResult:
        report = score_pair(resource.workspace, pair, asset := context.asset_key.path[-1])
        checks = [report.retrieved.check()] if report.retrieved else []
        if report.judgements:
            judging = report.judgements.report
            found = {"failed": judging.failed, "judged": judging.judged, **judging.reasons}
            checks = [Check(name="answers_were_judged", passed=not judging.failed, blocking=False, numbers=found)]
        counts = {outcome: report.count(outcome) for outcome in ("scored", "failed", "skipped")}
        means = {metric: report.mean(metric) for metric in METRICS[asset]}
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
                ROW_COUNT: len(report.rows),
            },
            check_results=[check_result(check) for check in checks],
            data_version=dg.DataVersion(report.evaluation_id),
        )

    yield from _unless_excluded(context, resource, make)


@dg.asset(
    partitions_def=pairs, group_name=GROUP, owners=OWNERS, kinds={"parquet"}, deps=["responses"],
    check_specs=check_specs("retrieval_scores", RETRIEVAL_CHECKS, pairs), output_required=False,
)  # fmt: skip
def retrieval_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """hit, recall, precision, nDCG, MRR and MAP of each question, by document and by page.

    Source: Evaluation Data Formats 2.3, `retrieval_metrics` (docs/reference/specifications.md),
    computed as trec_eval does.
    """
    yield from _score(context, workspace)


@dg.asset(
    partitions_def=pairs, group_name=GROUP, owners=OWNERS, kinds={"parquet"}, deps=["responses"], output_required=False
)
def citation_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Overlap of each answer's citations with the located gold texts.

    Source: Citation Accuracy Evaluation 3.1 and 4.2 (docs/reference/specifications.md).
    """
    yield from _score(context, workspace)


@dg.asset(
    partitions_def=pairs, group_name=GROUP, owners=OWNERS, kinds={"parquet"}, deps=["responses"], output_required=False
)
def answer_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """Exact match and F1 of each answer, and whether the system abstained.

    Source: the official SQuAD 2.0 scorer; Evaluation Data Formats 2.3, `answer_quality_metrics`
    (docs/reference/specifications.md).
    """
    yield from _score(context, workspace)


@dg.asset(
    partitions_def=pairs, group_name=GROUP, owners=OWNERS, kinds={"parquet"}, deps=["responses"],
    check_specs=check_specs("judge_scores", JUDGE_CHECKS, pairs), output_required=False,
)  # fmt: skip
def judge_scores(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """The judge's verdict on each answer: correctness, support of its claims and citations, ratings.

    These scores decide nothing until the judge has been calibrated against human labels.

    Source: Citation Accuracy Evaluation 3.2, 3.3 and 4.3 (docs/reference/specifications.md).
    """
    yield from _score(context, workspace)


@dg.asset(
    partitions_def=pairs, group_name=GROUP, owners=OWNERS, kinds={"json"}, output_required=False,
    deps=["retrieval_scores", "citation_scores", "answer_scores", "judge_scores"],
)  # fmt: skip
def evaluation_results(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> Results:
    """`.results.json` of the evaluation: every metric with its interval, or null with a reason.

    Source: Evaluation Data Formats 2.3 (docs/reference/specifications.md).
    """
    from rag_eval_pipeline.evaluation.pipeline import publish_pair
    from rag_eval_pipeline.monitoring.leaderboard import metric_bars
    from rag_eval_pipeline.monitoring.summary_lines import results_headline

    root = workspace.workspace

    def make(pair: "Pair") -> dg.MaterializeResult:
        published = publish_pair(root, pair)
        for fault in published.faults:
            context.log.warning(fault)
        return dg.MaterializeResult(
            metadata={
                "headline": dg.MetadataValue.md(results_headline(root, published.evaluation_id)),
                "report": report_link(root, f"runs/{published.evaluation_id}/index.html"),
                **labelled(published.headline),
                **({"judged correct, corrected": text(published.corrected.text)} if published.corrected else {}),
                "chart": svg_image(metric_bars(published.metrics, published.title), "scores"),
                "preview": table(published.preview),
                "warnings": text(" ".join(published.warnings) or "none"),
                "evaluation_id": published.evaluation_id,
                "path": dg.MetadataValue.path(published.path),
                ROW_COUNT: int(published.headline["queries"] or 0),
            },
            data_version=dg.DataVersion(published.evaluation_id),
        )

    yield from _unless_excluded(context, workspace, make)
