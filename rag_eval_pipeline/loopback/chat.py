"""The OpenAI-compatible interface: chat completions, streamed or whole, and the list of models.

The models differ in what they refuse, as real servers do: a client finds out with which of them it can ask for what.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from rag_eval_pipeline.loopback.answering import FoundAnswer
from rag_eval_pipeline.loopback.bodies import parsed, send_json
from rag_eval_pipeline.loopback.breaking import break_answer, in_disguise, retry_after, status_of
from rag_eval_pipeline.loopback.faults import BREAKING, SPOILING, Fault
from rag_eval_pipeline.loopback.handed_passages import answer_from_passages
from rag_eval_pipeline.loopback.ingestor_shapes import DEFAULT_COLLECTION
from rag_eval_pipeline.loopback.judging import JUDGE_MODEL, judge_reply, without_nonce
from rag_eval_pipeline.loopback.openai_shapes import ChatRequest
from rag_eval_pipeline.loopback.schema_filling import fill
from rag_eval_pipeline.loopback.site import Site
from rag_eval_pipeline.loopback.wire import Connection, Request

FINGERPRINT = "fp_loopback"
# What each model refuses with status 400, by the request's own name of it.
REFUSED: dict[str, frozenset[str]] = {
    "loopback": frozenset(),
    JUDGE_MODEL: frozenset(),
    "loopback-object": frozenset({"json_schema"}),
    "loopback-plain": frozenset({"json_schema", "json_object", "seed"}),
    "loopback-reasoning": frozenset({"max_tokens", "temperature", "top_p"}),
}
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


class ChatServer:
    """Answers chats over the default collection, and judges.

    Args:
        site: The server's state.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def models(self, _: Request, connection: Connection) -> None:
        """`GET /models`."""
        cards = [{"id": name, "object": "model", "created": 0, "owned_by": "loopback"} for name in REFUSED]
        await send_json(connection, {"object": "list", "data": cards})

    async def completions(self, request: Request, connection: Connection) -> None:
        """`POST /chat/completions`."""
        wanted = await parsed(ChatRequest, request, connection)
        if wanted is None:
            return
        if (refused := _refused(wanted)) is not None:
            await _error(connection, *refused)
            return
        prompt = next((turn.text for turn in reversed(wanted.messages) if turn.role == "user"), "")
        try:
            question = self._site.asked("chat", prompt, counted=without_nonce(prompt))
        except ValueError as error:
            await _error(connection, 400, str(error))
            return
        if question.fault is not None and await _failed(question.fault, connection):
            return
        found = await self._site.answer(question, [DEFAULT_COLLECTION])
        said = await answer_from_passages(prompt) or _said(wanted, found)
        answer = _Completion(wanted, said, found, sum(len(t.text.split()) for t in wanted.messages))
        if wanted.stream:
            await _stream(connection, answer, question.fault)
        else:
            await send_json(connection, answer.whole(question.fault))
        if question.fault is None or question.fault.name not in SPOILING:
            self._site.counts.answered("chat", question.text)


