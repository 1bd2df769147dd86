"""Publish `<evaluation_id>.results.json`: the answers and scores of one evaluation, and their means.

Results are published only if every score asset belongs to the evaluation.
"""

import math
import os
import platform
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from itertools import chain
from typing import IO, NamedTuple

import numpy as np

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.answer_facts import (
    AnswerFacts,
    AnswerNotes,
    language_warnings,
    performance,
    system_endpoints,
)
from rag_eval_pipeline.evaluation.baseline_files import read_baseline, verdict_file
from rag_eval_pipeline.evaluation.compared_runs import calibrated_measures, compare_scores, run_of_evaluation
from rag_eval_pipeline.evaluation.corpus_names import NO_CITATIONS
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, Evaluation, EvaluationRecord, load_evaluation
from rag_eval_pipeline.evaluation.evaluation_settings import load_custom_metrics
from rag_eval_pipeline.evaluation.judging import JudgementCounts
from rag_eval_pipeline.evaluation.means import (
    OVERALL,
    Means,
    QuestionFacts,
    ScoredRun,
    further_metrics,
    means_of,
    metric_of,
    overall_row,
    retrieval_level,
)
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.quality_thresholds import results_thresholds
from rag_eval_pipeline.evaluation.score_tables import QueryScores, ScoreTable, read_scores, scored_evaluation_id
from rag_eval_pipeline.evaluation.scoring import is_fault
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import EvaluationQuery, question_clusters
from rag_eval_pipeline.formats.row_files import json_rows, write_with_json
from rag_eval_pipeline.judges.corrected_rates import correction
from rag_eval_pipeline.judges.trust_card import read_trust_cards
from rag_eval_pipeline.metrics.abstention import AskedQuestion, abstention_rates, count_abstentions
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, summarise
from rag_eval_pipeline.metrics.span_matching import SPAN_COUNTS
from rag_eval_pipeline.metrics.verdict_rules import RULES
from rag_eval_pipeline.metrics.verdicts import is_sure
from rag_eval_pipeline.storage.atomic_files import errors_about
from rag_eval_pipeline.storage.parquet_files import limit_allocators, return_memory
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace

SPOOLED_BYTES = 8 << 20  # of rows in memory before they go to a temporary file


class PublishedResults(NamedTuple):
    """Published results without `query_results`, the first of these, and the counts of the judgements."""

    results: form.EvaluationResults
    first: list[form.QueryResult]
    judgements: JudgementCounts


class Scores(NamedTuple):
    """The scores of an evaluation by `SCORE_FILES`, and the counts of the judgements."""

    tables: Mapping[str, ScoreTable]
    judgements: JudgementCounts


def read_all_scores(evaluation: Evaluation) -> Scores:
    """Read the scores of an evaluation.

    Raises:
        InputError: `not_answered`, or `missing_scores` when a score asset has not scored this evaluation.
    """
    limit_allocators()
    evaluation.require_answered()
    record = evaluation.record
    missing = [kind for kind in SCORE_FILES if scored_evaluation_id(evaluation.scores(kind)) != record.evaluation_id]
    if missing:
        raise InputError(
            "missing_scores", evaluation.scores(missing[0]), f"scores of {record.evaluation_id}",
            hint=f"Materialize {', '.join(missing)} of {record.benchmark} x {record.system}.",
        )  # fmt: skip
    tables = {kind: read_scores(evaluation.scores(kind)) for kind in SCORE_FILES}
    return Scores(tables, JudgementCounts.read(evaluation))


