"""A server with any JSON interface over HTTP, asked by the templates and read by the paths of the system's file."""

import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.formats.model import JsonValue, Model
from rag_eval_pipeline.systems.base import Configuration, Query, RagAnswer, SystemCorpus
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.json_paths import JsonPath, UnfoundPaths, items_at, number_at, text_at, value_at
from rag_eval_pipeline.systems.parsing import (
    AnswerReader,
    ContextNames,
    ReadingSettings,
    estimated_usage,
    failed_request,
)
from rag_eval_pipeline.systems.reply import incomplete_generation
from rag_eval_pipeline.systems.user_streams import join_pieces
from rag_eval_pipeline.web.client import Endpoint, EndpointError, Reply, StreamReply
from rag_eval_pipeline.web.server_settings import EndpointSettings, Prices, is_free_header
from rag_eval_pipeline.web.sse import DONE, json_values

SECRET_HEADER = re.compile(r"auth|cookie|token|secret|api[-_]?key|^key$", re.IGNORECASE)
FACTS = ("prompt_tokens", "completion_tokens", "cost", "model", "finish_reason")  # settings: paths beside the answer
_QUESTION = "{question}"
JSON_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})


class ContextPaths(ContextNames):
    """Where retrieved passages are; the inner paths begin at a passage."""

    path: JsonPath = pydantic.Field(description="JMESPath of the list of passages, best first.")
    document: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the document's name; by default a usual key."
    )
    page: JsonPath | None = pydantic.Field(None, description="JMESPath of the page; by default a usual key.")
    text: JsonPath | None = pydantic.Field(None, description="JMESPath of the passage's text; by default a usual key.")
    score: JsonPath | None = pydantic.Field(None, description="JMESPath of the score; by default a usual key.")


class CitationPaths(Model):
    """Where citations are; the inner paths begin at a citation."""

    path: JsonPath = pydantic.Field(description="JMESPath of the list of citations.")
    document: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the document's name; by default a usual key."
    )
    page: JsonPath | None = pydantic.Field(None, description="JMESPath of the page; by default a usual key.")
    start: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the first character; by default start or start_char."
    )
    end: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the position after the last character; by default end or end_char."
    )


class HttpSettings(ReadingSettings):
    """Where the server is, what it is sent, and how its replies are read."""

    operational: ClassVar[frozenset[str]] = frozenset({"prompt_tokens", "completion_tokens", "cost", "prices"})

    endpoint: EndpointSettings = pydantic.Field(description="The server, such as base_url: http://host:8000.")
    method: Literal["POST", "GET", "PUT"] = pydantic.Field("POST", description="HTTP method.")
    path: str = pydantic.Field("", description="Path below the base URL, such as /ask.")
    params: dict[str, str] = pydantic.Field(
        default_factory=dict, description="Query parameters of the URL; placeholders are replaced as in the body."
    )
    body: JsonValue = pydantic.Field(
        None, description="JSON that is sent; {question}, {query_id} and {benchmark} in its texts are replaced."
    )
    headers: dict[str, str] = pydantic.Field(
        default_factory=dict, description="Sent with every question; secrets go into headers_env of the endpoint."
    )
    streaming: Literal["none", "sse"] = pydantic.Field(
        "none", description="sse: the reply is a stream of events with JSON, and the answer is joined from them."
    )
    answer: JsonPath = pydantic.Field(
        description="JMESPath of the answer's text; of a stream, of the piece of it that an event carries."
    )
    contexts: ContextPaths | None = pydantic.Field(None, description="Where retrieved passages are.")
    citations: CitationPaths | None = pydantic.Field(
        None, description="Where citations are, besides those in the answer's text."
    )
    error: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of an error in a reply with a status of success; if it is found, the question fails.",
    )
    prompt_tokens: JsonPath | None = pydantic.Field(None, description="JMESPath of the tokens that were read.")
    completion_tokens: JsonPath | None = pydantic.Field(None, description="JMESPath of the tokens that were written.")
    cost: JsonPath | None = pydantic.Field(None, description="JMESPath of the cost in US dollars.")
    model: JsonPath | None = pydantic.Field(None, description="JMESPath of the model's name.")
    finish_reason: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of why the generation ended, such as stop; length is a truncated answer, content_filter "
        "a refused one, error a failed one.",
    )
    prices: Prices = pydantic.Field(Prices(), description="Prices for the estimated cost, if the server states none.")
    configuration: dict[str, str | int | float | bool | None] = pydantic.Field(
        default_factory=dict,
        description="Configuration to publish with the results, such as model, embedding_model and retrieval_k.",
    )

    @pydantic.field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not is_free_header(name) or not text.isascii() or not text.isprintable():
                raise ValueError("headers that a request may carry beside its own, in ASCII")
            if SECRET_HEADER.search(name):
                raise PydanticCustomError(
                    "misplaced_secret",
                    "headers without secrets; {name} belongs into headers_env of the endpoint",
                    {"name": name},
                )
        return value

    @pydantic.model_validator(mode="after")
    def _asks(self) -> Self:
        if _QUESTION not in json.dumps(self.body) and not any(_QUESTION in text for text in self.params.values()):
            raise ValueError("a body or params with {question} in a text")
        return self


