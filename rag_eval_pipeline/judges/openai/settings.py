"""Settings of a judge behind an OpenAI-compatible server."""

from typing import Annotated

import pydantic

from rag_eval_pipeline.endpoints.chat_settings import ChatSettings
from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.openai.ratings import BUILT_IN, RatingProtocol


def _known(rating: object) -> object:
    if not isinstance(rating, str):
        return rating
    if rating not in BUILT_IN:
        raise ValueError(f"one of {', '.join(BUILT_IN)}, or a protocol of one's own")
    return BUILT_IN[rating]


Rating = Annotated[RatingProtocol, pydantic.BeforeValidator(_known)]


class OpenAiJudgeSettings(Model):
    """Which model judges, and how."""

    # A secret that was written where a variable's name belongs must not come back in an error.
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    endpoint: EndpointSettings = pydantic.Field(description="The judge's server.")
    chat: ChatSettings = pydantic.Field(description="The model and how it samples.")
    ratings: tuple[Rating, ...] = pydantic.Field(
        (),
        description="Ratings beside the verdicts, one or two calls more an answer each: answer_accuracy, "
        "answer_relevance, groundedness, or protocols of one's own.",
    )
    evidence_chars: int = pydantic.Field(
        12_000, ge=1_000, le=1_000_000,
        description="Characters of cited texts and contexts in one call; of more, the sentences nearest to the claims.",
    )  # fmt: skip
    claims_per_call: int = pydantic.Field(
        12, ge=1, le=100, description="Claims in one call; an answer with more takes more calls. Bounds the reply."
    )
    claim_labels: bool = pydantic.Field(
        False,
        description="Ask which text entails which claim, for RAGChecker's figures and ALCE's citation_recall and "
        "citation_precision: one call more an answer, two of one with many claims. Off, those have no value.",
    )
    repeats: int = pydantic.Field(
        1, ge=1, le=9, description="Times that every answer is judged; most verdicts win, a tie is `unsure`."
    )
    same_model: bool = pydantic.Field(
        True,
        description="A reply by another model than the first reply's is a failure. Off, for routers that choose one "
        "each time: such an evaluation is flagged, and compares models as much as systems.",
    )
    fallback_scoring: float | None = pydantic.Field(
        None, ge=0, le=1,
        description="Score in place of a verdict that could not be read, flagged and worth nothing: by default there "
        "is none. Citation Accuracy Evaluation 6.2 has 0.5.",
    )  # fmt: skip
    lexical: LexicalSettings = pydantic.Field(
        LexicalSettings(), description="Of the judge of words that splits answers into claims and looks over verdicts."
    )

    @pydantic.field_validator("ratings")
    @classmethod
    def _once(cls, value: tuple[RatingProtocol, ...]) -> tuple[RatingProtocol, ...]:
        if len({rating.name for rating in value}) < len(value):
            raise ValueError("each rating once")
        return value

    @property
    def calls_per_answer(self) -> int:
        """Calls that judging an answer takes at least; more with many claims, fewer where the cache has the reply."""
        ratings = sum(len(rating.prompts) for rating in self.ratings)
        return self.repeats * (1 + ratings + self.claim_labels)