def publish(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, scores: Scores, *, now: datetime
) -> PublishedResults:
    """Write the results file and mark the evaluation as published; questions and answers are gone through once."""
    path = workspace.results_file(evaluation.record.evaluation_id)
    facts = AnswerFacts(pair)
    # The rows are in the middle of the file, and what comes before them is known after the last one.
    with tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=str(evaluation.folder)) as rows, errors_about(path):
        run = _write_rows(rows, evaluation, pair, scores.tables, facts)
        return_memory()
        results = build_results(
            workspace, evaluation, pair, run, facts, scores.judgements, now=_dated(workspace, evaluation.record, now)
        )
        rows.seek(0)
        write_with_json(path, results, form.ROWS, iter(lambda: rows.read(SPOOLED_BYTES), b""))
    known = {**evaluation.record.known, **scores.judgements.known}
    evaluation.save(state="published", retrieval_level=results.retrieval_level, known=known)
    return PublishedResults(results, facts.first, scores.judgements)


def _write_rows(
    file: IO[bytes],
    evaluation: Evaluation,
    pair: Pair,
    tables: Mapping[str, ScoreTable],
    facts: AnswerFacts,
) -> ScoredRun:
    """Write the result of each question, and return the scores with the overall ones."""
    retrieval, citations, answer_scores, judged = (tables[kind] for kind in SCORE_FILES)
    questions, numbers = QuestionFacts.empty(len(pair.queries)), dict[str, int]()
    latest: list[QueryScores] = []

    def results() -> Iterator[form.QueryResult]:
        rows = zip(retrieval, citations, answer_scores, judged, strict=True)
        for at, (query, answer, scores) in enumerate(zip(pair.queries, evaluation.answers.once(), rows, strict=True)):
            questions.note_question(at, query, numbers)
            latest.append(overall_row(answer, (scores[1], scores[3])))
            result = query_result(query, answer, *scores, latest[-1])
            facts.add(answer, result)
            yield result

    def overall() -> Iterator[QueryScores]:
        for text in json_rows(results(), keeps_nulls=form.EvaluationResults.keeps_nulls):
            file.write(text)
            yield latest.pop()

    support = evaluation.record.settings.judge.judges_support
    table = ScoreTable.of(overall(), OVERALL)
    return ScoredRun(questions, retrieval, citations, answer_scores, judged, table, support)


def _dated(workspace: Workspace, record: EvaluationRecord, now: datetime) -> datetime:
    """Return the date of the results; answers scored again keep their first one, if lost that of the last answer."""
    if record.rescored_from is None:
        return now
    try:
        return form.open_results(workspace.results_file(record.rescored_from)).head.timestamp
    except InputError:
        return record.answered_at or record.opened_at


FAULTS_SHOWN = 10  # per metric; a metric that always fails always fails alike


def build_results(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, parts: ScoredRun, facts: AnswerFacts,
    judgements: JudgementCounts, *, now: datetime,
) -> form.EvaluationResults:  # fmt: skip
    """Build the results of an evaluation without `query_results`, which would not fit into memory.

    Values that need a judge or a baseline are null with a reason.
    """
    record = evaluation.record
    means = means_of(parts, record.settings)
    return_memory()
    measured = performance(workspace, evaluation, pair, facts, judgements)
    documents, pages = means.all_of("documents"), means.all_of("pages")
    citations = citation_metrics(parts, means, facts.notes, seed=record.settings.random_seed)
    answers = answer_metrics(parts, means)
    judge = record.fingerprints.judge
    level = retrieval_level(len(set(pair.files.aliases.values())), documents, pages)
    tests = significance_tests(workspace, evaluation, pair, is_by_page=level == "page")
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
            total_queries=facts.questions,
            successful_queries=facts.answered,
            failed_queries=facts.questions - facts.answered,
            average_latency_ms=measured.latency_stats["mean"],
            total_evaluation_time_seconds=record.asking_seconds,
        ),
        retrieval_level=level,
        retrieval_metrics=documents,
        page_retrieval_metrics=pages,
        citation_metrics=citations,
        answer_quality_metrics=answers,
        judge=None if judge is None else judgements.record(record.settings.judge.kind, judge),
        judge_metrics=_judge_metrics(workspace, record, means, judgements, measured.reused_from),
        performance_metrics=measured,
        further_metrics=further_metrics(means),
        custom_metrics=_custom_metrics(record.settings.custom_metrics),
        metric_faults=tuple(_first_faults(parts)),
        warnings=(
            *record.warnings,
            *facts.passages.warnings(),
            *judgements.warnings(),
            *facts.notes.warnings(),
            *language_warnings(pair),
        ),
        models=dict(facts.notes.models.most_common()),
        quality_thresholds=results_thresholds(workspace, record, citations, answers, parts),
        query_results=(),
        statistical_analysis=form.StatisticalAnalysis(
            significance_tests=tests,
            confidence_intervals={"all_metrics": "calculated", "confidence_level": CONFIDENCE},
        ),
        metadata=metadata(evaluation, pair, tests["against_baseline"]),
    )


