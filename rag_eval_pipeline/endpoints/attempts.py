"""One attempt at a request: what arrived within the limits, and which fault ended it."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import httpx

from rag_eval_pipeline.endpoints.events import Event, EventParser


class Fault(NamedTuple):
    """Why an attempt gave no whole reply: a code of `EndpointError`, and what to say of it."""

    code: str
    detail: str


# Faults of connecting: nothing was sent yet, so nothing is counted or billed.
UNSENT = frozenset({"connection_refused", "dns", "tls", "connect_timeout"})


class _Refused(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code)
        self.fault = Fault(code, detail)


class Received:
    """What has arrived so far; complete or not, it is what an error can tell of.

    Args:
        max_bytes: Of the body.
        started: `time.monotonic()` from which events are timed.
        as_events: Whether a good body is to be read as server-sent events.
    """

    def __init__(self, max_bytes: int, started: float, *, as_events: bool) -> None:
        self.status: int | None = None
        self.headers = httpx.Headers()
        self.body = bytearray()
        self.events: list[Event] = []
        self._max_bytes = max_bytes
        self._started = started
        self._parser = EventParser(errors="strict") if as_events else None

    @property
    def is_success(self) -> bool:
        """The server took the request and means the body as its answer."""
        return self.status is not None and 200 <= self.status < 300

    def begin(self, response: httpx.Response) -> None:
        """Takes status and headers."""
        self.status = response.status_code
        self.headers = response.headers
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity"}:
            # None was accepted. Decoding it anyway would let a small body become a large one.
            raise _Refused("bad_response", f"a body in the encoding {encoding[:40]!r}, which was not asked for")
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 20 and int(announced) > self._max_bytes:
            raise _Refused("body_too_large", f"a body of {announced} bytes, more than {self._max_bytes}")

    def take(self, chunk: bytes) -> None:
        """Takes a part of the body."""
        if len(self.body) + len(chunk) > self._max_bytes:
            raise _Refused("body_too_large", f"a body of more than {self._max_bytes} bytes")
        self.body += chunk
        if self._parser is not None and self.is_success:
            self.events += self._parser.feed(chunk, self._at_ms())

    def end(self) -> None:
        """The body is whole."""
        if self._parser is not None and self.is_success:
            self.events += self._parser.close(self._at_ms())

    def _at_ms(self) -> float:
        return (time.monotonic() - self._started) * 1000


async def attempt(
    client: httpx.AsyncClient, build: Callable[[], httpx.Request], received: Received, seconds: float
) -> Fault | None:
    """Sends a request and receives its reply into `received`.

    Args:
        client: Which sends; it follows no redirects.
        build: Makes the request: a body is used up by sending it.
        received: Is filled, also when the attempt fails.
        seconds: Wall clock for all of it.

    Returns:
        None when the reply is whole, whatever its HTTP status.
    """
    try:
        async with asyncio.timeout(seconds):
            response = await client.send(build(), stream=True)
            try:
                received.begin(response)
                async for chunk in response.aiter_raw():
                    received.take(chunk)
                received.end()
            finally:
                await response.aclose()
    except _Refused as refused:
        return refused.fault
    except UnicodeDecodeError as error:
        return Fault("bad_response", f"a stream that is not UTF-8: {error.object[error.start : error.end]!r}")
    except TimeoutError:
        return Fault("attempt_timeout", f"no whole reply within {seconds:.3g} s")
    except httpx.ConnectTimeout:
        return Fault("connect_timeout", "no connection")
    except httpx.HTTPError as error:
        return _fault_of(error)
    return None


def _fault_of(error: httpx.HTTPError) -> Fault:
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return Fault("dns", "the host's name is not known")
    if any(isinstance(cause, ssl.SSLError) for cause in causes) and isinstance(error, httpx.ConnectError):
        return Fault("tls", str(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return Fault("connection_refused", "nothing listens there")
    if any(isinstance(cause, ConnectionResetError | BrokenPipeError) for cause in causes):
        return Fault("connection_reset", "the server reset the connection")
    if isinstance(error, httpx.ConnectError):
        return Fault("connection_refused", str(error))
    if isinstance(error, httpx.RemoteProtocolError) and not _is_early_end(str(error)):
        return Fault("bad_response", f"what is not HTTP: {error}")
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.DecodingError):
        return Fault("bad_response", str(error))
    return Fault("connection_broken", str(error) or "the connection ended before the reply")


def _is_early_end(text: str) -> bool:
    return "closed connection" in text or "disconnected" in text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen = 0
    pending = [error]
    while pending and seen < 20:
        found = pending.pop()
        if found is None:
            continue
        seen += 1
        yield found
        pending += [found.__cause__, found.__context__]
        if isinstance(found, BaseExceptionGroup):
            pending += found.exceptions
