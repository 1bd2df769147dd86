"""Answers to per-question scores: retrieval, citations, answers, and what the judge says.

A question to which measures do not apply is `skipped`, answered or not: retrieval and citations of an impossible
question, citations where no gold text was located. Any other question without an answer is `failed` and has no score.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.event_evaluations import with_evaluators
from rag_eval_pipeline.evaluation.judging import judge_answers
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation
from rag_eval_pipeline.evaluation.scores_file import PAGE, QueryScores, write_scores, written_for
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.metrics.question_scores import answer_scores, citation_scores, context_scores, joint_scores
from rag_eval_pipeline.metrics.retrieval import reduce_to_documents, score_queries
from rag_eval_pipeline.metrics.span_columns import Citation, Span
from rag_eval_pipeline.metrics.span_tokens import Tokens, tokens_of
from rag_eval_pipeline.systems.answer import RagAnswer, RetrievedPassage
from rag_eval_pipeline.systems.corpus import PageText
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


class _Place(Protocol):
    """A cited place, whoever names it."""

    @property
    def file_name(self) -> str: ...  # noqa: D102
    @property
    def start_char(self) -> int: ...  # noqa: D102
    @property
    def end_char(self) -> int: ...  # noqa: D102


class _Rankings(NamedTuple):
    documents: _Ranking
    pages: _Ranking | None
    contexts: dict[str, float]


class _Cited(NamedTuple):
    gold: list[Citation]
    given: list[Citation]


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
        return _Rankings(
            _documents(query, answer, files), _pages(query, answer, files), _contexts(query, answer, files)
        )

    def scores(given: list[_Rankings]) -> list[dict[str, float]]:
        # All at once: one by one, each question takes twenty times as long.
        documents = score_queries((one.documents for one in given), measures)
        pages = score_queries((one.pages or NOTHING_ASKED for one in given), measures)
        return [
            (by_document or {}) | {PAGE + name: value for name, value in (by_page or {}).items()} | one.contexts
            for by_document, by_page, one in zip(documents, pages, given, strict=True)
        ]

    names = [*measures, *(PAGE + name for name in measures), *CONTEXT_MEASURES]
    return _score(evaluation, pair, "retrieval_scores", names, rankings, skipped, finish=scores)


def score_citations(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """Span accuracy of each answer's citations against the located gold texts."""
    files = CorpusFiles.read(pair.paths)
    tolerance = evaluation.record.settings.tolerance_chars

    def skipped(query: EvaluationQuery, answer: RagAnswer) -> str | None:
        if not query.citations:
            return "impossible" if query.is_impossible else "no_gold_spans"
        return _without_text(answer)

    def cited(query: EvaluationQuery, answer: RagAnswer) -> _Cited:
        # Pages are left out: document offsets say where a span is, and a page says it again, less exactly.
        return _Cited(_places(query.citations, files), _places(answer.citations, files))

    def scores(given: list[_Cited]) -> list[dict[str, float]]:
        gold, predicted = [one.gold for one in given], [one.given for one in given]
        return citation_scores(gold, predicted, tolerance=tolerance, texts=_tokens(files, gold, predicted))

    return _score(evaluation, pair, "citation_scores", CITATION_MEASURES, cited, skipped, finish=scores)


def score_answers(evaluation: Evaluation, pair: Pair) -> ScoringReport:
    """SQuAD v2's exact match and F1, an abstention being the empty answer; and whether the system abstained."""
    files = CorpusFiles.read(pair.paths)
    names = files.names()
    language = pair.dataset.metadata.language

    def score(query: EvaluationQuery, answer: RagAnswer) -> dict[str, float]:
        text = "" if answer.abstained or answer.answer is None else strip_citations(answer.answer, names)
        scores = answer_scores(text, query.accepted_answers, language=language)
        scores |= joint_scores(
            text, query.accepted_answers, _places(answer.citations, files), _places(query.citations, files)
        )
        return scores | {"abstained": float(answer.abstained)}

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


def _contexts(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> dict[str, float]:
    """What was retrieved against the gold spans; nothing where the system does not say where its passages stand."""
    found = _ranked(answer)
    places = [
        Citation(files.canonical(p.document), None, Span(p.start, p.end))
        for p in found
        if p.start is not None and p.end is not None and p.end > p.start
    ]
    if not found or len(places) < len(found):
        return {}
    return context_scores(places, _places(query.citations, files))


def _places(citations: Iterable[_Place], files: CorpusFiles) -> list[Citation]:
    return [Citation(files.canonical(c.file_name), None, Span(c.start_char, c.end_char)) for c in citations]


def _tokens(files: CorpusFiles, *sides: Sequence[Sequence[Citation]]) -> dict[str, Tokens]:
    """Words of the documents that are cited, by file name."""
    cited = {citation.file_name for side in sides for one in side for citation in one}
    pages: dict[str, list[PageText]] = {}
    for page in files.pages():
        if page.document in cited:
            pages.setdefault(page.document, []).append(page)
    return {name: tokens_of(_whole(own)) for name, own in pages.items()}


def _whole(pages: Sequence[PageText]) -> str:
    """A document's text, its pages where their offsets say."""
    return "\f".join(page.text for page in sorted(pages, key=lambda page: page.start))


def _page(file_name: str, page: int | None) -> str:
    return f"{file_name}/{page}"  # `/` stands in no file name


def _ranked(answer: RagAnswer) -> list[RetrievedPassage]:
    return sorted(answer.contexts, key=lambda passage: passage.rank)
