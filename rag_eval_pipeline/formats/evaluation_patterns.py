"""Evaluations that compare: two variants, a person and a model, one evaluator over time.

The numbers in them are computed in `metrics.evaluation_patterns`, by definitions that the specification's examples
leave open.
Source: Evaluation Data Models, Common Evaluation Patterns.
"""

from typing import Annotated, Literal, Self

import pydantic

from rag_eval_pipeline.formats.evaluation_models import Count, Evaluation
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.formats.values import Name, Number, Score, Share, Text, Truth

Trend = Literal["improving", "declining", "stable", "no_clear_trend"]


class ComparisonData(Model):
    """Two variants, compared event by event."""

    variant_a_event_id: Name = pydantic.Field(description="Of variant A.")
    variant_b_event_id: Name = pydantic.Field(description="Of variant B.")
    preference_score: Share = pydantic.Field(description="Share of comparisons that A won; a tie is half a win.")
    confidence_interval: tuple[Share, Share] | None = pydantic.Field(None, description="Of that share, 95 %.")
    sample_size: Count = pydantic.Field(description="Comparisons.")
    statistical_significance: Truth | None = pydantic.Field(None, description="The interval leaves 0.5 out.")

    @pydantic.model_validator(mode="after")
    def _inside(self) -> Self:
        if self.confidence_interval is not None:
            low, high = self.confidence_interval
            if not low <= self.preference_score <= high:
                raise ValueError(f"a confidence_interval around preference_score ({self.preference_score})")
        return self


class ComparisonEvaluation(Evaluation):
    """An A/B test."""

    comparison_data: ComparisonData = pydantic.Field(description="What came of it.")


class HumanEvaluation(Model):
    """A person's verdict."""

    annotator_id: Name = pydantic.Field(description="Who.")
    score: Score = pydantic.Field(None, description="As in an evaluation.")
    explanation: Text | None = pydantic.Field(None, description="Why.")


class ModelEvaluation(Model):
    """A model's verdict."""

    model: Name = pydantic.Field(description="Which.")
    score: Score = pydantic.Field(None, description="As in an evaluation.")
    explanation: Text | None = pydantic.Field(None, description="Why.")


class HumanModelEvaluation(Evaluation):
    """A person and a model on the same event."""

    human_evaluation: HumanEvaluation = pydantic.Field(description="The person's.")
    ai_evaluation: ModelEvaluation = pydantic.Field(description="The model's.")
    agreement_score: Share | None = pydantic.Field(None, description="1 - |difference| / range of the scale.")
    discrepancy_analysis: Text | None = pydantic.Field(None, description="Where they differ.")


class TemporalEvaluation(Evaluation):
    """One evaluator over several runs."""

    current_score: Number = pydantic.Field(description="Of the newest run.")
    historical_scores: Annotated[tuple[Number, ...], pydantic.Field(min_length=1)] = pydantic.Field(
        description="Oldest first, the current one last."
    )
    trend: Trend | None = pydantic.Field(None, description="By the interval of the slope.")
    change_rate: Number | None = pydantic.Field(None, description="Slope a run.")
    stability_score: Number | None = pydantic.Field(None, description="1 - standard deviation / mean.")
