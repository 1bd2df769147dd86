"""Evaluations together: of any model, of one event by several evaluators, in batches, and how to run them.

An evaluation that is read gets the model that its fields fit. Ids and times are never made up here: `filled_in` takes
them from its caller, and `new_evaluation_id` is called by whoever wants a new one.
Source: Evaluation Data Models.
"""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic

from rag_eval_pipeline.formats.evaluation_kinds import AnyEvaluation, CustomEvaluation, read_evaluation
from rag_eval_pipeline.formats.evaluation_models import (
    Amount,
    Count,
    Evaluation,
    EvaluationError,
    FactualAccuracyEvaluation,
    FactualClaim,
    LengthEvaluation,
    LengthRange,
    QualityEvaluation,
    RelevanceEvaluation,
    ToxicityEvaluation,
)
from rag_eval_pipeline.formats.evaluation_patterns import (
    ComparisonData,
    ComparisonEvaluation,
    HumanEvaluation,
    HumanModelEvaluation,
    ModelEvaluation,
    TemporalEvaluation,
)
from rag_eval_pipeline.formats.model import FileModel, Model, bad_format
from rag_eval_pipeline.formats.model_files import write_file
from rag_eval_pipeline.formats.plain_files import read_plain
from rag_eval_pipeline.formats.statuses import BatchStatus, EvaluationStatus, RunStatus
from rag_eval_pipeline.formats.values import (
    Moment,
    Name,
    Number,
    Open,
    Shares,
    Truth,
    Version,
    canonical,
    with_canonical_extras,
)

__all__ = [
    "AnyEvaluation",
    "BatchStatus",
    "ComparisonData",
    "ComparisonEvaluation",
    "CustomEvaluation",
    "Evaluation",
    "EvaluationBatch",
    "EvaluationConfig",
    "EvaluationError",
    "EvaluationStatus",
    "FactualAccuracyEvaluation",
    "FactualClaim",
    "HumanEvaluation",
    "HumanModelEvaluation",
    "LengthEvaluation",
    "LengthRange",
    "ModelEvaluation",
    "MultiEvaluationResult",
    "QualityEvaluation",
    "RelevanceEvaluation",
    "RetryConfig",
    "RunStatus",
    "SummaryMethod",
    "TemporalEvaluation",
    "ToxicityEvaluation",
    "filled_in",
    "new_evaluation_id",
    "read_evaluation",
]

SummaryMethod = Literal["weighted_average", "simple_average", "minimum", "custom"]


class _StrictFile(FileModel):
    """A file of JSON or YAML, read without what JSON leaves to the reader."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file's content.

        Raises:
            InputError: What `read_plain` raises; `bad_format` with the first error's place and how many there are.
        """
        try:
            return cls.model_validate(read_plain(path))
        except pydantic.ValidationError as error:
            raise bad_format(path, error) from error

    def write(self, path: Path) -> None:
        """Publishes the file atomically, in the form of its name's ending; equal content gives equal bytes.

        Raises:
            InputError: `unknown_form`.
        """
        write_file(self, path)


