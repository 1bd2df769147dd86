"""`length`: whether an answer is as long as expected, in words.

Citations count for nothing. The score is 1 inside the expected range; with `optimal_words` it falls evenly from 1 there
to 0.5 at the range's ends. Outside it is the ratio of the length to the nearer end (its inverse above), halved where an
optimum is stated, so that it has no jump.
"""

from typing import Literal, Self

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator, Fields
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.wording import wording, words
from rag_eval_pipeline.metrics.evaluation_scores import SHARE

Verdict = Literal["too_short", "appropriate", "too_long"]
AT_THE_ENDS = 0.5  # of the range, where an optimum is stated


class LengthOptions(Model):
    """How many words are expected."""

    min_words: int = pydantic.Field(1, ge=0, description="At least.")
    max_words: int = pydantic.Field(200, ge=1, description="At most.")
    optimal_words: int | None = pydantic.Field(None, ge=0, description="At best; none by default.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        best = self.min_words if self.optimal_words is None else self.optimal_words
        if not self.min_words <= best <= self.max_words:
            raise ValueError("min_words <= optimal_words <= max_words")
        return self


def length_score(count: int, options: LengthOptions) -> float:
    """Score of a number of words, in [0, 1]."""
    low, high, best = options.min_words, options.max_words, options.optimal_words
    edge = 1.0 if best is None else AT_THE_ENDS
    if count < low:
        return edge * count / low
    if count > high:
        return edge * high / count
    if best is None or count == best:
        return 1.0
    width = best - low if count < best else high - best
    return 1.0 - (1.0 - AT_THE_ENDS) * abs(count - best) / width


def length_verdict(count: int, options: LengthOptions) -> Verdict:
    """Verdict on a number of words."""
    if count < options.min_words:
        return "too_short"
    return "too_long" if count > options.max_words else "appropriate"


def _evaluate(event: Event, options: LengthOptions) -> Fields:
    said = wording(event)
    count = len(words(said.text))
    verdict = length_verdict(count, options)
    expected = f"{options.min_words} to {options.max_words}"
    return {
        "score": length_score(count, options),
        "explanation": f"{count} words, expected {expected}: {verdict.replace('_', ' ')}",
        "confidence": 1.0,  # counted, not estimated
        "character_count": len(said.text),
        "word_count": count,
        "sentence_count": len(said.sentences),
        "expected_length_range": options.model_dump(exclude_none=True),
        "length_appropriateness": verdict,
    }


LENGTH = Evaluator(
    name="length",
    evaluate=_evaluate,
    version="1.1.0",
    scale=SHARE,
    options=LengthOptions,
    in_thread=False,
)
