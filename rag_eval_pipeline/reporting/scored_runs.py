"""One evaluation's scores for each question, as comparisons use them: from its folder or from its results file.

The folder knows why a question has no score. A results file that was sent from elsewhere does not: a measure that no
run has for a question is then assumed not to apply to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.evaluation.storage import PAGE, QueryScores, read_scores
from rag_eval_pipeline.formats.results import EvaluationResults, Fingerprints
from rag_eval_pipeline.metrics.verdicts import FAILURE_RATE

# Score file -> the measures that are compared. They are few, because each one makes the corrected p of the others
# larger.
COMPARED: dict[str, tuple[str, ...]] = {
    "retrieval_scores": ("hit@1", "hit@5", "ndcg@10", "mrr"),
    "citation_scores": ("tolerance_jaccard",),
    "answer_scores": ("exact_match", "f1"),
    "judge_scores": ("judged_correct", "faithfulness"),
}
RESULTS_NAMES = {"tolerance_jaccard": "citation_span_accuracy"}  # in `individual_metrics` of results files
MIN_COVERAGE = 0.98  # a results file does not state its evaluation's setting


@dataclass(frozen=True, slots=True)
class Column:
    """One measure's scores.

    Args:
        scores: One a question; None if it failed or the measure does not apply.
        asked: Whether the measure applies to the question, as far as this run knows.
    """

    scores: tuple[float | None, ...]
    asked: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """An evaluation with its scores.

    Args:
        evaluation_id: Of the evaluation.
        benchmark: Of the questions.
        system: That answered.
        fingerprints: Must be equal, but for the system's, for two runs to be compared.
        is_deterministic: The system gives the same answers again.
        is_by_page: Retrieval is scored by page first.
        min_coverage: Share of pairs that a verdict needs.
        opened_at: When it began.
        ended_at: When the last answer arrived.
        query_ids: In the dataset's order.
        columns: Measure -> scores, for measures with any score; the failure rate is always there.
    """

    evaluation_id: str
    benchmark: str
    system: str
    fingerprints: Fingerprints
    is_deterministic: bool
    is_by_page: bool
    min_coverage: float
    opened_at: datetime
    ended_at: datetime
    query_ids: tuple[str, ...]
    columns: Mapping[str, Column]


def run_of_evaluation(evaluation: Evaluation) -> ScoredRun:
    """Read the scores in an evaluation's folder."""
    record = evaluation.record
    columns: dict[str, Column] = {}
    answers: Sequence[QueryScores] = ()
    for file, measures in COMPARED.items():
        rows = read_scores(evaluation.scores(file))
        answers = rows if file == "answer_scores" else answers
        for name in with_levels(file, measures):
            if any(name in row.scores for row in rows):
                columns[name] = Column(
                    tuple(row.scores.get(name) for row in rows),
                    tuple(name in row.scores or row.outcome == "failed" for row in rows),
                )
    return ScoredRun(
        evaluation_id=record.evaluation_id,
        benchmark=record.benchmark,
        system=record.system,
        fingerprints=record.fingerprints,
        is_deterministic=record.deterministic,
        is_by_page=record.retrieval_level == "page",
        min_coverage=record.settings.min_coverage,
        opened_at=record.opened_at,
        ended_at=record.answered_at or record.opened_at,
        query_ids=tuple(row.query_id for row in answers),
        columns=columns | {FAILURE_RATE: _failures(row.outcome == "failed" for row in answers)},
    )


def run_of_results(path: Path) -> ScoredRun:
    """Read the scores in a results file."""
    results = EvaluationResults.read(path)
    rows = results.query_results
    columns: dict[str, Column] = {}
    for file, measures in COMPARED.items():
        for name in with_levels(file, measures):
            scores = tuple(row.individual_metrics.get(RESULTS_NAMES.get(name, name)) for row in rows)
            if any(score is not None for score in scores):
                columns[name] = Column(scores, tuple(score is not None for score in scores))
    return ScoredRun(
        evaluation_id=results.evaluation_id,
        benchmark=results.benchmark,
        system=results.system,
        fingerprints=results.fingerprints,
        is_deterministic=False,
        is_by_page=results.retrieval_level == "page",
        min_coverage=MIN_COVERAGE,
        opened_at=results.timestamp,
        ended_at=results.timestamp,
        query_ids=tuple(row.query_id for row in rows),
        columns=columns | {FAILURE_RATE: _failures(row.status != "ok" for row in rows)},
    )


def with_levels(file: str, measures: Iterable[str]) -> list[str]:
    """Return the names of a score file's measures; those of retrieval by document, then by page."""
    levels = ("", PAGE) if file == "retrieval_scores" else ("",)
    return [level + measure for level in levels for measure in measures]


def _failures(failed: Iterable[bool]) -> Column:
    scores = tuple(float(one) for one in failed)
    return Column(scores, (True,) * len(scores))
