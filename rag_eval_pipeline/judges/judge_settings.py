"""`judge:` of the evaluation settings: which judge, its settings, and what it may cost; and the judge they describe."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.judgement import Judge
from rag_eval_pipeline.judges.lexical import LexicalJudge, LexicalSettings
from rag_eval_pipeline.judges.llm import LlmSettings, open_llm_judge
from rag_eval_pipeline.judges.nli import NliSettings, open_nli_judge
from rag_eval_pipeline.web.server_settings import Budget

JudgeKind = Literal["lexical", "nli", "openai", "none"]


class NoSettings(Model):
    """Settings of no judge."""


JUDGE_SETTINGS: dict[JudgeKind, type[Model]] = {
    "lexical": LexicalSettings, "nli": NliSettings, "openai": LlmSettings, "none": NoSettings
}  # fmt: skip


class JudgeSettings(Model):
    """The judge of an evaluation; by default the lexical one, which costs nothing and asks no server."""

    # A secret written where a variable's name belongs must not come back in an error.
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    kind: JudgeKind = pydantic.Field("lexical", description="Kind of judge; none leaves the judge's scores null.")
    budget: Budget = pydantic.Field(Budget(), description="Limits for the judge in one UTC day.")
    min_agreement: float = pydantic.Field(
        0.60, ge=0, le=1, description="Lower limit of kappa with people's labels from which the judge is calibrated."
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


def judge_fingerprint(settings: JudgeSettings) -> str | None:
    """Return what changes whenever the judge may judge the same case differently; None for the kind `none`.

    Raises:
        InputError: `missing_model`, `label_order` of the kind `nli`.
        ServiceError: `missing_extra` of the same.
    """
    if isinstance(settings.settings, (LlmSettings, NliSettings)):
        return settings.settings.fingerprint
    return LexicalJudge(settings.settings).fingerprint if isinstance(settings.settings, LexicalSettings) else None


@asynccontextmanager
async def open_judge(settings: JudgeSettings, cache_folder: Path) -> AsyncIterator[Judge | None]:
    """Open the judge; None for the kind `none`.

    Raises:
        InputError: `missing_model`, `label_order`, `bad_model` of the kind `nli`.
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`, `cache_unusable`, `missing_extra`.
    """
    if isinstance(settings.settings, LlmSettings):
        async with open_llm_judge(settings.settings, cache_folder) as judge:
            yield judge
    elif isinstance(settings.settings, NliSettings):
        yield open_nli_judge(settings.settings)
    elif isinstance(settings.settings, LexicalSettings):
        yield LexicalJudge(settings.settings)
    else:
        yield None
