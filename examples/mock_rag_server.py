r"""A mock of the servers that this project evaluates, for trials and tests on one machine.

    python examples/mock_rag_server.py --port 8080 --corpus corpus/skarn-railway

One port serves these interfaces:

- `/openai/v1`: OpenAI chat completions, streamed or whole, with JSON schemas and several models; requests that OpenAI
  refuses are refused with its errors
- `/rag/v1` and `/ingestor/v1`: NVIDIA's RAG server and ingestor; `/v1` has both
- `/ask`: a plain JSON endpoint, `{"question": "..."}` -> `{"result": {"text": "...", "sources": [...]}}`
- `/control`: the number of requests by path and by question; `POST /control/reset` sets them to zero, and replaces the
  faults if it has a script

With `--rag-port` and `--ingestor-port`, NVIDIA's servers are also at `/v1` of ports of their own, as in a deployment,
for clients that know no prefix, such as NVIDIA's `evaluate_rag.py`.

Answers are found in the uploaded documents by the embedded BM25 system, or follow from the question's hash with
`--canned`. A question that contains `[[fault http_503 after=1]]` fails in that way, `--faults 0.1` lets one attempt in
ten fail, and `--faults '{"paths": {"POST /ingestor/v1/documents": ["reset"]}}'` scripts the requests of a path. Which
attempts fail depends only on the seed, the question and the number of the attempt, never on the order of requests.

Starlette and uvicorn are installed with dagster-webserver.

Source: NVIDIA RAG Blueprint, OpenAPI schemas of the RAG server and of the ingestor.
"""

import asyncio
import contextlib
import email.utils
import hashlib
import hmac
import html
import http.client
import itertools
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
import typer
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.systems.base import PageText, Query
from rag_eval_pipeline.systems.bm25 import EmbeddedSettings, EmbeddedSystem

DEFAULT_COLLECTION = "multimodal_data"
API_KEY_ENV = "MOCK_RAG_SERVER_KEY"

# Faults that replace an answer, whatever the interface; `http_<status>` is one too.
REPLACING = ("reset", "half_open", "drip", "html", "not_json", "truncated_json", "empty", "huge")
# Wrong answers in the interface's own form.
SPOILING = ("cut", "broken_off", "error_text", "error_event", "no_generator")
# Correct streams that only a careful client reads correctly.
DISGUISING = ("split_utf8", "multi_line", "raw_lines", "keep_alives")
RETRIED = ("http_429", "http_500", "http_502", "http_503", "reset")  # faults after which a client may retry
FAULT_NAME = re.compile("|".join(["ok", r"http_[45]\d\d", *REPLACING, *SPOILING, *DISGUISING]))
FAULT_MARK = re.compile(r"\s*\[\[fault (?P<name>\w+)(?: after=(?P<after>[^\]\s]+))?\]\]")
HUGE_BYTES = 100_000_000
NO_LINGER = struct.pack("ii", 1, 0)  # closing the socket then sends RST

NVIDIA_ERROR = "Error from rag-server. Please check rag-server logs for more details."
NVIDIA_STREAMED = (400, 422, 499, 500, 503)  # statuses that the RAG server streams; a proxy sends the others
SUPPORTED = (
    *(".pdf", ".docx", ".pptx", ".txt", ".html", ".htm", ".jpg", ".jpeg", ".png", ".tiff", ".tif", ".bmp"),
    *(".mp3", ".wav", ".mp4"),
)
ONE_PIXEL = (  # PNG in base64: the content of tables, charts and images
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)
# What each chat model refuses with status 400, by the name in the request.
MODELS: dict[str, frozenset[str]] = {
    "mock": frozenset(),
    "mock-judge": frozenset(),
    "mock-object": frozenset({"json_schema"}),
    "mock-plain": frozenset({"json_schema", "json_object", "seed"}),
    "mock-reasoning": frozenset({"max_tokens", "temperature", "top_p"}),
}


# --- Faults


def _known_fault(name: str) -> str:
    if not FAULT_NAME.fullmatch(name):
        raise ValueError(f"the name of a fault: {', '.join(['http_<status>', *REPLACING, *SPOILING, *DISGUISING])}")
    return name


FaultName = Annotated[str, pydantic.AfterValidator(_known_fault)]


