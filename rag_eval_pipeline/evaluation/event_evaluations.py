"""Evaluators on the answers of an evaluation: `<evaluation_id>.evaluations.json`, and their scores by question.

Source: Evaluation Data Models; which evaluators run stands in the evaluation settings.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from rag_eval_pipeline.evaluation.judging import cases_of, read_judgements
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.evaluation.scores_file import QueryScores
from rag_eval_pipeline.judges.evaluators.evaluating import evaluate_events
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.workspace import Workspace

PREFIX = "evaluator/"  # of an evaluator's score among the judge's


def with_evaluators(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, rows: list[QueryScores]
) -> list[QueryScores]:
    """The judge's scores with those of the evaluators that the settings name; the rows themselves without any.

    Args:
        workspace: Where the evaluations are published.
        evaluation: Answered, and judged if there is a judge.
        pair: Whose.
        rows: The judge's, one a question.

    Raises:
        InputError: `unknown_evaluator`, or a fault of an evaluator's settings.
    """
    config = pair.settings.evaluators
    if config is None:
        return rows
    events = list(_events(evaluation, pair))
    evaluation_id = evaluation.record.evaluation_id
    found = asyncio.run(evaluate_events(events, config, evaluation_id=evaluation_id, now=datetime.now(UTC)))
    found.write(workspace.evaluations)
    scores: dict[str, dict[str, float]] = {}
    for one in found.batch.evaluations:
        if isinstance(one.score, int | float):  # a category has no mean
            query_id = one.target_event_id.removeprefix(f"{evaluation_id}/")
            scores.setdefault(query_id, {})[PREFIX + one.evaluator_name] = float(one.score)
    return [_joined(row, scores.get(row.query_id, {})) for row in rows]


def _events(evaluation: Evaluation, pair: Pair) -> Iterator[Event]:
    judgements = {judgement.query_id: judgement for judgement in read_judgements(evaluation)}
    for case in cases_of(pair, iter_responses(evaluation.responses)):
        if case is not None:
            event_id = f"{evaluation.record.evaluation_id}/{case.query_id}"
            yield Event.of(case, event_id=event_id, judgement=judgements.get(case.query_id))


def _joined(row: QueryScores, more: dict[str, float]) -> QueryScores:
    if not more:
        return row
    scores = row.scores | more
    if row.outcome == "failed":  # the judge's scores are missing all the same, and its means count that
        return replace(row, scores=scores)
    return replace(row, outcome="scored", reason=None, scores=scores)
