"""NVIDIA's RAG server: generate, search, health, configuration."""

import html
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pydantic
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from examples.mock_server.faults import Fault, event_stream, fail
from examples.mock_server.site import DEFAULT_COLLECTION, Passage, Site, content_parts

NVIDIA_ERROR = "Error from rag-server. Please check rag-server logs for more details."
NVIDIA_STREAMED = (400, 422, 499, 500, 503)  # statuses that the RAG server streams; a proxy sends the others

ONE_PIXEL = (  # PNG in base64: the content of tables, charts and images
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)


class Documented(pydantic.BaseModel):
    """A request with its documented fields only: one with a misspelt field is refused, where the server ignores it."""

    model_config = pydantic.ConfigDict(extra="forbid")


class PromptTurn(Documented):
    """A message of a prompt."""

    role: Literal["user", "assistant", "system"] = "user"
    content: str | list[dict[str, Any]] = ""


class Retrieval(Documented):
    """The common fields of generate and search."""

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
    def _check_order(self) -> "Retrieval":
        if self.reranker_top_k > self.vdb_top_k:
            raise ValueError("reranker_top_k must be less than or equal to vdb_top_k")
        return self


class GenerateRequest(Retrieval):
    """The body of `POST /v1/generate`."""

    messages: list[PromptTurn] = pydantic.Field(min_length=1)
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
    vlm_model: str = ""
    vlm_endpoint: str | None = None
    vlm_temperature: float = pydantic.Field(0.7, ge=0, le=1)
    vlm_top_p: float = pydantic.Field(1.0, ge=0.1, le=1)
    vlm_max_tokens: int = pydantic.Field(4096, ge=0, le=128_000)
    vlm_max_total_images: int = pydantic.Field(5, ge=0, le=64)
    vlm_enable_thinking: bool | None = None
    vlm_thinking_token_budget: int | None = pydantic.Field(None, ge=0, le=65_536)
    vlm_filter_thinking_tokens: bool | None = None
    model: str | None = None
    llm_endpoint: str | None = None
    agentic: bool | None = False
    enable_streaming: bool = True

    @pydantic.field_validator("messages")
    @classmethod
    def _check_last(cls, messages: list[PromptTurn]) -> list[PromptTurn]:
        if messages[-1].role != "user":
            raise ValueError("The last message must have role='user'")
        return messages


class SearchRequest(Retrieval):
    """The body of `POST /v1/search`."""

    query: str | list[dict[str, Any]] = ""
    messages: list[PromptTurn] = []


async def generate(site: Site, request: Request) -> Response:
    """`POST /v1/generate`: a stream of events, also for errors."""
    wanted = GenerateRequest.model_validate_json(await request.body())
    text = " ".join(part.get("text", "") for part in content_parts(wanted.messages[-1].content))
    question = site.ask("generate", text)
    fault = question.fault
    if fault is not None and fault.status in NVIDIA_STREAMED:
        return event_stream(request, _error_events(fault.message), fault, status=fault.status)
    if (failed := await fail(request, fault, message_body)) is not None:
        return failed
    names = wanted.collection_names or [DEFAULT_COLLECTION]
    if wanted.use_knowledge_base and (missing := site.missing(names)) is not None:
        return event_stream(request, _error_events(missing), None, status=400)
    started = time.perf_counter()
    answer, passages = await site.answer(question.text, names)
    spent_ms = (time.perf_counter() - started) * 1000
    used = passages[: wanted.reranker_top_k] if wanted.use_knowledge_base and wanted.enable_citations else []
    read = len(question.text.split()) + sum(len(passage.text.split()) for passage in used)
    written = len(answer.split())
    usage = {"total_tokens": read + written, "prompt_tokens": read, "completion_tokens": written}
    times = {"rag_ttft_ms": spent_ms, "llm_ttft_ms": 0.0, "context_reranker_time_ms": 0.0}
    times |= {"retrieval_time_ms": spent_ms, "llm_generation_time_ms": 0.0}
    end = {"usage": usage, "metrics": times}
    citations = _citations(site, used)
    site.count_answer(question)
    if wanted.agentic and not wanted.enable_streaming:
        whole = [{**_event(answer), "citations": citations}, {**_event(finish_reason="stop"), **end}]
        return event_stream(request, whole, fault)
    events = _answer_events(answer, citations, end, fault, is_agentic=wanted.agentic is True)
    return event_stream(request, events, fault)


async def search(site: Site, request: Request) -> Response:
    """`POST /v1/search`: passages without an answer."""
    wanted = SearchRequest.model_validate_json(await request.body())
    question = site.ask("search", " ".join(part.get("text", "") for part in content_parts(wanted.query)))
    if (failed := await fail(request, question.fault, message_body)) is not None:
        return failed
    names = wanted.collection_names or [DEFAULT_COLLECTION]
    if (missing := site.missing(names)) is not None:
        return JSONResponse({"message": missing}, 400)
    _, passages = await site.answer(question.text, names)
    site.count_answer(question)
    return JSONResponse(_citations(site, passages[: wanted.reranker_top_k]))


