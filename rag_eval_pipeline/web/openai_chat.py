"""OpenAI-compatible chat completions over an endpoint: whole or streamed, as JSON where the server can.

Servers of the protocol differ: some accept `response_format` in one form or not at all, reasoning models want
`max_completion_tokens` and no `temperature`. A field that a server refuses by name is omitted or renamed from then on.
"""

import asyncio
import contextlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import msgspec

from rag_eval_pipeline.errors import EndpointError
from rag_eval_pipeline.web.client import Endpoint, Reply, StreamReply
from rag_eval_pipeline.web.server_settings import ChatSettings, Prices
from rag_eval_pipeline.web.sse import DONE, Event, json_values, parse_events

Mode = Literal["json_schema", "json_object", "plain"]

_NEXT_MODE: dict[Mode, Mode] = {"json_schema": "json_object", "json_object": "plain"}
_OPTIONAL = ("stream_options", "seed", "temperature", "top_p", "stream")
_FORMAT = re.compile(
    r"response_format|json_schema|json_object|structured|guided|grammar|additionalproperties|json mode|schema"
)
# A refusal of this question and not of a field, even though the text may name `max_tokens`.
_OF_THE_CONTENT = re.compile(r"context.length|context_length|content_filter|content management policy|too long")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The form of request that a server accepts.

    Args:
        mode: Best form of `response_format` that has not been refused.
        tokens_field: Field for the length limit; None if both names were refused.
    """

    mode: Mode = "json_schema"
    tokens_field: str | None = "max_tokens"
    dropped: frozenset[str] = frozenset()

    def body(
        self, settings: ChatSettings, messages: list[dict[str, Any]], schema: Mapping[str, Any] | None, *, stream: bool
    ) -> dict[str, Any]:
        """Return a request body that this server accepts, with the fields that are set."""
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
        """Return the capabilities after a refusal; None if it concerns no field that can be omitted."""
        if error.http_status not in {400, 404, 422}:
            return None
        text = (error.body or b"").decode("utf-8", "replace").lower()
        if _OF_THE_CONTENT.search(text):
            return None
        if "response_format" in body and _FORMAT.search(text):
            return replace(self, mode=_NEXT_MODE[self.mode])
        if self.tokens_field in body and re.search(rf"\b(?:{self.tokens_field}|max_completion_tokens)\b", text):
            return replace(self, tokens_field="max_completion_tokens" if self.tokens_field == "max_tokens" else None)
        named = next((name for name in _OPTIONAL if name in body and re.search(rf"\b{name}\b", text)), None)
        if named is not None:
            return replace(self, dropped=self.dropped | {named})
        if "response_format" in body and error.http_status == 400:
            # The server does not name the field: the least common one is the likeliest reason.
            return replace(self, mode=_NEXT_MODE[self.mode])
        return None


def _response_format(mode: Mode, schema: Mapping[str, Any]) -> dict[str, Any]:
    if mode == "json_object":
        return {"type": "json_object"}
    name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title", "reply")))[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": dict(schema)}}


class ChatUsage(NamedTuple):
    """Tokens as the server counts them, zero if it does not; `cost` in US dollars, None if unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A completion.

    Args:
        pieces: The answer, as it was streamed; none if there is none.
        model: As the server names it.
        finish_reason: `stop`, `length` for a truncated answer, `content_filter`, ...; None if not stated.
        refusal: Why the model or a filter refused.
        usage: Tokens and cost, without failed attempts.
        first_token_ms: To the first text or reasoning; None if not streamed.
        objects: All JSON objects, in order; several for a stream.
    """

    pieces: tuple[str, ...]
    model: str | None
    finish_reason: str | None
    refusal: str | None
    usage: ChatUsage
    requests: int
    elapsed_ms: float
    first_token_ms: float | None
    raw_sha256: str
    objects: tuple[Any, ...] = field(repr=False)

    @property
    def text(self) -> str:
        """The pieces as one text."""
        return "".join(self.pieces)


@dataclass(slots=True)
class _Parts:
    pieces: list[str] = field(default_factory=list)
    refusal: str = ""
    has_choices: bool = False
    objects: list[Any] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    first_token_ms: float | None = None

    @property
    def text(self) -> str:
        """The text so far, for people."""
        return "".join(self.pieces)

    def add(self, value: Any, part: str, at_ms: float | None = None) -> None:
        """Add one JSON object; `part` is the key of its message, `message` or `delta`.

        Of several choices that of index 0 is the answer. An event of a stream may have no choices, such as a ping.

        Raises:
            ValueError: Names what the protocol requires.
        """
        if not isinstance(value, dict):
            raise ValueError("an object")
        self.objects.append(value)
        self.facts |= {key: value[key] for key in ("model", "usage") if value.get(key)}
        choices = value.get("choices")
        if choices is None and part == "delta":
            return
        if not isinstance(choices, list):
            raise ValueError("a list at choices")
        self.has_choices = True
        for choice in choices:
            if not isinstance(choice, dict):
                raise ValueError("an object at choices[0]")
            if choice.get("index") not in (0, None):
                continue
            message = choice.get(part)
            if message is None and part == "delta":
                message = {}
            if not isinstance(message, dict):
                raise ValueError(f"an object at choices[0].{part}")
            text = _text(message.get("content"), part)
            self.pieces.append(text)
            self.refusal += _text_or_empty(message.get("refusal"))
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            if self.first_token_ms is None and (text or message.get("reasoning_content") or message.get("reasoning")):
                self.first_token_ms = at_ms

    def reply(self, reply: Reply, prices: Prices) -> ChatReply:
        """Return the completion."""
        return ChatReply(
            pieces=tuple(filter(None, self.pieces)),
            model=_text_or_empty(self.facts.get("model")) or None,
            finish_reason=self.finish_reason,
            refusal=self.refusal or ("content_filter" if self.finish_reason == "content_filter" else None),
            usage=_usage(self.facts.get("usage"), prices, reply.requests),
            requests=reply.requests,
            elapsed_ms=reply.elapsed_ms,
            first_token_ms=self.first_token_ms,
            raw_sha256=reply.raw_sha256,
            objects=tuple(self.objects),
        )


def read_reply(reply: Reply, prices: Prices) -> ChatReply:
    """Return a reply that is one JSON object."""
    value = reply.json()
    _raise_stated_error(value, reply, partial="")
    parts = _Parts()
    try:
        parts.add(value, "message")
        if not value["choices"]:
            raise ValueError("a choice in choices")
    except ValueError as error:
        raise reply.bad(str(error)) from None
    return parts.reply(reply, prices)


def read_stream(reply: StreamReply, prices: Prices) -> ChatReply:
    """Return a reply that was streamed; a server that cannot stream may answer with one object.

    Raises:
        EndpointError: `bad_response`; `error_reply` for an error after the start; `stream_truncated` for a stream
            without its end. The text so far is in `partial`.
    """
    if "json" in reply.headers.get("content-type", ""):
        return read_reply(reply, prices)
    parts = _Parts()
    is_done = False
    for number, event in enumerate(reply.events, start=1):
        if event.data.strip() == DONE:
            is_done = True
            continue
        try:
            for value in json_values(event.data):
                _raise_stated_error(value, reply, partial=parts.text)
                parts.add(value, "delta", event.at_ms)
        except msgspec.DecodeError:
            raise reply.bad(f"JSON in event {number}") from None
        except ValueError as error:
            raise reply.bad(f"{error} in event {number}") from None
    if not parts.has_choices:
        raise reply.bad("server-sent events with choices")
    if not (is_done or parts.finish_reason):
        message = f"the stream ended without its end, after {len(reply.events)} events"
        raise reply.failure("stream_truncated", message, status="truncated", partial=parts.text)
    return parts.reply(reply, prices)


def text_of(events: Sequence[Event]) -> str:
    """Return the text in the events of a failed stream, as far as they can be read."""
    parts = _Parts()
    for event in events:
        with contextlib.suppress(ValueError):
            for value in json_values(event.data):
                parts.add(value, "delta")
    return parts.text


def _raise_stated_error(value: Any, reply: Reply, *, partial: str) -> None:
    error = value.get("error") if isinstance(value, dict) else None
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        raise reply.failure(
            "error_reply", f"HTTP {reply.status} with an error: {str(message)[:500]!r}", partial=partial
        )


def _text(content: Any, part: str) -> str:
    """Return content as text: a string, or the texts of a list of parts."""
    if isinstance(content, list):
        return "".join(_text_or_empty(item.get("text")) for item in content if isinstance(item, dict))
    if content is not None and not isinstance(content, str):
        raise ValueError(f"text at choices[0].{part}.content")
    return content or ""


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _usage(value: Any, prices: Prices, requests: int) -> ChatUsage:
    if not isinstance(value, dict):
        return ChatUsage()
    prompt, completion, total = (_count(value.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    cost = value.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= sys.float_info.max:
        cost = prices.estimate(prompt_tokens=prompt, completion_tokens=completion, requests=requests)
    return ChatUsage(prompt, completion, total or prompt + completion, float(cost))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= COUNT_LIMIT else 0


_PATH = "chat/completions"
HEAD_START_S = 0.5  # a few round trips to the other side of the world
COUNT_LIMIT = 2**53  # of one reply; more is no count, and no 64 bits hold it


class Message(NamedTuple):
    """One message of a conversation."""

    role: str  # system, user or assistant
    content: str


@dataclass(slots=True)
class _Request:
    messages: list[dict[str, Any]]
    schema: Mapping[str, Any] | None
    stream: bool
    requests: int = 0
    elapsed_ms: float = 0.0


class Chat:
    """One model of one server; what the server refuses is learned once for all callers.

    The first request of each shape has a head start: a server refuses a field before it generates an answer, so that a
    refusal costs one request and not one a caller, and no caller waits for a whole answer.
    """

    def __init__(self, endpoint: Endpoint, settings: ChatSettings, *, head_start_s: float = HEAD_START_S) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._head_start_s = head_start_s
        self._capabilities = Capabilities()
        self._tried: dict[tuple[bool, bool], asyncio.Event] = {}  # set when the other callers may ask
        self._learning = asyncio.Lock()

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, stream: bool = False
    ) -> ChatReply:
        """Complete a conversation.

        Args:
            schema: JSON Schema of the reply, requested as strictly as the server allows; the text may still be
                anything.
            stream: Stream the reply, to know when the first token came.
        """
        request = _Request([message._asdict() for message in messages], schema, stream)
        shape = (schema is not None, stream)
        if shape in self._tried:
            await self._tried[shape].wait()
            return await self._complete(request)
        others = self._tried[shape] = asyncio.Event()
        head_start = asyncio.get_running_loop().call_later(self._head_start_s, others.set)
        try:
            return await self._complete(request, refused=head_start.cancel)
        finally:
            # Also after a failure: a server that is down must not be asked by one caller after the other.
            others.set()

    async def _complete(self, request: _Request, refused: Callable[[], None] = lambda: None) -> ChatReply:
        while True:
            known = self._capabilities
            try:
                return await self._send(request, known)
            except EndpointError as error:
                less = known.without_refused(self._body(request, known), error)
                if less is None:
                    raise
            refused()
            async with self._learning:
                if self._capabilities == known:  # otherwise another caller has learned meanwhile
                    return await self._learn(request, less)

    async def _learn(self, request: _Request, capabilities: Capabilities) -> ChatReply:
        """Send with fewer and fewer fields; keep what is left once the server has accepted it."""
        while True:
            try:
                reply = await self._send(request, capabilities)
            except EndpointError as error:
                less = capabilities.without_refused(self._body(request, capabilities), error)
                if less is None:
                    raise
                capabilities = less
            else:
                self._capabilities = capabilities
                return reply

    def _body(self, request: _Request, capabilities: Capabilities) -> dict[str, Any]:
        return capabilities.body(self._settings, request.messages, request.schema, stream=request.stream)

    async def _send(self, request: _Request, capabilities: Capabilities) -> ChatReply:
        """Send once, retries included; reply and error count earlier refused requests, too."""
        body = self._body(request, capabilities)
        prices = self._settings.prices
        try:
            if body.get("stream"):
                reply = read_stream(await self._endpoint.stream("POST", _PATH, json=body), prices)
            else:
                reply = read_reply(await self._endpoint.request("POST", _PATH, json=body), prices)
        except EndpointError as error:
            request.requests += error.requests
            request.elapsed_ms += error.elapsed_ms
            error.requests, error.elapsed_ms = request.requests, request.elapsed_ms
            if error.http_status is not None and error.http_status >= 400 and b"content_filter" in (error.body or b""):
                error.code, error.status = "content_filter", "refused"
            elif body.get("stream") and error.status == "timeout" and error.partial:
                error.partial = text_of(parse_events(error.partial)).encode() or None
            raise
        return replace(
            reply,
            requests=reply.requests + request.requests,
            elapsed_ms=reply.elapsed_ms + request.elapsed_ms,
            first_token_ms=None if reply.first_token_ms is None else reply.first_token_ms + request.elapsed_ms,
        )
