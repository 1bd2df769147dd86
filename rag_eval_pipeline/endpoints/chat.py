"""OpenAI-compatible chat completions over an endpoint."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rag_eval_pipeline.endpoints.chat_capabilities import Capabilities, Mode
from rag_eval_pipeline.endpoints.chat_replies import ChatReply, ChatUsage, read_reply, read_stream, text_of
from rag_eval_pipeline.endpoints.chat_settings import ChatSettings
from rag_eval_pipeline.endpoints.client import Endpoint
from rag_eval_pipeline.endpoints.errors import EndpointError
from rag_eval_pipeline.endpoints.events import parse_events

__all__ = ["Chat", "ChatReply", "ChatSettings", "ChatUsage", "Message"]

_PATH = "chat/completions"


class Message(NamedTuple):
    """A turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class _Shape(NamedTuple):
    """What decides which fields a request has."""

    has_schema: bool
    stream: bool


class Chat:
    """One model of one server; what the server refuses is learned once for all who share this object.

    The first request of each shape goes alone, so that a refusal costs one request and not one of every caller.

    Args:
        endpoint: Open while this is used.
        settings: The model and how it samples.
    """

    def __init__(self, endpoint: Endpoint, settings: ChatSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._capabilities = Capabilities()
        self._tried: set[_Shape] = set()
        self._learning = asyncio.Lock()

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, stream: bool = False
    ) -> ChatReply:
        """What the model says next.

        Args:
            messages: The conversation.
            schema: JSON Schema of the reply; asked for as strictly as the server takes it, so the text may still be
                anything. The `mode` of the reply tells what was asked for.
            stream: Whether to stream, which tells when the first token came.

        Raises:
            EndpointError: Any failure after retries and without what the server does not take.
        """
        request = _Request(self._endpoint, self._settings, messages, schema, stream=stream)
        shape = _Shape(schema is not None, stream)
        if shape not in self._tried:
            async with self._learning:
                if shape not in self._tried:
                    try:
                        return await self._learn(request, self._capabilities)
                    finally:
                        # Whatever came of it: a server that is down must not be asked by one caller after the other.
                        self._tried.add(shape)
        known = self._capabilities
        try:
            return await request.send(known)
        except EndpointError as error:
            less = known.without_refused(request.body(known), error)
            if less is None:
                raise
            async with self._learning:
                # Whoever waited here for another who has learned begins with what that one found.
                return await self._learn(request, less if self._capabilities == known else self._capabilities)

    async def _learn(self, request: "_Request", capabilities: Capabilities) -> ChatReply:
        """Sends with less and less; what is left is kept only once the server has taken it."""
        while True:
            try:
                reply = await request.send(capabilities)
            except EndpointError as error:
                less = capabilities.without_refused(request.body(capabilities), error)
                if less is None:
                    raise
                capabilities = less
            else:
                self._capabilities = capabilities
                return reply


class _Request:
    """One conversation to be completed, and what has been sent for it so far."""

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ChatSettings,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        *,
        stream: bool,
    ) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._messages = [{"role": message.role, "content": message.content} for message in messages]
        self._schema = schema
        self._stream = stream
        self._requests = 0
        self._elapsed_ms = 0.0

    def body(self, capabilities: Capabilities) -> dict[str, Any]:
        """What is sent to a server that takes so much."""
        return capabilities.body(self._settings, self._messages, self._schema, stream=self._stream)

    async def send(self, capabilities: Capabilities) -> ChatReply:
        """One request, retries included; its account includes what was sent before and refused."""
        body = self.body(capabilities)
        mode: Mode = capabilities.mode if self._schema is not None else "plain"
        try:
            if body.get("stream"):
                stream = await self._endpoint.stream("POST", _PATH, json=body)
                reply = read_stream(stream, self._settings.prices, mode)
            else:
                whole = await self._endpoint.request("POST", _PATH, json=body)
                reply = read_reply(whole, self._settings.prices, mode)
        except EndpointError as error:
            self._requests += error.requests
            self._elapsed_ms += error.elapsed_ms
            error.requests, error.elapsed_ms = self._requests, self._elapsed_ms
            if error.http_status is not None and error.http_status >= 400 and b"content_filter" in (error.body or b""):
                error.code, error.status = "content_filter", "refused"
            elif body.get("stream") and error.status == "timeout" and error.partial:
                error.partial = text_of(parse_events(error.partial)).encode() or None
            raise
        if not self._requests:
            return reply
        return dataclasses.replace(
            reply,
            requests=reply.requests + self._requests,
            elapsed_ms=reply.elapsed_ms + self._elapsed_ms,
            first_token_ms=None if reply.first_token_ms is None else reply.first_token_ms + self._elapsed_ms,
        )
