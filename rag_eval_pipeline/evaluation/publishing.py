"""`<evaluation_id>.results.json`, made of the answers and scores of one evaluation, with its quality thresholds.

Results are published only if every score asset belongs to the evaluation.
"""

import json
import math
import os
import platform
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import IO, Literal, NamedTuple

import numpy as np
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS, verdict_file
from rag_eval_pipeline.evaluation.corpus_names import NO_CITATIONS, PassageCounts
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
from rag_eval_pipeline.evaluation.score_tables import QueryScores, ScoreTable, Values, read_scores, scored_evaluation_id
from rag_eval_pipeline.evaluation.scoring import is_fault
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.formats.row_files import json_rows, write_with_json
from rag_eval_pipeline.judges.trust_card import is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.abstention import AskedQuestion, abstention_rates, count_abstentions
from rag_eval_pipeline.metrics.claims import HALLUCINATION
from rag_eval_pipeline.metrics.intervals import CONFIDENCE, summarise
from rag_eval_pipeline.metrics.performance import CallUsage, api_usage, latency_intervals, latency_stats, resource_usage
from rag_eval_pipeline.metrics.span_matching import SPAN_COUNTS
from rag_eval_pipeline.storage.atomic_files import errors_about
from rag_eval_pipeline.storage.parquet_files import limit_allocators
from rag_eval_pipeline.storage.yaml_files import read_settings
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.workspace import Workspace

VERDICTS_FILE = "verdicts.config.yaml"
THRESHOLDS_KEY = "quality_thresholds"  # in that file
# Threshold -> the measure that it limits, and whether it is the most instead of the least.
THRESHOLDS = {
    "span_accuracy": ("tolerance_jaccard", False),
    "citation_validity": ("citation_correctness", False),
    "answer_consistency": ("factual_consistency", False),
    "hallucination_tolerance": (HALLUCINATION, True),
}
JUDGED = frozenset({"citation_validity", "answer_consistency", "hallucination_tolerance"})
PLACES = 12  # decimals of a score that are compared with a threshold: the last bit of a mean must not decide
FIRST_KEPT = 5  # results of questions, for a preview
SPOOLED_BYTES = 8 << 20  # of rows in memory before they go to a temporary file
FAULTS_SHOWN = 10  # per metric; a metric that always fails always fails alike


class Published(NamedTuple):
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


def publish(workspace: Workspace, evaluation: Evaluation, pair: Pair, scores: Scores, *, now: datetime) -> Published:
    """Write the results file and mark the evaluation as published; questions and answers are gone through once."""
    path = results_path(workspace, evaluation.record.evaluation_id)
    facts = AnswerFacts(pair)
    # The rows are in the middle of the file, and what comes before them is known after the last one.
    with tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=str(evaluation.folder)) as rows, errors_about(path):
        run = _write_rows(rows, evaluation, pair, scores.tables, facts)
        results = build_results(
            workspace, evaluation, pair, run, facts, scores.judgements, now=_dated(workspace, evaluation.record, now)
        )
        rows.seek(0)
        write_with_json(path, results, form.ROWS, iter(lambda: rows.read(SPOOLED_BYTES), b""))
    evaluation.save(state="published", retrieval_level=results.retrieval_level)
    return Published(results, facts.first, scores.judgements)


def _write_rows(
    file: IO[bytes],
    evaluation: Evaluation,
    pair: Pair,
    tables: Mapping[str, ScoreTable],
    facts: "AnswerFacts",
) -> ScoredRun:
    """Write the result of each question, and return the scores with the overall ones."""
    retrieval, citations, answer_scores, judged = (tables[kind] for kind in SCORE_FILES)
    questions, numbers = QuestionFacts.empty(len(pair.queries)), dict[str, int]()
    latest: list[QueryScores] = []

    def results() -> Iterator[form.QueryResult]:
        rows = zip(retrieval, citations, answer_scores, judged, strict=True)
        for at, (query, answer, scores) in enumerate(zip(pair.queries, evaluation.answers, rows, strict=True)):
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
        return form.open_results(results_path(workspace, record.rescored_from)).head.timestamp
    except InputError:
        return record.answered_at or record.opened_at


def results_path(workspace: Workspace, evaluation_id: str) -> Path:
    """Return the path of an evaluation's results."""
    return workspace.results / f"{evaluation_id}.results.json"