class Fault(NamedTuple):
    """What goes wrong with a request; `after` is the Retry-After header of a status, or `date`."""

    name: str
    after: str | None = None

    @property
    def status(self) -> int | None:
        """The status of `http_<status>`; None for the other faults."""
        return int(self.name.removeprefix("http_")) if self.name.startswith("http_") else None

    @property
    def message(self) -> str:
        """The message of an error."""
        return f"The server was told to answer with {f'status {self.status}' if self.status else 'an error'}."

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a status comes with."""
        if self.after is None:
            return {}
        return {"retry-after": email.utils.formatdate(usegmt=True) if self.after == "date" else self.after}


class FaultScript(pydantic.BaseModel):
    """The value of `--faults`: a rate, or this as JSON.

    Args:
        rate: Share of the attempts that fail.
        kinds: Faults that the rate draws from.
        attempts: Number of attempts at one question that may fail; later ones are answered.
        paths: `POST /ingestor/v1/documents` -> faults of its requests in order (`ok` for none), then answered.
    """

    model_config = pydantic.ConfigDict(extra="forbid")
    rate: float = pydantic.Field(0.0, ge=0, le=1)
    kinds: tuple[FaultName, ...] = pydantic.Field(RETRIED, min_length=1)
    attempts: int = pydantic.Field(2, ge=1)
    paths: dict[str, tuple[FaultName, ...]] = {}

    def draw(self, question: str, attempt: int, seed: int) -> Fault | None:
        """Return the fault of an attempt at a question; None if it is answered."""
        if attempt > self.attempts or not self.rate:
            return None
        drawn = hashlib.blake2b(f"{seed}\0{question}\0{attempt}".encode(errors="surrogatepass")).digest()
        if int.from_bytes(drawn[:8]) >= self.rate * 2**64:
            return None
        kind = self.kinds[int.from_bytes(drawn[8:16]) % len(self.kinds)]
        return Fault(kind, "0" if kind == "http_429" else None)


async def fail(request: Request, fault: Fault | None, body: Callable[[Fault], dict[str, Any]]) -> Response | None:
    """Return the response of a fault that leaves no answer; None for the other faults.

    Args:
        request: The request.
        fault: What goes wrong.
        body: Makes the body of an error status.
    """
    if fault is not None and fault.status is not None:
        return JSONResponse(body(fault), fault.status, fault.headers)
    return await replace_answer(request, fault) if fault is not None and fault.name in REPLACING else None


async def replace_answer(request: Request, fault: Fault) -> Response:
    """Return what a fault of `REPLACING` sends, or break the connection."""
    match fault.name:
        case "reset":
            request.state.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            request.state.transport.abort()
            await _disconnected(request)
        case "half_open":
            await _disconnected(request)
        case "drip":
            return StreamingResponse(_drip(), media_type="text/event-stream")
        case "html":
            return Response("<!doctype html><title>502</title><h1>Bad Gateway</h1>", media_type="text/html")
        case "not_json":
            return Response("upstream said: OK", media_type="application/json")
        case "truncated_json":
            return Response('{"choices": [{"index": 0, "message": {"role": "assis', media_type="application/json")
        case "huge":
            blocks = itertools.repeat(b" " * 65_536, HUGE_BYTES // 65_536)
            return StreamingResponse(_stream(blocks), media_type="application/json")
    return Response(media_type="application/json")


def event_stream(
    request: Request, events: Iterable[Any], fault: Fault | None, *, status: int = 200, done: bool = False
) -> Response:
    """Return server-sent events, in the form and with the end that a fault gives them."""
    name = fault.name if fault else None
    packed = [_dumps(event) for event in events] + ([b"[DONE]"] if done else [])
    packets = [b"data: %s\n\n" % event for event in packed]
    if name == "split_utf8":
        whole = b"".join(packets)
        packets = [whole[at : at + 7] for at in range(0, len(whole), 7)]  # 7 is no multiple of a character's length
    elif name == "multi_line":  # a line break is white space between the members of a JSON object
        packets = [b"data: " + event.replace(b'","', b'",\ndata: "') + b"\n\n" for event in packed]
    elif name == "raw_lines":
        packets = [event + b"\n" for event in packed]
    elif name == "keep_alives":
        packets = [b": keep-alive\n\n\n\ndata:%s\n\n" % event for event in packed]
    body = _stream(packets, request if name == "broken_off" else None)
    headers = {"cache-control": "no-cache", **(fault.headers if fault else {})}
    return StreamingResponse(body, status, headers, media_type="text/event-stream")


async def _stream(packets: Iterable[bytes], broken: Request | None = None) -> AsyncIterator[bytes]:
    for packet in packets:
        yield packet
    if broken is not None:
        broken.state.transport.close()
        await _disconnected(broken)


async def _drip() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(0.1)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# --- Documents and answers


class Passage(NamedTuple):
    """A retrieved passage; `page` is 1-based."""

    document: str
    page: int
    text: str
    score: float


@dataclass(slots=True)
class Collection:
    """Documents: file name -> the texts of its pages."""

    name: str
    info: dict[str, Any] = field(default_factory=dict)
    metadata_schema: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, list[str]] = field(default_factory=dict)
    revision: int = 0

    def pages(self) -> Iterator[PageText]:
        """Yield every page with its offset in the document, whose pages are joined by form feeds."""
        for name, texts in sorted(self.documents.items()):
            start = 0
            for number, text in enumerate(texts, 1):
                yield PageText(name, number, start, text)
                start += len(text) + len(PAGE_BREAK)


class Options(NamedTuple):
    """The options of the command line."""

    seed: int = 0
    faults: FaultScript = FaultScript()
    latency_ms: float = 0.0
    canned: bool = False
    ingestion_ms: float = 0.0
    media_every: int = 5
    page_base: int = 1
    unready: str | None = None
    api_key: str | None = None


class Question(NamedTuple):
    """A question without its mark, and what goes wrong with this attempt."""

    interface: str
    text: str
    fault: Fault | None


class Site:
    """The state that all interfaces share: documents, counts and faults."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.collections: dict[str, Collection] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.running: set[asyncio.Task[None]] = set()
        self._systems: dict[tuple[tuple[str, int], ...], EmbeddedSystem] = {}
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero."""
        self.paths: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.attempts: dict[str, Counter[str]] = {}
        self.answered: dict[str, Counter[str]] = {}

    def counts(self, *, by_question: bool) -> dict[str, Any]:
        """Return the number of requests, attempts, questions and answers; with the questions only if requested."""
        counts = {
            "requests": self.paths.total(),
            "attempts": sum(asked.total() for asked in self.attempts.values()),
            "questions": sum(map(len, self.attempts.values())),
            "answered": sum(map(len, self.answered.values())),
            "answered_twice": sum(times > 1 for asked in self.answered.values() for times in asked.values()),
            "paths": self.paths,
            "faults": self.faults,
        }
        if by_question:
            counts |= {"attempts_by_question": self.attempts, "answered_by_question": self.answered}
        return counts

    def ask(self, interface: str, prompt: str, *, counted: str | None = None) -> Question:
        """Count an attempt at a question, under another text if given, and decide whether it fails.

        Raises:
            ValueError: The question's mark names no fault.
        """
        mark = FAULT_MARK.search(prompt)
        text = FAULT_MARK.sub("", prompt, count=1)
        asked = self.attempts.setdefault(interface, Counter())
        key = _count_key(FAULT_MARK.sub("", counted or prompt, count=1))
        asked[key] += 1
        if mark is None:
            fault = self.options.faults.draw(text, asked[key], self.options.seed)
        else:
            fault = Fault(_known_fault(mark["name"]), mark["after"])
        if fault is not None:
            self.faults[fault.name] += 1
        return Question(interface, text, fault)

    def count_answer(self, question: Question, counted: str | None = None) -> None:
        """Count a correct answer."""
        if question.fault is None or question.fault.name in DISGUISING:
            self.answered.setdefault(question.interface, Counter())[_count_key(counted or question.text)] += 1

    def missing(self, names: Sequence[str]) -> str | None:
        """Return the error of the first collection that does not exist; canned answers need none."""
        missing = [name for name in names if name not in self.collections and not self.options.canned]
        if not missing:
            return None
        hint = "Ensure a collection is created using POST /collection endpoint first."
        return f"Collection {missing[0]} does not exist. {hint}"

    async def answer(self, question: str, names: Sequence[str]) -> tuple[str, list[Passage]]:
        """Return an answer and its passages, best first; a canned one if there are no documents."""
        if self.options.latency_ms:
            await asyncio.sleep(self.options.latency_ms / 1000)
        collections = [self.collections[name] for name in names if name in self.collections]
        if self.options.canned or not any(collection.documents for collection in collections):
            return canned_answer(question, [name for found in collections for name in found.documents])
        key = tuple((collection.name, collection.revision) for collection in collections)
        if key not in self._systems:
            pages = [page for collection in collections for page in collection.pages()]
            if len(self._systems) >= 8:
                self._systems.clear()
            self._systems[key] = EmbeddedSystem(pages, EmbeddedSettings(k=25))
        found = await self._systems[key].answer(Query("", question))
        passages = [Passage(c.document, c.page or 1, c.text, c.score or 0.0) for c in found.contexts]
        base = self.options.page_base
        text = re.sub(r":(\d+)(?=:\d+-\d+\])", lambda match: f":{int(match[1]) - 1 + base}", found.answer or "")
        return text, passages

    async def ingest(
        self, collection: Collection, files: Sequence[tuple[str, bytes]], *, replace: bool, task: dict[str, Any]
    ) -> None:
        """Read files into a collection, and record in the task what becomes of each."""
        result = task["result"]
        for name, content in files:
            error = await self._ingest_file(collection, name, content, replace=replace)
            task["nv_ingest_status"]["document_wise_status"][name] = "failed" if error else "completed"
            if error:
                result["failed_documents"].append({"document_name": name, "error_message": error})
            else:
                result["documents"].append(_listed(name, len(content)))
                result["documents_completed"] += 1
                task["nv_ingest_status"]["extraction_completed"] += 1
        has_failed = bool(result["failed_documents"]) and not result["documents"]
        result["batches_completed"] = 1
        result["message"] = f"Document upload job {'failed' if has_failed else 'successfully completed'}."
        task["state"] = "FAILED" if has_failed else "FINISHED"

    async def _ingest_file(self, collection: Collection, name: str, content: bytes, *, replace: bool) -> str | None:
        if not name.lower().endswith(SUPPORTED):
            return f"Unsupported file type for {name}. Supported: {', '.join(SUPPORTED)}"
        if name in collection.documents and not replace:
            return f"Document {name} already exists. Use update document API instead."
        await asyncio.sleep(self.options.ingestion_ms / 1000)
        try:
            texts = [] if self.options.canned else await asyncio.to_thread(_read_texts, name, content)
        except (DocumentError, UnicodeDecodeError) as error:
            return f"Document {name} could not be read: {error}"
        collection.documents[name] = texts
        collection.revision += 1
        return None


def canned_answer(question: str, documents: Sequence[str]) -> tuple[str, list[Passage]]:
    """Return an answer that follows from the question's hash, with passages of these or of invented documents."""
    digest = hashlib.blake2b(question.encode(errors="surrogatepass"), digest_size=16).digest()
    passages = []
    for rank in range(2):
        number = int.from_bytes(digest[rank * 4 : rank * 4 + 4])
        name = documents[number % len(documents)] if documents else f"canned_{number % 50}.pdf"
        passages.append(Passage(name, number % 7 + 1, f"Passage {number}.", 1.0 / (rank + 1)))
    return f"Answer {digest.hex()[:12]} naïve & short.", passages


