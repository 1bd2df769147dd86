"""Replies of chat completions, whole or streamed, in one form."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from rag_eval_pipeline.endpoints.chat_capabilities import Mode
from rag_eval_pipeline.endpoints.errors import EndpointError
from rag_eval_pipeline.endpoints.events import DONE, Event, json_values
from rag_eval_pipeline.endpoints.prices import Prices
from rag_eval_pipeline.endpoints.replies import Reply, StreamReply


class ChatUsage(NamedTuple):
    """Tokens of a reply as the server counts them, zeros where it does not; `cost` in US dollars, None if unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model said.

    Args:
        text: Its answer; empty when it gave none.
        model: What the server says that it used.
        system_fingerprint: Of the server's set-up, where it tells.
        finish_reason: `stop`, `length` for an answer that was cut, `content_filter`, or None where it is not told.
        refusal: Why there is no answer, when the model or a filter refused.
        reasoning: What it said before answering, where that is apart.
        usage: Tokens and money; without failed attempts.
        requests: Sent for it, failed attempts included.
        elapsed_ms: From the first sending to the last byte.
        first_token_ms: To the first text or reasoning; None when it was not streamed.
        raw_sha256: Of the body.
        body: The last JSON object of the reply.
        objects: All of them, in order; several of a stream.
        mode: The form in which JSON was asked for; `plain` without a schema.
    """

    text: str
    model: str | None
    system_fingerprint: str | None
    finish_reason: str | None
    refusal: str | None
    reasoning: str | None
    usage: ChatUsage
    requests: int
    elapsed_ms: float
    first_token_ms: float | None
    raw_sha256: str
    body: Any = field(repr=False)
    objects: tuple[Any, ...] = field(repr=False)
    mode: Mode


@dataclass(slots=True)
class _Parts:
    """What has been read of a reply so far."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    first_token_ms: float | None = None
    is_done: bool = False

    def take(self, value: Any, part: str) -> None:
        """Takes one object of a reply; its message stands under `part`, `message` or `delta`.

        Raises:
            ValueError: Naming what is not as the protocol has it.
        """
        if not isinstance(value, dict):
            raise ValueError("an object")
        self.objects.append(value)
        self.facts |= {key: value[key] for key in ("model", "system_fingerprint", "usage") if value.get(key)}
        choices = value.get("choices")
        if not isinstance(choices, list):
            raise ValueError("a list at choices")
        for choice in choices[:1]:
            message = choice.get(part) if isinstance(choice, dict) else None
            if message is None and part == "delta":
                message = {}
            if not isinstance(message, dict):
                raise ValueError(f"an object at choices[0].{part}")
            self.text.append(_text(message.get("content"), part))
            self.reasoning.append(_told(message.get("reasoning_content")) or _told(message.get("reasoning")))
            self.refusal.append(_told(message.get("refusal")))
            self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def reply(self, reply: Reply, prices: Prices, mode: Mode) -> ChatReply:
        """All of it."""
        refusal = "".join(self.refusal) or None
        if self.finish_reason == "content_filter":
            refusal = refusal or "content_filter"
        return ChatReply(
            text="".join(self.text),
            model=_told(self.facts.get("model")) or None,
            system_fingerprint=_told(self.facts.get("system_fingerprint")) or None,
            finish_reason=self.finish_reason,
            refusal=refusal,
            reasoning="".join(self.reasoning) or None,
            usage=_usage(self.facts.get("usage"), prices, reply.requests),
            requests=reply.requests,
            elapsed_ms=reply.elapsed_ms,
            first_token_ms=self.first_token_ms,
            raw_sha256=reply.raw_sha256,
            body=self.objects[-1] if self.objects else None,
            objects=tuple(self.objects),
            mode=mode,
        )


def read_reply(reply: Reply, prices: Prices, mode: Mode) -> ChatReply:
    """A reply that came as one JSON object.

    Raises:
        EndpointError: `bad_response`, or `error_reply` for an error with a status of success.
    """
    value = reply.json()
    _raise_error(value, reply, partial="")
    parts = _Parts()
    try:
        parts.take(value, "message")
        if not value["choices"]:
            raise ValueError("a choice in choices")
    except ValueError as error:
        raise reply.bad(str(error)) from None
    return parts.reply(reply, prices, mode)


def read_stream(reply: StreamReply, prices: Prices, mode: Mode) -> ChatReply:
    """A reply that came as a stream; a server that streams nothing may answer with one object.

    Raises:
        EndpointError: `bad_response`; `error_reply` for an error after the start; `stream_truncated` for a stream
            without its end. The text so far is its `partial`.
    """
    if "json" in reply.headers.get("content-type", ""):
        return read_reply(reply, prices, mode)
    parts = _Parts()
    for event in reply.events:
        _take_event(parts, event, reply)
    if not parts.objects:
        raise reply.bad("server-sent events with JSON objects")
    if not (parts.is_done or parts.finish_reason):
        raise EndpointError(
            "stream_truncated",
            f"the stream ended without its end, after {len(reply.events)} events",
            status="truncated",
            requests=reply.requests,
            partial="".join(parts.text).encode(),
            elapsed_ms=reply.elapsed_ms,
            http_status=reply.status,
        )
    return parts.reply(reply, prices, mode)


def text_of(events: Sequence[Event]) -> str:
    """The text in the events of a stream that failed, as far as they can be read."""
    parts = _Parts()
    for event in events:
        try:
            for value in json_values(event.data):
                parts.take(value, "delta")
        except ValueError:
            continue
    return "".join(parts.text)


def _take_event(parts: _Parts, event: Event, reply: StreamReply) -> None:
    if event.data.strip() == DONE:
        parts.is_done = True
        return
    try:
        values = json_values(event.data)
    except ValueError:
        raise reply.bad(f"JSON in event {len(parts.objects) + 1}") from None
    for value in values:
        _raise_error(value, reply, partial="".join(parts.text))
        try:
            parts.take(value, "delta")
        except ValueError as error:
            raise reply.bad(f"{error} in event {len(parts.objects)}") from None
    if parts.first_token_ms is None and any((parts.text[-1:], parts.reasoning[-1:])) and _has_words(parts):
        parts.first_token_ms = event.at_ms


def _has_words(parts: _Parts) -> bool:
    return any(parts.text) or any(parts.reasoning)


def _raise_error(value: Any, reply: Reply, *, partial: str) -> None | NoReturn:
    error = value.get("error") if isinstance(value, dict) else None
    if not error:
        return None
    said = error.get("message") if isinstance(error, dict) else error
    raise EndpointError(
        "error_reply",
        reply.masked(f"HTTP {reply.status} with an error: {str(said)[:500]!r}"),
        requests=reply.requests,
        partial=partial.encode() or None,
        elapsed_ms=reply.elapsed_ms,
        http_status=reply.status,
    )


def _text(content: Any, part: str) -> str:
    """Content as text: a string, or the texts of a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_told(item.get("text")) for item in content if isinstance(item, dict))
    raise ValueError(f"text at choices[0].{part}.content")


def _told(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _usage(value: Any, prices: Prices, requests: int) -> ChatUsage:
    if not isinstance(value, dict):
        return ChatUsage()
    prompt, completion, total = (_count(value.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    cost = value.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or cost < 0:
        cost = prices.estimate(prompt_tokens=prompt, completion_tokens=completion, requests=requests)
    return ChatUsage(prompt, completion, total or prompt + completion, float(cost))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
