"""The rows of one score asset: each question scored, failed or skipped, and published as a parquet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.own_metrics import is_fault, own_metrics, own_names, with_own_scores
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.retrieved_documents import RetrievedDocuments
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation
from rag_eval_pipeline.evaluation.scores_file import QueryScores, write_scores, written_for
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.systems.answer import RagAnswer


@dataclass(frozen=True, slots=True)
class ScoringReport:
    """What one score asset came to; `retrieved` is None but for retrieval scores."""

    evaluation_id: str
    rows: tuple[QueryScores, ...]
    retrieved: RetrievedDocuments | None = None

    def count(self, outcome: str) -> int:
        """How many questions ended so."""
        return sum(row.outcome == outcome for row in self.rows)

    def faults(self) -> list[str]:
        """A line for each score that a metric of one's own could not give."""
        return [line for row in self.rows for line in row.faults.values() if is_fault(line)]

    def mean(self, measure: str) -> float | None:
        """Mean of a measure over the questions that have it; None when none has."""
        values = [row.scores[measure] for row in self.rows if measure in row.scores]
        return sum(values) / len(values) if values else None


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
    return publish_rows(evaluation, pair, kind, rows, measures)


def publish_rows(
    evaluation: Evaluation, pair: Pair, kind: str, rows: Sequence[QueryScores], measures: Sequence[str]
) -> ScoringReport:
    """Writes the rows of one score asset, with the scores of one's own metrics beside them; arguments as above."""
    evaluation_id = evaluation.record.evaluation_id
    metrics = own_metrics(evaluation.record.settings.own_metrics).values()
    if names := own_names(metrics, kind):
        asked = zip(pair.queries, iter_responses(evaluation.responses), strict=True)
        rows = with_own_scores(rows, kind, metrics, asked, CorpusFiles.read(pair.paths))
    write_scores(evaluation.scores(kind), rows, [*measures, *names], evaluation_id=evaluation_id)
    if evaluation.record.state == "answered" and all(
        written_for(evaluation.scores(name)) == evaluation_id for name in SCORE_FILES
    ):
        evaluation.save(state="scored")
    return ScoringReport(evaluation_id, tuple(rows))