async def health(site: Site, request: Request) -> Response:
    """`GET /v1/health` of both servers; their dependencies only if requested."""
    groups = {"databases": ["Milvus"], "object_storage": ["MinIO"], "nim": ["LLM", "Embeddings", "Ranking"]}
    body: dict[str, Any] = {"message": "Service is up.", "processing": [], "task_management": []}
    for group, names in groups.items():
        names = names if request.query_params.get("check_dependencies") == "true" else []
        body[group] = [
            {
                "service": name,
                "url": "mock",
                "status": "error" if name == site.options.unready else "healthy",
                "latency_ms": 0,
                "error": "connection refused" if name == site.options.unready else None,
            }
            for name in names
        ]
    return JSONResponse(body)


async def configuration(site: Site, request: Request) -> Response:
    """`GET /v1/configuration`."""
    shown = ("temperature", "top_p", "max_tokens", "vdb_top_k", "reranker_top_k", "confidence_threshold")
    features = (
        *("enable_reranker", "enable_citations", "enable_guardrails", "enable_query_rewriting"),
        *("enable_vlm_inference", "enable_filter_generator"),
    )
    models = {"llm_model": "mock/llm", "embedding_model": "mock/bm25", "reranker_model": "mock/coverage"}
    places = ("llm_endpoint", "embedding_endpoint", "reranker_endpoint", "vlm_endpoint")
    return JSONResponse(
        {
            "rag_configuration": _defaults(shown),
            "feature_toggles": _defaults(features),
            "models": {**models, "vlm_model": ""},
            "endpoints": {**dict.fromkeys(places, ""), "vdb_endpoint": "mock"},
        }
    )


def _defaults(names: Iterable[str]) -> dict[str, Any]:
    return {name: GenerateRequest.model_fields[name].default for name in names}


def _answer_events(
    answer: str, citations: dict[str, Any], end: dict[str, Any], fault: Fault | None, *, is_agentic: bool
) -> list[dict[str, Any]]:
    """Return chunks of text with the citations on the first and usage and metrics on the last, or a spoilt answer."""
    name = fault.name if fault else None
    if name == "no_generator":
        return [{**_event(), "choices": []}]
    if name == "error_text":
        return _error_events(NVIDIA_ERROR)
    final = {"event_type": "final_answer", "stage": "answer"} if is_agentic else {}
    words = re.findall(r"\s*\S+\s*", answer) or [answer]
    size = -(-len(words) // 40)  # at most 40 chunks
    events = [_event("".join(words[at : at + size]), **final) for at in range(0, len(words), size)]
    events[0]["citations"] = citations
    last = {**_event(**final, finish_reason="stop"), **end}
    stages = [
        _event("Planning.", event_type="stage_start", stage="plan"),
        _event(event_type="intermediate_reasoning", stage="plan", reasoning="The question has one part."),
        _event("A draft that is not the answer.", event_type="intermediate_output", stage="retrieve"),
        _event(event_type="stage_end", stage="retrieve"),
        _event(event_type="final_reasoning", stage="answer", reasoning="The passages suffice."),
    ]
    before = stages if is_agentic else []
    half = events[: (len(events) + 1) // 2]
    if name in ("cut", "broken_off"):
        return [*before, *half]
    if name == "error_event":
        return [*before, *half, _event(NVIDIA_ERROR, event_type="error"), last]
    return [*before, *events, last]


def _error_events(message: str) -> list[dict[str, Any]]:
    """Return an error as the server streams it, five characters per event."""
    return [*(_event(message[at : at + 5]) for at in range(0, len(message), 5)), _event(finish_reason="stop")]


def _event(
    content: str = "",
    *,
    event_type: str | None = None,
    stage: str | None = None,
    reasoning: str | None = None,
    finish_reason: str | None = None,
) -> dict[str, Any]:
    # The server escapes HTML in everything that it sends.
    said = {"content": html.escape(content, quote=False), "reasoning_content": reasoning}
    message, delta = {"role": "assistant", **said}, {"role": None, **said}
    return {
        "id": "mock",
        "object": "chat.completion.chunk",
        "model": "mock/llm",
        "created": int(time.time()),
        "choices": [{"index": 0, "message": message, "delta": delta, "finish_reason": finish_reason}],
        "citations": {"total_results": 0, "results": []},
        "usage": {"total_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0},
        "metrics": {},
        "event_type": event_type,
        "stage": stage,
    }


def _citations(site: Site, passages: Sequence[Passage]) -> dict[str, Any]:
    """Return passages as the server lists them; every n-th one is a table, chart or image with a description."""
    every = site.options.media_every
    results = []
    for rank, passage in enumerate(passages, 1):
        kind = ("table", "chart", "image")[rank // every % 3] if every and rank % every == 0 else "text"
        metadata = {
            "language": "",
            "date_created": "",
            "last_modified": "",
            "page_number": passage.page - 1 + site.options.page_base,
            "description": passage.text,
            "height": 0,
            "width": 0,
            "location": [],
            "location_max_dimensions": [],
            "content_metadata": {},
        }
        results.append(
            {
                "document_id": "",
                "content": passage.text if kind == "text" else ONE_PIXEL,
                "document_name": passage.document,
                "document_type": kind,
                "score": passage.score,
                "stage": "rag",
                "metadata": metadata,
            }
        )
    return {"total_results": len(results), "results": results}


def message_body(fault: Fault) -> dict[str, Any]:
    """Return a fault as the body of an error."""
    return {"message": fault.message}
