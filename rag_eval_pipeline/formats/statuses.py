"""States of evaluations, batches and runs, which the specification and its upstream name differently.

Source: Evaluation Data Models, `Evaluation.status`, `EvaluationBatch.status`; HoneyHive's evaluation runs.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class EvaluationStatus(StrEnum):
    """Of one evaluator's verdict on one event."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    PENDING = "pending"


class BatchStatus(StrEnum):
    """Of a batch of evaluations."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class RunStatus(StrEnum):
    """Of a run, as HoneyHive's server has it."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


BATCH_OF_RUN: Mapping[RunStatus, BatchStatus] = {
    RunStatus.PENDING: BatchStatus.PENDING,
    RunStatus.RUNNING: BatchStatus.PROCESSING,
    RunStatus.COMPLETED: BatchStatus.COMPLETED,
    RunStatus.FAILED: BatchStatus.FAILED,
    RunStatus.CANCELLED: BatchStatus.FAILED,  # a batch has no other word for "will not be completed"
}

RUN_OF_BATCH: Mapping[BatchStatus, RunStatus] = {
    BatchStatus.PENDING: RunStatus.PENDING,
    BatchStatus.PROCESSING: RunStatus.RUNNING,
    BatchStatus.COMPLETED: RunStatus.COMPLETED,
    BatchStatus.FAILED: RunStatus.FAILED,
}

# How an asked question ended (Evaluation Data Formats, query results) as the state of an evaluation of it.
EVALUATION_OF_ANSWER: Mapping[str, EvaluationStatus] = {
    "ok": EvaluationStatus.COMPLETED,
    "error": EvaluationStatus.FAILED,
    "timeout": EvaluationStatus.FAILED,
    "truncated": EvaluationStatus.FAILED,
    "refused": EvaluationStatus.FAILED,
}


def batch_status(evaluations: Iterable[EvaluationStatus]) -> BatchStatus:
    """The state of a batch from those of its evaluations.

    Returns:
        `pending` when all are, or there are none; `processing` when some are; `failed` when none is pending and none
        was completed or skipped; else `completed`: single failures are the evaluations' own.
    """
    states = set(evaluations)
    if states <= {EvaluationStatus.PENDING}:
        return BatchStatus.PENDING
    if EvaluationStatus.PENDING in states:
        return BatchStatus.PROCESSING
    return BatchStatus.FAILED if states == {EvaluationStatus.FAILED} else BatchStatus.COMPLETED
