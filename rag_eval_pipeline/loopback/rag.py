"""The NVIDIA RAG server's interface: generate, search, health, configuration."""

import time
import uuid
from typing import Any

import msgspec

from rag_eval_pipeline.loopback.bodies import parsed, send_json
from rag_eval_pipeline.loopback.breaking import break_answer, in_disguise, retry_after, status_of
from rag_eval_pipeline.loopback.chain_events import (
    EMBEDDING_MODEL,
    MODEL,
    RERANKER_MODEL,
    Answer,
    answer_events,
    citations_of,
    error_events,
    whole_answer,
)
from rag_eval_pipeline.loopback.faults import BREAKING, SPOILING, Fault
from rag_eval_pipeline.loopback.ingestor_shapes import DEFAULT_COLLECTION
from rag_eval_pipeline.loopback.shapes import DocumentSearch, Prompt, PromptMessage, text_of
from rag_eval_pipeline.loopback.site import AskedQuestion, Site
from rag_eval_pipeline.loopback.wire import Connection, Request

STREAMED_STATUSES = (400, 422, 499, 500, 503)  # errors that the server itself streams; others come from before it
DEFAULTS = Prompt(messages=[PromptMessage()])


class RagServer:
    """Answers over the site's collections.

    Args:
        site: The server's state.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def generate(self, request: Request, connection: Connection) -> None:
        """`POST /v1/generate`: a stream of events, whatever happens."""
        prompt = await parsed(Prompt, request, connection)
        if prompt is None:
            return
        question = await self._asked("generate", text_of(prompt.messages[-1].content), connection)
        if question is None or await self._failed(question.fault, connection):
            return
        names = prompt.collection_names or [DEFAULT_COLLECTION]
        if prompt.use_knowledge_base and (missing := self._site.missing(names)) is not None:
            await _stream_error(connection, 400, _no_collection(missing))
            return
        answer = await self._answer(question, prompt, names)
        if prompt.agentic and not prompt.enable_streaming:
            await send_json(connection, whole_answer(answer))
        else:
            await _stream(connection, answer_events(answer, question.fault, is_agentic=prompt.agentic), question.fault)
        if question.fault is None or question.fault.name not in SPOILING:
            self._site.counts.answered("generate", question.text)

    async def search(self, request: Request, connection: Connection) -> None:
        """`POST /v1/search`: passages only."""
        wanted = await parsed(DocumentSearch, request, connection)
        if wanted is None:
            return
        question = await self._asked("search", text_of(wanted.query), connection)
        if question is None:
            return
        if question.fault is not None and (status := status_of(question.fault)) is not None:
            await send_json(connection, {"message": _message(status)}, status, retry_after(question.fault))
            return
        if await self._failed(question.fault, connection):
            return
        names = wanted.collection_names or [DEFAULT_COLLECTION]
        if (missing := self._site.missing(names)) is not None:
            await send_json(connection, {"message": _no_collection(missing)}, 400)
            return
        found = await self._site.answer(question, names)
        passages = found.passages[: wanted.reranker_top_k]
        await send_json(connection, self._citations(passages))
        self._site.counts.answered("search", question.text)

    async def health(self, request: Request, connection: Connection) -> None:
        """`GET /v1/health`."""
        await send_json(connection, health(request, self._site))

    async def configuration(self, _: Request, connection: Connection) -> None:
        """`GET /v1/configuration`."""
        await send_json(
            connection,
            {
                "rag_configuration": {
                    "temperature": DEFAULTS.temperature,
                    "top_p": DEFAULTS.top_p,
                    "max_tokens": DEFAULTS.max_tokens,
                    "vdb_top_k": DEFAULTS.vdb_top_k,
                    "reranker_top_k": DEFAULTS.reranker_top_k,
                    "confidence_threshold": DEFAULTS.confidence_threshold,
                },
                "feature_toggles": {"enable_reranker": True, "enable_citations": True, "enable_query_rewriting": False},
                "models": {
                    "llm_model": MODEL,
                    "embedding_model": EMBEDDING_MODEL,
                    "reranker_model": RERANKER_MODEL,
                    "vlm_model": "",
                },
                "endpoints": {"llm_endpoint": "", "embedding_endpoint": "", "vdb_endpoint": "loopback"},
            },
        )

    async def _asked(self, interface: str, text: str, connection: Connection) -> AskedQuestion | None:
        try:
            return self._site.asked(interface, text)
        except ValueError as error:
            await send_json(connection, {"message": str(error)}, 400)
            return None

    async def _failed(self, fault: Fault | None, connection: Connection) -> bool:
        """Whether a fault stood in for the answer."""
        if fault is None:
            return False
        if fault.name in BREAKING:
            await break_answer(connection, fault)
            return True
        status = status_of(fault)
        if status is None:
            return False
        if status in STREAMED_STATUSES:
            await _stream_error(connection, status, _message(status), fault)
        else:
            await send_json(connection, {"message": _message(status)}, status, retry_after(fault))
        return True

    async def _answer(self, question: AskedQuestion, prompt: Prompt, names: list[str]) -> Answer:
        started = time.perf_counter()
        found = await self._site.answer(question, names)
        spent_ms = (time.perf_counter() - started) * 1000
        passages = found.passages[: prompt.reranker_top_k] if prompt.use_knowledge_base else []
        citations = self._citations(passages if prompt.enable_citations else [])
        return Answer(str(uuid.uuid4()), found.text, citations, len(question.text.split()), spent_ms / 2, spent_ms / 2)

    def _citations(self, passages: list[Any]) -> dict[str, Any]:
        options = self._site.options
        return citations_of(passages, media_every=options.media_every, page_base=options.page_base)


def health(request: Request, site: Site) -> dict[str, Any]:
    """What both servers say of themselves; their dependencies only when asked."""
    if request.query.get("check_dependencies", "false") != "true":
        return {"message": "Service is up.", "databases": [], "object_storage": [], "nim": []}
    services = {"databases": ["Milvus"], "object_storage": ["MinIO"], "nim": ["LLM", "Embeddings", "Ranking"]}
    return {
        "message": "Service is up.",
        **{
            group: [
                {
                    "service": name,
                    "url": "loopback",
                    "status": "error" if name == site.options.unready else "healthy",
                    "latency_ms": 0,
                    "error": "connection refused" if name == site.options.unready else None,
                }
                for name in names
            ]
            for group, names in services.items()
        },
    }


async def _stream(connection: Connection, events: list[dict[str, Any]], fault: Fault | None, status: int = 200) -> None:
    connection.begin(status, headers=retry_after(fault) if fault else None)
    name = fault.name if fault else None
    for packet in in_disguise([msgspec.json.encode(event) for event in events], name):
        await connection.write(packet)
    if name == "broken_off":
        connection.hang_up()
    else:
        connection.finish()


async def _stream_error(connection: Connection, status: int, message: str, fault: Fault | None = None) -> None:
    await _stream(connection, error_events(message, str(uuid.uuid4())), fault, status)


def _message(status: int) -> str:
    return f"The server was told to answer with status {status}."


def _no_collection(name: str) -> str:
    return f"Collection {name} does not exist. Ensure a collection is created using POST /collection endpoint first."
