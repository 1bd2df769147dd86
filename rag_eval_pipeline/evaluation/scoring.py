"""Answers to per-question scores: retrieval, citations, answers, and what the judge says.

A question to which measures do not apply is `skipped`, answered or not: retrieval and citations of an impossible
question, citations where no gold text was located. Any other question without an answer is `failed` and has no score.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.event_evaluations import with_evaluators
from rag_eval_pipeline.evaluation.judging import judge_answers
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.retrieved_documents import retrieved_documents
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.evaluation.score_rows import ScoringReport, publish_rows, score_rows
from rag_eval_pipeline.evaluation.scores_file import PAGE
from rag_eval_pipeline.evaluation.span_places import cited_words, places
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.question_scores import answer_scores, citation_scores, context_scores, joint_scores
from rag_eval_pipeline.metrics.retrieval import reduce_to_documents, score_queries
from rag_eval_pipeline.metrics.span_columns import Citation, Span
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage
from rag_eval_pipeline.workspace import Workspace

CITATION_MEASURES = (
    "exact_jaccard", "tolerance_jaccard", "perfect_matches", "good_matches", "true_spans", "predicted_spans",
    "span_precision", "span_recall", "span_f1", "char_precision", "char_recall", "char_f1", "char_jaccard",
    "best_exact_jaccard", "best_tolerance_jaccard", "best_span_precision", "best_span_recall", "token_precision",
    "token_recall", "token_f1", "token_jaccard", "facts_em", "facts_f1", "facts_precision", "facts_recall",
)  # fmt: skip
ANSWER_MEASURES = (
    "exact_match", "f1", "abstained", "exact_match_in", "f1_in", "hotpot_em", "hotpot_f1", "rouge_l", "joint_em",
    "joint_f1",
)  # fmt: skip
CONTEXT_MEASURES = ("context_precision", "context_char_recall", "context_char_precision", "context_char_iou")


_Ranking = tuple[list[str], dict[str, int]]  # documents in rank order, and the grades of the relevant ones
NOTHING_ASKED: _Ranking = ([], {})  # a question without relevant pages has no page-level score


class _Rankings(NamedTuple):
    documents: _Ranking
    pages: _Ranking | None
    contexts: dict[str, float]


class _Cited(NamedTuple):
    gold: list[Citation]
    given: list[Citation]


def score_retrieval(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Document-level measures by their names, page-level ones with the prefix `page/`."""
    evaluation.require_answered()
    files = CorpusFiles.read(pair.paths)
    retrieved = retrieved_documents(iter_responses(evaluation.responses), files, kind=pair.system_file.kind)
    settings = evaluation.record.settings

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if query.is_impossible or not query.relevant_documents:
            return "impossible" if query.is_impossible else "no_relevant_documents"
        return retrieved.skip_reason(answer, files) if answer.status == "ok" else None

    def rankings(query: EvaluationQuery, answer: RagAnswer) -> _Rankings:
        return _Rankings(
            _documents(query, answer, files), _pages(query, answer, files), _contexts(query, answer, files)
        )

    def scores(given: list[_Rankings]) -> list[dict[str, float]]:
        # All at once: one by one, each question takes twenty times as long.
        documents = score_queries((one.documents for one in given), settings.measures)
        pages = score_queries((one.pages or NOTHING_ASKED for one in given), settings.measures)
        return [
            (by_document or {}) | {PAGE + name: value for name, value in (by_page or {}).items()} | one.contexts
            for by_document, by_page, one in zip(documents, pages, given, strict=True)
        ]

    measures = settings.measure_names
    names = [*measures, *(PAGE + name for name in measures), *CONTEXT_MEASURES]
    report = score_rows(evaluation, pair, "retrieval_scores", names, rankings, skipped, finish=scores)
    return replace(report, retrieved=retrieved)


