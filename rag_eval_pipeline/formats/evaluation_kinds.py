"""An evaluation of any kind: the model that its fields fit, and the open model of evaluators of one's own."""

from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from rag_eval_pipeline.formats.evaluation_models import (
    BASE_FIELDS,
    Evaluation,
    FactualAccuracyEvaluation,
    LengthEvaluation,
    QualityEvaluation,
    RelevanceEvaluation,
    ToxicityEvaluation,
)
from rag_eval_pipeline.formats.evaluation_patterns import ComparisonEvaluation, HumanModelEvaluation, TemporalEvaluation
from rag_eval_pipeline.formats.values import with_canonical_extras

# By the evaluator's name in the specification's examples.
SPECIAL: Mapping[str, type[Evaluation]] = {
    "quality": QualityEvaluation,
    "factual_accuracy": FactualAccuracyEvaluation,
    "toxicity": ToxicityEvaluation,
    "relevance": RelevanceEvaluation,
    "length": LengthEvaluation,
    "ab_test_comparison": ComparisonEvaluation,
    "human_ai_comparison": HumanModelEvaluation,
    "temporal_quality": TemporalEvaluation,
}


class CustomEvaluation(Evaluation):
    """An evaluator of somebody's own, with fields of its own; null is as good as absent."""

    model_config = pydantic.ConfigDict(extra="allow")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _own_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        model = model_of(data)
        if model is not CustomEvaluation:
            raise ValueError(f"fields that are not those of {model.__name__}; use that model for these")
        return with_canonical_extras(data, BASE_FIELDS)


def model_of(evaluation: Mapping[str, Any]) -> type[Evaluation]:
    """The model that an evaluation's fields fit.

    Without fields of its own it is an `Evaluation`; with all that a special model requires and none that it does not
    have, that model; else the one of its evaluator's name, so that a misspelt field is found; else a
    `CustomEvaluation`.
    """
    own = {key for key, value in evaluation.items() if value is not None} - BASE_FIELDS
    if not own:
        return Evaluation
    for model in SPECIAL.values():
        required = {name for name, field in model.model_fields.items() if field.is_required()} - BASE_FIELDS
        if required <= own <= {*model.model_fields, *model.model_computed_fields}:
            return model
    return SPECIAL.get(str(evaluation.get("evaluator_name")), CustomEvaluation)


def _tag(evaluation: Any) -> str | None:
    if isinstance(evaluation, Evaluation):
        return type(evaluation).__name__
    return model_of(evaluation).__name__ if isinstance(evaluation, Mapping) else None


AnyEvaluation = Annotated[
    Annotated[Evaluation, pydantic.Tag("Evaluation")]
    | Annotated[QualityEvaluation, pydantic.Tag("QualityEvaluation")]
    | Annotated[FactualAccuracyEvaluation, pydantic.Tag("FactualAccuracyEvaluation")]
    | Annotated[ToxicityEvaluation, pydantic.Tag("ToxicityEvaluation")]
    | Annotated[RelevanceEvaluation, pydantic.Tag("RelevanceEvaluation")]
    | Annotated[LengthEvaluation, pydantic.Tag("LengthEvaluation")]
    | Annotated[ComparisonEvaluation, pydantic.Tag("ComparisonEvaluation")]
    | Annotated[HumanModelEvaluation, pydantic.Tag("HumanModelEvaluation")]
    | Annotated[TemporalEvaluation, pydantic.Tag("TemporalEvaluation")]
    | Annotated[CustomEvaluation, pydantic.Tag("CustomEvaluation")],
    pydantic.Discriminator(_tag, custom_error_type="no_evaluation", custom_error_message="an evaluation, an object"),
]
"""An evaluation of whatever model its fields fit."""

_ANY: pydantic.TypeAdapter[Evaluation] = pydantic.TypeAdapter(AnyEvaluation)


def read_evaluation(data: Any) -> Evaluation:
    """The evaluation in JSON's values, as the model that its fields fit.

    Raises:
        pydantic.ValidationError: It fits none.
    """
    return _ANY.validate_python(data)
