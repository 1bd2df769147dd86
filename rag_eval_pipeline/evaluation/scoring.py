"""Answers to per-question scores: retrieval, citations, answers, and what the judge says.

A question to which measures do not apply is `skipped`, answered or not: retrieval and citations of an impossible
question, citations where no gold text was located. Any other question without an answer is `failed` and has no score.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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
from rag_eval_pipeline.metrics.retrieval import reduce_to_documents, score_query
from rag_eval_pipeline.metrics.spans import Span
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage
from rag_eval_pipeline.workspace import Workspace

CITATION_MEASURES = (
    "exact_jaccard", "tolerance_jaccard", "perfect_matches", "good_matches", "true_spans", "predicted_spans",
    "span_precision", "span_recall", "span_f1", "char_precision", "char_recall", "char_f1",
)  # fmt: skip
ANSWER_MEASURES = ("exact_match", "f1", "abstained")


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

    def score(query: EvaluationQuery, answer: RagAnswer) -> dict[str, float]:
        pages = _pages(query, answer, files, measures) or {}
        return (_documents(query, answer, files, measures) or {}) | {PAGE + name: v for name, v in pages.items()}

    names = [*measures, *(PAGE + name for name in measures)]
    return _score(evaluation, pair, "retrieval_scores", names, score, skipped)


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
    score: Callable[[EvaluationQuery, RagAnswer], dict[str, float]],
    skipped: Callable[[EvaluationQuery, RagAnswer], str | None],
) -> ScoringReport:
    evaluation.require_answered()

    def row(query: EvaluationQuery, answer: RagAnswer) -> QueryScores:
        if (reason := skipped(query, answer)) is not None:
            return QueryScores(query.query_id, "skipped", reason)
        if answer.status != "ok":
            return QueryScores(query.query_id, "failed", answer.status)
        return QueryScores(query.query_id, "scored", None, score(query, answer))

    answers = iter_responses(evaluation.responses)
    rows = [row(query, answer) for query, answer in zip(pair.queries, answers, strict=True)]
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


def _documents(
    query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles, measures: Iterable[str]
) -> dict[str, float] | None:
    ranking = reduce_to_documents(files.canonical(passage.document) for passage in _ranked(answer))
    return score_query(ranking, {files.canonical(name): 1 for name in query.relevant_documents}, measures)


def _pages(
    query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles, measures: Iterable[str]
) -> dict[str, float] | None:
    """Page-level scores; None where no gold text was located or the system names no pages."""
    gold = {_page(files.canonical(c.file_name), c.page_number): 1 for c in query.citations if c.page_number}
    found = _ranked(answer)
    if any(passage.page is None for passage in found):
        return None
    ranking = reduce_to_documents(_page(files.canonical(passage.document), passage.page) for passage in found)
    return score_query(ranking, gold, measures)


def _page(file_name: str, page: int | None) -> str:
    return f"{file_name}/{page}"  # `/` stands in no file name


def _ranked(answer: RagAnswer) -> list[RetrievedPassage]:
    return sorted(answer.contexts, key=lambda passage: passage.rank)
