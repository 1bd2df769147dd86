"""Retrieval: rankings against judgements, scored as trec_eval scores them, to the last bit.

Ties, unjudged and negative grades, and missing queries are trec_eval's. NaN and a document that stands twice are
errors. Scores are per query; means, coverage and intervals are made from them.
"""

from rag_eval_pipeline.metrics.retrieval.catalogue import DEFAULT_MEASURES, parse_measure, parse_measures
from rag_eval_pipeline.metrics.retrieval.definition import Family, Measure, Parameters
from rag_eval_pipeline.metrics.retrieval.documents import Documents
from rag_eval_pipeline.metrics.retrieval.levels import Passage, reduce_to_documents, reduce_to_level
from rag_eval_pipeline.metrics.retrieval.queries import RunScores, rank_by_score, score_queries, score_query, score_run
from rag_eval_pipeline.metrics.retrieval.runs import Qrels, Run, qrels_from_grades, qrels_of, run_from_scores
from rag_eval_pipeline.metrics.retrieval.scores import Scores, score, standings
from rag_eval_pipeline.metrics.retrieval.standings import Standings

__all__ = [
    "DEFAULT_MEASURES",
    "Documents",
    "Family",
    "Measure",
    "Parameters",
    "Passage",
    "Qrels",
    "Run",
    "RunScores",
    "Scores",
    "Standings",
    "parse_measure",
    "parse_measures",
    "qrels_from_grades",
    "qrels_of",
    "rank_by_score",
    "reduce_to_documents",
    "reduce_to_level",
    "run_from_scores",
    "score",
    "score_queries",
    "score_query",
    "score_run",
    "standings",
]