def _judge_metrics(
    workspace: Workspace, record: EvaluationRecord, means: Means, judgements: JudgementCounts, reused_from: str | None
) -> dict[str, form.JudgedMetric]:
    metrics = {name: form.JudgedMetric(**metric.__dict__) for name, metric in means.all_of("judged").items()}
    if (judged := metrics.get("judged_correct")) is not None:
        corrected = correction(
            read_trust_cards(workspace.trust_cards), benchmark=record.benchmark, system=record.system,
            fingerprint=record.fingerprints.judge, models=judgements.models,
            answers_of=(record.evaluation_id, reused_from),
            rate=judged.value, interval=judged.confidence_interval,
        )  # fmt: skip
        metrics["judged_correct"] = judged.model_copy(update={"corrected": corrected})
    return metrics


def query_result(
    query: EvaluationQuery, answer: RagAnswer, retrieval: QueryScores, citations: QueryScores,
    answer_scores: QueryScores, judged: QueryScores, overall: QueryScores,
) -> form.QueryResult:  # fmt: skip
    """Return the result of a question."""
    documents: dict[str, float | None] = {}  # by their best rank, with the score of that passage
    for passage in sorted(answer.contexts, key=lambda passage: passage.rank):
        documents.setdefault(passage.document, passage.score)
    faults = {name: None for row in (retrieval, citations, answer_scores, judged, overall) for name in row.faults}
    return form.QueryResult(
        query_id=query.query_id,
        query_text=query.query_text,
        status=answer.status,
        latency_ms=answer.latency_ms,
        retrieval_results=form.RetrievalResults(
            retrieved_docs=tuple(documents),
            relevance_scores=tuple(documents.values()),
            ground_truth_relevant=query.relevant_documents,
        ),
        generated_answer=answer.answer,
        abstained=bool(answer_scores.scores.get("abstained", answer.abstained)),
        citations=tuple(
            CitationSpan(
                file_name=cited.file_name,
                start_char=cited.start_char,
                end_char=cited.end_char,
                page_number=cited.page_number,
            )
            for cited in answer.citations
        ),
        individual_metrics={
            **faults,
            **retrieval.scores,
            "citation_span_accuracy": citations.scores.get("tolerance_jaccard"),
            "exact_match": answer_scores.scores.get("exact_match"),
            "f1": answer_scores.scores.get("f1"),
            **{n: v for n, v in citations.scores.items() if n not in SPAN_COUNTS},
            **{n: v for n, v in answer_scores.scores.items() if n != "abstained"},
            "factual_consistency": None,  # where the judge gave none
            **judged.scores,
            **overall.scores,
        },
        error=answer.error,
    )


def answer_metrics(parts: ScoredRun, means: Means) -> form.AnswerQualityMetrics:
    """Build the metrics of answers."""
    return form.AnswerQualityMetrics(
        exact_match=means.one("answers", "exact_match"),
        f1=means.one("answers", "f1"),
        answerable_exact_match=means.one("answerable", "exact_match"),
        answerable_f1=means.one("answerable", "f1"),
        unanswerable_exact_match=means.one("unanswerable", "exact_match"),
        abstention=_abstention(parts),
        factual_consistency=parts.shares.consistency(),
        hallucination_rate=parts.shares.hallucination(against="citations"),
        hallucination_rate_retrieved=parts.shares.hallucination(against="retrieved"),
    )


