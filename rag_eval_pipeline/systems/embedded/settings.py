"""Settings of the embedded system."""

from typing import Literal

import pydantic

from rag_eval_pipeline.formats.model import Model


class EmbeddedSettings(Model):
    """How the embedded system retrieves and answers."""

    k: int = pydantic.Field(10, ge=1, le=100, description="Passages retrieved for a question.")
    passage_words: int = pydantic.Field(
        30, ge=5, le=2000, description="Words of a passage at most; smaller passages are more exact and lose context."
    )
    rerank: bool = pydantic.Field(
        True, description="Raise passages with a sentence that covers the question; off, BM25's order stands."
    )
    abstention_threshold: float = pydantic.Field(
        0.35, ge=0, le=1,
        description="Share of the question's weight that a sentence must cover to be answered from; 0 always answers.",
    )  # fmt: skip

    answer: Literal["phrase", "sentence"] = pydantic.Field(
        "phrase", description="Answer with the words of the best sentence that fit the question, or with all of it."
    )