class HttpSystem:
    """Asks a server; `open_http` makes one.

    Paths that find nothing in any reply are warned of, except those of the answer and of an error: a reply without an
    answer fails, and one without an error is as it should be.
    """

    def __init__(self, settings: HttpSettings, endpoint: Endpoint, reader: AnswerReader, benchmark: str) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._reader = reader
        self._benchmark = benchmark
        self._lists = {"contexts": settings.contexts, "citations": settings.citations}
        whole = {f"{name}.path": paths.path for name, paths in self._lists.items() if paths is not None}
        whole |= {name: getattr(settings, name) for name in FACTS}
        self._unfound = UnfoundPaths(whole, of="replies")
        self._unfound_in = {
            name: UnfoundPaths({f"{name}.{key}": path for key, path in _inner_paths(paths).items()}, of=of)
            for (name, paths), of in zip(self._lists.items(), ("passages", "citations"), strict=True)
        }

    def configuration(self) -> Configuration:
        """Return what the settings state about the server, which nothing else can know."""
        unknown: Configuration = dict.fromkeys(("model", "embedding_model", "retrieval_k", "reranking_enabled"))
        settings = self._settings
        url = f"{settings.endpoint.base_url}/{settings.path.lstrip('/')}".rstrip("/")
        return {**unknown, "url": url, "streaming": settings.streaming, **settings.configuration}

    def server_configuration(self) -> None:
        """There is no common way to ask for it."""

    def warnings(self) -> list[str]:
        """Return the paths that found nothing in any reply, and what the reader noticed."""
        found = [line for unfound in (self._unfound, *self._unfound_in.values()) for line in unfound.warnings()]
        return [*found, *self._reader.warnings()]

    async def answer(self, query: Query) -> RagAnswer:
        """Ask the server one question."""
        settings = self._settings
        values = {"question": query.text, "query_id": query.query_id, "benchmark": self._benchmark}
        send = self._endpoint.stream if settings.streaming == "sse" else self._endpoint.request
        try:
            reply = await send(
                settings.method,
                settings.path,
                json=fill_template(settings.body, values),
                params=fill_template(settings.params, values) or None,
                headers=settings.headers,
            )
            try:
                return self.read(query, reply)
            except WrongShape as wrong:
                raise reply.failure("bad_response", f"expected {wrong}") from None
        except EndpointError as error:
            return failed_request(query, error, settings.prices)

    def read(self, query: Query, reply: Reply) -> RagAnswer:
        """Return the answer in a reply; of a stream, each part is taken from the last value that has it.

        Raises:
            WrongShape: It has no answer, or a part of another type.
            EndpointError: It is cut, or states an error.
        """
        settings = self._settings
        media = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if isinstance(reply, StreamReply) and ("json" not in media or media in JSON_LINES):
            values, first_token_ms = self._values_of(reply)
        else:
            values, first_token_ms = [self._reader.observe(reply.json())], None
        self._raise_stated_error(values, reply)
        pieces = [text for value in values if (text := text_at(value, settings.answer)) is not None]
        answer = join_pieces(pieces)
        if isinstance(reply, StreamReply) and reply.is_cut:
            message = f"the connection ended after {len(reply.events)} events"
            raise reply.failure("stream_truncated", message, status="truncated", partial=answer)
        finish_reason = _last(text_at, values, settings.finish_reason)
        if not pieces and incomplete_generation(finish_reason, None) is None:
            found = values[-1] if values else None
            raise WrongShape(f"a text at {settings.answer!r}, found nothing there in {str(found)[:200]!r}")
        self._unfound.search(values)
        if settings.contexts is None:
            self._reader.notice_unset("contexts", values, query.text)
        contexts = self._reader.passages_at(*self._items(values, "contexts"))
        _, cited = self._items(values, "citations")
        usage = estimated_usage(
            settings.prices,
            reply.requests,
            int(_last(number_at, values, settings.prompt_tokens) or 0),
            int(_last(number_at, values, settings.completion_tokens) or 0),
            cost=_last(number_at, values, settings.cost),
        )
        return self._reader.record(
            query,
            answer,
            contexts=contexts,
            cite=lambda text: self._reader.all_citations(text, contexts, cited),
            latency_ms=reply.elapsed_ms,
            usage=usage,
            timings={} if first_token_ms is None else {"first_token": first_token_ms},
            raw_sha256=reply.raw_sha256,
            finish_reason=finish_reason,
            model=_last(text_at, values, settings.model),
        )

    def _values_of(self, reply: StreamReply) -> tuple[list[Any], float | None]:
        """Return the JSON values of a stream, and when the first text of the answer came."""
        values: list[Any] = []
        first_token_ms = None
        for number, event in enumerate(reply.events, start=1):
            if event.data.strip() == DONE:
                continue
            try:
                values += map(self._reader.observe, json_values(event.data))
            except ValueError:
                raise WrongShape(f"JSON in event {number}, found {event.data[:200]!r}") from None
            if first_token_ms is None and any(text_at(value, self._settings.answer) for value in values):
                first_token_ms = event.at_ms
        return values, first_token_ms

    def _raise_stated_error(self, values: Sequence[Any], reply: Reply) -> None:
        path = self._settings.error
        for number, value in enumerate(values if path is not None else ()):
            if error := value_at(value, str(path)):
                so_far = join_pieces([text_at(earlier, self._settings.answer) or "" for earlier in values[:number]])
                message = f"the server states {str(error)[:300]!r} at {path!r}"
                raise reply.failure("error_reply", message, partial=so_far or None)

    def _items(self, values: Sequence[Any], name: str) -> tuple[str, Sequence[Any]]:
        """Return the path of a list and its items; the parts with a path of their own are under a usual key."""
        paths = self._lists[name]
        if paths is None:
            return "", ()
        items = next((found for value in reversed(values) if (found := items_at(value, paths.path))), [])
        for item in items:
            self._unfound_in[name].search([item])
        inner = _inner_paths(paths)
        return paths.path, [_under_usual_keys(item, inner) for item in items] if inner else items