def _abstention(parts: ScoredRun) -> form.Abstention:
    rows = parts.answer_scores
    is_scored, is_skipped = rows.has("scored"), rows.has("skipped")
    values, has = rows.values("abstained")
    abstained = np.zeros(len(rows), np.bool_)
    abstained[has] = values != 0.0
    columns = (parts.questions.is_impossible, abstained, is_scored)
    asked = [
        AskedQuestion(is_impossible, is_abstention if scored else None)
        for is_impossible, is_abstention, scored in zip(*(one[~is_skipped].tolist() for one in columns), strict=True)
    ]
    names = parts.questions.clusters[~is_skipped]
    rates = {name: metric_of(rate) for name, rate in abstention_rates(asked, names).items()}
    return form.Abstention(**count_abstentions(asked), **rates)


def citation_metrics(parts: ScoredRun, means: Means, notes: AnswerNotes, *, seed: int) -> form.CitationMetrics:
    """Build the metrics of citations."""
    return form.CitationMetrics(
        span_accuracy=_span_accuracy(parts, means, seed),
        citation_completeness=parts.shares.completeness(),
        citation_correctness=parts.shares.correctness(),
        overall_citation_accuracy=means.one("overall", "overall_citation_accuracy"),
        overall_coverage=means.one("overall", "overall_coverage"),
        validation=form.CitationValidation(
            total_citations=notes.citations,
            invalid_citations=notes.invalid.total(),
            validation_details=dict(notes.invalid),
        ),
    )


def _span_accuracy(parts: ScoredRun, means: Means, seed: int) -> form.SpanAccuracy:
    is_scored = parts.citations.has("scored")
    rows, clusters = parts.citations.where(is_scored), parts.questions.clusters[is_scored]
    true_spans = rows.values("true_spans")[0]
    spans = _total(rows, "true_spans")

    def per_span(measure: str) -> float | None:
        """Return the specification's mean, which is over expected spans, not over questions."""
        return sum((rows.values(measure)[0] * true_spans).tolist()) / spans if spans else None

    def interval(measure: str) -> form.PooledInterval | None:
        # A question's spans are resampled together, as are the questions of a document.
        repeats = true_spans.astype(int)
        values = np.repeat(rows.values(measure)[0], repeats)
        found = summarise(values, clusters=np.repeat(clusters, repeats), seed=seed)
        if found.confidence_interval is None:
            return None
        low, high = found.confidence_interval
        return form.PooledInterval(low=low, high=high, method=found.method, n_clusters=found.n_clusters)

    pooled = ("exact_jaccard", "tolerance_jaccard")
    intervals = {f"mean_{measure}": found for measure in pooled if (found := interval(measure)) is not None}
    return form.SpanAccuracy(
        mean_exact_jaccard=per_span("exact_jaccard"),
        mean_tolerance_jaccard=per_span("tolerance_jaccard"),
        confidence_intervals=intervals,
        perfect_matches=_total(rows, "perfect_matches"),
        good_matches=_total(rows, "good_matches"),
        true_spans=spans,
        predicted_spans=_total(rows, "predicted_spans"),
        precision=means.one("citations", "span_precision"),
        recall=means.one("citations", "span_recall"),
        f1=means.one("citations", "span_f1"),
        reason=None if spans else NO_CITATIONS if parts.citations.reasons()[NO_CITATIONS] else "no_gold_spans",
    )


def _total(rows: ScoreTable, measure: str) -> int:
    return int(rows.values(measure)[0].sum())


