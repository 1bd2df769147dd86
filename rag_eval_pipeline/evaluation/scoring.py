"""Scores each answer of an evaluation: retrieval, citations, answer text, and the judge's scores.

A question to which measures do not apply is `skipped`, answered or not; any other question without an answer is
`failed`. An error in a custom metric costs the score of one question: it is stored, counted and reported.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, get_args

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus_names import (
    NO_CITATIONS,
    CorpusFiles,
    RetrievedDocuments,
    cited_words,
    places,
    retrieved_documents,
)
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, Evaluation
from rag_eval_pipeline.evaluation.evaluation_settings import KIND_OF, load_custom_metrics
from rag_eval_pipeline.evaluation.judge_calibration import recheck_judge
from rag_eval_pipeline.evaluation.judging import JudgementCounts, add_evaluator_scores, judge_answers
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.score_tables import (
    PAGE,
    Outcome,
    QueryScores,
    ScoreTable,
    scored_evaluation_id,
    write_scores,
)
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.judges.judgement import RATING_FAILED
from rag_eval_pipeline.metrics.answers import is_accepted, official_scores, score_answer, score_without_marks
from rag_eval_pipeline.metrics.claims import context_scores
from rag_eval_pipeline.metrics.custom import AnsweredQuestion, Passage, QuestionMetric, score_question
from rag_eval_pipeline.metrics.intervals import mean
from rag_eval_pipeline.metrics.metric_info import MetricInfo
from rag_eval_pipeline.metrics.retrieval.engine import score_rankings
from rag_eval_pipeline.metrics.span_matching import SPAN_MEASURES, TOKEN_MEASURES, score_spans
from rag_eval_pipeline.metrics.spans import Citation, Span
from rag_eval_pipeline.storage.parquet_files import limit_allocators
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage
from rag_eval_pipeline.text.folding import unmarked
from rag_eval_pipeline.workspace import Workspace

CITATION_MEASURES = (*SPAN_MEASURES, *TOKEN_MEASURES)
ANSWER_MEASURES = ("exact_match", "f1", "squad/exact_match", "squad/f1", "abstained")
CONTEXT_MEASURES = ("context_precision", "context_char_recall", "context_char_precision", "context_char_iou")
NOT_JUDGED = "not_judged"
QUESTIONS_AT_ONCE = 5_000  # some 25 MB of rankings and scores
_STATUSES = frozenset({*get_args(form.Status), NOT_JUDGED, RATING_FAILED})
_Ranking = tuple[list[str], dict[str, int]]  # documents in rank order, and the grades of the relevant ones


@dataclass(frozen=True, slots=True)
class ScoringReport:
    """The rows of one score asset; only retrieval scores have `retrieved`, and only the judge's have `judgements`."""

    evaluation_id: str
    rows: ScoreTable
    retrieved: RetrievedDocuments | None = None
    judgements: JudgementCounts | None = None

    def count(self, outcome: Outcome) -> int:
        """Return the number of questions with an outcome."""
        return int(self.rows.has(outcome).sum())

    def scored(self, measure: str) -> int:
        """Return the number of questions that have a measure."""
        return int(self.rows.values(measure)[1].sum())

    def mean(self, measure: str) -> float | None:
        """Return the mean of a measure over the questions that have it; None if none has."""
        values = self.rows.values(measure)[0].tolist()
        return mean(values) if values else None


