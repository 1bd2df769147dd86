"""Answers to per-question scores: retrieval, citations, answers, and what the judge says.

A question to which measures do not apply is `skipped`, answered or not: retrieval and citations of an impossible
question, citations where no gold text was located. Any other question without an answer is `failed` and has no score.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.event_evaluations import with_evaluators
from rag_eval_pipeline.evaluation.judging import judge_answers
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation
from rag_eval_pipeline.evaluation.scores_file import PAGE, QueryScores, write_scores, written_for
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.answers import score_answer
from rag_eval_pipeline.metrics.citations import Citation, match_citations
from rag_eval_pipeline.metrics.retrieval import reduce_to_documents, score_queries
from rag_eval_pipeline.metrics.spans import Span
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage
from rag_eval_pipeline.workspace import Workspace

CITATION_MEASURES = (
    "exact_jaccard", "tolerance_jaccard", "perfect_matches", "good_matches", "true_spans", "predicted_spans",
    "span_precision", "span_recall", "span_f1", "char_precision", "char_recall", "char_f1",
)  # fmt: skip
ANSWER_MEASURES = ("exact_match", "f1", "abstained")


_Ranking = tuple[list[str], dict[str, int]]  # documents in rank order, and the grades of the relevant ones
NOTHING_ASKED: _Ranking = ([], {})  # a question without relevant pages has no page-level score


class _Rankings(NamedTuple):
    documents: _Ranking
    pages: _Ranking | None


@dataclass(frozen=True, slots=True)
class ScoringReport:
    """What one score asset came to."""

    evaluation_id: str
    rows: tuple[QueryScores, ...]

    def count(self, outcome: str) -> int:
        """How many questions ended so."""
        return sum(row.outcome == outcome for row in self.rows)

    def mean(self, measure: str) -> float | None:
        """Mean of a measure over the questions that have it; None when none has."""
        values = [row.scores[measure] for row in self.rows if measure in row.scores]
        return sum(values) / len(values) if values else None


def score_retrieval(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Document-level measures by their names, page-level ones with the prefix `page/`."""
    files = CorpusFiles.read(pair.paths)
    measures = evaluation.record.settings.measures

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if query.is_impossible or not query.relevant_documents:
            return "impossible" if query.is_impossible else "no_relevant_documents"
        # Passages of which nobody says where they are from: what was found cannot be known, and is no miss.
        unnamed = bool(answer.contexts) and not any(passage.document for passage in answer.contexts)
        return "no_documents_named" if unnamed else None

    def rankings(query: EvaluationQuery, answer: RagAnswer) -> _Rankings:
        return _Rankings(_documents(query, answer, files), _pages(query, answer, files))

    def scores(given: list[_Rankings]) -> list[dict[str, float]]:
        # All at once: one by one, each question takes twenty times as long.
        documents = score_queries((one.documents for one in given), measures)
        pages = score_queries((one.pages or NOTHING_ASKED for one in given), measures)
        return [
            (by_document or {}) | {PAGE + name: value for name, value in (by_page or {}).items()}
            for by_document, by_page in zip(documents, pages, strict=True)
        ]

    names = [*measures, *(PAGE + name for name in measures)]
    return _score(evaluation, pair, "retrieval_scores", names, rankings, skipped, finish=scores)


