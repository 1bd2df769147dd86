"""Answers to per-question scores: retrieval, citations, answers.

A question without an answer is `failed` and has no score. A question to which measures do not apply is `skipped`:
retrieval and citations of an impossible question, citations where no gold text was located.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import read_responses
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation
from rag_eval_pipeline.evaluation.scores_file import PAGE, QueryScores, write_scores, written_for
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.answers import score_answer
from rag_eval_pipeline.metrics.citations import Citation, match_citations
from rag_eval_pipeline.metrics.retrieval import reduce_to_documents, score_query
from rag_eval_pipeline.metrics.spans import Span
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage

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

    def score(query: EvaluationQuery, answer: RagAnswer) -> QueryScores:
        scores = _documents(query, answer, files, measures)
        if query.is_impossible or scores is None:
            reason = "impossible" if query.is_impossible else "no_relevant_documents"
            return QueryScores(query.query_id, "skipped", reason)
        pages = _pages(query, answer, files, measures) or {}
        return QueryScores(query.query_id, "scored", None, scores | {PAGE + name: v for name, v in pages.items()})

    return _score(evaluation, pair, "retrieval_scores", [*measures, *(PAGE + name for name in measures)], score)


def score_citations(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Span accuracy of each answer's citations against the located gold texts."""
    files = CorpusFiles.read(pair.paths)
    tolerance = evaluation.record.settings.tolerance_chars

    def score(query: EvaluationQuery, answer: RagAnswer) -> QueryScores:
        if not query.citations:
            return QueryScores(query.query_id, "skipped", "impossible" if query.is_impossible else "no_gold_spans")
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
        return QueryScores(query.query_id, "scored", None, {n: float(v) for n, v in named if v is not None})

    return _score(evaluation, pair, "citation_scores", CITATION_MEASURES, score)


def score_answers(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """SQuAD v2's exact match and F1, an abstention being the empty answer; and whether the system abstained."""

    def score(query: EvaluationQuery, answer: RagAnswer) -> QueryScores:
        text = "" if answer.abstained or answer.answer is None else strip_citations(answer.answer)
        found = score_answer(text, query.accepted_answers)
        scores = {"exact_match": found.exact_match, "f1": found.f1, "abstained": float(answer.abstained)}
        return QueryScores(query.query_id, "scored", None, scores)

    return _score(evaluation, pair, "answer_scores", ANSWER_MEASURES, score)


SCORERS: dict[str, Callable[[Evaluation, Pair], ScoringReport]] = dict(
    zip(SCORE_FILES, (score_retrieval, score_citations, score_answers), strict=True)
)


def _score(
    evaluation: Evaluation,
    pair: Pair,
    kind: str,
    measures: Sequence[str],
    score: Callable[[EvaluationQuery, RagAnswer], QueryScores],
) -> ScoringReport:
    evaluation.require_answered()
    queries = {query.query_id: query for query in pair.queries}
    rows = tuple(
        score(queries[answer.query_id], answer)
        if answer.status == "ok"
        else QueryScores(answer.query_id, "failed", answer.status)
        for answer in read_responses(evaluation.responses)
    )
    evaluation_id = evaluation.record.evaluation_id
    write_scores(evaluation.scores(kind), rows, measures, evaluation_id=evaluation_id)
    if evaluation.record.state == "answered" and all(
        written_for(evaluation.scores(name)) == evaluation_id for name in SCORE_FILES
    ):
        evaluation.save(state="scored")
    return ScoringReport(evaluation_id, rows)


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
