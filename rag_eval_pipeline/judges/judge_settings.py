"""`judge:` of the evaluation settings: which judge, its settings, and what it may cost."""

import hashlib
import json
import unicodedata
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.ratings import BUILT_IN, RatingProtocol
from rag_eval_pipeline.web.server_settings import Budget, ChatSettings, EndpointSettings

LEXICAL_RULES = "lexical/9"  # raised whenever a rule, a word list or a pattern changes
_LIBRARIES = ("rapidfuzz", "regex", "snowballstemmer")
_installed_version = cache(version)  # which reads a file; a sensor asks for each pair
LanguageCode = Literal["en", "de", "fr", "es", "it", "pt", "nl", "ru", "pl", "tr", "zh", "ja", "ko", "ar", "hi"]
DECIMAL_COMMA: frozenset[LanguageCode] = frozenset({"de", "fr", "es", "it", "pt", "nl", "ru", "pl", "tr"})
"""Languages that write 1,5 for one and a half."""
NliLabel = Literal["entailment", "neutral", "contradiction", "not_entailment"]
LABEL_SETS = ({"entailment", "neutral", "contradiction"}, {"entailment", "not_entailment"})
JudgeKind = Literal["lexical", "nli", "openai", "none"]


class LexicalSettings(Model):
    """How answers are compared with gold answers; every default is the measured optimum of a flat region."""

    language: LanguageCode = pydantic.Field(
        "en",
        description="Language of questions and documents. Correctness is judged in English; in other "
        "languages only refusals, yes or no, and answers equal to the gold answer are judged.",
    )
    decimal_comma: bool | None = pydantic.Field(
        None, description="Whether 1,5 is one and a half; by default as the language writes it. Never guessed."
    )
    number_tolerance: float = pydantic.Field(
        0.01, ge=0, lt=1, description="Relative difference within which a number matches the gold answer's."
    )
    gold_recall_short: float = pydantic.Field(
        0.60, ge=0, le=1, description="Share of a gold answer's words that is needed, for golds of up to four words."
    )
    gold_recall_long: float = pydantic.Field(0.45, ge=0, le=1, description="The same for longer gold answers.")
    unsure_band: float = pydantic.Field(
        0.15, ge=0, le=0.5, description="Distance from that share within which the verdict is unsure; 0.05 to 0.25."
    )

    @property
    def has_decimal_comma(self) -> bool:
        """Whether 1,5 is one and a half."""
        return self.language in DECIMAL_COMMA if self.decimal_comma is None else self.decimal_comma

    @property
    def fingerprint(self) -> str:
        """Changes whenever the lexical judge may judge the same case differently."""
        parts = {
            "rules": LEXICAL_RULES,
            "settings": self.model_dump(mode="json"),
            "libraries": {name: _installed_version(name) for name in _LIBRARIES},
            "unicode": unicodedata.unidata_version,
        }
        return f"{LEXICAL_RULES}-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]}"


def _known_rating(rating: object) -> object:
    if not isinstance(rating, str):
        return rating
    if rating not in BUILT_IN:
        raise ValueError(f"one of {', '.join(BUILT_IN)}, or a custom protocol")
    return BUILT_IN[rating]


class LlmSettings(Model):
    """Which model judges, and how."""

    # A secret written where a variable's name belongs must not come back in an error.
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    endpoint: EndpointSettings = pydantic.Field(description="The judge's server.")
    chat: ChatSettings = pydantic.Field(description="The model and how it samples.")
    ratings: tuple[Annotated[RatingProtocol, pydantic.BeforeValidator(_known_rating)], ...] = pydantic.Field(
        (),
        description="Ratings in addition to the verdicts; each takes one or two more calls per answer: "
        "answer_accuracy, "
        "answer_relevance, groundedness, quality, relevance, toxicity, or custom protocols.",
    )
    evidence_chars: int = pydantic.Field(
        12_000, ge=1_000, le=1_000_000,
        description="Maximum characters of cited texts and contexts in one call; of longer ones, the "
        "sentences nearest to the claims are sent.",
    )  # fmt: skip
    claims_per_call: int = pydantic.Field(
        12,
        ge=1,
        le=100,
        description="Maximum claims in one call, which bounds the reply; an answer with more takes more calls.",
    )
    claim_labels: bool = pydantic.Field(
        False,
        description="Ask whether a claim needs each of its citations, for ALCE's citation_recall and "
        "citation_precision: one more call for an answer with several citations at one claim. If off, "
        "these metrics are null.",
    )
    same_model: bool = pydantic.Field(
        True,
        description="A reply from another model than the first reply's is a failure. Turn this off for routers that "
        "choose a model each time: such an evaluation is flagged, and compares models as much as systems.",
    )
    fallback_scoring: float | None = pydantic.Field(
        None, ge=0, le=1,
        description="Score in place of a verdict that could not be read, flagged; by default there is none. Citation "
        "Accuracy Evaluation 6.2 has 0.5.",
    )  # fmt: skip
    lexical: LexicalSettings = pydantic.Field(
        LexicalSettings(), description="Settings of the lexical judge whose verdicts are compared."
    )

    @pydantic.field_validator("ratings")
    @classmethod
    def _once(cls, value: tuple[RatingProtocol, ...]) -> tuple[RatingProtocol, ...]:
        if len({rating.name for rating in value}) < len(value):
            raise ValueError("each rating once")
        return value

    @property
    def calls_per_answer(self) -> int:
        """Calls that judging an answer takes at least; more with many claims, fewer if the cache has the reply."""
        return 1 + sum(len(rating.prompts) for rating in self.ratings)


