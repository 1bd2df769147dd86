"""Evaluations: an evaluator's verdicts on events, alone, in batches and compared, and how evaluators are run.

A score keeps its type (1, 1.0 and true are three scores), only a completed evaluation has one, and times are UTC.
Evaluations are parsed into the most specific model whose required fields are present. `metrics` computes the numbers of
comparisons, by definitions that the specification's examples leave open.
Source: Evaluation Data Models.
"""

import uuid
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

import pydantic

from rag_eval_pipeline.formats.fields import (
    Amount,
    Count,
    Moment,
    Name,
    Number,
    Numbers,
    Open,
    Score,
    Share,
    Shares,
    Text,
    Truth,
    Version,
    canonical,
    with_canonical_extras,
)
from rag_eval_pipeline.formats.model import FileModel, Model

Trend = Literal["improving", "declining", "stable", "no_clear_trend"]


class EvaluationStatus(StrEnum):
    """Status of one evaluator's verdict on one event."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    PENDING = "pending"


class BatchStatus(StrEnum):
    """Status of a batch of evaluations."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


def batch_status(evaluations: Iterable[EvaluationStatus]) -> BatchStatus:
    """Return the status of a batch: failed only if every evaluation failed, and processing while some are pending."""
    states = set(evaluations)
    if states <= {EvaluationStatus.PENDING}:
        return BatchStatus.PENDING
    if EvaluationStatus.PENDING in states:
        return BatchStatus.PROCESSING
    return BatchStatus.FAILED if states == {EvaluationStatus.FAILED} else BatchStatus.COMPLETED


class EvaluationError(Model):
    """Why an evaluation failed."""

    type: Name = pydantic.Field(description="Class of the error.")
    message: Text = pydantic.Field(description="Description of the error.")
    code: Text | None = pydantic.Field(None, description="Code of the error, for programs.")
    context: Open | None = pydantic.Field(None, description="Context of the error.")


