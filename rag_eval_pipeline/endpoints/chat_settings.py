"""What a chat model is asked with."""

from typing import ClassVar

import pydantic

from rag_eval_pipeline.endpoints.prices import Prices
from rag_eval_pipeline.formats.model import JsonObject, Model


class ChatSettings(Model):
    """One model behind an OpenAI-compatible server; what is null is not sent, so the server's default holds."""

    operational: ClassVar[frozenset[str]] = frozenset({"prices"})

    model: str = pydantic.Field(min_length=1, description="Name of the model, as the server knows it.")
    temperature: float | None = pydantic.Field(0.0, ge=0, le=2, description="0 for the likeliest words.")
    max_tokens: int | None = pydantic.Field(1024, ge=1, description="Most tokens of a reply.")
    seed: int | None = pydantic.Field(42, description="Of the server's sampling, where it takes one.")
    top_p: float | None = pydantic.Field(None, gt=0, le=1, description="Share of probability that is sampled from.")
    prices: Prices = pydantic.Field(Prices(), description="For estimated costs, where the server tells none.")
    extra_body: JsonObject = pydantic.Field(
        default_factory=dict, description="Further fields of every request, as this server knows them."
    )
