"""Publish `<evaluation_id>.results.json`: the answers and scores of one evaluation.

Results are published only if every score asset belongs to the evaluation.
"""

import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import IO, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.answer_facts import AnswerFacts
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, Evaluation, EvaluationRecord
from rag_eval_pipeline.evaluation.judging import JudgementCounts
from rag_eval_pipeline.evaluation.means import OVERALL, QuestionFacts, ScoredRun, overall_row
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.results_builder import build_results, query_result
from rag_eval_pipeline.evaluation.score_tables import QueryScores, ScoreTable, read_scores, scored_evaluation_id
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.row_files import json_rows, write_with_json
from rag_eval_pipeline.storage.atomic_files import errors_about
from rag_eval_pipeline.storage.parquet_files import limit_allocators
from rag_eval_pipeline.workspace import Workspace

SPOOLED_BYTES = 8 << 20  # of rows in memory before they go to a temporary file


class Published(NamedTuple):
    """Published results without `query_results`, the first of these, and the counts of the judgements."""

    results: form.EvaluationResults
    first: list[form.QueryResult]
    judgements: JudgementCounts


class Scores(NamedTuple):
    """The scores of an evaluation by `SCORE_FILES`, and the counts of the judgements."""

    tables: Mapping[str, ScoreTable]
    judgements: JudgementCounts


def read_all_scores(evaluation: Evaluation) -> Scores:
    """Read the scores of an evaluation.

    Raises:
        InputError: `not_answered`, or `missing_scores` when a score asset has not scored this evaluation.
    """
    limit_allocators()
    evaluation.require_answered()
    record = evaluation.record
    missing = [kind for kind in SCORE_FILES if scored_evaluation_id(evaluation.scores(kind)) != record.evaluation_id]
    if missing:
        raise InputError(
            "missing_scores", evaluation.scores(missing[0]), f"scores of {record.evaluation_id}",
            hint=f"Materialize {', '.join(missing)} of {record.benchmark} x {record.system}.",
        )  # fmt: skip
    tables = {kind: read_scores(evaluation.scores(kind)) for kind in SCORE_FILES}
    return Scores(tables, JudgementCounts.read(evaluation))


def publish(workspace: Workspace, evaluation: Evaluation, pair: Pair, scores: Scores, *, now: datetime) -> Published:
    """Write the results file and mark the evaluation as published; questions and answers are gone through once."""
    path = workspace.results_file(evaluation.record.evaluation_id)
    facts = AnswerFacts(pair)
    # The rows are in the middle of the file, and what comes before them is known after the last one.
    with tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=str(evaluation.folder)) as rows, errors_about(path):
        run = _write_rows(rows, evaluation, pair, scores.tables, facts)
        results = build_results(
            workspace, evaluation, pair, run, facts, scores.judgements, now=_dated(workspace, evaluation.record, now)
        )
        rows.seek(0)
        write_with_json(path, results, form.ROWS, iter(lambda: rows.read(SPOOLED_BYTES), b""))
    known = {**evaluation.record.known, **scores.judgements.known}
    evaluation.save(state="published", retrieval_level=results.retrieval_level, known=known)
    return Published(results, facts.first, scores.judgements)


def _write_rows(
    file: IO[bytes],
    evaluation: Evaluation,
    pair: Pair,
    tables: Mapping[str, ScoreTable],
    facts: AnswerFacts,
) -> ScoredRun:
    """Write the result of each question, and return the scores with the overall ones."""
    retrieval, citations, answer_scores, judged = (tables[kind] for kind in SCORE_FILES)
    questions, numbers = QuestionFacts.empty(len(pair.queries)), dict[str, int]()
    latest: list[QueryScores] = []

    def results() -> Iterator[form.QueryResult]:
        rows = zip(retrieval, citations, answer_scores, judged, strict=True)
        for at, (query, answer, scores) in enumerate(zip(pair.queries, evaluation.answers, rows, strict=True)):
            questions.note_question(at, query, numbers)
            latest.append(overall_row(answer, (scores[1], scores[3])))
            result = query_result(query, answer, *scores, latest[-1])
            facts.add(answer, result)
            yield result

    def overall() -> Iterator[QueryScores]:
        for text in json_rows(results(), keeps_nulls=form.EvaluationResults.keeps_nulls):
            file.write(text)
            yield latest.pop()

    support = evaluation.record.settings.judge.judges_support
    table = ScoreTable.of(overall(), OVERALL)
    return ScoredRun(questions, retrieval, citations, answer_scores, judged, table, support)


def _dated(workspace: Workspace, record: EvaluationRecord, now: datetime) -> datetime:
    """Return the date of the results; answers scored again keep their first one, if lost that of the last answer."""
    if record.rescored_from is None:
        return now
    try:
        return form.open_results(workspace.results_file(record.rescored_from)).head.timestamp
    except InputError:
        return record.answered_at or record.opened_at