@contextlib.asynccontextmanager
async def open_http(settings: HttpSettings, corpus: SystemCorpus) -> AsyncIterator[HttpSystem]:
    """Open the connection to the server."""
    async with Endpoint(settings.endpoint, folder=corpus.settings_folder) as endpoint:
        yield HttpSystem(settings, endpoint, AnswerReader(corpus, settings), corpus.benchmark)


def fill_template(template: Any, values: Mapping[str, str]) -> Any:
    """Replace `{name}` in all texts of a JSON value; keys and unknown names stay as they are.

    All names are replaced in one pass, so a question that contains `{query_id}` is sent as it is.
    """
    if isinstance(template, str):
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), template)
    if isinstance(template, list | tuple):
        return [fill_template(item, values) for item in template]
    if isinstance(template, dict):
        return {key: fill_template(item, values) for key, item in template.items()}
    return template


def _last(read: Any, values: Sequence[Any], path: str | None) -> Any:
    if path is None:
        return None
    return next((found for value in reversed(values) if (found := read(value, path)) is not None), None)


def _under_usual_keys(item: Any, paths: Mapping[str, str]) -> Any:
    found = {name: value_at(item, path) for name, path in paths.items()}
    if isinstance(item, dict):
        return item | found
    # No path leads into a text, unless it is the text itself (`@`).
    return found if any(value is not None for value in found.values()) else item


def _inner_paths(paths: ContextPaths | CitationPaths | None) -> dict[str, str]:
    set_paths = {} if paths is None else paths.model_dump(exclude={"path", "names"}, exclude_none=True)
    return {str(name): str(path) for name, path in set_paths.items()}
