"""Scores to `<evaluation_id>.results.json`: published only when every part belongs to the evaluation."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.judged_results import JudgedShares, judge_record
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.measurements import NO_BASELINE, metadata, performance
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import read_responses
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation
from rag_eval_pipeline.evaluation.scores_file import PAGE, QueryScores, read_scores, written_for
from rag_eval_pipeline.evaluation.scoring import ANSWER_MEASURES, CITATION_MEASURES, CONTEXT_MEASURES
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.abstention import AskedQuestion, count_abstentions
from rag_eval_pipeline.metrics.claims import CLAIM_COUNTS
from rag_eval_pipeline.metrics.performance import latency_stats
from rag_eval_pipeline.metrics.statistics import CONFIDENCE, Summary, summarise
from rag_eval_pipeline.systems.answer import Citation, RagAnswer
from rag_eval_pipeline.workspace import Workspace

SPAN_COUNTS = frozenset({"perfect_matches", "good_matches", "true_spans", "predicted_spans"})
PAGE_SHARE = 0.9  # of the questions; a headline must not rest on the few whose gold text was located
FEW_DOCUMENTS = 20  # below, ten of them are half of the corpus, and finding a document says little


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """Everything one results file is made of, a value per question each."""

    queries: Sequence[EvaluationQuery]
    answers: Sequence[RagAnswer]
    retrieval: Sequence[QueryScores]
    citations: Sequence[QueryScores]
    answer_scores: Sequence[QueryScores]
    judged: Sequence[QueryScores]
    seed: int

    @property
    def shares(self) -> JudgedShares:
        """The judge's counts over all answers."""
        return JudgedShares(self.judged)


def publish(workspace: Workspace, evaluation: Evaluation, pair: Pair, *, now: datetime) -> form.EvaluationResults:
    """Writes the results file and marks the evaluation as published.

    Raises:
        InputError: `not_answered`, or `missing_scores` when a score asset has not scored this evaluation.
    """
    evaluation.require_answered()
    for kind in SCORE_FILES:
        if written_for(evaluation.scores(kind)) != evaluation.record.evaluation_id:
            raise InputError(
                "missing_scores", evaluation.scores(kind), f"scores of {evaluation.record.evaluation_id}",
                hint=f"Materialize {kind} of {evaluation.record.benchmark} x {evaluation.record.system}.",
            )  # fmt: skip
    results = build_results(workspace, evaluation, pair, now=now)
    results.write(results_path(workspace, evaluation.record.evaluation_id))
    evaluation.save(state="published", retrieval_level=results.retrieval_level)
    return results


def results_path(workspace: Workspace, evaluation_id: str) -> Path:
    """`<evaluation_id>.results.json`."""
    return workspace.results / f"{evaluation_id}.results.json"


def build_results(workspace: Workspace, evaluation: Evaluation, pair: Pair, *, now: datetime) -> form.EvaluationResults:
    """The results of an evaluation; figures that need a judge or a baseline are null and say so."""
    record = evaluation.record
    parts = _Parts(
        queries=pair.queries,
        answers=read_responses(evaluation.responses),
        retrieval=read_scores(evaluation.scores("retrieval_scores")),
        citations=read_scores(evaluation.scores("citation_scores")),
        answer_scores=read_scores(evaluation.scores("answer_scores")),
        judged=read_scores(evaluation.scores("judge_scores")),
        seed=record.settings.random_seed,
    )
    answered = [answer for answer in parts.answers if answer.status == "ok"]
    measures = record.settings.measures
    latency = latency_stats([answer.latency_ms for answer in answered])
    located = [row for query, row in zip(parts.queries, parts.retrieval, strict=True) if query.citations]
    others = len(parts.retrieval) - len(located)
    pages = {name: _metric(located, PAGE + name, parts.seed, level="page", left_out=others) for name in measures}
    documents = {name: _metric(parts.retrieval, name, parts.seed, level="document") for name in measures}
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
            average_latency_ms=latency.mean,
            total_evaluation_time_seconds=record.asking_seconds,
        ),
        retrieval_level=retrieval_level(CorpusFiles.read(pair.paths).count(), documents, pages),
        retrieval_metrics=documents,
        page_retrieval_metrics=pages,
        citation_metrics=_citation_metrics(parts),
        answer_quality_metrics=_answer_metrics(parts),
        judge=judge_record(record.settings.judge.kind, record.fingerprints.judge, read_judgements(evaluation)),
        judge_metrics={name: _metric(parts.judged, name, parts.seed) for name in _judge_measures(parts)},
        performance_metrics=performance(workspace, evaluation, parts.answers),
        further_metrics=_further_metrics(parts),
        query_results=tuple(_query_results(parts)),
        statistical_analysis=form.StatisticalAnalysis(
            significance_tests={"against_baseline": form.SignificanceTest(reason=NO_BASELINE)},
            confidence_intervals={"all_metrics": "calculated", "confidence_level": CONFIDENCE},
        ),
        metadata=metadata(evaluation),
    )