def build_results(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, parts: ScoredRun, facts: "AnswerFacts",
    judgements: JudgementCounts, *, now: datetime,
) -> form.EvaluationResults:  # fmt: skip
    """Build the results of an evaluation without `query_results`, which would not fit into memory.

    Values that need a judge or a baseline are null with a reason.
    """
    record = evaluation.record
    means = means_of(parts, record.settings)
    measured = performance(workspace, evaluation, pair, facts, judgements)
    documents, pages = means.all_of("documents"), means.all_of("pages")
    citations = citation_metrics(parts, means, seed=record.settings.random_seed)
    answers = answer_metrics(parts, means)
    judge = record.fingerprints.judge
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
        retrieval_level=retrieval_level(len(set(pair.files.aliases.values())), documents, pages),
        retrieval_metrics=documents,
        page_retrieval_metrics=pages,
        citation_metrics=citations,
        answer_quality_metrics=answers,
        judge=None if judge is None else judgements.record(record.settings.judge.kind, judge),
        judge_metrics=means.all_of("judged"),
        performance_metrics=measured,
        further_metrics=further_metrics(means),
        own_metrics=_custom_metrics(record.settings.custom_metrics),
        metric_faults=tuple(_first_faults(parts)),
        warnings=(*record.warnings, *facts.passages.total(pair.system_file.kind).warnings()),
        quality_thresholds=results_thresholds(workspace, record, citations, answers, parts),
        query_results=(),
        statistical_analysis=form.StatisticalAnalysis(
            significance_tests={"against_baseline": against_baseline(workspace, record)},
            confidence_intervals={"all_metrics": "calculated", "confidence_level": CONFIDENCE},
        ),
        metadata=metadata(workspace, evaluation, pair),
    )


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
    counts = count_abstentions(asked)
    rates = {name: metric_of(rate) for name, rate in abstention_rates(asked, names).items()}
    return form.Abstention(**asdict(counts), **rates)


