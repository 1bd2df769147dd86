"""How one evaluation ended, and the evaluation that is made of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationStatus, read_evaluation
from rag_eval_pipeline.formats.model import bad_format
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator, EvaluatorError
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.systems.python.faults import told


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one evaluation ended: fields, a reason to skip it, or an error; and what it took."""

    fields: Mapping[str, Any] | None = None
    skipped: str | None = None
    error: EvaluatorError | None = None
    error_type: str = ""
    tries: int = 0
    duration_ms: float | None = None


def failure_of(error: BaseException, timeout_s: float | None) -> EvaluatorError:
    """What an exception of an evaluator is as a failure, and whether another try could help."""
    if isinstance(error, EvaluatorError):
        return error
    if isinstance(error, TimeoutError) and timeout_s is not None:
        return EvaluatorError("timeout", f"not evaluated within {timeout_s:g} s")
    if isinstance(error, InputError):
        return EvaluatorError(error.code, str(error), is_final=True)
    return EvaluatorError("evaluator_error", told(error))


def raisable(error: BaseException) -> BaseException:
    """A function's own cancellation is a failure like any other, and not that of the batch."""
    return RuntimeError(told(error)) if isinstance(error, asyncio.CancelledError | StopIteration) else error


def evaluation_of(
    event: Event, evaluator: Evaluator, outcome: Outcome, options: Any, evaluation_id: str, now: datetime
) -> Evaluation:
    """The evaluation of an outcome; fields that fit no model are a failure."""
    stated: dict[str, Any] = {
        "evaluation_id": evaluation_id,
        "target_event_id": event.event_id,
        "evaluator_name": evaluator.name,
        "evaluator_version": evaluator.version,
        "timestamp": now,
        "duration_ms": outcome.duration_ms,
    }
    if outcome.skipped is not None:
        return Evaluation(**stated, status=EvaluationStatus.SKIPPED, explanation=outcome.skipped)
    error, error_type = outcome.error, outcome.error_type
    if outcome.fields is not None:
        criteria = options.model_dump(mode="json") if isinstance(options, pydantic.BaseModel) else dict(options)
        fields = {"criteria": criteria or None, **outcome.fields, **stated, "status": EvaluationStatus.COMPLETED}
        try:
            return read_evaluation(fields)
        except pydantic.ValidationError as wrong:
            error = EvaluatorError("bad_fields", str(bad_format(f"what {evaluator.name} returned", wrong)))
            error_type = type(wrong).__name__
    assert error is not None
    return Evaluation(
        **stated,
        status=EvaluationStatus.FAILED,
        error={
            "type": error_type,
            "message": str(error) or error.code,
            "code": error.code,
            "context": {"evaluator": evaluator.name, "tries": outcome.tries},
        },
    )
