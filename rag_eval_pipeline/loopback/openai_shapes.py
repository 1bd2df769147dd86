"""What an OpenAI-compatible server takes and gives at `/chat/completions` and `/models`.

Requests may carry more than is listed, as they may there.
"""

from typing import Any, Literal

import pydantic

from rag_eval_pipeline.loopback.shapes import Shape


class ChatPart(pydantic.BaseModel):
    """A piece of a message; only text is read."""

    type: str
    text: str = ""


class ChatTurn(pydantic.BaseModel):
    """A turn of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ChatPart] | None = None

    @property
    def text(self) -> str:
        """What it says."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return " ".join(part.text for part in self.content)


class StreamOptions(pydantic.BaseModel):
    """What a stream is to carry besides."""

    include_usage: bool = False


class ResponseFormat(pydantic.BaseModel):
    """The form that the answer is to have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class ChatRequest(pydantic.BaseModel):
    """The body of `POST /chat/completions`."""

    model: str
    messages: list[ChatTurn] = pydantic.Field(min_length=1)
    temperature: float | None = pydantic.Field(None, ge=0, le=2)
    top_p: float | None = pydantic.Field(None, ge=0, le=1)
    max_tokens: int | None = pydantic.Field(None, ge=1)
    max_completion_tokens: int | None = pydantic.Field(None, ge=1)
    seed: int | None = None
    n: int = pydantic.Field(1, ge=1, le=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None


class ChatMessage(Shape):
    """What the model says."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None


class ChatChoice(Shape):
    """The one choice of an answer."""

    index: Literal[0]
    message: ChatMessage
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"]
    logprobs: None


class CachedTokens(Shape):
    """Prompt tokens that cost less."""

    cached_tokens: int


class ChatUsage(Shape):
    """Tokens of one answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCitation(Shape):
    """A retrieved passage, as servers that answer over documents add them."""

    document_name: str
    page_number: int
    text: str
    score: float


class ChatCompletion(Shape):
    """An answer in one piece; `citations` is no part of OpenAI's own interface."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: ChatUsage
    citations: list[ChatCitation] = []


class ChatDelta(Shape):
    """What a chunk adds."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChunkChoice(Shape):
    """The one choice of a chunk."""

    index: Literal[0]
    delta: ChatDelta
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"] | None


class ChatChunk(Shape):
    """One event of a stream; with `include_usage` the last has no choices and the usage."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None
    citations: list[ChatCitation] = []


class ChatFault(Shape):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ChatError(Shape):
    """An error's body."""

    error: ChatFault


class ModelCard(Shape):
    """One model of the list."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(Shape):
    """The answer of `GET /models`."""

    object: Literal["list"]
    data: list[ModelCard]