def retrieval_level(
    n_documents: int, by_document: Mapping[str, form.Metric], by_page: Mapping[str, form.Metric]
) -> form.Level:
    """What to look at first: pages in a small corpus, if nearly all questions that have documents have pages too.

    Args:
        n_documents: Documents of the corpus.
        by_document: Retrieval metrics at document level.
        by_page: The same measures at page level.
    """
    documents = sum(metric.n_scored for metric in by_document.values())
    pages = sum(metric.n_scored for metric in by_page.values())
    return "page" if n_documents < FEW_DOCUMENTS and documents and pages >= PAGE_SHARE * documents else "document"


def _metric(
    rows: Iterable[QueryScores], measure: str, seed: int, *, level: form.Level | None = None, left_out: int = 0
) -> form.Metric:
    """The mean of a measure; questions without this measure are skipped, as are those left out of `rows`."""
    values: list[float | None] = []
    skipped = left_out
    for row in rows:
        if row.outcome == "failed":
            values.append(None)
        elif measure in row.scores:
            values.append(row.scores[measure])
        else:
            skipped += 1
    return _as_metric(summarise(values, skipped=skipped, seed=seed), level)


def _as_metric(summary: Summary, level: form.Level | None = None) -> form.Metric:
    interval = summary.confidence_interval
    return form.Metric(
        value=summary.value,
        confidence_interval=None if interval is None else (interval.low, interval.high),
        method=summary.method,
        n_scored=summary.n_scored,
        n_failed=summary.n_failed,
        n_skipped=summary.n_skipped,
        coverage=summary.coverage,
        level=level,
        reason=summary.reason,
    )


def _citation_metrics(parts: _Parts) -> form.CitationMetrics:
    scored = [row.scores for row in parts.citations if row.outcome == "scored"]
    spans = int(sum(scores["true_spans"] for scores in scored))

    def per_span(measure: str) -> float | None:
        """The specification's mean is over expected spans, not over questions."""
        return sum(s[measure] * s["true_spans"] for s in scored) / spans if spans else None

    def total(measure: str) -> int:
        return int(sum(scores[measure] for scores in scored))

    return form.CitationMetrics(
        span_accuracy=form.SpanAccuracy(
            mean_exact_jaccard=per_span("exact_jaccard"),
            mean_tolerance_jaccard=per_span("tolerance_jaccard"),
            perfect_matches=total("perfect_matches"),
            good_matches=total("good_matches"),
            true_spans=spans,
            predicted_spans=total("predicted_spans"),
            precision=_metric(parts.citations, "span_precision", parts.seed),
            recall=_metric(parts.citations, "span_recall", parts.seed),
            f1=_metric(parts.citations, "span_f1", parts.seed),
            reason=None if spans else "no_gold_spans",
        ),
        citation_completeness=parts.shares.completeness(),
        citation_correctness=parts.shares.correctness(),
    )


def _judge_measures(parts: _Parts) -> list[str]:
    """What the judge gave any answer, counts excepted, in the order of the first answers."""
    named = dict.fromkeys(name for row in parts.judged for name in row.scores)
    return [name for name in named if name not in CLAIM_COUNTS]


