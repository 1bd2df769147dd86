"""What a chat server takes of a request: learned from its refusals, once for all who ask it.

Servers of the same protocol differ: some know `response_format` in one form or not at all, reasoning models want
`max_completion_tokens` and no `temperature`. What a server refuses by name is left out or renamed from then on.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from rag_eval_pipeline.endpoints.chat_settings import ChatSettings
from rag_eval_pipeline.endpoints.errors import EndpointError

Mode = Literal["json_schema", "json_object", "plain"]

_NEXT_MODE: dict[Mode, Mode] = {"json_schema": "json_object", "json_object": "plain"}
_OPTIONAL = ("stream_options", "seed", "temperature", "top_p", "stream")
_FORMAT = re.compile(
    r"response_format|json_schema|json_object|structured|guided|grammar|additionalproperties|json mode|schema"
)
# A refusal of this question, not of a field: nothing is learned from it, even though the text may name `max_tokens`.
_OF_THE_CONTENT = re.compile(r"context.length|context_length|content_filter|content management policy|too long")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The form in which a server takes requests.

    Args:
        mode: Best form of `response_format` that has not been refused.
        tokens_field: Name of the limit of a reply; None when both names were refused.
        dropped: Fields that are left out.
    """

    mode: Mode = "json_schema"
    tokens_field: str | None = "max_tokens"
    dropped: frozenset[str] = frozenset()

    def body(
        self, settings: ChatSettings, messages: list[dict[str, Any]], schema: Mapping[str, Any] | None, *, stream: bool
    ) -> dict[str, Any]:
        """A request that this server takes; only with fields that are set."""
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": settings.seed,
        }
        if self.tokens_field:
            body[self.tokens_field] = settings.max_tokens
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        if schema is not None and self.mode != "plain":
            body["response_format"] = _response_format(self.mode, schema)
        kept = {name: value for name, value in body.items() if value is not None and name not in self.dropped}
        if "stream" not in kept:
            kept.pop("stream_options", None)
        return {**kept, **settings.extra_body}

    def without_refused(self, body: Mapping[str, Any], error: EndpointError) -> Self | None:
        """What is left after a refusal of a body.

        Returns:
            None when the refusal is of no field that can be left out.
        """
        if error.http_status not in {400, 404, 422}:
            return None
        said = (error.body or b"").decode("utf-8", "replace").lower()
        if _OF_THE_CONTENT.search(said):
            return None
        if "response_format" in body and _FORMAT.search(said):
            return replace(self, mode=_NEXT_MODE[self.mode])
        if self.tokens_field in body and "max_completion_tokens" in said and self.tokens_field == "max_tokens":
            return replace(self, tokens_field="max_completion_tokens")
        if self.tokens_field in body and re.search(rf"\b{self.tokens_field}\b", said):
            return replace(self, tokens_field="max_completion_tokens" if self.tokens_field == "max_tokens" else None)
        named = next((name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", said)), None)
        if named is not None:
            return replace(self, dropped=self.dropped | {named})
        if "response_format" in body and error.http_status == 400:
            # Servers that cannot say what they do not know: the rarest thing of the request is the likeliest reason.
            return replace(self, mode=_NEXT_MODE[self.mode])
        return None


def _response_format(mode: Mode, schema: Mapping[str, Any]) -> dict[str, Any]:
    if mode == "json_object":
        return {"type": "json_object"}
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title", "reply")))[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}