class MultiEvaluationResult(_StrictFile):
    """Several evaluators on one event."""

    target_event_id: Name = pydantic.Field(description="The event; evaluations that do not name one inherit it.")
    evaluations: tuple[AnyEvaluation, ...] = pydantic.Field(description="One an evaluator.")
    summary_score: Number | None = pydantic.Field(None, description="As stated; `summary_score` computes it.")
    summary_method: SummaryMethod | None = pydantic.Field(None, description="How it was made.")
    weights: Shares | None = pydantic.Field(None, description="By evaluator's name.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _inherited_target(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("evaluations"), list | tuple):
            return data
        target = {"target_event_id": data.get("target_event_id")}
        evaluations = [target | item if isinstance(item, dict) else item for item in data["evaluations"]]
        return data | {"evaluations": evaluations}

    @pydantic.model_validator(mode="after")
    def _one_target(self) -> Self:
        for evaluation in self.evaluations:
            if evaluation.target_event_id != self.target_event_id:
                raise ValueError(
                    f"evaluations of {self.target_event_id!r}, but {evaluation.evaluation_id!r} is of "
                    f"{evaluation.target_event_id!r}"
                )
        return self


class BatchMetadata(Model):
    """About a batch; open to more keys."""

    model_config = pydantic.ConfigDict(extra="allow")

    batch_size: Count | None = pydantic.Field(None, description="Evaluations that belong to the batch.")
    created_at: Moment | None = pydantic.Field(None, description="UTC.")
    evaluator_versions: Annotated[dict[Name, Version], pydantic.AfterValidator(canonical)] | None = pydantic.Field(
        None, description="By evaluator's name."
    )
    processing_time_ms: Amount | None = pydantic.Field(None, description="Milliseconds.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _extras_in_order(cls, data: Any) -> Any:
        return with_canonical_extras(data, frozenset(cls.model_fields)) if isinstance(data, dict) else data


class EvaluationBatch(_StrictFile):
    """Evaluations that are processed together."""

    batch_id: Name = pydantic.Field(description="Unique.")
    evaluations: tuple[AnyEvaluation, ...] = pydantic.Field(description="Of any events.")
    batch_metadata: BatchMetadata = pydantic.Field(BatchMetadata(), description="About the batch.")
    status: BatchStatus = pydantic.Field(description="`batch_status` derives it from the evaluations.")


class RetryConfig(Model):
    """When a failed evaluation is tried again."""

    max_retries: Count = pydantic.Field(3, description="Tries after the first.")
    backoff_multiplier: Annotated[Number, pydantic.Field(ge=1)] = pydantic.Field(2.0, description="From try to try.")
    initial_delay_ms: Count = pydantic.Field(1000, description="Before the second try, milliseconds.")

    @property
    def delays_ms(self) -> tuple[float, ...]:
        """Pause before each further try, milliseconds."""
        return tuple(self.initial_delay_ms * self.backoff_multiplier**number for number in range(self.max_retries))


class EvaluationConfig(_StrictFile):
    """What to run and how."""

    evaluators: tuple[Name, ...] = pydantic.Field(description="Names, each once.")
    evaluator_configs: Annotated[dict[Name, Open], pydantic.AfterValidator(canonical)] = pydantic.Field(
        default_factory=dict, description="By evaluator's name."
    )
    parallel_execution: Truth = pydantic.Field(True, description="Evaluators side by side; false: one after the other.")
    timeout_ms: Annotated[Count, pydantic.Field(gt=0)] | None = pydantic.Field(None, description="Of one evaluation.")
    retry_config: RetryConfig | None = pydantic.Field(None, description="Null: no second try.")

    @pydantic.model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.evaluators)) < len(self.evaluators):
            raise ValueError("each evaluator once")
        return self


def new_evaluation_id() -> str:
    """A new id, `eval_<uuid4>`; each call another."""
    return f"eval_{uuid.uuid4()}"


def filled_in(
    data: Mapping[str, Any], *, new_id: Callable[[], str], timestamp: datetime, target_event_id: str | None = None
) -> dict[str, Any]:
    """An evaluation, or something with `evaluations`, with the ids and times that it lacks.

    Args:
        data: As read; what it has stays.
        new_id: Gives an id for each evaluation without one, such as `new_evaluation_id`.
        timestamp: With its zone; of evaluations without one.
        target_event_id: Of evaluations without one.
    """
    if isinstance(data.get("evaluations"), list | tuple):
        evaluations = [
            filled_in(item, new_id=new_id, timestamp=timestamp, target_event_id=target_event_id)
            if isinstance(item, Mapping)
            else item
            for item in data["evaluations"]
        ]
        return {**data, "evaluations": evaluations}
    filled = dict(data)
    if filled.get("evaluation_id") is None:
        filled["evaluation_id"] = new_id()
    if filled.get("timestamp") is None:
        filled["timestamp"] = timestamp
    if filled.get("target_event_id") is None and target_event_id is not None:
        filled["target_event_id"] = target_event_id
    return filled