def _answer_metrics(parts: _Parts) -> form.AnswerQualityMetrics:
    pairs = list(zip(parts.queries, parts.answer_scores, strict=True))
    answerable = [row for query, row in pairs if not query.is_impossible]
    unanswerable = [row for query, row in pairs if query.is_impossible]
    counts = count_abstentions(
        AskedQuestion(query.is_impossible, bool(row.scores["abstained"]) if row.outcome == "scored" else None)
        for query, row in pairs
        if row.outcome != "skipped"
    )
    return form.AnswerQualityMetrics(
        exact_match=_metric(parts.answer_scores, "exact_match", parts.seed),
        f1=_metric(parts.answer_scores, "f1", parts.seed),
        answerable_exact_match=_metric(answerable, "exact_match", parts.seed, left_out=len(unanswerable)),
        answerable_f1=_metric(answerable, "f1", parts.seed, left_out=len(unanswerable)),
        unanswerable_exact_match=_metric(unanswerable, "exact_match", parts.seed, left_out=len(answerable)),
        abstention=form.Abstention(
            answerable_answered=counts.answerable_answered,
            answerable_abstained=counts.answerable_abstained,
            unanswerable_answered=counts.unanswerable_answered,
            unanswerable_abstained=counts.unanswerable_abstained,
            precision=_as_metric(counts.precision),
            recall=_as_metric(counts.recall),
            f1=_as_metric(counts.f1),
            over_refusal_rate=_as_metric(counts.over_refusal_rate),
        ),
        factual_consistency=parts.shares.consistency(),
        hallucination_rate=parts.shares.hallucination(against="citations"),
        hallucination_rate_retrieved=parts.shares.hallucination(against="retrieved"),
    )


def _further_metrics(parts: _Parts) -> dict[str, form.Metric]:
    """Means of the scores that no other part of the file has."""
    named = {
        "retrieval": (parts.retrieval, CONTEXT_MEASURES),
        "citations": (parts.citations, [name for name in CITATION_MEASURES if name not in SPAN_COUNTS]),
        "answers": (parts.answer_scores, [name for name in ANSWER_MEASURES if name not in {"abstained"}]),
    }
    found = {name: (rows, name) for rows, names in named.values() for name in names}
    metrics = {name: _metric(rows, measure, parts.seed) for name, (rows, measure) in found.items()}
    return {name: metric for name, metric in metrics.items() if metric.n_scored}


def _query_results(parts: _Parts) -> Iterable[form.QueryResult]:
    rows = zip(
        parts.queries, parts.answers, parts.retrieval, parts.citations, parts.answer_scores, parts.judged, strict=True
    )
    for query, answer, retrieval, citations, answer_scores, judged in rows:
        documents = _first_of_each(answer)
        yield form.QueryResult(
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
            abstained=answer.abstained,
            citations=tuple(_citation(citation) for citation in answer.citations),
            individual_metrics={
                **retrieval.scores,
                "citation_span_accuracy": citations.scores.get("tolerance_jaccard"),
                "exact_match": answer_scores.scores.get("exact_match"),
                "f1": answer_scores.scores.get("f1"),
                **{n: v for n, v in citations.scores.items() if n not in SPAN_COUNTS},
                **{n: v for n, v in answer_scores.scores.items() if n != "abstained"},
                "factual_consistency": None,  # where the judge gave none
                **judged.scores,
            },
            error=answer.error,
        )


def _first_of_each(answer: RagAnswer) -> dict[str, float | None]:
    """Documents by their best rank, with the score of the passage that gave it."""
    documents: dict[str, float | None] = {}
    for passage in sorted(answer.contexts, key=lambda passage: passage.rank):
        documents.setdefault(passage.document, passage.score)
    return documents


def _citation(citation: Citation) -> CitationSpan:
    return CitationSpan(
        file_name=citation.file_name,
        start_char=citation.start_char,
        end_char=citation.end_char,
        page_number=citation.page_number,
    )