async def answer_from_prompt(prompt: str) -> str | None:
    """Return an answer from the numbered passages of a prompt with a citation; None for any other prompt."""
    before, separator, question = prompt.rpartition("\n\nQuestion: ")
    parts = re.split(r"(?m)^\[(\d+)\][^\n]*\n", before)[1:]
    if not separator or not parts:
        return None
    pages = [PageText(number, 1, 0, text.strip()) for number, text in zip(parts[::2], parts[1::2], strict=True)]
    found = await EmbeddedSystem(pages, EmbeddedSettings()).answer(Query("-", question))
    return re.sub(r"\[(\d+):\d+:\d+-\d+\]", r"[\1]", found.answer or "")


def _read_texts(name: str, content: bytes) -> list[str]:
    return [content.decode()] if name.lower().endswith(".txt") else read_texts(content)


def _count_key(text: str) -> str:
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return text if len(text) <= 160 else f"{text[:160]}… {digest[:12]}"


# --- OpenAI


class ChatPart(pydantic.BaseModel):
    """The base of everything in a chat request: types are not converted, and unknown fields are refused."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class ChatTurn(ChatPart):
    """A message of a conversation; of its parts only text is read."""

    role: Literal["system", "assistant", "user", "function", "tool", "developer"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    function_call: Any = None
    audio: Any = None
    annotations: Any = None

    @property
    def text(self) -> str:
        """The text of the message."""
        return " ".join(part.get("text", "") for part in _parts(self.content))


class NamedSchema(ChatPart):
    """A JSON Schema that an answer has to have."""

    name: str
    description: str | None = None
    form: dict[str, Any] | None = pydantic.Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(ChatPart):
    """The form of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class ChatRequest(ChatPart):
    """The body of `POST /chat/completions`; documented fields without a type here have no effect."""

    model: str
    messages: list[ChatTurn] = pydantic.Field(min_length=1)
    n: int | None = pydantic.Field(None, ge=1, le=128)
    temperature: float | None = pydantic.Field(None, ge=0, le=2)
    top_p: float | None = pydantic.Field(None, ge=0, le=1)
    max_tokens: int | None = pydantic.Field(None, ge=1)
    max_completion_tokens: int | None = pydantic.Field(None, ge=1)
    frequency_penalty: float | None = pydantic.Field(None, ge=-2, le=2)
    presence_penalty: float | None = pydantic.Field(None, ge=-2, le=2)
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    user: str | None = None
    audio: Any = None
    function_call: Any = None
    functions: Any = None
    logit_bias: Any = None
    metadata: Any = None
    modalities: Any = None
    parallel_tool_calls: Any = None
    prediction: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    reasoning_effort: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    store: Any = None
    top_logprobs: Any = None
    verbosity: Any = None
    web_search_options: Any = None