def score_rows(
    evaluation: Evaluation,
    pair: Pair,
    kind: str,
    measures: Sequence[str],
    score: Callable[[EvaluationQuery, RagAnswer], Any],
    skipped: Callable[[EvaluationQuery, RagAnswer], str | None],
    *,
    finish: Callable[[list[Any]], list[dict[str, float]]] = list,
) -> ScoringReport:
    """Compute and publish the rows of one score asset.

    Args:
        score: Returns the scores of one answered question, or the input of `finish`.
        skipped: Returns why the measures do not apply to a question; None where they do.
        finish: Computes the scores of many questions at once.
    """
    limit_allocators()
    evaluation.require_answered()

    def rows_of(part: Iterable[tuple[EvaluationQuery, RagAnswer]]) -> Iterator[QueryScores]:
        rows: list[QueryScores] = []
        scored: list[int] = []
        found: list[Any] = []
        for query, answer in part:
            if (reason := skipped(query, answer)) is not None:
                rows.append(QueryScores(query.query_id, "skipped", reason))
            elif answer.status != "ok":
                rows.append(QueryScores(query.query_id, "failed", answer.status))
            else:
                scored.append(len(rows))
                found.append(score(query, answer))
                rows.append(QueryScores(query.query_id, "scored"))
        for at, scores in zip(scored, finish(found), strict=True):
            rows[at] = replace(rows[at], scores=scores)
        return iter(rows)

    asked = zip(pair.queries, evaluation.answers, strict=True)
    parts = iter(lambda: list(islice(asked, QUESTIONS_AT_ONCE)), [])
    rows = chain.from_iterable(map(rows_of, parts))
    return publish_rows(evaluation, pair, kind, rows, measures)


def publish_rows(
    evaluation: Evaluation, pair: Pair, kind: str, rows: Iterable[QueryScores], measures: Sequence[str]
) -> ScoringReport:
    """Publish the rows of one score asset with the scores of custom metrics added."""
    evaluation_id = evaluation.record.evaluation_id
    metrics = custom_metrics_of(evaluation.record.settings.custom_metrics, kind)
    if metrics:
        asked = zip(pair.queries, evaluation.answers, strict=True)
        rows = add_custom_scores(rows, metrics, asked, pair.files)
    columns = [*measures, *(metric.metric.name for metric in metrics)]
    table = write_scores(evaluation.scores(kind), rows, columns, evaluation_id=evaluation_id)
    if evaluation.record.state == "answered" and all(
        scored_evaluation_id(evaluation.scores(name)) == evaluation_id for name in SCORE_FILES
    ):
        evaluation.save(state="scored")
    return ScoringReport(evaluation_id, table)


def custom_metrics_of(names: Iterable[str], kind: str) -> list[QuestionMetric]:
    """Return the custom metrics, of those that settings name, whose scores are stored with a kind of scores."""
    return [metric for metric in load_custom_metrics(names).values() if KIND_OF[metric.metric.category] == kind]


def is_fault(line: str) -> bool:
    """Whether the reason of a missing score is an error in a metric, and not in the answer or its judgement."""
    return line not in _STATUSES


def add_custom_scores(
    rows: Iterable[QueryScores],
    metrics: Sequence[QuestionMetric],
    asked: Iterable[tuple[EvaluationQuery, RagAnswer]],
    files: CorpusFiles,
) -> Iterator[QueryScores]:
    """Yield the rows with the scores of custom metrics."""
    for row, (query, answer) in zip(rows, asked, strict=True):
        scores, faults = dict(row.scores), dict(row.faults)
        question = _question(query, answer, row, files) if answer.status == "ok" else None
        for metric in metrics:
            key = metric.metric.name
            if not _applies(metric.metric, query, answer, row):
                continue
            if question is None or ("judge" in metric.metric.needs and row.outcome == "failed"):
                faults[key] = answer.status if question is None else NOT_JUDGED
                continue
            try:
                value = score_question(metric, question)
            except InputError as error:
                faults[key] = str(error)
                continue
            if value is not None:
                scores[key] = value
        yield replace(row, scores=scores, faults=faults)


def _applies(metric: MetricInfo, query: EvaluationQuery, answer: RagAnswer, row: QueryScores) -> bool:
    """Return whether question, answer and judgement have what a metric needs; failed ones count as had."""
    has = {
        "accepted_answers": bool(query.accepted_answers),
        "relevant": bool(query.relevant_documents),
        "gold_spans": bool(query.citations),
        "answer": answer.status != "ok" or answer.answer is not None,  # a recording of retrieval alone has none
        "judge": row.outcome != "skipped",
    }
    return all(has.get(need, True) for need in metric.needs)


