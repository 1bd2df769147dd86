"""Propose the settings of an `http` system: find the body that its server takes, and guess where the reply has what."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from rag_eval_pipeline.errors import EndpointError, InputError
from rag_eval_pipeline.scaffold.system_file_text import file_text, http_lines
from rag_eval_pipeline.scaffold.system_proposal import (
    CHAT_PATH,
    QUERY_ID,
    Proposal,
    Target,
    Wanted,
    document_warnings,
    endpoint_settings,
    parse_file_text,
    reply_as_row,
    required_option,
    server_error,
)
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.guessing import FACTS, PASSAGE_PARTS, Guesses, body_with, guess_paths, missing_fields
from rag_eval_pipeline.systems.http import HttpSystem, fill_template
from rag_eval_pipeline.systems.kind_settings import SECRET_HEADER, HttpSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.web.client import Endpoint, Reply, StreamReply
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.web.sse import DONE, json_values, parse_events

DEFAULT_BODY = {"question": "{question}"}
EXAMPLE_URL = "http://127.0.0.1:8000/ask"
BODIES_TRIED = 3


async def propose_http(wanted: Wanted, target: Target) -> Proposal:
    """Ask an HTTP server, and propose the paths of its reply."""
    parts = _split_url(required_option(wanted.url, "--url", EXAMPLE_URL))
    params = dict(parse_qsl(parts.query, keep_blank_values=True))
    if secret := next((name for name in params if SECRET_HEADER.search(name) and not name.endswith("tokens")), None):
        hint = "Name the environment variable that holds it: --api-key-env VARIABLE, or --header-env HEADER=VARIABLE"
        raise InputError("misplaced_secret", "--url", "a URL without secrets", found=f"{secret}=...", hint=hint)
    in_url = any("{question}" in text for text in params.values())
    method = wanted.method or ("GET" if in_url and wanted.body is None else "POST")
    body = wanted.body if wanted.body is not None or in_url else DEFAULT_BODY
    endpoint = endpoint_settings(wanted, f"{parts.scheme}://{parts.netloc}", target.file)
    settings: dict[str, Any] = {
        "endpoint": endpoint, "method": method, "path": parts.path, "params": params, "body": body,
    }  # fmt: skip
    connection = EndpointSettings.model_validate(endpoint)
    async with Endpoint(connection, folder=target.file.parent) as client:
        values = {"question": target.question, "query_id": QUERY_ID, "benchmark": target.corpus.benchmark}
        reply = await _ask_http(client, settings, values, may_guess=wanted.body is None and not in_url)
        events, objects = _objects_of(reply)
        guesses = guess_paths(objects, target.question, target.names_document)
        settings |= _http_paths(guesses, wanted, is_stream=bool(events))
        if settings["answer"] is None:
            shown = json.dumps(objects[-1] if objects else None, ensure_ascii=False)
            hint = "Name its place: --answer JMESPATH. If the answer is only empty, ask something else: --question TEXT"
            raise InputError("no_answer_found", str(wanted.url), "an answer in the reply", found=shown, hint=hint)
        lines = http_lines(settings, guesses, is_named=wanted.answer is not None, latency_ms=reply.elapsed_ms)
        proposal = Proposal(
            text=file_text(wanted.name, wanted.kind, lines),
            asked=f"{method} {wanted.url} {json.dumps(fill_template(settings['body'], values), ensure_ascii=False)}",
            reply=objects if events else objects[0],
            guesses=guesses.sentences(),
            notes=[*target.notes, *_chat_notes(wanted, objects)],
        )
        file = parse_file_text(proposal.text, target.file)
        assert isinstance(file.settings, HttpSettings)
        system = HttpSystem(file.settings, client, AnswerReader(target.corpus, file.settings), target.corpus.benchmark)
        try:
            answer = system.read(Query(QUERY_ID, target.question), reply)
        except WrongShape as wrong:
            guess = guesses.path("answer")
            is_named = wanted.answer is not None and guess is not None
            advice = f"Is --answer right? Without it the guess is {guess}." if is_named else None
            raise InputError("no_answer_found", str(wanted.url), str(wrong), hint=advice) from wrong
    proposal.row = reply_as_row(target, answer)
    proposal.notes += document_warnings(target, [answer], wanted.kind)
    return proposal


def _split_url(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        InputError: `bad_option` if it has no scheme or no host, such as `127.0.0.1:8000/ask`.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        found = url.partition("?")[0].rpartition("@")[2]  # without secrets
        raise InputError("bad_option", "--url", f"an http or https URL, such as {EXAMPLE_URL}", found=found)
    return parts


async def _ask_http(client: Endpoint, settings: dict[str, Any], values: Mapping[str, str], *, may_guess: bool) -> Reply:
    """Ask the question; put it under another key of the body where the server's error names one."""
    tried = []
    while True:
        tried.append(settings["body"])
        try:
            reply = await client.request(
                settings["method"],
                settings["path"],
                json=fill_template(settings["body"], values),
                params=fill_template(settings["params"], values) or None,
            )
        except EndpointError as error:
            is_refusal = error.http_status in (400, 422) and may_guess
            body = body_with(missing_fields(_json_of(error.body))) if is_refusal else None
            if body is None or body in tried or len(tried) == BODIES_TRIED:
                raise server_error(error, is_refusal, client.settings) from error
            settings["body"] = body
        else:
            return _as_stream(reply)


def _as_stream(reply: Reply) -> Reply:
    """Return a reply as a stream if its body is one: events, or JSON lines."""
    if reply.body.lstrip()[:1] in (b"{", b"[", b'"'):
        try:
            reply.json()
        except EndpointError:
            pass
        else:
            return reply
    events = [event for event in parse_events(reply.body) if event.data.strip() != DONE]
    if not events:
        raise server_error(reply.bad("JSON"), False)
    facts = {name: getattr(reply, name) for name in Reply.__dataclass_fields__}
    return StreamReply(**facts, events=events, is_cut=False)


def _objects_of(reply: Reply) -> tuple[int, list[Any]]:
    """Return the number of events, 0 of a reply that is no stream, and their JSON."""
    if not isinstance(reply, StreamReply):
        return 0, [reply.json()]
    try:
        return len(reply.events), [value for event in reply.events for value in json_values(event.data)]
    except ValueError:
        raise server_error(reply.bad("JSON"), False) from None


def _json_of(body: bytes | None) -> Any:
    try:
        return msgspec.json.decode(body or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return (body or b"").decode("utf-8", "replace")


def _http_paths(guesses: Guesses, wanted: Wanted, *, is_stream: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"answer": wanted.answer or guesses.path("answer"), "streaming": None, "contexts": None}
    if is_stream:
        found["streaming"] = "sse"
    if (path := guesses.path("contexts")) is not None:
        found["contexts"] = {"path": path} | {
            name: inner for name in PASSAGE_PARTS if (inner := guesses.path(name)) is not None
        }
    found |= {name: path for name in FACTS if (path := guesses.path(name)) is not None}
    return found | ({"page_base": 0} if guesses.page_base == 0 else {})


def _chat_notes(wanted: Wanted, values: Sequence[Any]) -> list[str]:
    """Suggest the kind openai for a chat completion."""
    is_chat = any(isinstance(value, dict) and isinstance(value.get("choices"), list) for value in values)
    if not is_chat:
        return []
    base = (wanted.url or "").removesuffix(CHAT_PATH)
    return [f"The reply is a chat completion: rag-eval system init {wanted.name} --kind openai --url {base}"]
