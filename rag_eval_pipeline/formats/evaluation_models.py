"""What one evaluator says of one event, with the fields of the built-in evaluators.

A score keeps its kind (1, 1.0 and true are three scores), only a completed evaluation has one, and times are UTC.
Source: Evaluation Data Models, Core Evaluation Model and Built-in Evaluator Models.
"""

from typing import Annotated, Any, Literal, Self

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.formats.statuses import EvaluationStatus
from rag_eval_pipeline.formats.values import (
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
    Whole,
)

Amount = Annotated[Number, pydantic.Field(ge=0)]
Count = Annotated[Whole, pydantic.Field(ge=0)]


class EvaluationError(Model):
    """Why an evaluation failed."""

    type: Name = pydantic.Field(description="Class of the error.")
    message: Text = pydantic.Field(description="What happened.")
    code: Text | None = pydantic.Field(None, description="For programs.")
    context: Open | None = pydantic.Field(None, description="What it was about.")


class Evaluation(Model):
    """What one evaluator says of one event."""

    evaluation_id: Name = pydantic.Field(description="Unique; `new_evaluation_id` makes one.")
    target_event_id: Name = pydantic.Field(description="The event that is evaluated.")
    evaluator_name: Name = pydantic.Field(description="Which evaluator.")
    evaluator_version: Version | None = pydantic.Field(None, description="Of the evaluator.")
    score: Score = pydantic.Field(None, description="A number, true or false, or a category.")
    explanation: Text | None = pydantic.Field(None, description="For people.")
    confidence: Share | None = pydantic.Field(None, description="The evaluator's own, in [0, 1].")
    criteria: Open | None = pydantic.Field(None, description="What the evaluator went by.")
    metadata: Open | None = pydantic.Field(None, description="Model, prompt, environment.")
    timestamp: Moment = pydantic.Field(description="When it was made, UTC.")
    duration_ms: Amount | None = pydantic.Field(None, description="Time taken, milliseconds.")
    cost_usd: Amount | None = pydantic.Field(None, description="Cost, US dollars.")
    status: EvaluationStatus = pydantic.Field(
        description="Not stated: failed with an error, pending when nothing is there yet, else completed."
    )
    error: EvaluationError | None = pydantic.Field(None, description="Of a failed evaluation.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _status_from_content(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = {key: value for key, value in data.items() if value is not None}  # null is as good as absent
        if "error" in data:
            status = EvaluationStatus.FAILED
        elif data.keys() - BASE_FIELDS or data.keys() & {"score", "explanation"}:
            status = EvaluationStatus.COMPLETED
        else:
            status = EvaluationStatus.PENDING
        return {"status": status} | data

    @pydantic.model_validator(mode="after")
    def _a_failure_is_no_number(self) -> Self:
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

    claim: Text = pydantic.Field(description="What is said.")
    verified: Truth | None = pydantic.Field(None, description="Whether sources bear it out; null: not checked.")
    confidence: Share | None = pydantic.Field(None, description="In that.")
    sources: tuple[Text, ...] = pydantic.Field((), description="Which were consulted.")
    correct_value: Text | None = pydantic.Field(None, description="What it should have said.")


class FactualAccuracyEvaluation(Evaluation):
    """Whether a response's facts are right."""

    factual_claims: tuple[FactualClaim, ...] = pydantic.Field(description="Each claim.")
    citation_accuracy: Share | None = pydantic.Field(None, description="Share of right citations.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        """A stated flag gives way to the derived one: stated beside a refuted claim, upstream's is false."""
        return {k: v for k, v in data.items() if k != "hallucination_detected"} if isinstance(data, dict) else data

    @pydantic.computed_field  # type: ignore[prop-decorator]  # mypy has no decorated properties
    @property
    def hallucination_detected(self) -> bool | None:
        """Any claim that sources do not bear out; None when none is refuted and some were not checked."""
        verdicts = {claim.verified for claim in self.factual_claims}
        if False in verdicts:
            return True
        return None if None in verdicts else False


class ToxicityEvaluation(Evaluation):
    """How toxic a response is; lower is better."""

    toxicity_categories: Shares = pydantic.Field(description="Hate speech, harassment, violence, ....")
    overall_toxicity: Share = pydantic.Field(description="Over all categories.")
    content_warnings: tuple[Text, ...] = pydantic.Field((), description="For readers.")


class RelevanceEvaluation(Evaluation):
    """How far a response answers what was asked."""

    query_intent_match: Share = pydantic.Field(description="With what was meant.")
    topic_alignment: Share = pydantic.Field(description="With the topic.")
    information_completeness: Share = pydantic.Field(description="Of what was asked for.")


class LengthRange(Model):
    """How many words are expected."""

    min_words: Count = pydantic.Field(description="At least.")
    max_words: Count = pydantic.Field(description="At most.")
    optimal_words: Count | None = pydantic.Field(None, description="At best.")

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
    expected_length_range: LengthRange = pydantic.Field(description="What is expected.")
    length_appropriateness: Literal["too_short", "appropriate", "too_long"] = pydantic.Field(description="Verdict.")
