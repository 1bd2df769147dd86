"""Faults that a request can meet, chosen by a mark in the question, a rate or a script."""

import asyncio
import email.utils
import hashlib
import itertools
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated, Any, NamedTuple

import pydantic
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

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


def known_fault(name: str) -> str:
    """Return the name of a fault; raise ValueError for any other."""
    if not FAULT_NAME.fullmatch(name):
        raise ValueError(f"the name of a fault: {', '.join(['http_<status>', *REPLACING, *SPOILING, *DISGUISING])}")
    return name


FaultName = Annotated[str, pydantic.AfterValidator(known_fault)]


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