def score_citations(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Span accuracy of each answer's citations against the located gold texts."""
    files = CorpusFiles.read(pair.paths)
    tolerance = evaluation.record.settings.tolerance_chars

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if not query.citations:
            return "impossible" if query.is_impossible else "no_gold_spans"
        return _without_text(answer)

    def cited(query: EvaluationQuery, answer: RagAnswer) -> _Cited:
        return _Cited(places(query.citations, files), places(answer.citations, files))

    def scores(given: list[_Cited]) -> list[dict[str, float]]:
        gold, predicted = [one.gold for one in given], [one.given for one in given]
        return citation_scores(gold, predicted, tolerance=tolerance, texts=cited_words(files, gold, predicted))

    return score_rows(evaluation, pair, "citation_scores", CITATION_MEASURES, cited, skipped, finish=scores)


def score_answers(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """SQuAD v2's exact match and F1, an abstention being the empty answer; and whether the system abstained."""
    files = CorpusFiles.read(pair.paths)
    names = files.names()
    language = pair.dataset.metadata.language

    def score(query: EvaluationQuery, answer: RagAnswer) -> dict[str, float]:
        text = "" if answer.abstained or answer.answer is None else strip_citations(answer.answer, names)
        scores = answer_scores(text, query.accepted_answers, language=language)
        scores |= joint_scores(
            text, query.accepted_answers, places(answer.citations, files), places(query.citations, files)
        )
        return scores | {"abstained": float(answer.abstained)}

    return score_rows(
        evaluation, pair, "answer_scores", ANSWER_MEASURES, score, lambda _, answer: _without_text(answer)
    )


def score_judged(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """What the judge says: correctness against the gold answers, support of claims and citations, ratings."""
    evaluation.require_answered()
    rows = with_evaluators(workspace, evaluation, pair, judge_answers(workspace, evaluation, pair))
    measures = list(dict.fromkeys(name for row in rows for name in row.scores))
    return publish_rows(evaluation, pair, "judge_scores", rows, measures)


Scorer = Callable[[Workspace, Evaluation, Pair], ScoringReport]
# Only the judge needs the workspace: its cache and its account lie there.
SCORERS: dict[str, Scorer] = {
    "retrieval_scores": lambda _, evaluation, pair: score_retrieval(evaluation, pair),
    "citation_scores": lambda _, evaluation, pair: score_citations(evaluation, pair),
    "answer_scores": lambda _, evaluation, pair: score_answers(evaluation, pair),
    "judge_scores": score_judged,
}


def _without_text(answer: RagAnswer) -> str | None:
    """Why an answer that arrived has no words to score: a recording of retrieval alone."""
    return "no_answer_recorded" if answer.status == "ok" and answer.answer is None else None


def _documents(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> _Ranking:
    ranking = reduce_to_documents(files.canonical(passage.document) for passage in _ranked(answer))
    return ranking, {files.canonical(name): 1 for name in query.relevant_documents}


def _pages(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> _Ranking | None:
    """None where the system does not name pages."""
    gold = {_page(files.canonical(c.file_name), c.page_number): 1 for c in query.citations if c.page_number}
    found = _ranked(answer)
    if any(passage.page is None for passage in found):
        return None
    ranking = reduce_to_documents(_page(files.canonical(passage.document), passage.page) for passage in found)
    return ranking, gold


def _contexts(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> dict[str, float]:
    """What was retrieved against the gold spans; nothing where the system does not say where its passages stand."""
    found = _ranked(answer)
    retrieved = [
        Citation(files.canonical(p.document), None, Span(p.start, p.end))
        for p in found
        if p.start is not None and p.end is not None and p.end > p.start
    ]
    if not found or len(retrieved) < len(found):
        return {}
    return context_scores(retrieved, places(query.citations, files))


def _page(file_name: str, page: int | None) -> str:
    return f"{file_name}/{page}"  # `/` stands in no file name


def _ranked(answer: RagAnswer) -> list[RetrievedPassage]:
    return sorted(answer.contexts, key=lambda passage: passage.rank)
