"""States of evaluations, batches and runs are three sets with a mapping between them."""

import pytest

from rag_eval_pipeline.formats.results import QueryResult
from rag_eval_pipeline.formats.statuses import (
    BATCH_OF_RUN,
    EVALUATION_OF_ANSWER,
    RUN_OF_BATCH,
    BatchStatus,
    EvaluationStatus,
    RunStatus,
    batch_status,
)

CASES = {
    #                                        evaluations                        batch
    "nothing yet":                         ([],                                 "pending"),
    "all waiting":                         (["pending", "pending"],             "pending"),
    "some done":                           (["pending", "completed"],           "processing"),
    "one failed, others waiting":          (["pending", "failed"],              "processing"),
    "done, single failures included":      (["completed", "failed", "skipped"], "completed"),
    "nothing to do":                       (["skipped"],                        "completed"),
    "all failed":                          (["failed", "failed"],               "failed"),
}  # fmt: skip


@pytest.mark.parametrize(("evaluations", "expected"), CASES.values(), ids=CASES)
def test_state_of_a_batch(evaluations, expected):
    assert batch_status(map(EvaluationStatus, evaluations)) == expected


def test_every_state_has_its_counterpart():
    assert set(BATCH_OF_RUN) == set(RunStatus)
    assert set(RUN_OF_BATCH) == set(BatchStatus)
    assert all(BATCH_OF_RUN[run] is batch for batch, run in RUN_OF_BATCH.items())
    assert BATCH_OF_RUN[RunStatus.CANCELLED] is BatchStatus.FAILED


def test_only_an_answered_question_is_a_completed_evaluation():
    assert set(EVALUATION_OF_ANSWER) == set(QueryResult.model_fields["status"].annotation.__args__)
    completed = [state for state, status in EVALUATION_OF_ANSWER.items() if status is EvaluationStatus.COMPLETED]
    assert completed == ["ok"]
