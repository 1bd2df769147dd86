"""Scores to `<evaluation_id>.results.json`: published only when every part belongs to the evaluation."""

import logging
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.answer_figures import answer_metrics
from rag_eval_pipeline.evaluation.citation_figures import citation_metrics
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.figure_groups import further_metrics, means_of, retrieval_level
from rag_eval_pipeline.evaluation.judged_results import judge_record
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.measurements import against_baseline, measured_latencies, metadata, performance
from rag_eval_pipeline.evaluation.own_metrics import described, first_faults
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.evaluation.quality_limits import thresholds_of_results
from rag_eval_pipeline.evaluation.query_results import query_results
from rag_eval_pipeline.evaluation.retrieved_documents import retrieved_documents
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation, EvaluationRecord
from rag_eval_pipeline.evaluation.scores_file import written_for
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.results_files import read_results_header
from rag_eval_pipeline.metrics.performance import latency_stats
from rag_eval_pipeline.metrics.statistics import CONFIDENCE
from rag_eval_pipeline.workspace import Workspace

logger = logging.getLogger(__name__)


def publish(workspace: Workspace, evaluation: Evaluation, pair: Pair, *, now: datetime) -> form.EvaluationResults:
    """Writes the results file and marks the evaluation as published.

    Raises:
        InputError: `not_answered`, or `missing_scores` when a score asset has not scored this evaluation.
    """
    evaluation.require_answered()
    record = evaluation.record
    missing = [kind for kind in SCORE_FILES if written_for(evaluation.scores(kind)) != record.evaluation_id]
    if missing:
        raise InputError(
            "missing_scores", evaluation.scores(missing[0]), f"scores of {record.evaluation_id}",
            hint=f"Materialize {', '.join(missing)} of {record.benchmark} x {record.system}.",
        )  # fmt: skip
    results = build_results(workspace, evaluation, pair, now=_dated(workspace, record, now))
    results.write(results_path(workspace, evaluation.record.evaluation_id))
    evaluation.save(state="published", retrieval_level=results.retrieval_level)
    for fault in results.metric_faults:
        logger.warning("%s: %s", results.evaluation_id, fault.message)
    return results


def _dated(workspace: Workspace, record: EvaluationRecord, now: datetime) -> datetime:
    """The date of the results: of answers that were scored again, that of the results they had before.

    Where those are damaged or lost, it is the time of the last answer.
    """
    if record.rescored_from is None:
        return now
    try:
        return read_results_header(results_path(workspace, record.rescored_from)).timestamp
    except InputError:
        return record.answered_at or record.opened_at


def results_path(workspace: Workspace, evaluation_id: str) -> Path:
    """`<evaluation_id>.results.json`."""
    return workspace.results / f"{evaluation_id}.results.json"


def build_results(workspace: Workspace, evaluation: Evaluation, pair: Pair, *, now: datetime) -> form.EvaluationResults:
    """The results of an evaluation; figures that need a judge or a baseline are null and say so."""
    record, parts = evaluation.record, Parts.read(evaluation, pair)
    seed = record.settings.random_seed
    means = means_of(parts, record.settings)
    files = CorpusFiles.read(pair.paths)
    retrieved = retrieved_documents(parts.answers, files, kind=pair.system_file.kind)
    answered = [answer for answer in parts.answers if answer.status == "ok"]
    documents, pages = means.all_of("documents"), means.all_of("pages")
    citations, answers = citation_metrics(parts, means, seed=seed), answer_metrics(parts, means)
    return form.EvaluationResults(
        evaluation_id=record.evaluation_id,
        timestamp=now,
        benchmark=record.benchmark,
        system=record.system,
        system_version=record.system_version,
        dataset_id=record.dataset_id,
        dataset_version=record.dataset_version,
        configuration=record.configuration,
        fingerprints=record.fingerprints,
        summary=form.Summary(
            total_queries=len(parts.answers),
            successful_queries=len(answered),
            failed_queries=len(parts.answers) - len(answered),
            average_latency_ms=latency_stats(measured_latencies(parts.answers)).mean,
            total_evaluation_time_seconds=record.asking_seconds,
        ),
        retrieval_level=retrieval_level(files.count(), documents, pages),
        retrieval_metrics=documents,
        page_retrieval_metrics=pages,
        citation_metrics=citations,
        answer_quality_metrics=answers,
        judge=judge_record(record.settings.judge.kind, record.fingerprints.judge, read_judgements(evaluation)),
        judge_metrics=means.all_of("judged"),
        performance_metrics=performance(workspace, evaluation, pair, parts.answers),
        further_metrics=further_metrics(means),
        own_metrics=described(record.settings.own_metrics),
        metric_faults=first_faults(parts.retrieval, parts.citations, parts.answer_scores, parts.judged),
        warnings=(*record.warnings, *retrieved.warnings()),
        quality_thresholds=thresholds_of_results(workspace, record, citations, answers, parts),
        query_results=tuple(query_results(parts)),
        statistical_analysis=form.StatisticalAnalysis(
            significance_tests={"against_baseline": against_baseline(workspace, record)},
            confidence_intervals={"all_metrics": "calculated", "confidence_level": CONFIDENCE},
        ),
        metadata=metadata(workspace, evaluation, pair),
    )