# The names of JSON types in OpenAI's messages, by the beginning of pydantic's error type, and by Python's type.
EXPECTED_TYPES = {
    "string": "a string", "int": "an integer", "float": "a decimal", "bool": "a boolean", "list": "an array",
    "dict": "an object", "model": "an object",
}  # fmt: skip
GIVEN_TYPES = {
    str: "a string", int: "an integer", float: "a decimal", bool: "a boolean", list: "an array", dict: "an object",
    type(None): "null",
}  # fmt: skip


def _read_chat(body: bytes) -> ChatRequest | Response:
    """Return a chat request, or the refusal of the first thing in it that OpenAI's server refuses."""
    try:
        chat = ChatRequest.model_validate_json(body)
    except pydantic.ValidationError as error:
        return _refused_body(error)
    for number, turn in enumerate(chat.messages):
        if turn.content is None and turn.role != "assistant":
            message = "Invalid value for 'content': expected a string, got null."
            return _openai_error(400, message, f"messages[{number}].content")
    form = chat.response_format
    if form and form.type == "json_schema" and (form.json_schema is None or form.json_schema.form is None):
        name = "response_format.json_schema" + (".schema" if form.json_schema else "")
        return _openai_error(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if form and form.type == "json_object" and not any("json" in turn.text.lower() for turn in chat.messages):
        message = (
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        )
        return _openai_error(400, message, "messages")
    if chat.stream_options and not chat.stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return _openai_error(400, message, "stream_options")
    if chat.tool_choice not in (None, "auto", "none"):
        message = "Unsupported value: 'tool_choice' supports only 'auto' and 'none' with this model."
        return _openai_error(400, message, "tool_choice", "unsupported_value")
    return chat


def _refused_body(error: pydantic.ValidationError) -> Response:
    """Return OpenAI's answer to a body of the wrong form."""
    errors = error.errors(include_url=False)
    unknown = [str(one["loc"][0]) for one in errors if one["type"] == "extra_forbidden" and len(one["loc"]) == 1]
    if len(unknown) == len(errors):
        arguments = "argument" if len(unknown) == 1 else "arguments"
        return _openai_error(400, f"Unrecognized request {arguments} supplied: {', '.join(unknown)}")
    first = next(one for one in errors if one["type"] != "extra_forbidden" or len(one["loc"]) > 1)
    kind, value, limits = first["type"], first["input"], first.get("ctx", {})
    if kind == "json_invalid":
        return _openai_error(400, "We could not parse the JSON body of your request.")
    # After the field, a union's error has the name of one of its types.
    place = [part for part in first["loc"] if isinstance(part, int) or str(part).isidentifier() and part != "str"]
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    number = "decimal" if isinstance(limits.get("ge", limits.get("le")), float) else "integer"
    match kind:
        case "missing":
            message, code = f"Missing required parameter: '{param}'.", "missing_required_parameter"
        case "extra_forbidden":
            message, code = f"Unknown parameter: '{param}'.", "unknown_parameter"
        case "literal_error":
            message, code = f"Invalid value: '{value}'. Supported values are: {limits['expected']}.", "invalid_value"
            message = message.replace(" or ", ", and ")
        case "greater_than_equal":
            message = f"{number} below minimum value. Expected a value >= {limits['ge']:g}, but got {value} instead."
            message, code = f"Invalid '{param}': {message}", f"{number}_below_min_value"
        case "less_than_equal":
            message = f"{number} above maximum value. Expected a value <= {limits['le']:g}, but got {value} instead."
            message, code = f"Invalid '{param}': {message}", f"{number}_above_max_value"
        case "too_short":
            message = "empty array. Expected an array with minimum length 1, but got an empty array instead."
            message, code = f"Invalid '{param}': {message}", "empty_array"
        case _:
            expected = EXPECTED_TYPES.get(kind.partition("_")[0], "another value")
            given = GIVEN_TYPES.get(type(value), "another value")
            message = f"Invalid type for '{param}': expected {expected}, but got {given} instead."
            code = "invalid_type"
    return _openai_error(400, message, param, code)


async def list_models(site: Site, request: Request) -> Response:
    """`GET /models`."""
    return JSONResponse({"object": "list", "data": [_model_card(name) for name in MODELS]})


async def show_model(site: Site, request: Request) -> Response:
    """`GET /models/{model}`."""
    name = request.path_params["model"]
    return JSONResponse(_model_card(name)) if name in MODELS else _unknown_model(name)


async def refuse_openai_url(site: Site, request: Request) -> Response:
    """Answer requests to any other path, such as `/embeddings`."""
    message = f"Unknown request URL: {request.method} {request.url.path}. Please check the URL for typos."
    return _openai_error(404, message, code="unknown_url")


def _model_card(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "mock"}


def _unknown_model(name: str) -> Response:
    message = f"The model `{name}` does not exist or you do not have access to it."
    return _openai_error(404, message, "model", "model_not_found")


async def complete_chat(site: Site, request: Request) -> Response:
    """`POST /chat/completions`."""
    chat = _read_chat(await request.body())
    if isinstance(chat, Response):
        return chat
    if chat.model not in MODELS:
        return _unknown_model(chat.model)
    form = chat.response_format.type if chat.response_format else "text"
    given = {name for name in ("max_tokens", "temperature", "top_p", "seed") if getattr(chat, name) is not None}
    given |= {"logprobs"} if chat.logprobs else set()
    for name in sorted((MODELS[chat.model] | {"logprobs"}) & (given | {form})):
        param = "response_format" if name == form else name
        message = f"Unsupported parameter: '{param}' is not supported with this model."
        return _openai_error(400, message, param, "unsupported_parameter")
    prompt = next((turn.text for turn in reversed(chat.messages) if turn.role == "user"), "")
    counted = re.sub(r"(?m)^(DATA|END) \S+$", r"\1", prompt)  # a repeated case has another nonce
    try:
        question = site.ask("chat", prompt, counted=counted)
    except ValueError as error:
        return _openai_error(400, str(error))
    fault = question.fault
    if (failed := await fail(request, fault, _openai_fault)) is not None:
        return failed
    text, passages = await site.answer(question.text, [DEFAULT_COLLECTION])
    text = await answer_from_prompt(question.text) or text
    if chat.model == "mock-judge":
        text, passages = judge(prompt), []
    elif form != "text":
        schema = chat.response_format.json_schema if chat.response_format else None
        text = json.dumps(fill_schema(schema.form, text) if schema and schema.form else {"answer": text})
    site.count_answer(question, counted=FAULT_MARK.sub("", counted, count=1))
    return _chat_response(request, chat, text, passages, fault)


def _chat_response(
    request: Request, chat: ChatRequest, text: str, passages: Sequence[Passage], fault: Fault | None
) -> Response:
    for stop in [chat.stop] if isinstance(chat.stop, str) else chat.stop or []:
        text = text.partition(stop)[0] if stop else text
    words = text.split(" ")
    limit = chat.max_tokens or chat.max_completion_tokens or len(words)
    finish_reason = "stop" if limit >= len(words) else "length"
    words = words[:limit]
    numbers = range(chat.n or 1)  # of the choices, which are all alike
    prompt_tokens = sum(len(turn.text.split()) for turn in chat.messages)
    completion_tokens = len(words) * len(numbers)
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    citations = [
        {"document_name": p.document, "page_number": p.page, "text": p.text, "score": p.score} for p in passages
    ]
    name = fault.name if fault else None
    frame = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": chat.model}
    frame["system_fingerprint"] = "fp_mock"
    if not chat.stream:
        message = {"role": "assistant", "content": " ".join(words), "refusal": None}
        choice = {"message": message, "finish_reason": finish_reason, "logprobs": None}
        choices = [] if name == "no_generator" else [{"index": number, **choice} for number in numbers]
        if fault is not None and name in SPOILING and choices:
            return JSONResponse(_openai_fault(fault))
        body = {**frame, "object": "chat.completion", "choices": choices, "usage": usage, "citations": citations}
        return JSONResponse(body)

    def chunk(delta: dict[str, str], reason: str | None = None, number: int = 0) -> dict[str, Any]:
        choice = {"index": number, "delta": delta, "finish_reason": reason}
        return {**frame, "object": "chat.completion.chunk", "choices": [choice]}

    events: list[dict[str, Any]] = []
    for number in numbers:
        first = chunk({"role": "assistant", "content": ""}, None, number)
        events.append(first if number else first | {"citations": citations})
        events += [chunk({"content": f" {word}" if at else word}, None, number) for at, word in enumerate(words)]
        events.append(chunk({}, finish_reason, number))
    if (chat.stream_options or {}).get("include_usage"):
        events.append({**chunk({}), "choices": [], "usage": usage})
    half = events[: (len(events) + 1) // 2]
    if name == "no_generator":
        events = []
    elif name in ("cut", "broken_off"):
        events = half
    elif fault is not None and name in ("error_event", "error_text"):
        events = [*half, {**chunk({}), **_openai_fault(fault)}]
    return event_stream(request, events, fault, done=name not in ("cut", "broken_off"))


def _openai_error(status: int, message: str, param: str | None = None, code: str | None = None) -> Response:
    return JSONResponse(_openai_error_body(status, message, param, code), status)


def _openai_fault(fault: Fault) -> dict[str, Any]:
    return _openai_error_body(fault.status or 500, fault.message)


def _openai_error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def fill_schema(schema: dict[str, Any], text: str, defined: dict[str, Any] | None = None) -> Any:
    """Return the simplest value that a JSON Schema accepts, with the text where one is expected."""
    defined = schema.get("$defs", {}) if defined is None else defined
    if "$ref" in schema:
        return fill_schema(defined[schema["$ref"].rpartition("/")[2]], text, defined)
    if "anyOf" in schema:
        return fill_schema(schema["anyOf"][0], text, defined)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    match schema.get("type", "object"):
        case "string":
            return text
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "array":
            return [fill_schema(schema.get("items", {}), text, defined) for _ in range(schema.get("minItems", 0))]
        case "object":
            return {name: fill_schema(part, text, defined) for name, part in schema.get("properties", {}).items()}
    return None


def judge(prompt: str) -> str:
    """Return the reply of `mock-judge`, whose verdicts follow from the words that texts have in common."""
    section = re.search(r"(?m)^DATA (\S+)[ \t]*$", prompt)
    if section is None:
        return '{"error": "no case after a line DATA <nonce>"}'
    case, _ = json.JSONDecoder().raw_decode(prompt, prompt.index("{", section.end()))
    reply: dict[str, Any] = {"nonce": section[1]}
    reason = {"rationale": "common words"}
    if "task" not in case:
        return json.dumps({**reply, **reason, "verdict": "yes"})
    if case["task"] == "rating":
        grades = re.findall(r"\d+", prompt[prompt.rindex('"rating":') :])
        return json.dumps({**reply, **reason, "rating": max(map(int, grades))})
    cited = {text["id"]: text["text"] for text in case.get("cited_texts", ())}
    if case["task"] == "entailment":
        reply["labels"] = [{"id": claim["id"], **reason, **_entailment(claim, case, cited)} for claim in case["claims"]]
        return json.dumps(reply)
    if "answer" in case:
        reply["correctness"] = {**reason, "verdict": _correctness(case)}
    claims = {claim["id"]: claim["text"] for claim in case["claims"]}
    reply["claims"] = [
        {
            "id": claim["id"],
            **reason,
            "by_citations": _support(claim["text"], [cited[number] for number in claim["cited"]]),
            "by_contexts": _support(claim["text"], case["contexts"]),
        }
        for claim in case["claims"]
    ]
    reply["citations"] = []
    for check in case["citation_checks"]:
        texts = [claims[check["claim"]]] if check["claim"] in claims else list(claims.values())
        verdicts = [_support(text, [cited[check["cited"]]]) for text in texts]
        verdict = "supported" if "supported" in verdicts else "not_found"
        reply["citations"].append({"id": check["id"], **reason, "verdict": verdict})
    return json.dumps(reply)


def _correctness(case: dict[str, Any]) -> str:
    if re.search(r"(?i)\b(?:not (?:know|say|contain|found)|no answer|cannot)\b", case["answer"]):
        return "refused"
    return "correct" if any(_words(gold) <= _words(case["answer"]) for gold in case["gold_answers"]) else "incorrect"


def _entailment(claim: dict[str, Any], case: dict[str, Any], cited: dict[str, str]) -> dict[str, Any]:
    against = claim["against"]
    texts = [case[against]] if isinstance(against, str) else [cited[number] for number in against]
    passages = case.get("passages", ()) if isinstance(against, str) else ()
    entailing = [passage["id"] for passage in passages if _support(claim["text"], [passage["text"]]) == "supported"]
    return {"entailed": _support(claim["text"], texts) == "supported", "passages": entailing}


def _support(claim: str, texts: Sequence[str]) -> str:
    if not texts:
        return "no_text"
    return "supported" if _words(claim) <= _words(" ".join(texts)) else "not_found"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


# --- NVIDIA's RAG server


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
    text = " ".join(part.get("text", "") for part in _parts(wanted.messages[-1].content))
    question = site.ask("generate", text)
    fault = question.fault
    if fault is not None and fault.status in NVIDIA_STREAMED:
        return event_stream(request, _error_events(fault.message), fault, status=fault.status)
    if (failed := await fail(request, fault, _message)) is not None:
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
    question = site.ask("search", " ".join(part.get("text", "") for part in _parts(wanted.query)))
    if (failed := await fail(request, question.fault, _message)) is not None:
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


def _parts(content: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"text": content or ""}]


def _message(fault: Fault) -> dict[str, Any]:
    return {"message": fault.message}


# --- NVIDIA's ingestor


class CreateCollection(Documented):
    """The body of `POST /v1/collection`."""

    collection_name: str = pydantic.Field(min_length=1)
    metadata_schema: list[dict[str, Any]] = []
    embedding_dimension: int = 2048
    vdb_endpoint: str = ""
    description: str = ""
    tags: list[str] = []
    owner: str = ""
    created_by: str = ""
    business_domain: str = ""
    status: str = ""


class UploadRequest(Documented):
    """The part `data` of `POST /v1/documents`."""

    collection_name: str = DEFAULT_COLLECTION
    blocking: bool = False
    split_options: dict[str, int] = {}
    custom_metadata: list[dict[str, Any]] = []
    generate_summary: bool = False
    summary_options: dict[str, Any] | None = None
    vdb_endpoint: str = ""


class ListDocuments(pydantic.BaseModel):
    """The query of `GET /v1/documents`."""

    collection_name: str = DEFAULT_COLLECTION
    max_results: int = pydantic.Field(1000, ge=1, le=1_000_000)


async def list_collections(site: Site, request: Request) -> Response:
    """`GET /v1/collections`."""
    listed = [
        {
            "collection_name": collection.name,
            "num_entities": sum(max(1, len(texts)) for texts in collection.documents.values()),
            "metadata_schema": collection.metadata_schema,
            "collection_info": collection.info,
        }
        for collection in site.collections.values()
    ]
    message = "Collections listed successfully."
    return JSONResponse({"message": message, "total_collections": len(listed), "collections": listed})


async def create_collection(site: Site, request: Request) -> Response:
    """`POST /v1/collection`; status 200 also if the collection exists."""
    wanted = CreateCollection.model_validate_json(await request.body())
    name = wanted.collection_name
    message = f"Collection {name} already exists."
    if name not in site.collections:
        info = wanted.model_dump(include={"description", "tags", "owner", "created_by", "business_domain", "status"})
        site.collections[name] = Collection(name, info, wanted.metadata_schema)
        message = f"Collection {name} created successfully."
    return JSONResponse({"message": message, "collection_name": name})


async def delete_collections(site: Site, request: Request) -> Response:
    """`DELETE /v1/collections`."""
    names = pydantic.TypeAdapter(list[str]).validate_json(await request.body())
    deleted = [name for name in names if site.collections.pop(name, None) is not None]
    failed = [
        {"collection_name": name, "error_message": f"Collection {name} not found."}
        for name in names
        if name not in deleted
    ]
    body: dict[str, Any] = {
        "message": "Collection deletion process completed.",
        "successful": deleted,
        "failed": failed,
    }
    return JSONResponse(body | {"total_success": len(deleted), "total_failed": len(failed)})


async def upload_documents(site: Site, request: Request) -> Response:
    """`POST` (add) and `PATCH` (replace) `/v1/documents`."""
    parts = parse_multipart(await request.body(), request.headers.get("content-type", ""))
    data = next((content for name, _, content in parts if name == "data"), b"{}")
    wanted = UploadRequest.model_validate_json(data)
    files: dict[str, bytes] = {}
    repeated = []
    for field_name, filename, content in parts:
        if field_name == "documents":
            name = os.path.basename(filename or "")
            repeated += [name] if name in files else []
            files.setdefault(name, content)
    task = _new_task(list(files))
    task["result"]["total_documents"] += len(repeated)
    task["result"]["validation_errors"] = [
        {"error": f"File {name} is given twice; only the first is kept.", "metadata": {"filename": name}}
        for name in repeated
    ]
    collection = site.collections.get(wanted.collection_name)
    if collection is None:
        message = f"Collection {wanted.collection_name} does not exist. Ensure a collection is created first."
        return JSONResponse({**task["result"], "message": message})
    work = site.ingest(collection, list(files.items()), replace=request.method == "PATCH", task=task)
    if wanted.blocking:
        await work
        return JSONResponse(task["result"])
    task_id = f"task-{len(site.tasks) + 1:06d}"
    site.tasks[task_id] = task
    running = asyncio.create_task(work)
    site.running.add(running)
    running.add_done_callback(site.running.discard)
    return JSONResponse({"message": "Ingestion started in background", "task_id": task_id})


async def task_status(site: Site, request: Request) -> Response:
    """`GET /v1/status?task_id=`."""
    return JSONResponse(site.tasks.get(request.query_params.get("task_id", "")) or _new_task([], state="UNKNOWN"))


async def list_documents(site: Site, request: Request) -> Response:
    """`GET /v1/documents`: at most `max_results` of them, and their number."""
    wanted = ListDocuments.model_validate(dict(request.query_params))
    collection = site.collections.get(wanted.collection_name)
    if collection is None:
        return JSONResponse(_document_list(f"Collection {wanted.collection_name} does not exist.", [], 0), 400)
    names = sorted(collection.documents)
    message = "Document listing successfully completed."
    return JSONResponse(_document_list(message, names[: wanted.max_results], len(names)))


async def delete_documents(site: Site, request: Request) -> Response:
    """`DELETE /v1/documents`."""
    names = pydantic.TypeAdapter(list[str]).validate_json(await request.body())
    collection = site.collections.get(request.query_params.get("collection_name", ""), Collection(""))
    deleted = [name for name in names if collection.documents.pop(name, None) is not None]
    collection.revision += bool(deleted)
    return JSONResponse(_document_list("Files deleted successfully", deleted, len(deleted)))


def parse_multipart(body: bytes, content_type: str) -> list[tuple[str, str | None, bytes]]:
    """Return name, file name and content of each part of a multipart/form-data body.

    File names stay as they are: NVIDIA's servers do not decode the `%22` that clients write for a quotation mark.

    Raises:
        ValueError: The body is not multipart/form-data, or its end is missing.
    """
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if header.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise ValueError("expected a multipart/form-data body")
    first, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"))
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError("the end of the multipart body is missing")
    found = []
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        disposition = re.search(rb"(?im)^content-disposition:[ \t]*(form-data.*?)\r?$", head)
        header = Message()
        header["content-disposition"] = disposition[1].decode("latin-1") if disposition else ""
        values = {
            str(key).lower(): str(value).encode("latin-1").decode("utf-8", "surrogateescape")
            for key, value in header.get_params([], "content-disposition")
        }
        if "name" not in values:
            raise ValueError("a part has no name")
        found.append((values["name"], values.get("filename"), content))
    return found


def _new_task(names: Sequence[str], state: str = "PENDING") -> dict[str, Any]:
    result = {
        "message": "Ingestion is in progress.",
        "total_documents": len(names),
        "documents_completed": 0,
        "batches_completed": 0,
        "documents": [],
        "failed_documents": [],
        "validation_errors": [],
    }
    statuses = dict.fromkeys(names, "pending")
    progress = {"extraction_completed": 0, "document_wise_status": statuses}
    return {"state": state, "result": result, "nv_ingest_status": progress}


def _document_list(message: str, names: Sequence[str], total: int) -> dict[str, Any]:
    return {"message": message, "total_documents": total, "documents": [_listed(name) for name in names]}


def _listed(name: str, size_bytes: int = 0) -> dict[str, Any]:
    info = {"document_type": os.path.splitext(name)[1].removeprefix("."), "file_size": size_bytes}
    return {"document_name": name, "metadata": {}, "document_info": info}


# --- A JSON endpoint, and the counts


async def ask(site: Site, request: Request) -> Response:
    """`POST /ask`: a question in, a text and its sources out."""
    body = pydantic.TypeAdapter(dict[str, Any]).validate_json(await request.body())
    question = site.ask("ask", str(body.get("question", "")))
    if (failed := await fail(request, question.fault, _message)) is not None:
        return failed
    text, passages = await site.answer(question.text, [DEFAULT_COLLECTION])
    site.count_answer(question)
    sources = [{"file": p.document, "page": p.page, "chunk": p.text, "score": p.score} for p in passages]
    return JSONResponse({"result": {"text": text, "sources": sources}})


async def control(site: Site, request: Request) -> Response:
    """`GET /control`, `POST /control/reset`."""
    if request.method == "POST":
        site.reset()
        if script := await request.body():
            site.options = site.options._replace(faults=FaultScript.model_validate_json(script))
    return JSONResponse(site.counts(by_question="summary" not in request.query_params))


# --- The server

Handler = Callable[[Site, Request], Awaitable[Response]]
Interface = Mapping[tuple[str, str], Handler]  # method and path -> what answers

RAG: Interface = {
    ("POST", "/v1/generate"): generate,
    ("POST", "/v1/search"): search,
    ("GET", "/v1/health"): health,
    ("GET", "/v1/configuration"): configuration,
}
INGESTOR: Interface = {
    ("GET", "/v1/health"): health,
    ("GET", "/v1/collections"): list_collections,
    ("DELETE", "/v1/collections"): delete_collections,
    ("POST", "/v1/collection"): create_collection,
    ("GET", "/v1/documents"): list_documents,
    ("POST", "/v1/documents"): upload_documents,
    ("PATCH", "/v1/documents"): upload_documents,
    ("DELETE", "/v1/documents"): delete_documents,
    ("GET", "/v1/status"): task_status,
}
OPENAI: Interface = {
    ("GET", "/models"): list_models,
    ("GET", "/models/{model}"): show_model,
    ("POST", "/chat/completions"): complete_chat,
}
MOUNTED = (("/rag", RAG), ("/ingestor", INGESTOR), ("/openai/v1", OPENAI), ("", {**RAG, **INGESTOR}))


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with the transport in `request.state` for faults that break the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Keep the transport."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


def make_app(site: Site, alone: Mapping[int, Interface]) -> ASGIApp:
    """Return the application; a port in `alone` serves one interface, without a prefix."""

    def guard(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            await request.body()
            place = f"{request.method} {request.url.path}"
            site.paths[place] += 1
            script = site.options.faults.paths.get(place, ())
            number = site.paths[place]
            fault = Fault(script[number - 1]) if number <= len(script) and script[number - 1] != "ok" else None
            site.faults.update([fault.name] if fault is not None else [])
            given = request.headers.get("authorization", "").encode()
            key = site.options.api_key
            if key is not None and not hmac.compare_digest(given, f"Bearer {key}".encode()):
                error = _openai_error_body(401, "Incorrect API key provided.", code="invalid_api_key")
                return JSONResponse({"message": "Unauthorized", **error}, 401)
            if (failed := await fail(request, fault, _message)) is not None:
                return failed
            try:
                return await handler(site, request)
            except pydantic.ValidationError as error:
                detail = error.errors(include_url=False, include_input=False, include_context=False)
                return JSONResponse({"detail": detail}, 422)
            except ValueError as error:
                return JSONResponse({"message": str(error)}, 400)

        return respond

    async def count(request: Request) -> Response:
        return await control(site, request)

    routes = [
        Route(prefix + path, guard(handler), methods=[method])
        for prefix, interface in MOUNTED
        for (method, path), handler in interface.items()
    ]
    routes += [Route("/rag/v1/chat/completions", guard(generate), methods=["POST"])]
    routes += [Route("/v1/chat/completions", guard(complete_chat), methods=["POST"])]
    routes += [Route("/openai/v1/{path:path}", guard(refuse_openai_url), methods=["GET", "POST", "DELETE"])]
    routes += [Route("/ask", guard(ask), methods=["POST"])]
    routes += [Route("/control", count), Route("/control/reset", count, methods=["POST"])]
    everything = Starlette(routes=routes)
    by_port = {
        port: Starlette(routes=[Route(path, guard(handle), methods=[m]) for (m, path), handle in interface.items()])
        for port, interface in alone.items()
    }

    async def serve_port(scope: Scope, receive: Receive, send: Send) -> None:
        await by_port.get(scope["server"][1], everything)(scope, receive, send)

    return serve_port


def serve(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 uses a free one.")] = 0,
    rag_port: Annotated[
        int | None, typer.Option(help="A port for NVIDIA's RAG server alone, at /v1; 0 uses a free one.")
    ] = None,
    ingestor_port: Annotated[
        int | None, typer.Option(help="A port for NVIDIA's ingestor alone, at /v1; 0 uses a free one.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help=f"Folder of PDFs that are ingested as `{DEFAULT_COLLECTION}` at the start.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the faults.")] = 0,
    faults: Annotated[str, typer.Option(help="Share of the attempts that fail, such as 0.1, or a JSON script.")] = "0",
    latency_ms: Annotated[float, typer.Option(help="Time from a question to the beginning of its answer.")] = 50.0,
    canned: Annotated[
        bool, typer.Option("--canned", help="Answer from the question's hash and read no document.")
    ] = False,
    ingestion_ms: Annotated[float, typer.Option(help="Time for ingesting a document, besides reading it.")] = 0.0,
    media_every: Annotated[int, typer.Option(help="Every n-th passage is a table, chart or image; 0 for none.")] = 5,
    page_base: Annotated[int, typer.Option(min=0, max=1, help="Number of a document's first page.")] = 1,
    unready: Annotated[str | None, typer.Option(help="A dependency that /v1/health reports as down.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable with the bearer token that requests need.")
    ] = None,
    until_stdin_closes: Annotated[
        bool, typer.Option("--until-stdin-closes", help="Exit when standard input is closed.")
    ] = False,
) -> None:
    """Serve mocks of OpenAI's and NVIDIA's interfaces and a JSON endpoint on this machine."""
    try:
        value = json.loads(faults)
        script = FaultScript.model_validate(value if isinstance(value, dict) else {"rate": value})
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--faults") from None
    key = None if api_key_env is None else os.environ[api_key_env]
    site = Site(Options(seed, script, latency_ms, canned, ingestion_ms, media_every, page_base, unready, key))
    if corpus is not None:
        collection = site.collections[DEFAULT_COLLECTION] = Collection(DEFAULT_COLLECTION)
        files = [(path.name, path.read_bytes()) for path in sorted(corpus.glob("*.pdf"))]
        task = _new_task([name for name, _ in files])
        asyncio.run(site.ingest(collection, files, replace=True, task=task))
        for failed in task["result"]["failed_documents"]:
            typer.echo(failed["error_message"], err=True)
    common = _listen(port, "--port")
    rag = None if rag_port is None else _listen(rag_port, "--rag-port")
    ingestor = None if ingestor_port is None else _listen(ingestor_port, "--ingestor-port")
    url = _url(common)
    typer.echo(common.getsockname()[1])  # the first line is for programs
    typer.echo(f"OpenAI: {url}/openai/v1\nNVIDIA: {url}/rag and {url}/ingestor\nJSON:   {url}/ask")
    alone = {}
    for name, listening, interface in (("RAG server", rag, RAG), ("ingestor", ingestor, INGESTOR)):
        if listening is not None:
            typer.echo(f"NVIDIA's {name} alone: {_url(listening)}")
            alone[listening.getsockname()[1]] = interface
    sys.stdout.flush()
    if until_stdin_closes:
        threading.Thread(target=_exit_with_stdin, daemon=True).start()
    config = uvicorn.Config(
        make_app(site, alone), http=Protocol, loop="asyncio", ws="none", lifespan="off", log_level="error",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[one for one in (common, rag, ingestor) if one is not None])


def _listen(port: int, option: str) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError as error:
        raise typer.BadParameter(f"port {port}: {os.strerror(error.errno or 0)}", param_hint=option) from None


def _url(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def _exit_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


class RunningServer(NamedTuple):
    """A mock server in a child process."""

    port: int
    process_id: int

    @property
    def url(self) -> str:
        """The base URL of the JSON endpoint, and of NVIDIA's servers without a prefix."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def rag(self) -> str:
        """The base URL of NVIDIA's RAG server."""
        return f"{self.url}/rag"

    @property
    def ingestor(self) -> str:
        """The base URL of NVIDIA's ingestor."""
        return f"{self.url}/ingestor"

    @property
    def openai(self) -> str:
        """The base URL of the OpenAI interface."""
        return f"{self.url}/openai/v1"

    def counts(self, *, by_question: bool = True) -> dict[str, Any]:
        """Return the number of requests since the start or the last `reset`."""
        counts: dict[str, Any] = json.loads(self._request("GET", "/control" if by_question else "/control?summary"))
        return counts

    def reset(self, **faults: Any) -> None:
        """Set the counts to zero, and replace the faults if fields of a `FaultScript` are given."""
        self._request("POST", "/control/reset", json.dumps(faults) if faults else None)

    def _request(self, method: str, path: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextlib.contextmanager
def mock_rag_server(
    *, faults: float | dict[str, Any] = 0, latency_ms: float = 0.0, api_key: str | None = None, **options: Any
) -> Iterator[RunningServer]:
    """Run the server in a child process that ends with the block, or with this process.

    Args:
        faults: A rate, or the fields of a `FaultScript`.
        latency_ms: Time from a question to the beginning of its answer.
        api_key: The bearer token that requests need.
        options: Further options of the command line, such as `canned=True`.

    Raises:
        RuntimeError: The server did not start.
    """
    given = {"faults": json.dumps(faults), "latency_ms": latency_ms, **options}
    if api_key is not None:
        given["api_key_env"] = API_KEY_ENV
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--until-stdin-closes"]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        command += [option] if value is True else [f"{option}={value}"]
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    kept |= {} if api_key is None else {API_KEY_ENV: api_key}
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        try:
            assert child.stdout is not None
            line = child.stdout.readline().strip()
            if not line.isdigit():
                child.wait()
                errors.seek(0)
                raise RuntimeError(f"The mock server did not start: {errors.read().decode(errors='replace').strip()}")
            yield RunningServer(int(line), child.pid)
        finally:
            child.kill()
            child.communicate()


if __name__ == "__main__":
    typer.run(serve)