def significance_tests(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, *, is_by_page: bool
) -> dict[str, form.SignificanceTest]:
    """Test each metric against the pinned runs, and name the file with the verdict, which reruns may decide later.

    `p_value` is one-sided and Holm-corrected; `significant` at the level that asks for a rerun. Source: Evaluation Data
    Formats 2.3.
    """
    record = evaluation.record
    try:
        path = verdict_file(workspace, record.benchmark, record.system)
        baseline = read_baseline(workspace, record.benchmark, record.system)
        reason = "no_baseline" if baseline is None else "in_verdict_file"
        verdict = form.SignificanceTest(reason=reason, verdicts=path.relative_to(workspace.root).as_posix())
        if baseline is None or record.evaluation_id in baseline.evaluations:
            return {"against_baseline": verdict}
        found, obstacle = compare_scores(
            [replace(run_of_evaluation(evaluation), is_by_page=is_by_page)],
            [run_of_evaluation(load_evaluation(workspace, name)) for name in baseline.evaluations],
            rules=RULES,
            judged=calibrated_measures(workspace, record.benchmark, record.fingerprints.judge),
            clusters=question_clusters(pair.queries),
            is_night=True,
        )
    except InputError as error:  # results are published; the comparison reports what is wrong with the file
        return {"against_baseline": form.SignificanceTest(reason=error.code)}
    if obstacle:
        return {"against_baseline": verdict.model_copy(update={"reason": obstacle})}
    tests = {
        name: form.SignificanceTest(
            baseline_mean=one.baseline_mean,
            current_mean=one.current_mean,
            p_value=one.p_corrected,
            significant=is_sure(one),
            effect_size=one.effect_size,
        )
        for name, (one, _) in found.items()
        if one.estimate is not None
    }
    return {"against_baseline": verdict, **tests}


def _limits(pair: Pair) -> dict[str, float | int]:
    """Return the time limit and the retries of a question."""
    endpoints = system_endpoints(pair)
    if not endpoints:  # a system without a server is asked once: its failures are not transient
        return {"timeout_seconds": pair.settings.timeout_seconds, "max_retries": 0}
    asked = endpoints[0]  # a blueprint has another one for ingestion
    return {
        "timeout_seconds": asked.total_seconds,
        "attempt_timeout_seconds": asked.attempt_seconds,
        "max_retries": asked.max_retries,
    }


def metadata(evaluation: Evaluation, pair: Pair, tests: form.SignificanceTest) -> form.ResultsMetadata:
    """Return the environment, the parameters, and what was checked."""
    settings = evaluation.record.settings
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return form.ResultsMetadata(
        evaluation_environment={
            "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
            "software": f"Python {platform.python_version()}, rag-eval-pipeline {version('rag-eval-pipeline')}",
            "system_load": f"{load:.2f} a core",
        },
        evaluation_parameters={
            **_limits(pair),
            "random_seed": settings.random_seed,
            "tolerance_chars": settings.tolerance_chars,
            "min_coverage": settings.min_coverage,
        },
        quality_assurance={
            "data_validation": "passed",  # a dataset that does not validate is never stamped, hence never evaluated
            "metric_calculation": f"{len(SCORE_FILES)} score files of {evaluation.record.evaluation_id}",
            "statistical_tests": tests.verdicts or f"none: {tests.reason}",
        },
    )


def _custom_metrics(names: Iterable[str]) -> dict[str, form.CustomMetric]:
    """Describe the custom metrics that settings name, by key."""
    described = {}
    for name, definition in load_custom_metrics(names).items():
        info = definition.metric
        low, high = (bound if math.isfinite(bound) else None for bound in info.range)
        described[info.name] = form.CustomMetric(
            definition=name, meaning=info.meaning, source=info.source, direction=info.direction, low=low, high=high,
            levels=info.levels, category=info.category, version=info.version,
        )  # fmt: skip
    return described


def _first_faults(parts: ScoredRun) -> Iterator[form.MetricFault]:
    """Yield the first errors of each metric; its mean counts them all."""
    shown: Counter[str] = Counter()
    tables = (parts.retrieval, parts.citations, parts.answer_scores, parts.judged)
    for row in chain.from_iterable(table.where(table.faulty()) for table in tables):
        for name, line in row.faults.items():
            if is_fault(line) and shown[name] < FAULTS_SHOWN:
                shown[name] += 1
                yield form.MetricFault(metric=name, query_id=row.query_id, message=line)