class Evaluation(Model):
    """One evaluator's verdict on one event."""

    evaluation_id: Name = pydantic.Field(description="Unique; `new_evaluation_id` makes one.")
    target_event_id: Name = pydantic.Field(description="The event that is evaluated.")
    evaluator_name: Name = pydantic.Field(description="Name of the evaluator.")
    evaluator_version: Version | None = pydantic.Field(None, description="Version of the evaluator.")
    score: Score = pydantic.Field(None, description="A number, true or false, or a category.")
    explanation: Text | None = pydantic.Field(None, description="Explanation for people.")
    confidence: Share | None = pydantic.Field(None, description="Confidence of the evaluator, in [0, 1].")
    criteria: Open | None = pydantic.Field(None, description="Criteria that were applied.")
    metadata: Open | None = pydantic.Field(None, description="Model, prompt, environment.")
    timestamp: Moment = pydantic.Field(description="Time of the evaluation, UTC.")
    duration_ms: Amount | None = pydantic.Field(None, description="Time taken, milliseconds.")
    cost_usd: Amount | None = pydantic.Field(None, description="Cost, US dollars.")
    status: EvaluationStatus = pydantic.Field(
        description="If not stated: failed with an error, pending while there is no content, else completed."
    )
    error: EvaluationError | None = pydantic.Field(None, description="Error of a failed evaluation.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _status_from_content(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = {key: value for key, value in data.items() if value is not None}  # null means absent
        if "error" in data:
            status = EvaluationStatus.FAILED
        elif data.keys() - BASE_FIELDS or data.keys() & {"score", "explanation"}:
            status = EvaluationStatus.COMPLETED
        else:
            status = EvaluationStatus.PENDING
        return {"status": status} | data

    @pydantic.model_validator(mode="after")
    def _check_score_fits_status(self) -> Self:
        if self.score is not None and self.status is not EvaluationStatus.COMPLETED:
            raise ValueError(f"no score where the status is {self.status}")
        if self.error is not None and self.status is not EvaluationStatus.FAILED:
            raise ValueError(f"no error where the status is {self.status}")
        return self


BASE_FIELDS = frozenset(Evaluation.model_fields)


class QualityEvaluation(Evaluation):
    """Overall quality of a response."""

    dimensions: Numbers = pydantic.Field(description="Relevance, coherence, clarity, completeness, accuracy.")


class FactualClaim(Model):
    """One claim of a response."""

    claim: Text = pydantic.Field(description="The statement.")
    verified: Truth | None = pydantic.Field(
        None, description="Whether sources confirm the claim; null if it was not checked."
    )
    confidence: Share | None = pydantic.Field(None, description="Confidence in `verified`.")
    sources: tuple[Text, ...] = pydantic.Field((), description="Sources that were consulted.")
    correct_value: Text | None = pydantic.Field(None, description="The correct statement.")


class FactualAccuracyEvaluation(Evaluation):
    """Whether a response's facts are right."""

    factual_claims: tuple[FactualClaim, ...] = pydantic.Field(description="Each claim.")
    citation_accuracy: Share | None = pydantic.Field(None, description="Share of right citations.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        """Drop a stated flag, because upstream states false beside a refuted claim."""
        return {k: v for k, v in data.items() if k != "hallucination_detected"} if isinstance(data, dict) else data

    @pydantic.computed_field  # type: ignore[prop-decorator]  # mypy has no decorated properties
    @property
    def hallucination_detected(self) -> bool | None:
        """Whether sources refute any claim; None if none is refuted and some were not checked."""
        verdicts = {claim.verified for claim in self.factual_claims}
        if False in verdicts:
            return True
        return None if None in verdicts else False


class ToxicityEvaluation(Evaluation):
    """How toxic a response is; lower is better."""

    toxicity_categories: Shares = pydantic.Field(description="Hate speech, harassment, violence, ....")
    overall_toxicity: Share = pydantic.Field(description="Toxicity over all categories.")
    content_warnings: tuple[Text, ...] = pydantic.Field((), description="Warnings for readers.")


class RelevanceEvaluation(Evaluation):
    """How well a response answers the question."""

    query_intent_match: Share = pydantic.Field(description="Match with the intent of the question.")
    topic_alignment: Share = pydantic.Field(description="Match with the topic.")
    information_completeness: Share = pydantic.Field(description="Share of the requested information.")


class LengthRange(Model):
    """How many words are expected."""

    min_words: Count = pydantic.Field(description="Minimum.")
    max_words: Count = pydantic.Field(description="Maximum.")
    optimal_words: Count | None = pydantic.Field(None, description="Optimum.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_words > self.max_words:
            raise ValueError(f"max_words of at least min_words ({self.min_words})")
        return self


class LengthEvaluation(Evaluation):
    """Whether a response has the right length."""

    character_count: Count = pydantic.Field(description="Code points.")
    word_count: Count = pydantic.Field(description="Words.")
    sentence_count: Count = pydantic.Field(description="Sentences.")
    expected_length_range: LengthRange = pydantic.Field(description="Expected length.")
    length_appropriateness: Literal["too_short", "appropriate", "too_long"] = pydantic.Field(description="Verdict.")


class ComparisonData(Model):
    """Two variants, compared event by event."""

    variant_a_event_id: Name = pydantic.Field(description="Event of variant A.")
    variant_b_event_id: Name = pydantic.Field(description="Event of variant B.")
    preference_score: Share = pydantic.Field(description="Share of comparisons that A won; a tie is half a win.")
    confidence_interval: tuple[Share, Share] | None = pydantic.Field(None, description="95 % interval of that share.")
    sample_size: Count = pydantic.Field(description="Number of comparisons.")
    statistical_significance: Truth | None = pydantic.Field(None, description="Whether the interval excludes 0.5.")


class ComparisonEvaluation(Evaluation):
    """An A/B test."""

    comparison_data: ComparisonData = pydantic.Field(description="Result of the comparison.")


class HumanEvaluation(Model):
    """A person's verdict."""

    annotator_id: Name = pydantic.Field(description="The person.")
    score: Score = pydantic.Field(None, description="Score, as in an evaluation.")
    explanation: Text | None = pydantic.Field(None, description="Explanation.")


class ModelEvaluation(Model):
    """A model's verdict."""

    model: Name = pydantic.Field(description="The model.")
    score: Score = pydantic.Field(None, description="Score, as in an evaluation.")
    explanation: Text | None = pydantic.Field(None, description="Explanation.")


class HumanModelEvaluation(Evaluation):
    """A person and a model on the same event."""

    human_evaluation: HumanEvaluation = pydantic.Field(description="The person's verdict.")
    ai_evaluation: ModelEvaluation = pydantic.Field(description="The model's verdict.")
    agreement_score: Share | None = pydantic.Field(None, description="1 - |difference| / range of the scale.")
    discrepancy_analysis: Text | None = pydantic.Field(None, description="Differences between the two.")


class TemporalEvaluation(Evaluation):
    """One evaluator over several runs."""

    current_score: Number = pydantic.Field(description="Score of the newest run.")
    historical_scores: Annotated[tuple[Number, ...], pydantic.Field(min_length=1)] = pydantic.Field(
        description="Oldest first, the current one last."
    )
    trend: Trend | None = pydantic.Field(None, description="Trend, from the interval of the slope.")
    change_rate: Number | None = pydantic.Field(None, description="Slope per run.")
    stability_score: Number | None = pydantic.Field(None, description="1 - standard deviation / mean.")


SPECIAL = (
    QualityEvaluation, FactualAccuracyEvaluation, ToxicityEvaluation, RelevanceEvaluation, LengthEvaluation,
    ComparisonEvaluation, HumanModelEvaluation, TemporalEvaluation,
)  # fmt: skip


def read_evaluation(data: Any) -> Evaluation:
    """Return an evaluation as the special model whose required fields are there, else as `Evaluation`."""
    if isinstance(data, Evaluation):
        return data
    given = {key for key, value in data.items() if value is not None} if isinstance(data, Mapping) else set()
    for model in SPECIAL:
        if {name for name, field in model.model_fields.items() if field.is_required()} - BASE_FIELDS <= given:
            return model.model_validate(data)
    return Evaluation.model_validate(data)


AnyEvaluation = Annotated[pydantic.SerializeAsAny[Evaluation], pydantic.BeforeValidator(read_evaluation)]
"""An evaluation of the model that its fields fit."""


class BatchMetadata(Model):
    """Facts about a batch; further keys are allowed."""

    model_config = pydantic.ConfigDict(extra="allow")

    batch_size: Count | None = pydantic.Field(None, description="Evaluations that belong to the batch.")
    created_at: Moment | None = pydantic.Field(None, description="Time of creation, UTC.")
    evaluator_versions: Annotated[dict[Name, Version], pydantic.AfterValidator(canonical)] | None = pydantic.Field(
        None, description="Versions, by evaluator."
    )
    processing_time_ms: Amount | None = pydantic.Field(None, description="Processing time in milliseconds.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _extras_in_order(cls, data: Any) -> Any:
        return with_canonical_extras(data, frozenset(cls.model_fields)) if isinstance(data, dict) else data


class EvaluationBatch(FileModel):
    """Evaluations that are processed together."""

    batch_id: Name = pydantic.Field(description="Unique id of the batch.")
    evaluations: tuple[AnyEvaluation, ...] = pydantic.Field(description="Evaluations of any events.")
    batch_metadata: BatchMetadata = pydantic.Field(BatchMetadata(), description="Facts about the batch.")
    status: BatchStatus = pydantic.Field(description="`batch_status` derives it from the evaluations.")


class EvaluationConfig(FileModel):
    """What to run and how."""

    evaluators: tuple[Name, ...] = pydantic.Field(description="Names, each once.")
    evaluator_configs: Annotated[dict[Name, Open], pydantic.AfterValidator(canonical)] = pydantic.Field(
        default_factory=dict, description="Versions, by evaluator."
    )

    @pydantic.model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.evaluators)) < len(self.evaluators):
            raise ValueError("each evaluator once")
        return self


def new_evaluation_id() -> str:
    """Return a new id, `eval_<uuid4>`."""
    return f"eval_{uuid.uuid4()}"
