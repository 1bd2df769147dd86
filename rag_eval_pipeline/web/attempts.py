"""One attempt at an HTTP request: what arrived of the response, why it failed, and whether it may be retried."""

import asyncio
import socket
import ssl
import time
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import httpx

from rag_eval_pipeline.web.content_types import DEFLATED, TruncatedBody, inflated
from rag_eval_pipeline.web.rate_limits import RETRIED_CODES, RETRIED_STATUSES
from rag_eval_pipeline.web.sse import Event, EventParser

# Nothing was sent yet, so nothing is counted or billed.
UNSENT_CODES = frozenset({"connection_refused", "dns", "tls", "connect_timeout"})
CUT_CODES = frozenset({"connection_broken", "connection_reset"})


class AttemptFault(Exception):
    """Why an attempt gave no whole response: a code of `EndpointError`, and a description."""

    def __init__(self, code: str, found: str) -> None:
        super().__init__(code, found)
        self.code = code
        self.found = found


class ReceivedResponse:
    """What has arrived of a response so far, complete or not; a 2xx body may be parsed as server-sent events."""

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
        """Whether the HTTP status is 2xx."""
        return self.status is not None and 200 <= self.status < 300

    async def read(self, response: httpx.Response) -> None:
        """Read the headers and the body; raise `AttemptFault` if the body cannot be used."""
        self.status = response.status_code
        self.headers = response.headers
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity", *DEFLATED}:  # none was accepted, but some gateways always compress
            raise AttemptFault("bad_response", f"a body in the encoding {encoding[:40]!r}, which was not asked for")
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 20 and int(announced) > self._max_bytes:
            raise AttemptFault("body_too_large", f"a body of {announced} bytes, more than {self._max_bytes}")
        parser = self._parser if self.is_success else None
        chunks = response.aiter_raw()
        try:
            async for chunk in inflated(chunks, self._max_bytes) if encoding in DEFLATED else chunks:
                if len(self.body) + len(chunk) > self._max_bytes:
                    raise AttemptFault("body_too_large", f"a body of more than {self._max_bytes} bytes")
                self.body += chunk
                if parser is not None:
                    self.events += parser.feed(chunk, (time.monotonic() - self._started) * 1000)
        except zlib.error as error:
            raise AttemptFault("bad_response", f"a body that is not {encoding}: {error}") from error
        except TruncatedBody as error:
            raise AttemptFault("connection_broken", "the compressed body is cut short") from error
        if parser is not None:
            self.events += parser.close((time.monotonic() - self._started) * 1000)


class Outcome(NamedTuple):
    """A finished attempt, and the account of its request so far."""

    response: ReceivedResponse
    fault: AttemptFault | None
    requests: int
    elapsed_ms: float

    @property
    def is_answer(self) -> bool:
        """Whether there is a reply to return: a whole one, or a stream that broke off after its start."""
        if self.fault is None:
            return self.response.is_success
        return bool(self.response.events) and self.fault.code in CUT_CODES

    @property
    def is_retryable(self) -> bool:
        """Whether the request may be sent again."""
        if self.response.events:  # the answer had begun: asking again would pay for it twice
            return False
        return self.fault.code in RETRIED_CODES if self.fault else self.response.status in RETRIED_STATUSES


async def send_once(
    client: httpx.AsyncClient, request: httpx.Request, received: ReceivedResponse, limit_s: float
) -> AttemptFault | None:
    """Send a request and read the response; return None when it is whole, whatever its HTTP status."""
    try:
        async with asyncio.timeout(limit_s):
            response = await client.send(request, stream=True)
            try:
                await received.read(response)
            finally:
                await response.aclose()
    except AttemptFault as fault:
        return fault
    except UnicodeDecodeError as error:
        return AttemptFault("bad_response", f"a stream that is not UTF-8: {error.object[error.start : error.end]!r}")
    except TimeoutError:
        return AttemptFault("attempt_timeout", f"no whole reply within {limit_s:.3g} s")
    except httpx.ConnectTimeout:
        return AttemptFault("connect_timeout", "no connection")
    except httpx.HTTPError as error:
        return _fault_of(error)
    return None


def _fault_of(error: httpx.HTTPError) -> AttemptFault:
    causes = list(_causes(error))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if has(socket.gaierror):
        return AttemptFault("dns", "the host's name is not known")
    if has(ssl.SSLError) and isinstance(error, httpx.ConnectError):
        return AttemptFault("tls", str(error))
    if has(ConnectionRefusedError):
        return AttemptFault("connection_refused", "nothing listens there")
    if has(ConnectionResetError, BrokenPipeError):
        return AttemptFault("connection_reset", "the server reset the connection")
    if isinstance(error, httpx.ProxyError):
        return AttemptFault("connection_refused", f"the proxy answers {error}")
    if isinstance(error, httpx.ConnectError):
        return AttemptFault("connection_refused", str(error))
    ended_early = "closed connection" in str(error) or "disconnected" in str(error)
    if isinstance(error, httpx.RemoteProtocolError) and not ended_early:
        return AttemptFault("bad_response", f"what is not HTTP: {error}")
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.DecodingError):
        return AttemptFault("bad_response", str(error))
    return AttemptFault("connection_broken", str(error) or "the connection ended before the reply")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, groups included; at most 20, because causes may form a circle."""
    pending = [error]
    for _ in range(20):
        if not pending:
            return
        found = pending.pop()
        yield found
        pending += [cause for cause in (found.__cause__, found.__context__) if cause is not None]
        if isinstance(found, BaseExceptionGroup):
            pending += found.exceptions