class _Completion:
    """An answer in either form."""

    def __init__(self, wanted: ChatRequest, text: str, found: FoundAnswer, prompt_tokens: int) -> None:
        self.wanted = wanted
        words = text.split(" ")
        limit = wanted.max_tokens or wanted.max_completion_tokens or len(words)
        self.text = " ".join(words[:limit])
        self.finish_reason = "stop" if limit >= len(words) else "length"
        written = min(limit, len(words))
        self.usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": written,
            "total_tokens": prompt_tokens + written,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        self.citations = [
            {"document_name": p.document, "page_number": p.page, "text": p.text, "score": p.score}
            for p in found.passages
            if wanted.model != JUDGE_MODEL
        ]
        self._frame = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": wanted.model,
            "system_fingerprint": FINGERPRINT,
        }

    def whole(self, fault: Fault | None) -> dict[str, Any]:
        """In one object; a fault of `SPOILING` leaves an error or no choice."""
        if fault is not None and fault.name in SPOILING:
            if fault.name == "no_generator":
                return {**self._frame, "object": "chat.completion", "choices": [], "usage": self.usage}
            return _fault_body("The server was told to fail after it had begun.", 500)
        message = {"role": "assistant", "content": self.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason, "logprobs": None}
        body = {**self._frame, "object": "chat.completion", "choices": [choice], "usage": self.usage}
        return body | {"citations": self.citations}

    def chunks(self) -> list[dict[str, Any]]:
        """As a stream's events."""
        words = self.text.split(" ")
        pieces = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
        chunks = [self._chunk({"role": "assistant", "content": ""}) | {"citations": self.citations}]
        chunks += [self._chunk({"content": piece}) for piece in pieces]
        chunks.append(self._chunk({}, self.finish_reason))
        if self.wanted.stream_options is not None and self.wanted.stream_options.include_usage:
            chunks.append({**self._chunk({}), "choices": [], "usage": self.usage})
        return chunks

    def _chunk(self, delta: Mapping[str, str], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {**self._frame, "object": "chat.completion.chunk", "choices": [choice]}


def _said(wanted: ChatRequest, found: FoundAnswer) -> str:
    if wanted.model == JUDGE_MODEL:
        return judge_reply(wanted.messages)
    form = wanted.response_format
    if form is None or form.type == "text":
        return found.text
    schema = (form.json_schema or {}).get("schema", {}) if form.type == "json_schema" else {}
    value = fill(schema, found.text) if schema else {"answer": found.text}
    return msgspec.json.encode(value).decode()


def _refused(wanted: ChatRequest) -> tuple[int, str, str] | None:
    """Status, message and parameter, where the model does not take the request."""
    if wanted.model not in REFUSED:
        return 404, f"The model `{wanted.model}` does not exist.", "model"
    form = wanted.response_format.type if wanted.response_format else "text"
    given = {name for name in ("max_tokens", "temperature", "top_p", "seed") if getattr(wanted, name) is not None}
    for name in sorted(REFUSED[wanted.model] & (given | {form})):
        if name == form:
            return (
                400,
                f"Invalid parameter: 'response_format' of type '{form}' is not supported with this model.",
                ("response_format"),
            )
        instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
        return 400, f"Unsupported parameter: '{name}' is not supported with this model.{instead}", name
    return None


async def _stream(connection: Connection, answer: _Completion, fault: Fault | None) -> None:
    name = fault.name if fault else None
    events = [msgspec.json.encode(chunk) for chunk in answer.chunks()]
    half = events[: (len(events) + 1) // 2]
    if name == "no_generator":
        events = []
    elif name in ("cut", "broken_off"):
        events = half
    elif name in ("error_event", "error_text"):
        failure = {**answer.chunks()[-1], **_fault_body("The server was told to fail after it had begun.", 500)}
        events = [*half, msgspec.json.encode(failure)]
    is_whole = name not in ("cut", "broken_off")
    connection.begin()
    await connection.write(b": LOOPBACK PROCESSING\n\n")
    for packet in in_disguise([*events, b"[DONE]"] if is_whole else events, name):
        await connection.write(packet)
    if name == "broken_off":
        connection.hang_up()
    else:
        connection.finish()


async def _failed(fault: Fault, connection: Connection) -> bool:
    """Whether a fault stood in for the answer."""
    if fault.name in BREAKING:
        await break_answer(connection, fault)
        return True
    status = status_of(fault)
    if status is None:
        return False
    message = f"The server was told to answer with status {status}."
    await send_json(connection, _fault_body(message, status), status, retry_after(fault))
    return True


async def _error(connection: Connection, status: int, message: str, param: str | None = None) -> None:
    await send_json(connection, _fault_body(message, status, param), status)


def _fault_body(message: str, status: int, param: str | None = None) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}
