"""An NVIDIA RAG Blueprint server: ready, with the corpus ingested, before the first question is asked."""

import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.errors import EndpointError, ServiceError
from rag_eval_pipeline.systems.base import Configuration, Query, RagAnswer, SystemCorpus, Usage
from rag_eval_pipeline.systems.foreign_values import is_amount, whole_number
from rag_eval_pipeline.systems.nvidia_ingest import DOCUMENT_BYTES, StoredNames, ensure_collection
from rag_eval_pipeline.systems.nvidia_replies import (
    Base,
    StreamedAnswer,
    are_distances,
    check_stream,
    find_page_base,
    part_at,
    read_chunks,
    read_stream,
)
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from rag_eval_pipeline.systems.parsing import AnswerReader, estimated_usage, failed_request
from rag_eval_pipeline.web.client import Endpoint, StreamReply
from rag_eval_pipeline.web.sse import EventParser

NOT_OFFERED = frozenset({404, 405, 501})

# What `/v1/health` reports about the servers behind a server; `skipped` and `unknown` are not used.
DEPENDENCIES = ("databases", "object_storage", "nim", "processing", "task_management")
DOWN = frozenset({"error", "unhealthy", "timeout"})
# The answer's name of a time -> the server's.
TIMINGS = {
    "retrieval": "retrieval_time_ms",
    "reranking": "context_reranker_time_ms",
    "generation": "llm_generation_time_ms",
}


# --- Settings


# --- The system


class _Server(NamedTuple):
    collection: str
    configuration: Mapping[str, Any] | None
    page_base: Base | None


class NvidiaSystem:
    """The system under test; `open_nvidia` makes one."""

    def __init__(self, endpoint: Endpoint, settings: NvidiaSettings, server: _Server, reader: AnswerReader) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._server = server
        self._reader = reader
        self._with_distances = 0  # answers
        self._body = {
            "use_knowledge_base": True,
            "enable_citations": True,
            "collection_names": [server.collection],
            **settings.extra_body,
        }

    def configuration(self) -> Configuration:
        """Return the settings, and the server's defaults for those that are not set."""
        sent = {name: value for name, value in self._settings.extra_body.items() if value is not None}
        server = self._server.configuration
        stated: Configuration = {
            "model": sent.get("model", part_at(server, "models", "llm_model")),
            "embedding_model": sent.get("embedding_model", part_at(server, "models", "embedding_model")),
            "retrieval_k": sent.get("reranker_top_k", part_at(server, "rag_configuration", "reranker_top_k")),
            "reranking_enabled": self._is_reranked,
            "collection": self._server.collection,
            "page_base": self._server.page_base,
            "is_corpus_verified": self._settings.ingestor is not None,
        }
        return {**{name: _published(value) for name, value in sent.items()}, **stated}

    @property
    def _is_reranked(self) -> bool | None:
        """Whether the passages are reranked; without, a score is a distance or 0. None if the server does not say."""
        stated = part_at(self._server.configuration, "feature_toggles", "enable_reranker")
        found = self._settings.extra_body.get("enable_reranker", stated)
        return found if isinstance(found, bool) else None

    def server_configuration(self) -> Mapping[str, Any] | None:
        """Return the reply of `/v1/configuration`."""
        return self._server.configuration

    def warnings(self) -> list[str]:
        """Return what was noticed in the answers so far."""
        found = self._reader.warnings()
        if self._with_distances and self._is_reranked:
            found.append(
                f"Scores of passages are left out, in {self._with_distances} of the answers: they rise with the rank, "
                "as distances do, although the server states that it reranks."
            )
        return found

    async def answer(self, query: Query) -> RagAnswer:
        """Ask the server one question."""
        body = {"messages": query.messages, **self._body}
        settings = self._settings
        try:
            reply = await self._endpoint.stream("POST", "v1/generate", json=body)
        except EndpointError as error:
            # An error's own text comes in pieces of five characters, each in an event of its own.
            if streamed := _streamed_text(error.body):
                error.message = f"HTTP {error.http_status}: {' '.join(streamed.split())}"
            partial = _streamed_text(error.partial)
            error.partial = None if partial is None else partial.encode("utf-8", "replace")
            return failed_request(query, error, settings.prices)
        try:
            stream = read_stream(reply.events, unescape_html=settings.unescape_html, observe=self._reader.observe)
            check_stream(stream, is_cut=reply.is_cut, body=reply.body)
        except EndpointError as unusable:
            unusable.requests, unusable.elapsed_ms = reply.requests, reply.elapsed_ms
            unusable.raw_sha256 = reply.raw_sha256
            return failed_request(query, unusable, settings.prices)
        return self._read(query, reply, stream)

    def _read(self, query: Query, reply: StreamReply, stream: StreamedAnswer) -> RagAnswer:
        text = stream.text.strip()
        timings = {name: stream.metrics.get(theirs) for name, theirs in TIMINGS.items()}
        timings["first_token"] = stream.first_token_ms
        has_pages = self._server.page_base is not None
        has_distances = are_distances(stream.citations)
        self._with_distances += has_distances
        has_scores = self._is_reranked is not False and not has_distances
        return self._reader.record(
            query,
            text,
            contexts=tuple(
                read_chunks(stream.citations, self._reader, has_pages=has_pages, has_scores=has_scores),
            ),
            cite=self._reader.citations,
            latency_ms=reply.elapsed_ms,
            usage=self._usage(stream.usage, reply.requests),
            timings={name: float(ms) for name, ms in timings.items() if is_amount(ms)},
            raw_sha256=reply.raw_sha256,
            finish_reason=stream.finish_reason,
            model=stream.model,
        )

    def _usage(self, counted: Mapping[str, Any], requests: int) -> Usage:
        prompt, completion, total = (
            max(0, whole_number(counted.get(key)) or 0)
            for key in ("prompt_tokens", "completion_tokens", "total_tokens")
        )
        usage = estimated_usage(self._settings.prices, requests, prompt, completion)
        return msgspec.structs.replace(usage, total_tokens=total or usage.total_tokens)