def citation_metrics(parts: ScoredRun, means: Means, *, seed: int) -> form.CitationMetrics:
    """Build the metrics of citations."""
    return form.CitationMetrics(
        span_accuracy=_span_accuracy(parts, means, seed),
        citation_completeness=parts.shares.completeness(),
        citation_correctness=parts.shares.correctness(),
        overall_citation_accuracy=means.one("overall", "overall_citation_accuracy"),
        overall_coverage=means.one("overall", "overall_coverage"),
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


class AnswerFacts:
    """What results state of the answers of a run, gathered answer by answer."""

    def __init__(self, pair: Pair) -> None:
        self.questions = 0
        self.answered = 0
        self.latencies = array("d")  # measured ones, of answered questions
        self.sources: set[str | None] = set()  # the evaluations that measured them; None for this one
        # By column: objects that stay would keep the memory of the rows that were made between them.
        self._calls = tuple(array("d") for _ in CallUsage._fields)
        self.passages = PassageCounts(pair.files)
        self.first: list[form.QueryResult] = []
        self._is_free = pair.system_file.traits.is_free

    def add(self, answer: RagAnswer, result: form.QueryResult | None = None) -> None:
        """Note one answer, with its result if the first ones are to be kept."""
        self.questions += 1
        if answer.status == "ok":
            self.answered += 1
            if answer.latency_ms is not None:
                self.latencies.append(answer.latency_ms)
        self.sources.add(answer.reused_from)
        for column, used in zip(self._calls, _call(answer, is_free=self._is_free), strict=True):
            column.append(math.nan if used is None else used)
        self.passages.add(answer)
        if result is not None and len(self.first) < FIRST_KEPT:
            self.first.append(result)

    def calls(self) -> Iterator[CallUsage]:
        """Yield what each answer used."""

        def whole(number: float) -> int | None:
            return None if math.isnan(number) else int(number)

        for tokens, requests, cost, prompt, completion in zip(*self._calls, strict=True):
            yield CallUsage(whole(tokens), int(requests), cost, whole(prompt), whole(completion))


def performance(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, facts: AnswerFacts, judgements: JudgementCounts
) -> form.PerformanceMetrics:
    """Measure time, memory and tokens; reused answers keep the values of the evaluation that measured them."""
    # If some were measured now, all count as measured now.
    source = next(iter(facts.sources)) if len(facts.sources) == 1 else None
    try:
        measured = load_evaluation(workspace, source) if source else evaluation
    except InputError:
        measured = evaluation  # that run was removed: its latencies are in the answers, its samples are lost
    samples = json.loads(measured.resources.read_bytes()) if measured.resources.exists() else {}
    latency = latency_stats(facts.latencies)
    usage = api_usage(facts.calls())

    def resource(name: str) -> form.ResourceUsage:
        used = resource_usage(samples.get(name, []))
        return form.ResourceUsage(mean=used.mean, peak=used.peak, std=used.std)

    return form.PerformanceMetrics(
        latency_stats={name: getattr(latency, name) for name in ("mean", "p50", "p95", "p99", "min", "max")},
        latency_reason=latency.reason,
        latency_intervals=latency_intervals(facts.latencies, seed=evaluation.record.settings.random_seed),
        resource_usage={"memory_mb": resource("memory_mb"), "cpu_percent": resource("cpu_percent")},
        resource_usage_of="evaluation" if _endpoints(pair) else "evaluation_and_system",
        api_usage={
            "total_tokens": usage.total_tokens,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_requests": usage.total_requests,
            "estimated_cost_usd": usage.estimated_cost_usd,
            "answers_without_tokens": usage.n_without_tokens,
        },
        judge_usage=judgements.usage,
        in_flight=evaluation.record.in_flight,
        reused_from=source,
    )


def against_baseline(workspace: Workspace, record: EvaluationRecord) -> form.SignificanceTest:
    """Name the file that will have the verdict: an evaluation is compared only after it is published."""
    try:
        path = verdict_file(workspace, record.benchmark, record.system)
    except InputError as error:  # results are published; the comparison reports what is wrong with the file
        return form.SignificanceTest(reason=error.code)
    reason = "no_baseline" if path.name == REGRESSIONS else "in_verdict_file"
    return form.SignificanceTest(reason=reason, verdicts=path.relative_to(workspace.root).as_posix())


def _call(answer: RagAnswer, *, is_free: bool) -> CallUsage:
    """Return what an answer used; its tokens are unknown if a paid system was asked and reported none."""
    usage = answer.usage
    is_counted = is_free or usage.total_tokens > 0 or usage.requests == 0
    return CallUsage(
        total_tokens=usage.total_tokens if is_counted else None,
        requests=usage.requests,
        cost_usd=usage.estimated_cost_usd,
        prompt_tokens=usage.prompt_tokens if is_counted else None,
        completion_tokens=usage.completion_tokens if is_counted else None,
    )


def _limits(pair: Pair) -> dict[str, float | int]:
    """Return the time limit and the retries of a question."""
    endpoints = _endpoints(pair)
    if not endpoints:  # a system without a server is asked once: its failures are not transient
        return {"timeout_seconds": pair.settings.timeout_seconds, "max_retries": 0}
    asked = endpoints[0]  # a blueprint has another one for ingestion
    return {
        "timeout_seconds": asked.total_seconds,
        "attempt_timeout_seconds": asked.attempt_seconds,
        "max_retries": asked.max_retries,
    }


def _endpoints(pair: Pair) -> list[EndpointSettings]:
    """Return the servers of a system, the one that answers questions first."""
    return [one for _, one in pair.system_file.settings if isinstance(one, EndpointSettings)]


def metadata(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> form.ResultsMetadata:
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
            "statistical_tests": against_baseline(workspace, evaluation.record).verdicts,
        },
    )