def _question(query: EvaluationQuery, answer: RagAnswer, row: QueryScores, files: CorpusFiles) -> AnsweredQuestion:
    text = answer.answer or ""
    bare = strip_citations(text, files.aliases)
    is_abstention = _declines(answer, bare, query)
    return AnsweredQuestion(
        query_id=query.query_id,
        question=query.query_text,
        accepted_answers=query.accepted_answers,
        is_impossible=query.is_impossible,
        relevant_documents=[files.canonical(name) for name in query.relevant_documents],
        gold_citations=places(query.citations, files),
        metadata=query.metadata,
        answer=text,
        text="" if is_abstention else bare,
        is_abstention=is_abstention,
        citations=places(answer.citations, files),
        passages=[Passage(files.canonical(one.document), one.page, one.text, one.score) for one in _ranked(answer)],
        latency_ms=answer.latency_ms,
        total_tokens=answer.usage.total_tokens,
        scores=row.scores,
    )


def score_retrieval(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Score retrieval: document-level measures by name, page-level ones with the prefix `page/`."""
    evaluation.require_answered()
    files = pair.files
    retrieved = retrieved_documents(evaluation.answers, files, kind=pair.system_file.kind)
    settings = evaluation.record.settings

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if query.is_impossible or max(query.grades.values(), default=0) < 1:
            return "impossible" if query.is_impossible else "no_relevant_documents"
        return retrieved.skip_reason(answer) if answer.status == "ok" else None

    def rankings(query: EvaluationQuery, answer: RagAnswer) -> tuple[_Ranking, _Ranking, dict[str, float]]:
        return _documents(query, answer, files), pages_of(query, answer), _contexts(query, answer, files)

    def pages_of(query: EvaluationQuery, answer: RagAnswer) -> _Ranking:
        # A passage without a page holds its rank and is no page; where half of the run's are, pages are not known.
        return _pages(query, answer, files) if 2 * retrieved.paged > retrieved.passages else ([], {})

    def scores(given: list[tuple[_Ranking, _Ranking, dict[str, float]]]) -> list[dict[str, float]]:
        # Many at once, which is twenty times faster than question by question.
        documents = score_rankings((by_document for by_document, _, _ in given), settings.measures)
        pages = score_rankings((by_page for _, by_page, _ in given), settings.measures)
        return [
            (by_document or {}) | {PAGE + name: value for name, value in (by_page or {}).items()} | contexts
            for by_document, by_page, (_, _, contexts) in zip(documents, pages, given, strict=True)
        ]

    measures = settings.measure_names
    names = [*measures, *(PAGE + name for name in measures), *CONTEXT_MEASURES]
    report = score_rows(evaluation, pair, "retrieval_scores", names, rankings, skipped, finish=scores)
    return replace(report, retrieved=retrieved)


def score_citations(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Score each answer's citations against the located gold texts.

    An answer without citations scores 0, unless no answer of the run has any: then nothing is known about them.
    """
    evaluation.require_answered()
    files = pair.files
    has_citations = sum(len(answer.citations) for answer in evaluation.answers) > 0
    tolerance = evaluation.record.settings.tolerance_chars

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if not query.citations:
            return "impossible" if query.is_impossible else "no_gold_spans"
        if answer.status == "ok" and not has_citations:
            return NO_CITATIONS
        return _without_text(answer)

    def cited(query: EvaluationQuery, answer: RagAnswer) -> tuple[list[Citation], list[Citation]]:
        return places(query.citations, files), places(answer.citations, files)

    def scores(given: list[tuple[list[Citation], list[Citation]]]) -> list[dict[str, float]]:
        gold, predicted = [one for one, _ in given], [other for _, other in given]
        texts = cited_words(files, gold, predicted)
        return score_spans(gold, predicted, tolerance=tolerance, texts=texts).rows()

    return score_rows(evaluation, pair, "citation_scores", CITATION_MEASURES, cited, skipped, finish=scores)


def score_answers(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Score answer texts by SQuAD v2's exact match and F1, without marks and as they are.

    Without marks, an abstention counts as the empty answer. As it is, an answer has the official scorer's scores.
    Without a gold answer, and unless a question is marked as impossible, nothing is right: there is no score.
    """

    def score(query: EvaluationQuery, answer: RagAnswer) -> dict[str, float]:
        accepted, given = query.accepted_answers, answer.answer or ""
        marks = [(one.marker_start or 0, one.marker_end or 0) for one in answer.citations]
        is_abstention = _declines(answer, unmarked(given, marks), query)
        abstained = {"abstained": float(is_abstention)}
        if not query.has_gold:
            return abstained
        scores = score_answer("", accepted) if is_abstention else score_without_marks(given, accepted, marks)
        official = official_scores(given, accepted)
        return scores._asdict() | {f"squad/{name}": value for name, value in official._asdict().items()} | abstained

    return score_rows(
        evaluation, pair, "answer_scores", ANSWER_MEASURES, score, lambda _, answer: _without_text(answer)
    )


def _declines(answer: RagAnswer, text: str, query: EvaluationQuery) -> bool:
    """Return whether a system abstained; "unknown" is an answer where it is an accepted one."""
    return answer.abstained and not is_accepted(text, query.accepted_answers)


def score_judged(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, progress: Callable[[int, int], None] | None = None
) -> ScoringReport:
    """Score by the judge: correctness against the gold answers, support of claims and citations, ratings."""
    evaluation.require_answered()
    judged = judge_answers(workspace, evaluation, pair, progress)
    recheck_judge(workspace, evaluation, pair)
    rows = add_evaluator_scores(workspace, evaluation, pair, judged)
    report = publish_rows(evaluation, pair, "judge_scores", rows, rows.measures)
    return replace(report, judgements=judged.counts)


def _without_text(answer: RagAnswer) -> str | None:
    """Return why an answer that arrived has no text to score: it may be a recording of retrieval only."""
    return "no_answer_recorded" if answer.status == "ok" and answer.answer is None else None


def _documents(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> _Ranking:
    # A document or page has the rank of its best passage.
    ranking = dict.fromkeys(files.canonical(passage.document) for passage in _ranked(answer))
    grades: dict[str, int] = {}
    for name, grade in query.grades.items():
        known = files.canonical(name)
        grades[known] = max(grade, grades.get(known, grade))  # a document with two names has the better grade
    return list(ranking), grades


def _pages(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> _Ranking:
    gold = {_page(files.canonical(c.file_name), c.page_number): 1 for c in query.citations if c.page_number}
    return list(dict.fromkeys(_page(files.canonical(one.document), one.page) for one in _ranked(answer))), gold


def _contexts(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> dict[str, float]:
    """Score retrieved spans against gold spans; no scores if the system does not state its passages' offsets."""
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
    return f"{file_name}/{page}"  # no file name contains `/`


def _ranked(answer: RagAnswer) -> list[RetrievedPassage]:
    return sorted(answer.contexts, key=lambda passage: passage.rank)


Scorer = Callable[[Workspace, Evaluation, Pair, Callable[[int, int], None] | None], ScoringReport]
# Only the judge needs the workspace, for its cache and its budget, and is slow enough to report its progress.
SCORERS: dict[str, Scorer] = {
    "retrieval_scores": lambda _, evaluation, pair, __: score_retrieval(evaluation, pair),
    "citation_scores": lambda _, evaluation, pair, __: score_citations(evaluation, pair),
    "answer_scores": lambda _, evaluation, pair, __: score_answers(evaluation, pair),
    "judge_scores": score_judged,
}
