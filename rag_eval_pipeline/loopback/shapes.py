"""What the NVIDIA RAG server takes, within its documented bounds, and gives, with the documented fields.

A request with a field that is not documented is refused here, where the real server passes over it: a parameter that
is spelt wrongly and does nothing is what a stand-in is to find.
Source: NVIDIA RAG Blueprint, OpenAPI schema of the RAG server.
"""

from typing import Any, Literal, Self

import pydantic

DocumentType = Literal["text", "image", "table", "chart", "audio"]
EventType = Literal[
    "stage_start",
    "stage_end",
    "intermediate_reasoning",
    "intermediate_output",
    "final_reasoning",
    "final_answer",
    "agent_event",
    "error",
]


class Shape(pydantic.BaseModel):
    """A documented object: no field more."""

    model_config = pydantic.ConfigDict(extra="forbid")


class ImageUrl(Shape):
    """Where a picture is, often a `data:` URL."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class TextPart(Shape):
    """A piece of text in a message."""

    type: Literal["text"]
    text: str


class ImagePart(Shape):
    """A picture in a message."""

    type: Literal["image_url"]
    image_url: ImageUrl


Content = str | list[TextPart | ImagePart]


def text_of(content: Content) -> str:
    """The text of a message, without its pictures."""
    if isinstance(content, str):
        return content
    return " ".join(part.text for part in content if isinstance(part, TextPart))


class PromptMessage(Shape):
    """A turn of the conversation."""

    role: Literal["user", "assistant", "system"] = "user"
    content: Content = ""


class Retrieval(Shape):
    """What asking and searching have in common."""

    collection_names: list[str] = []
    reranker_top_k: int = pydantic.Field(10, ge=0, le=25)
    vdb_top_k: int = pydantic.Field(100, ge=0, le=400)
    enable_reranker: bool = True
    enable_query_rewriting: bool = False
    enable_citations: bool = True
    enable_filter_generator: bool = False
    filter_expr: str | list[dict[str, Any]] = ""
    confidence_threshold: float = pydantic.Field(0.0, ge=0, le=1)
    embedding_model: str = ""
    embedding_endpoint: str = ""
    reranker_model: str = ""
    reranker_endpoint: str = ""
    vdb_endpoint: str = ""

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.reranker_top_k > self.vdb_top_k:
            raise ValueError("reranker_top_k must be less than or equal to vdb_top_k")
        return self


class Prompt(Retrieval):
    """The body of `POST /v1/generate`."""

    messages: list[PromptMessage] = pydantic.Field(min_length=1)
    use_knowledge_base: bool = True
    temperature: float = pydantic.Field(0.0, ge=0, le=1)
    top_p: float = pydantic.Field(1.0, ge=0.1, le=1)
    max_tokens: int = pydantic.Field(16_256, ge=0, le=128_000)
    min_tokens: int = pydantic.Field(0, ge=0)
    ignore_eos: bool = False
    min_thinking_tokens: int | None = None
    max_thinking_tokens: int | None = None
    stop: list[str] = []
    enable_guardrails: bool = False
    enable_vlm_inference: bool = False
    model: str = ""
    llm_endpoint: str = ""
    agentic: bool = False
    enable_streaming: bool = True

    @pydantic.field_validator("messages")
    @classmethod
    def _asked(cls, messages: list[PromptMessage]) -> list[PromptMessage]:
        if messages[-1].role != "user":
            raise ValueError("The last message must have role='user'")
        return messages


class DocumentSearch(Retrieval):
    """The body of `POST /v1/search`."""

    query: Content = ""
    messages: list[PromptMessage] = []


class SourceMetadata(Shape):
    """What is known of a retrieved chunk."""

    language: str
    date_created: str
    last_modified: str
    page_number: int = pydantic.Field(ge=-1)
    description: str
    height: int
    width: int
    location: list[float]
    location_max_dimensions: list[int]
    content_metadata: dict[str, Any]


class SourceResult(Shape):
    """A retrieved chunk; `content` is a base64 picture unless the type is text."""

    document_id: str
    content: str
    document_name: str
    document_type: DocumentType
    score: float
    stage: str
    metadata: SourceMetadata


class Citations(Shape):
    """Retrieved chunks, best first; also the answer of `POST /v1/search`."""

    total_results: int
    results: list[SourceResult]


class ChunkMessage(Shape):
    """What a chunk adds to the answer."""

    role: str | None
    content: str | None
    reasoning_content: str | None


class Choice(Shape):
    """The one choice of a chunk."""

    index: Literal[0]
    message: ChunkMessage
    delta: ChunkMessage
    finish_reason: Literal["stop"] | None


class TokenUsage(Shape):
    """Tokens of one answer."""

    total_tokens: int
    prompt_tokens: int
    completion_tokens: int


class Metrics(Shape):
    """Milliseconds that the parts of an answer took; nothing before the last chunk."""

    rag_ttft_ms: float | None = None
    llm_ttft_ms: float | None = None
    context_reranker_time_ms: float | None = None
    retrieval_time_ms: float | None = None
    llm_generation_time_ms: float | None = None


class ChainResponse(Shape):
    """One event of the stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    model: str
    created: int
    choices: list[Choice]
    citations: Citations
    usage: TokenUsage
    metrics: Metrics
    event_type: EventType | None
    stage: str | None


class HealthResponse(Shape):
    """The answer of `GET /v1/health`; the ingestor's says more."""

    message: str
    databases: list[dict[str, Any]]
    object_storage: list[dict[str, Any]]
    nim: list[dict[str, Any]]
    processing: list[dict[str, Any]] = []
    task_management: list[dict[str, Any]] = []


class RagConfiguration(Shape):
    """The server's own defaults."""

    temperature: float
    top_p: float
    max_tokens: int
    vdb_top_k: int
    reranker_top_k: int
    confidence_threshold: float


class ModelNames(Shape):
    """The models behind the server."""

    llm_model: str
    embedding_model: str
    reranker_model: str
    vlm_model: str


class ConfigurationResponse(Shape):
    """The answer of `GET /v1/configuration`."""

    rag_configuration: RagConfiguration
    feature_toggles: dict[str, bool]
    models: ModelNames
    endpoints: dict[str, str]


class MessageResponse(Shape):
    """An error's body."""

    message: str
