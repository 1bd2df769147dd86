"""Metrics: scores of one question or query, their means with intervals, and the nightly verdict.

Everything here is a pure function of values: no clock or network, and no file but in `retrieval.files`,
`citation_files` and `document_texts`. A score that cannot be had is None with a reason and a count, never 0.0.
"""

from rag_eval_pipeline.metrics.abstention import AbstentionCounts, AskedQuestion, abstention_rates, count_abstentions
from rag_eval_pipeline.metrics.answers import (
    AnswerScore,
    ScoredQuestion,
    SquadTotals,
    answer_f1,
    exact_match,
    normalise_answer,
    score_answer,
    squad_totals,
)
from rag_eval_pipeline.metrics.citations import Citation, CitationScores, match_citations
from rag_eval_pipeline.metrics.evidence import ComparedMetric, Evidence, Rules, compare
from rag_eval_pipeline.metrics.measures import DEFAULT_MEASURES, Measure, parse_measure
from rag_eval_pipeline.metrics.performance import (
    ApiUsage,
    CallUsage,
    LatencyStats,
    ResourceUsage,
    api_usage,
    latency_stats,
    resource_usage,
)
from rag_eval_pipeline.metrics.question_metric import AnsweredQuestion, QuestionMetric
from rag_eval_pipeline.metrics.registry import Metric
from rag_eval_pipeline.metrics.retrieval import RunScores, rank_by_score, reduce_to_documents, score_query, score_run
from rag_eval_pipeline.metrics.significance import comparison_seed
from rag_eval_pipeline.metrics.spans import (
    Overlap,
    Span,
    char_f1,
    char_precision,
    char_recall,
    dice,
    jaccard,
    merge,
    overlap,
    token_precision,
    token_recall,
)
from rag_eval_pipeline.metrics.statistics import Interval, Summary, proportion, summarise
from rag_eval_pipeline.metrics.verdicts import Verdict, confirm, verdict

__all__ = [
    "DEFAULT_MEASURES",
    "AbstentionCounts",
    "AnswerScore",
    "AnsweredQuestion",
    "ApiUsage",
    "AskedQuestion",
    "CallUsage",
    "Citation",
    "CitationScores",
    "ComparedMetric",
    "Evidence",
    "Interval",
    "LatencyStats",
    "Measure",
    "Metric",
    "Overlap",
    "QuestionMetric",
    "ResourceUsage",
    "Rules",
    "RunScores",
    "ScoredQuestion",
    "Span",
    "SquadTotals",
    "Summary",
    "Verdict",
    "abstention_rates",
    "answer_f1",
    "api_usage",
    "char_f1",
    "char_precision",
    "char_recall",
    "compare",
    "comparison_seed",
    "confirm",
    "count_abstentions",
    "dice",
    "exact_match",
    "jaccard",
    "latency_stats",
    "match_citations",
    "merge",
    "normalise_answer",
    "overlap",
    "parse_measure",
    "proportion",
    "rank_by_score",
    "reduce_to_documents",
    "resource_usage",
    "score_answer",
    "score_query",
    "score_run",
    "squad_totals",
    "summarise",
    "token_precision",
    "token_recall",
    "verdict",
]
