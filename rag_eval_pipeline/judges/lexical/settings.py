"""Settings of the lexical judge."""

from typing import Literal

import pydantic

from rag_eval_pipeline.formats.model import Model

LanguageCode = Literal["en", "de", "fr", "es", "it", "pt", "nl", "ru", "pl", "tr", "zh", "ja", "ko", "ar", "hi"]

# Languages that write 1,5 for one and a half; of those above.
DECIMAL_COMMA: frozenset[LanguageCode] = frozenset({"de", "fr", "es", "it", "pt", "nl", "ru", "pl", "tr"})


class LexicalSettings(Model):
    """How answers and their evidence are compared; every default is the measured optimum of a flat region."""

    language: LanguageCode = pydantic.Field(
        "en",
        description="Language of questions and documents. Correctness is judged in English; of other languages only an "
        "answer equal to the gold answer, a yes or no, and refusals are.",
    )
    decimal_comma: bool | None = pydantic.Field(
        None, description="Whether 1,5 is one and a half; by default as the language writes it. Never guessed."
    )
    number_tolerance: float = pydantic.Field(
        0.01, ge=0, lt=1, description="Relative difference at which a number still is the gold answer's."
    )
    gold_recall_short: float = pydantic.Field(
        0.60, ge=0, le=1, description="Share of a gold answer's words that is needed, for golds of up to four words."
    )
    gold_recall_long: float = pydantic.Field(0.45, ge=0, le=1, description="The same for longer gold answers.")
    unsure_band: float = pydantic.Field(
        0.15, ge=0, le=0.5, description="Distance from that share within which the verdict is unsure; 0.05 to 0.25."
    )
    support_recall: float = pydantic.Field(
        0.75, ge=0, le=1, description="Share of a claim's words that all of its evidence must have."
    )
    support_window: float = pydantic.Field(
        0.60, ge=0, le=1, description="Share of a claim's words that two sentences in a row must have."
    )
    support_number_tolerance: float = pydantic.Field(
        0.005, ge=0, lt=1, description="Relative difference at which a claim's number still is the evidence's."
    )
    veto_score: float = pydantic.Field(
        0.4, ge=0, le=1, description="Most that a claim scores whose number, name, negation or direction differs."
    )

    @property
    def has_decimal_comma(self) -> bool:
        """Whether 1,5 is one and a half."""
        return self.language in DECIMAL_COMMA if self.decimal_comma is None else self.decimal_comma