def score_citations(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Span accuracy of each answer's citations against the located gold texts."""
    files = CorpusFiles.read(pair.paths)
    tolerance = evaluation.record.settings.tolerance_chars

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if not query.citations:
            return "impossible" if query.is_impossible else "no_gold_spans"
        return _without_text(answer)

    def score(query: EvaluationQuery, answer: RagAnswer) -> dict[str, float]:
        # Pages are left out: document offsets say where a span is, and a page says it again, less exactly.
        gold = [Citation(files.canonical(c.file_name), None, Span(c.start_char, c.end_char)) for c in query.citations]
        given = [Citation(files.canonical(c.file_name), None, Span(c.start_char, c.end_char)) for c in answer.citations]
        found = match_citations(gold, given, tolerance=tolerance)
        assert found is not None, "there are gold citations"
        values: list[float | None] = [
            found.mean_exact_jaccard,
            found.mean_tolerance_jaccard,
            found.perfect_matches,
            found.good_matches,
            found.n_gold,
            found.n_predicted,
            found.spans.precision,
            found.spans.recall,
            found.spans.f1,
            found.characters.precision,
            found.characters.recall,
            found.characters.f1,
        ]
        named = zip(CITATION_MEASURES, values, strict=True)
        return {name: float(value) for name, value in named if value is not None}

    return _score(evaluation, pair, "citation_scores", CITATION_MEASURES, score, skipped)


def score_answers(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """SQuAD v2's exact match and F1, an abstention being the empty answer; and whether the system abstained."""
    names = CorpusFiles.read(pair.paths).names()

    def score(query: EvaluationQuery, answer: RagAnswer) -> dict[str, float]:
        text = "" if answer.abstained or answer.answer is None else strip_citations(answer.answer, names)
        found = score_answer(text, query.accepted_answers)
        return {"exact_match": found.exact_match, "f1": found.f1, "abstained": float(answer.abstained)}

    return _score(evaluation, pair, "answer_scores", ANSWER_MEASURES, score, lambda _, answer: _without_text(answer))


def score_judged(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """What the judge says: correctness against the gold answers, support of claims and citations, ratings."""
    evaluation.require_answered()
    rows = with_evaluators(workspace, evaluation, pair, judge_answers(workspace, evaluation, pair))
    measures = list(dict.fromkeys(name for row in rows for name in row.scores))
    return _publish(evaluation, "judge_scores", rows, measures)


Scorer = Callable[[Workspace, Evaluation, Pair], ScoringReport]
# Only the judge needs the workspace: its cache and its account lie there.
SCORERS: dict[str, Scorer] = {
    "retrieval_scores": lambda _, evaluation, pair: score_retrieval(evaluation, pair),
    "citation_scores": lambda _, evaluation, pair: score_citations(evaluation, pair),
    "answer_scores": lambda _, evaluation, pair: score_answers(evaluation, pair),
    "judge_scores": score_judged,
}


def _score(
    evaluation: Evaluation,
    pair: Pair,
    kind: str,
    measures: Sequence[str],
    score: Callable[[EvaluationQuery, RagAnswer], Any],
    skipped: Callable[[EvaluationQuery, RagAnswer], str | None],
    *,
    finish: Callable[[list[Any]], list[dict[str, float]]] = list,
) -> ScoringReport:
    """The rows of one score asset, published.

    Args:
        evaluation: Answered.
        pair: Whose.
        kind: One of `SCORE_FILES`.
        measures: Columns.
        score: The scores of one answered question, or what `finish` makes them from.
        skipped: Why the measures do not apply to a question; None where they do.
        finish: Makes the scores of all questions at once.
    """
    evaluation.require_answered()
    rows: list[QueryScores] = []
    scored: list[int] = []
    found: list[Any] = []
    answers = iter_responses(evaluation.responses)
    for query, answer in zip(pair.queries, answers, strict=True):
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
    return _publish(evaluation, kind, rows, measures)


def _without_text(answer: RagAnswer) -> str | None:
    """Why an answer that arrived has no words to score: a recording of retrieval alone."""
    return "no_answer_recorded" if answer.status == "ok" and answer.answer is None else None


def _publish(evaluation: Evaluation, kind: str, rows: Sequence[QueryScores], measures: Sequence[str]) -> ScoringReport:
    evaluation_id = evaluation.record.evaluation_id
    write_scores(evaluation.scores(kind), rows, measures, evaluation_id=evaluation_id)
    if evaluation.record.state == "answered" and all(
        written_for(evaluation.scores(name)) == evaluation_id for name in SCORE_FILES
    ):
        evaluation.save(state="scored")
    return ScoringReport(evaluation_id, tuple(rows))


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


def _page(file_name: str, page: int | None) -> str:
    return f"{file_name}/{page}"  # `/` stands in no file name


def _ranked(answer: RagAnswer) -> list[RetrievedPassage]:
    return sorted(answer.contexts, key=lambda passage: passage.rank)
