"""Ratings of an answer as a whole: protocols that are data, each with its prompts, its scale and what it needs.

The wording is our own; the manner is that of the NVIDIA metrics of RAGAS: few grades, and two directions where two
texts are compared, because a model favours the text that it reads first.
Source: RAGAS 0.4.3, nv_accuracy, nv_context_relevance, nv_response_groundedness.
"""

from collections.abc import Mapping
from typing import Literal

import pydantic

from rag_eval_pipeline.formats.model import Model

Part = Literal["question", "answer", "gold", "contexts"]


class RatingProtocol(Model):
    """One way to rate an answer."""

    name: str = pydantic.Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="In the results.")
    version: str = pydantic.Field(min_length=1, description="Raised whenever the wording changes.")
    prompts: tuple[str, ...] = pydantic.Field(
        min_length=1, max_length=4,
        description="What the model is told, one call each; the rating is their mean. `first` and `second` in the "
        "data are the parts of `order`, turned round in every second call.",
    )  # fmt: skip
    scale: dict[int, float] = pydantic.Field(min_length=2, description="Grade to score in [0, 1].")
    needs: tuple[Part, ...] = pydantic.Field(
        min_length=1, description="Parts of the data; an answer that lacks one is not rated."
    )
    compares: tuple[Part, Part] | None = pydantic.Field(
        None, description="Two parts that are shown as `first` and `second`, and the other way round in turn."
    )

    @pydantic.field_validator("scale")
    @classmethod
    def _in_range(cls, value: dict[int, float]) -> dict[int, float]:
        if any(not 0 <= score <= 1 for score in value.values()):
            raise ValueError("scores in [0, 1]")
        return value

    @pydantic.model_validator(mode="after")
    def _compares_what_it_needs(self) -> "RatingProtocol":
        if self.compares is not None and not set(self.compares) <= set(self.needs):
            raise ValueError("`compares` names parts of `needs`")
        return self


ANSWER_ACCURACY = RatingProtocol(
    name="answer_accuracy",
    version="answer_accuracy/1",
    prompts=(
        "Grade `first`, an answer to `question`, by `second`, a reference that is right.\n"
        "4: it says all that the reference says about the question, in whatever words, and nothing against it.\n"
        "2: it says a part of that, and nothing against it.\n"
        "0: it says none of that, something against it, or does not answer.",
        "`first` is what is known to be true about `question`. How much of what the question asks for is given by "
        "`second` and agrees with it?\n"
        "4: everything.\n2: a part of it; the rest is missing, not wrong.\n0: nothing, or something disagrees.",
    ),
    scale={0: 0.0, 2: 0.5, 4: 1.0},
    needs=("question", "answer", "gold"),
    compares=("answer", "gold"),
)
ANSWER_RELEVANCE = RatingProtocol(
    name="answer_relevance",
    version="answer_relevance/1",
    prompts=(
        "Does `answer` answer `question`? Whether it is true does not matter here.\n"
        "2: it gives what is asked for, and little else.\n"
        "1: it gives a part of it, or much that was not asked for.\n"
        "0: it speaks of something else, or declines.",
    ),
    scale={0: 0.0, 1: 0.5, 2: 1.0},
    needs=("question", "answer"),
)
GROUNDEDNESS = RatingProtocol(
    name="groundedness",
    version="groundedness/1",
    prompts=(
        "How much of what `answer` states do `contexts` state as well?\n"
        "2: all of it.\n1: a part of it.\n0: none of it.",
        "Take each statement of `answer` and look for it in `contexts`.\n"
        "2: each one stands there or follows without doubt.\n1: some do.\n0: none does.",
    ),
    scale={0: 0.0, 1: 0.5, 2: 1.0},
    needs=("answer", "contexts"),
)
BUILT_IN: Mapping[str, RatingProtocol] = {
    protocol.name: protocol for protocol in (ANSWER_ACCURACY, ANSWER_RELEVANCE, GROUNDEDNESS)
}