@contextlib.asynccontextmanager
async def open_nvidia(settings: NvidiaSettings, corpus: SystemCorpus) -> AsyncIterator[NvidiaSystem]:
    """Open the system once its servers are ready and its collection holds the corpus.

    Raises:
        ServiceError: `server_unready`, `missing_secret`, and those of `ensure_collection` and `find_page_base`.
    """
    names = StoredNames(corpus.files)
    async with contextlib.AsyncExitStack() as stack:
        rag = await stack.enter_async_context(Endpoint(settings.rag, folder=corpus.settings_folder))
        await check_ready(rag, "RAG server", check_dependencies=settings.check_dependencies)
        collection = settings.collection_name(corpus.benchmark, corpus.fingerprint)
        if settings.ingestor is not None:
            listed_mb = settings.ingestor.body_mb_max + len(corpus.files) * DOCUMENT_BYTES / 1_000_000
            address = settings.ingestor.model_copy(update={"body_mb_max": listed_mb})
            ingestor = await stack.enter_async_context(Endpoint(address, folder=corpus.settings_folder))
            await check_ready(ingestor, "ingestor", check_dependencies=settings.check_dependencies)
            await ensure_collection(
                ingestor,
                collection,
                corpus,
                names,
                settings.upload,
                allow_other_documents=settings.allow_other_documents,
            )
        configuration = await read_configuration(rag)
        base: Base | None = None if settings.page_base == "auto" else settings.page_base
        if settings.page_base == "auto":
            base = await find_page_base(rag, collection, corpus.pages(), names)
        reading = settings.reading(page_base=1 if base is None else base, empty_answer=settings.empty_answer)
        reader = AnswerReader(dataclasses.replace(corpus, aliases=names.aliases(corpus.aliases)), reading)
        yield NvidiaSystem(rag, settings, _Server(collection, configuration, base), reader)


async def check_ready(endpoint: Endpoint, name: str, *, check_dependencies: bool) -> None:
    """Check that a server, and the servers behind it, can be used."""
    params = {"check_dependencies": "true"} if check_dependencies else {}
    problem = f"The {name} at {endpoint.settings.base_url} is not ready"
    try:
        body = (await endpoint.request("GET", "v1/health", params=params)).json()
    except EndpointError as error:
        raise ServiceError("server_unready", f"{problem}: {error}") from error
    groups = [found for group in DEPENDENCIES if isinstance(found := part_at(body, group), list)]
    for service in (service for group in groups for service in group):
        if part_at(service, "status") in DOWN:
            reason = " ".join(str(service.get("error") or service["status"]).split())
            raise ServiceError(
                "server_unready",
                endpoint.masked(f"{problem}: {service.get('service')} is down, {reason}"),
                hint="Set `check_dependencies: false` if it is not needed.",
            )


async def read_configuration(endpoint: Endpoint) -> Mapping[str, Any] | None:
    """Return the reply of `/v1/configuration`; None from a server that is too old to have it."""
    try:
        reply = await endpoint.request("GET", "v1/configuration")
        body = reply.json()
        if not isinstance(body, dict):
            raise reply.bad("a JSON object")
    except EndpointError as error:
        if error.http_status in NOT_OFFERED:
            return None
        message = f"The configuration of the RAG server at {endpoint.settings.base_url} could not be read: {error}"
        raise ServiceError("server_unready", message) from error
    return body


def _published(value: Any) -> Any:
    """Return a parameter as one value: texts with commas between them, other lists and objects as JSON."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value


def _streamed_text(body: bytes | None) -> str | None:
    """Return the text or the error of the whole events in a body; None if there is none."""
    if body is None:
        return None
    try:
        stream = read_stream(EventParser().feed(body), unescape_html=True)
    except EndpointError:
        return None
    return stream.text.strip() or stream.error
