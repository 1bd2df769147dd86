"""`judge:` of the evaluation settings: which judge, what it may cost, and the settings of its kind."""

from functools import cache
from importlib import import_module
from typing import Any, Literal

import pydantic

from rag_eval_pipeline.endpoints.budget import Budget
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, expectation, place

JudgeKind = Literal["lexical", "openai", "none"]
_ROOT = "rag_eval_pipeline.judges"
_SETTINGS = {"lexical": ("lexical.settings", "LexicalSettings"), "openai": ("openai.settings", "OpenAiJudgeSettings")}


class NoSettings(Model):
    """Of no judge."""


class JudgeSettings(Model):
    """The judge of an evaluation; by default the lexical one, which costs nothing and asks nobody."""

    # A secret that was written where a variable's name belongs must not come back in an error.
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    kind: JudgeKind = pydantic.Field("lexical", description="What judges; none leaves the judge's scores null.")
    budget: Budget = pydantic.Field(Budget(), description="What judging may cost in one UTC day.")
    min_agreement: float = pydantic.Field(
        0.60, ge=0, le=1, description="Lower limit of kappa with people's labels from which the judge is calibrated."
    )
    settings: pydantic.SerializeAsAny[Model] = pydantic.Field(
        default_factory=dict,  # validated into the kind's own model
        validate_default=True,
        description="Settings of the kind.",
    )

    @property
    def title(self) -> str:
        """What judges, for people."""
        chat = getattr(self.settings, "chat", None)
        return self.kind if chat is None else f"{self.kind} {chat.model}"

    @property
    def calls_per_answer(self) -> int:
        """Calls to a server that judging an answer takes at least, of what the cache does not have; 0 without one."""
        calls: int = getattr(self.settings, "calls_per_answer", 0)
        return calls

    @pydantic.field_validator("settings", mode="plain")
    @classmethod
    def _of_the_kind(cls, value: Any, info: pydantic.ValidationInfo) -> Model:
        kind = info.data.get("kind")
        if kind is None:  # the fault is the kind's
            return NoSettings()
        return settings_model(kind).model_validate(value)


@cache
def settings_model(kind: JudgeKind) -> type[Model]:
    """The model of a kind's settings; loaded when it is wanted."""
    if kind == "none":
        return NoSettings
    module, name = _SETTINGS[kind]
    model: type[Model] = getattr(import_module(f"{_ROOT}.{module}"), name)
    return model


def parse_judge(value: Any, of: str) -> JudgeSettings:
    """A judge's settings from a value.

    Args:
        value: Of `judge:`; None for the default.
        of: Where it is from, for messages.

    Raises:
        InputError: `bad_setting`, naming the first bad one; what may be a secret is not shown.
    """
    try:
        return JudgeSettings.model_validate({} if value is None else value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        is_secret = any(part in {"api_key_env", "headers_env"} for part in first["loc"])
        raise InputError(
            "bad_setting", of, expectation(first), field=place(("judge", *first["loc"])),
            found=None if is_secret or first["type"] == "missing" else first["input"],
        ) from (None if is_secret else error)  # fmt: skip
