"""The NVIDIA RAG server as a system under test: ready, with the corpus ingested, before the first question."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError, StreamReply
from rag_eval_pipeline.endpoints.events import EventParser
from rag_eval_pipeline.systems.answer import Configuration, Query, RagAnswer, Usage, failed_answer
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.nvidia.collection import ensure_collection
from rag_eval_pipeline.systems.nvidia.ingestor import DOCUMENT_BYTES
from rag_eval_pipeline.systems.nvidia.names import StoredNames
from rag_eval_pipeline.systems.nvidia.page_base import Base, find_page_base
from rag_eval_pipeline.systems.nvidia.passages import read_passages
from rag_eval_pipeline.systems.nvidia.readiness import check_ready, read_configuration
from rag_eval_pipeline.systems.nvidia.settings import NvidiaSettings
from rag_eval_pipeline.systems.nvidia.stream import NoAnswer, StreamedAnswer, checked, read_stream
from rag_eval_pipeline.systems.reading import AnswerReader, compile_patterns

# The answer's name of a time -> the server's.
_TIMINGS = {
    "retrieval": "retrieval_time_ms",
    "reranking": "context_reranker_time_ms",
    "generation": "llm_generation_time_ms",
}


class _Server(NamedTuple):
    """What was found out when the system was opened."""

    collection: str
    configuration: Mapping[str, Any] | None
    page_base: Base | None


class NvidiaSystem:
    """The system under test; `open_nvidia` makes one.

    Args:
        endpoint: The RAG server.
        settings: How to ask and how to read.
        server: What was found out about it.
        reader: Of its answers.
    """

    def __init__(self, endpoint: Endpoint, settings: NvidiaSettings, server: _Server, reader: AnswerReader) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._server = server
        self._reader = reader
        self._body = {
            "use_knowledge_base": True,
            "enable_citations": True,
            "collection_names": [server.collection],
            **settings.generate.sent,
        }

    def configuration(self) -> Configuration:
        """What is set, and of the specification's names what the server says where nothing is set."""
        sent = self._settings.generate.sent
        said = self._server.configuration or {}
        models, defaults, toggles = (_part(said, key) for key in ("models", "rag_configuration", "feature_toggles"))
        stated: Configuration = {
            "model": sent.get("model", models.get("llm_model")),
            "embedding_model": sent.get("embedding_model", models.get("embedding_model")),
            "retrieval_k": sent.get("reranker_top_k", defaults.get("reranker_top_k")),
            "reranking_enabled": sent.get("enable_reranker", toggles.get("enable_reranker")),
            "collection": self._server.collection,
            "page_base": self._server.page_base,
            "is_corpus_verified": self._settings.ingestor is not None,
        }
        others = {name: ", ".join(value) if isinstance(value, list) else value for name, value in sent.items()}
        return {**others, **stated}

    def server_configuration(self) -> Mapping[str, Any] | None:
        """The reply of `/v1/configuration`."""
        return self._server.configuration

    def warnings(self) -> list[str]:
        """What was noticed while answers were read."""
        return self._reader.warnings()

    async def answer(self, query: Query) -> RagAnswer:
        """The answer to one question; a failure is a status."""
        body = {"messages": [{"role": "user", "content": query.text}], **self._body}
        try:
            reply = await self._endpoint.stream("POST", "v1/generate", json=body)
        except EndpointError as error:
            return self._failed(query, error)
        try:
            read = read_stream(reply.events, unescape_html=self._settings.unescape_html, observe=self._reader.observe)
            return self._answer(
                query,
                reply,
                checked(
                    read,
                    is_cut=reply.ended == "cut",
                    found=reply.body,
                    may_be_empty=self._settings.empty_answer == "abstained",
                ),
            )
        except NoAnswer as wrong:
            return failed_answer(
                query,
                "truncated" if wrong.code == "stream_truncated" else "error",
                code=wrong.code,
                error=wrong.message,
                latency_ms=reply.elapsed_ms,
                usage=self._usage({}, reply.requests),
                partial=wrong.partial,
                raw_sha256=reply.raw_sha256,
            )

    def _answer(self, query: Query, reply: StreamReply, read: StreamedAnswer) -> RagAnswer:
        text = read.text.strip()
        timings: dict[str, Any] = {name: read.metrics.get(theirs) for name, theirs in _TIMINGS.items()}
        timings["first_token"] = read.first_token_ms
        has_pages = self._server.page_base is not None
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=text,
            abstained=self._reader.abstained(text),
            contexts=tuple(read_passages(read.citations, self._reader, has_pages=has_pages)),
            citations=self._reader.citations(text),
            latency_ms=reply.elapsed_ms,
            usage=self._usage(read.usage, reply.requests),
            timings={name: float(ms) for name, ms in timings.items() if _is_number(ms)},
            raw_sha256=reply.raw_sha256,
            model=read.model,
        )

    def _failed(self, query: Query, error: EndpointError) -> RagAnswer:
        streamed = _text_of(error.body)
        # An error's own text comes in pieces of five characters, each in an event of its own.
        message = f"HTTP {error.http_status}: {streamed}" if streamed else str(error)
        return failed_answer(
            query,
            error.status,
            code=error.code,
            error=message,
            latency_ms=error.elapsed_ms,
            usage=self._usage({}, error.requests),
            partial=_text_of(error.partial),
        )

    def _usage(self, counted: Mapping[str, Any], requests: int) -> Usage:
        prompt, completion, total = (
            count if isinstance(count := counted.get(key), int) and count > 0 else 0
            for key in ("prompt_tokens", "completion_tokens", "total_tokens")
        )
        cost = self._settings.prices.estimate(prompt_tokens=prompt, completion_tokens=completion, requests=requests)
        return Usage(
            total_tokens=total or prompt + completion,
            estimated_cost_usd=cost,
            requests=requests,
            prompt_tokens=prompt,
            completion_tokens=completion,
        )


