"""A server with any JSON interface over HTTP, asked by the templates and read by the paths of the system's file."""

import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from rag_eval_pipeline.errors import EndpointError
from rag_eval_pipeline.systems.base import Configuration, Query, RagAnswer, SystemCorpus
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.json_paths import UnfoundPaths, last_items, number_at, text_at, value_at
from rag_eval_pipeline.systems.kind_settings import CitationPaths, ContextPaths, HttpSettings
from rag_eval_pipeline.systems.parsing import AnswerReader, estimated_usage, failed_request
from rag_eval_pipeline.systems.reply import incomplete_generation
from rag_eval_pipeline.systems.user_streams import join_pieces
from rag_eval_pipeline.web.client import Endpoint, Reply, StreamReply
from rag_eval_pipeline.web.sse import DONE, json_values

FACTS = ("prompt_tokens", "completion_tokens", "cost", "model", "finish_reason")  # settings: paths beside the answer
JSON_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})


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
        values = query.values(self._benchmark)
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
        self._reader.observe_headers(reply.headers)
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
        items = last_items(values, paths.path)
        for item in items:
            self._unfound_in[name].search([item])
        inner = _inner_paths(paths)
        return paths.path, [_under_usual_keys(item, inner) for item in items] if inner else items


@contextlib.asynccontextmanager
async def open_http(settings: HttpSettings, corpus: SystemCorpus) -> AsyncIterator[HttpSystem]:
    """Open the connection to the server."""
    async with Endpoint(settings.endpoint, folder=corpus.settings_folder) as endpoint:
        yield HttpSystem(settings, endpoint, AnswerReader(corpus, settings), corpus.benchmark)


def fill_template(template: Any, values: Mapping[str, Any]) -> Any:
    """Replace `{name}` in all texts of a JSON value; keys and unknown names stay as they are.

    All names are replaced in one pass, so a question that contains `{query_id}` is sent as it is. A list of messages
    replaces a text that is nothing but its name; inside of a longer text it is one line a message, `user: ...`.
    """
    if isinstance(template, str):
        whole = values.get(template[1:-1]) if template == f"{{{template[1:-1]}}}" else None
        if isinstance(whole, list):
            return whole
        return re.sub(r"\{(\w+)\}", lambda match: _text_of(values.get(match[1], match[0])), template)
    if isinstance(template, list | tuple):
        return [fill_template(item, values) for item in template]
    if isinstance(template, dict):
        return {key: fill_template(item, values) for key, item in template.items()}
    return template


def _text_of(value: str | list[dict[str, str]]) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(f"{message['role']}: {message['content']}" for message in value)


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