def _custom_metrics(names: Iterable[str]) -> dict[str, form.OwnMetric]:
    """Describe the custom metrics that settings name, by key."""
    described = {}
    for name, definition in load_custom_metrics(names).items():
        info = definition.metric
        low, high = (bound if math.isfinite(bound) else None for bound in info.range)
        described[info.name] = form.OwnMetric(
            definition=name, meaning=info.meaning, source=info.source, direction=info.direction, low=low, high=high,
            levels=info.levels, room=info.category, version=info.version,
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


# --- quality thresholds of verdicts.config.yaml


class QualityThresholds(Model):
    """The least, and for hallucination the most, that a mean or an answer's score may be; null sets no limit."""

    span_accuracy: float | None = pydantic.Field(None, ge=0, le=1, description="Minimum of the citation overlap.")
    citation_validity: float | None = pydantic.Field(
        None, ge=0, le=1, description="Minimum share of citations that support their claim."
    )
    answer_consistency: float | None = pydantic.Field(None, ge=0, le=1, description="Minimum factual consistency.")
    hallucination_tolerance: float | None = pydantic.Field(
        None, ge=0, le=1, description="Maximum share of claims that no cited text supports."
    )


def read_quality_thresholds(workspace: Workspace) -> QualityThresholds:
    """Read the thresholds of a workspace; none without the file.

    They move no score, so they are read when results are published and are in no fingerprint.

    Raises:
        InputError: `bad_yaml`, or `bad_format` naming the first bad limit.
    """
    path = workspace.config / VERDICTS_FILE
    settings = read_settings(path, missing_ok=True)
    try:
        return QualityThresholds.model_validate(settings.get(THRESHOLDS_KEY) or {})
    except pydantic.ValidationError as error:
        raise bad_format(f"{path}, {THRESHOLDS_KEY}", error, QualityThresholds) from error


def broken_thresholds(scores: Mapping[str, float], thresholds: QualityThresholds) -> list[str]:
    """Return the thresholds that scores by measure are worse than; a missing score breaks none.

    Source: Citation Accuracy Evaluation 6.1, quality_thresholds, and 9.2, alerts for a query.
    """
    broken = []
    for name, (measure, is_most) in THRESHOLDS.items():
        score = scores.get(measure)
        limit: float | None = getattr(thresholds, name)
        if score is None or limit is None:
            continue
        if round((score - limit) if is_most else (limit - score), PLACES) > 0:
            broken.append(name)
    return broken


class ThresholdCheck(NamedTuple):
    """A threshold and the value compared with it; `is_broken` is None for a `reason`."""

    limit: float
    bound: Literal["least", "most"]
    value: float | None
    is_broken: bool | None
    reason: Literal["no_value", "not_calibrated"] | None = None


def check_thresholds(
    thresholds: QualityThresholds, values: Mapping[str, float | None], *, is_calibrated: bool
) -> dict[str, ThresholdCheck]:
    """Compare each threshold with its value; those of a judge not calibrated for support break none."""
    means = {measure: value for name, (measure, _) in THRESHOLDS.items() if (value := values[name]) is not None}
    broken = broken_thresholds(means, thresholds)
    held = {}
    for name, (_, is_most) in THRESHOLDS.items():
        limit: float | None = getattr(thresholds, name)
        if limit is None:
            continue
        reason: Literal["no_value", "not_calibrated"] | None = None
        if values[name] is None or (name in JUDGED and not is_calibrated):
            reason = "no_value" if values[name] is None else "not_calibrated"
        is_broken = None if reason else name in broken
        held[name] = ThresholdCheck(limit, "most" if is_most else "least", values[name], is_broken, reason)
    return held


def results_thresholds(
    workspace: Workspace, record: EvaluationRecord, citations: form.CitationMetrics, answers: form.AnswerQualityMetrics,
    parts: ScoredRun,
) -> dict[str, form.HeldThreshold]:  # fmt: skip
    """Return the workspace's thresholds for the results of an evaluation, with how many answers break each."""
    thresholds = read_quality_thresholds(workspace)
    values = {
        "span_accuracy": citations.span_accuracy.mean_tolerance_jaccard,
        "citation_validity": citations.citation_correctness.value,
        "answer_consistency": answers.factual_consistency.value,
        "hallucination_tolerance": answers.hallucination_rate.value,
    }
    calibrated = is_calibrated(
        read_trust_cards(workspace.trust_cards),
        benchmark=record.benchmark,
        fingerprint=record.fingerprints.judge,
        task="support",
    )

    def scores_of(name: str) -> Values:
        table = parts.citations if name == "span_accuracy" else parts.judged
        return table.values(THRESHOLDS[name][0])[0]

    def count_broken(name: str) -> int:
        scores = scores_of(name).tolist()
        return sum(name in broken_thresholds({THRESHOLDS[name][0]: score}, thresholds) for score in scores)

    return {
        name: form.HeldThreshold(
            **held._asdict(),
            answers_scored=len(scores_of(name)),
            answers_broken=None if held.reason else count_broken(name),
        )
        for name, held in check_thresholds(thresholds, values, is_calibrated=calibrated).items()
    }
