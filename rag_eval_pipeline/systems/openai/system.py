"""An OpenAI-compatible chat server under test, with the built-in retrieval before it or retrieval of its own."""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.endpoints.chat import Chat, ChatReply
from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError
from rag_eval_pipeline.systems.answer import (
    Configuration,
    Query,
    RagAnswer,
    RetrievedPassage,
    Status,
    Usage,
    failed_answer,
)
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.embedded.settings import EmbeddedSettings
from rag_eval_pipeline.systems.embedded.system import EmbeddedSystem
from rag_eval_pipeline.systems.failures import unanswered
from rag_eval_pipeline.systems.json_paths import UnfoundPaths, WrongShape, items_at
from rag_eval_pipeline.systems.openai.numbered import with_numbered
from rag_eval_pipeline.systems.openai.prompts import messages
from rag_eval_pipeline.systems.openai.settings import OpenAiSettings
from rag_eval_pipeline.systems.reading import EMPTY_ANSWER, AnswerReader, EmptyAnswer
from rag_eval_pipeline.systems.told_places import merged, told_citations, told_passages


class _Failure(NamedTuple):
    """Why there is no answer to score."""

    status: Status
    code: str
    error: str


class OpenAiSystem:
    """Asks a chat model; `open_openai` makes one.

    Args:
        settings: What is asked and how answers are read.
        chat: Over an open endpoint.
        reader: Knows the corpus.
        retriever: Finds passages; None when the server does.
    """

    def __init__(
        self, settings: OpenAiSettings, chat: Chat, reader: AnswerReader, retriever: EmbeddedSystem | None
    ) -> None:
        self._settings = settings
        self._chat = chat
        self._reader = reader
        self._retriever = retriever
        paths = {"contexts_path": settings.contexts_path, "citations_path": settings.citations_path}
        self._paths = UnfoundPaths(paths, of="replies")

    def configuration(self) -> Configuration:
        """The settings, under the specification's names where it has one."""
        settings = self._settings
        retrieval = settings.retrieval
        return {
            "model": settings.chat.model,
            "embedding_model": None,
            "retrieval_k": None if retrieval is None else retrieval.k,
            "reranking_enabled": None if retrieval is None else retrieval.rerank,
            "passage_words": None if retrieval is None else retrieval.passage_words,
            "base_url": settings.endpoint.base_url,
            "temperature": settings.chat.temperature,
            "top_p": settings.chat.top_p,
            "max_tokens": settings.chat.max_tokens,
            "seed": settings.chat.seed,
            "stream": settings.stream,
        }

    def server_configuration(self) -> None:
        """The protocol has no way to ask for it; each answer tells the model that gave it."""

    def warnings(self) -> list[str]:
        """Paths that found nothing in any reply, and what the reader noticed."""
        return [*self._paths.warnings(), *self._reader.warnings()]

    async def answer(self, query: Query) -> RagAnswer:
        """The model's answer to one question, with what was retrieved for it."""
        started = time.perf_counter()
        passages = None if self._retriever is None else self._retriever.retrieve(query.text)
        retrieval_ms = 0.0 if passages is None else (time.perf_counter() - started) * 1000
        asked = messages(query.text, passages, self._settings.system_prompt)
        try:
            reply = await self._chat.complete(asked, stream=self._settings.stream)
        except EndpointError as error:
            return unanswered(query, error, self._settings.chat.prices, before_ms=retrieval_ms)
        return self._read(query, reply, passages, retrieval_ms)

    def _read(
        self, query: Query, reply: ChatReply, passages: list[RetrievedPassage] | None, retrieval_ms: float
    ) -> RagAnswer:
        failure = _failure(reply)
        if failure is not None:
            return self._failed(query, reply, retrieval_ms, failure)
        citations = self._reader.citations(reply.text)
        try:
            abstained = self._reader.abstained(reply.text)
            objects = [self._reader.observe(value) for value in reply.objects]
            self._paths.search(objects)
            if passages is None:
                contexts = told_passages(*self._told(objects, self._settings.contexts_path), self._reader)
                beside = told_citations(*self._told(objects, self._settings.citations_path), self._reader)
            else:
                contexts, beside = tuple(passages), ()
        except EmptyAnswer as empty:
            return self._failed(query, reply, retrieval_ms, _Failure("error", EMPTY_ANSWER, str(empty)))
        except WrongShape as wrong:
            return self._failed(query, reply, retrieval_ms, _Failure("error", "bad_response", f"expected {wrong}"))
        timings = {} if passages is None else {"retrieval": retrieval_ms}
        if reply.first_token_ms is not None:
            timings["first_token"] = retrieval_ms + reply.first_token_ms
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=reply.text,
            abstained=abstained,
            contexts=contexts,
            citations=merged(with_numbered(reply.text, citations, contexts), beside),
            latency_ms=retrieval_ms + reply.elapsed_ms,
            usage=self._usage(reply),
            timings=timings,
            raw_sha256=reply.raw_sha256,
            model=reply.model,
        )

    def _told(self, objects: Sequence[Any], path: str | None) -> tuple[Sequence[Any], str]:
        """What stands at a path: of a stream, in the last object that has something there."""
        for value in reversed(objects if path is not None else ()):
            if items := items_at(value, str(path)):
                return items, str(path)
        return (), str(path)

    def _failed(self, query: Query, reply: ChatReply, retrieval_ms: float, failure: _Failure) -> RagAnswer:
        return failed_answer(
            query,
            failure.status,
            code=failure.code,
            error=" ".join(failure.error.split())[:500],
            latency_ms=retrieval_ms + reply.elapsed_ms,
            usage=self._usage(reply),
            partial=reply.text or None,
            raw_sha256=reply.raw_sha256,
        )

    def _usage(self, reply: ChatReply) -> Usage:
        told = reply.usage
        unknown = self._settings.chat.prices.estimate(prompt_tokens=0, completion_tokens=0, requests=reply.requests)
        return Usage(
            total_tokens=told.total_tokens,
            estimated_cost_usd=unknown if told.cost is None else told.cost,
            requests=reply.requests,
            prompt_tokens=told.prompt_tokens,
            completion_tokens=told.completion_tokens,
        )


@contextlib.asynccontextmanager
async def open_openai(settings: OpenAiSettings, corpus: SystemCorpus) -> AsyncIterator[OpenAiSystem]:
    """The system with an open connection and, where it retrieves, its index.

    Raises:
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`.
    """
    reader = AnswerReader.set_up(corpus, settings)
    retriever = None
    if settings.retrieval is not None:
        retrieval = EmbeddedSettings(
            k=settings.retrieval.k,
            passage_words=settings.retrieval.passage_words,
            rerank=settings.retrieval.rerank,
        )
        retriever = EmbeddedSystem(corpus.pages(), retrieval)
    async with Endpoint(settings.endpoint, folder=corpus.settings_folder) as endpoint:
        yield OpenAiSystem(settings, Chat(endpoint, settings.chat), reader, retriever)


def _failure(reply: ChatReply) -> _Failure | None:
    """Why a whole reply is no answer: a refusal, or a text that the limit of tokens has cut."""
    if reply.refusal is not None:
        return _Failure("refused", "refused", f"the server refused: {reply.refusal}")
    if reply.finish_reason == "length":
        tokens = reply.usage.completion_tokens
        return _Failure("truncated", "max_tokens_reached", f"the answer was cut after {tokens or 'all'} tokens allowed")
    return None