@contextlib.asynccontextmanager
async def open_nvidia(settings: NvidiaSettings, corpus: SystemCorpus) -> AsyncIterator[NvidiaSystem]:
    """The system, when its servers are ready and its collection holds the corpus.

    Raises:
        ServiceError: `server_unready`, `missing_secret`, and what `ensure_collection` raises.
    """
    names = StoredNames(corpus.files)
    async with contextlib.AsyncExitStack() as stack:
        rag = await stack.enter_async_context(Endpoint(settings.rag, folder=corpus.settings_folder))
        await check_ready(rag, "RAG server", check_dependencies=settings.check_dependencies)
        collection = settings.collection_name(corpus.benchmark, corpus.fingerprint)
        if settings.ingestor is not None:
            listed_mb = settings.ingestor.body_mb_max + len(corpus.files) * DOCUMENT_BYTES / 1_000_000
            where = settings.ingestor.model_copy(update={"body_mb_max": listed_mb})
            ingestor = await stack.enter_async_context(Endpoint(where, folder=corpus.settings_folder))
            await check_ready(ingestor, "ingestor", check_dependencies=settings.check_dependencies)
            collection = await ensure_collection(ingestor, settings, corpus, names)
        configuration = await read_configuration(rag)
        base: Base | None
        if settings.page_base == "auto":
            base = await find_page_base(rag, collection, corpus.pages(), names)
        else:
            base = settings.page_base
        reader = AnswerReader(
            dataclasses.replace(corpus, aliases=names.aliases(corpus.aliases)),
            page_base=1 if base is None else base,
            offset_base=settings.offset_base,
            abstention=compile_patterns(settings.abstention),
            empty_answer=settings.empty_answer,
        )
        yield NvidiaSystem(rag, settings, _Server(collection, configuration, base), reader)


def _text_of(body: bytes | None) -> str | None:
    """The text of the whole events in a body; None when there is none in them."""
    if body is None:
        return None
    try:
        read = read_stream(EventParser().feed(body), unescape_html=True)
    except NoAnswer:
        return None
    return read.text.strip() or read.error


def _part(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = said.get(key)
    return part if isinstance(part, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