class NliSettings(Model):
    """Which model decides on support, and how; correctness and refusals are judged by words."""

    model: str = pydantic.Field(
        description="Folder with model.onnx (dynamic axes; beside it the weights it names, if any) and tokenizer.json."
    )
    labels: tuple[NliLabel, ...] = pydantic.Field(
        description="The model's outputs in order: entailment, neutral and contradiction, or entailment and "
        "not_entailment; `id2label` of its config.json."
    )
    threshold: float = pydantic.Field(
        0.5, gt=0, lt=1, description="Probability of entailment from which a text supports a claim."
    )
    window_tokens: int = pydantic.Field(
        512, ge=16, le=8192, description="Tokens of a text and a claim in one input; what the model was made for."
    )
    overlap_tokens: int = pydantic.Field(
        64, ge=0, le=4096, description="Tokens that neighbouring windows of a longer text share."
    )
    batch_size: int = pydantic.Field(8, ge=1, le=256, description="Inputs of equal length in one run of the model.")
    threads: int = pydantic.Field(1, ge=1, le=64, description="Threads of the model.")
    lexical: LexicalSettings = pydantic.Field(
        LexicalSettings(), description="Settings of the lexical judge, which decides correctness and refusals."
    )

    @pydantic.field_validator("model")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not Path(value).expanduser().is_absolute():
            raise ValueError("an absolute path, or one that begins with ~/")
        return value

    @pydantic.field_validator("labels")
    @classmethod
    def _each_once(cls, value: tuple[NliLabel, ...]) -> tuple[NliLabel, ...]:
        if set(value) not in LABEL_SETS or len(set(value)) < len(value):
            raise ValueError("each of entailment, neutral, contradiction once, or of entailment, not_entailment")
        return value

    @pydantic.model_validator(mode="after")
    def _advancing(self) -> "NliSettings":
        if 2 * self.overlap_tokens > self.window_tokens:
            raise ValueError("overlap_tokens of at most half of window_tokens")
        return self

    @property
    def folder(self) -> Path:
        """The folder."""
        return Path(self.model).expanduser()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name


class NoSettings(Model):
    """Settings of no judge."""


JUDGE_SETTINGS: dict[JudgeKind, type[Model]] = {
    "lexical": LexicalSettings, "nli": NliSettings, "openai": LlmSettings, "none": NoSettings
}  # fmt: skip  # fmt: skip


class JudgeSettings(Model):
    """The judge of an evaluation; by default the lexical one, which costs nothing and asks no server."""

    # A secret written where a variable's name belongs must not come back in an error.
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    kind: JudgeKind = pydantic.Field("lexical", description="Kind of judge; none leaves the judge's scores null.")
    budget: Budget = pydantic.Field(Budget(), description="Limits for the judge in one UTC day.")
    min_agreement: float = pydantic.Field(
        0.60,
        ge=0,
        le=1,
        description="The judge counts as calibrated if the interval of its kappa with people's labels "
        "begins at this or above.",
    )
    settings: pydantic.SerializeAsAny[Model] = pydantic.Field(
        default_factory=dict,  # validated into the kind's model
        validate_default=True,
        description="Settings of the kind.",
    )

    @property
    def title(self) -> str:
        """Kind and model."""
        if isinstance(self.settings, LlmSettings):
            return f"{self.kind} {self.settings.chat.model}"
        return f"{self.kind} {self.settings.name}" if isinstance(self.settings, NliSettings) else self.kind

    @property
    def judges_support(self) -> bool:
        """Whether claims are compared with texts; without that, support has no value."""
        return isinstance(self.settings, (LlmSettings, NliSettings))

    @property
    def calls_per_answer(self) -> int:
        """Calls to a server that judging an answer takes at least, if the cache has no reply; 0 without a server."""
        return self.settings.calls_per_answer if isinstance(self.settings, LlmSettings) else 0

    @pydantic.field_validator("settings", mode="plain")
    @classmethod
    def _of_the_kind(cls, value: Any, info: pydantic.ValidationInfo) -> Model:
        kind = info.data.get("kind")
        if kind is None:  # the kind has the error
            return NoSettings()
        return JUDGE_SETTINGS[kind].model_validate(value)
