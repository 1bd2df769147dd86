"""A server of any JSON interface under test, asked and read as its file says."""

import contextlib
from collections.abc import AsyncIterator

import msgspec

from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError, Reply, StreamReply
from rag_eval_pipeline.systems.answer import Configuration, Query, RagAnswer, Usage, failed_answer
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.failures import unanswered
from rag_eval_pipeline.systems.http.replies import ReplyPaths, Told, raise_told_error, told, told_by_stream
from rag_eval_pipeline.systems.http.settings import HttpSettings
from rag_eval_pipeline.systems.http.templates import filled
from rag_eval_pipeline.systems.json_paths import WrongShape
from rag_eval_pipeline.systems.reading import EMPTY_ANSWER, AnswerReader, EmptyAnswer
from rag_eval_pipeline.systems.told_places import merged, told_citations, told_passages


class HttpSystem:
    """Asks a server; `open_http` makes one.

    Args:
        settings: What is sent and where the parts of a reply stand.
        endpoint: Open while this is used.
        reader: Knows the corpus.
        benchmark: For the placeholder of this name.
    """

    def __init__(self, settings: HttpSettings, endpoint: Endpoint, reader: AnswerReader, benchmark: str) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._reader = reader
        self._benchmark = benchmark
        self._paths = ReplyPaths(settings)

    def configuration(self) -> Configuration:
        """What the settings state of the server, which nothing else can know."""
        unknown: Configuration = dict.fromkeys(("model", "embedding_model", "retrieval_k", "reranking_enabled"))
        settings = self._settings
        url = f"{settings.endpoint.base_url}/{settings.path.lstrip('/')}".rstrip("/")
        return {**unknown, "url": url, "streaming": settings.streaming, **settings.configuration}

    def server_configuration(self) -> None:
        """There is no common way to ask for it."""

    def warnings(self) -> list[str]:
        """Paths that found nothing in any reply, and what the reader noticed."""
        return [*self._paths.warnings(), *self._reader.warnings()]

    async def answer(self, query: Query) -> RagAnswer:
        """The server's answer to one question."""
        try:
            reply = await self._ask(query)
        except EndpointError as error:
            return unanswered(query, error, self._settings.prices)
        try:
            return self._read(query, reply)
        except WrongShape as wrong:
            failure = EndpointError("bad_response", self._endpoint.masked(f"expected {wrong}"))
        except EndpointError as unusable:
            failure = unusable
        failure.requests, failure.elapsed_ms = reply.requests, reply.elapsed_ms
        answer = unanswered(query, failure, self._settings.prices)
        return msgspec.structs.replace(answer, raw_sha256=reply.raw_sha256)

    async def _ask(self, query: Query) -> Reply:
        settings = self._settings
        values = {"question": query.text, "query_id": query.query_id, "benchmark": self._benchmark}
        body = filled(settings.body, values)
        params = filled(settings.params, values) or None
        if settings.streaming == "sse":
            return await self._endpoint.stream(
                settings.method, settings.path, json=body, params=params, headers=settings.headers
            )
        return await self._endpoint.request(
            settings.method, settings.path, json=body, params=params, headers=settings.headers
        )

    def _read(self, query: Query, reply: Reply) -> RagAnswer:
        if isinstance(reply, StreamReply) and "json" not in reply.headers.get("content-type", ""):
            parts = told_by_stream(reply, self._settings, self._paths, self._reader.observe)
        else:
            value = self._reader.observe(reply.json())
            raise_told_error([value], self._settings)
            parts = told([value], self._settings, self._paths)
        usage = self._usage(parts, reply.requests)
        try:
            abstained = self._reader.abstained(parts.answer)
        except EmptyAnswer as empty:
            return failed_answer(
                query, "error", code=EMPTY_ANSWER, error=str(empty), latency_ms=reply.elapsed_ms, usage=usage,
                raw_sha256=reply.raw_sha256,
            )  # fmt: skip
        contexts, citations = self._settings.contexts, self._settings.citations
        in_text = self._reader.citations(parts.answer)
        beside = told_citations(parts.citations, citations.path if citations else "", self._reader)
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=parts.answer,
            abstained=abstained,
            contexts=told_passages(parts.contexts, contexts.path if contexts else "", self._reader),
            citations=merged(in_text, beside),
            latency_ms=reply.elapsed_ms,
            usage=usage,
            timings={} if parts.first_token_ms is None else {"first_token": parts.first_token_ms},
            raw_sha256=reply.raw_sha256,
            model=parts.model,
        )

    def _usage(self, parts: Told, requests: int) -> Usage:
        cost = parts.cost
        if cost is None:
            cost = self._settings.prices.estimate(
                prompt_tokens=parts.prompt_tokens, completion_tokens=parts.completion_tokens, requests=requests
            )
        return Usage(
            total_tokens=parts.prompt_tokens + parts.completion_tokens,
            estimated_cost_usd=cost,
            requests=requests,
            prompt_tokens=parts.prompt_tokens,
            completion_tokens=parts.completion_tokens,
        )


@contextlib.asynccontextmanager
async def open_http(settings: HttpSettings, corpus: SystemCorpus) -> AsyncIterator[HttpSystem]:
    """The system with an open connection.

    Raises:
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`.
    """
    reader = AnswerReader.set_up(corpus, settings)
    async with Endpoint(settings.endpoint, folder=corpus.settings_folder) as endpoint:
        yield HttpSystem(settings, endpoint, reader, corpus.benchmark)
