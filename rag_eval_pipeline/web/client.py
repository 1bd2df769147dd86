"""HTTP client of one trusted server, such as a RAG system or a judge: limits, retries, and an account of every request.

All callers of a server share one `Endpoint`, so that its limits and its `Retry-After` hold for all of them. No proxy or
other setting is taken from the environment, redirects are not followed, and no compressed body is asked for.
"""

import asyncio
import contextlib
import datetime as dt
import functools
import hashlib
import logging
import random
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec

from rag_eval_pipeline.errors import EndpointError, Failure, InputError, ServiceError
from rag_eval_pipeline.web.attempts import CUT_CODES, UNSENT_CODES, AttemptFault, Outcome, ReceivedResponse, send_once
from rag_eval_pipeline.web.rate_limits import RETRIED_STATUSES, RateLimiter, backoff, retry_after
from rag_eval_pipeline.web.server_settings import Credentials, EndpointSettings
from rag_eval_pipeline.web.sse import Event
from rag_eval_pipeline.web.tls import tls_context

CONNECT_MAX_S = 10.0  # a server that is there accepts within a packet's round trip; more is a full queue or a firewall
EXCERPT_BYTES = 500  # of a body that a message quotes
PAUSING_STATUSES = frozenset({429, 503})  # with Retry-After, the server means all callers


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole response with a 2xx status.

    Args:
        body: As received, decoded, with the secrets that the server quoted masked.
        requests: HTTP requests, failed attempts included.
        elapsed_ms: From the first sending to the last byte.
        raw_sha256: Of the body as received, decoded.
        masked: Masks the endpoint's secrets in a text.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    requests: int
    elapsed_ms: float
    raw_sha256: str
    masked: Callable[[str], str] = field(repr=False)

    def json(self) -> Any:
        """Return the body's JSON value.

        Raises:
            EndpointError: `bad_response` with the first 500 bytes.
        """
        try:
            return msgspec.json.decode(self.body.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self.bad("JSON") from None

    def bad(self, expected: str) -> EndpointError:
        """Return the error `bad_response`, naming what was expected instead of this body."""
        found = repr(self.body[:EXCERPT_BYTES]) if self.body else "an empty body"
        return self.failure("bad_response", f"expected {expected}, found {found}", body=self.body)

    def failure(
        self,
        code: str,
        message: str,
        *,
        status: Failure | None = None,
        partial: str | None = None,
        body: bytes | None = None,
    ) -> EndpointError:
        """Return an error about this reply, with its account."""
        return EndpointError(
            code,
            self.masked(message),
            status=status,
            requests=self.requests,
            partial=partial.encode("utf-8", "replace") if partial else None,
            elapsed_ms=self.elapsed_ms,
            http_status=self.status,
            body=body,
            raw_sha256=self.raw_sha256,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReply(Reply):
    """A stream with a 2xx status, read to its end or to where it broke off; events have the time of their last byte."""

    events: list[Event] = field(repr=False)
    is_cut: bool
    """Whether the connection ended before the body did."""


class Endpoint:
    """`async with Endpoint(settings) as endpoint`; one for a server, shared by all its callers.

    Args:
        folder: What a relative `ca_file` is relative to.
        seed: Of the random waits.
    """

    def __init__(self, settings: EndpointSettings, *, folder: Path | None = None, seed: int | None = None) -> None:
        self.settings = settings
        self._folder = folder or Path()
        self._random = random.Random(seed)
        rate = settings.requests_per_minute
        self._limiter = RateLimiter(settings.in_flight, 60.0 / rate if rate else 0.0)
        self._max_bytes = int(settings.body_mb_max * 1_000_000)
        self._credentials: Credentials | None = None
        self._tls: ssl.SSLContext | None = None  # while it is open
        self._clients: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []

    def __repr__(self) -> str:
        return f"Endpoint({self.settings.base_url!r})"

    async def __aenter__(self) -> Self:
        """Read the secrets; nothing is requested yet.

        Raises:
            ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`.
        """
        self._credentials = Credentials.read(self.settings)
        # httpx logs each request and httpcore the headers of each response; both may quote secrets.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._tls = _tls_context(self.settings.ca_file, self._folder)
        return self

    async def __aexit__(self, *error: object) -> None:
        for client in self._clients:
            await client.aclose()
        self._clients, self._idle, self._tls = [], [], None

    @contextlib.contextmanager
    def _client(self) -> Iterator[httpx.AsyncClient]:
        """Lend a client of one connection: the last one used, whose connection is most likely still open.

        httpx looks through all connections of a client at every step of a request: with 64 in flight in one client, a
        request takes ten times the processor time (bench/evaluation.py measures both).
        """
        assert self._credentials is not None
        assert self._tls is not None, "an endpoint is used within `async with`"
        if self._idle:
            client = self._idle.pop()
        else:
            client = httpx.AsyncClient(
                headers={**self._credentials.headers, "Accept-Encoding": "identity", "User-Agent": "rag-eval-pipeline"},
                verify=self._tls,
                proxy=self._credentials.proxy_url,
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=min(CONNECT_MAX_S, self.settings.attempt_seconds / 2)),
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            )
            self._clients.append(client)
        try:
            yield client
        finally:
            self._idle.append(client)

    def masked(self, text: str) -> str:
        """Return the text without this endpoint's secrets."""
        return text if self._credentials is None else self._credentials.masked(text)

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        files: Sequence[Any] | None = None,
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        retried: bool = True,
    ) -> Reply:
        """Send a request and return the whole response.

        Args:
            path: Below the base URL; empty for the base URL itself.
            json: As for httpx, like `params`, `files` and `data`; an open file is read from its start each time.
            headers: Further ones; none may be secret.
            retried: False for a request that must not be repeated.

        Raises:
            EndpointError: Any failure after retries, a status other than 2xx included.
        """
        body = {"json": json, "params": params, "files": files, "data": data, "headers": headers}
        outcome = await self._send(method, path, body, retried=retried, as_events=False)
        return Reply(**self._reply_fields(outcome))

    async def stream(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> StreamReply:
        """Send a request and return the whole stream of events; arguments as for `request`.

        A stream that breaks off before its first event is retried. After it, the answer has been paid for, so the
        stream is returned as it is.
        """
        body = {"json": json, "params": params, "headers": headers}
        outcome = await self._send(method, path, body, retried=True, as_events=True)
        events = [
            event._replace(data=self._masked_body(event.data.encode()).decode()) for event in outcome.response.events
        ]
        return StreamReply(**self._reply_fields(outcome), events=events, is_cut=outcome.fault is not None)

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any], *, retried: bool, as_events: bool
    ) -> Outcome:
        """Send until there is a response to return; raise the failure of the last attempt otherwise."""
        total_s = self.settings.total_seconds
        url = f"{self.settings.base_url}/{path.lstrip('/')}" if path.strip("/") else self.settings.base_url
        request_id = uuid.uuid4().hex
        headers = {**(body.get("headers") or {}), "X-Request-Id": request_id, "Idempotency-Key": request_id}
        given = {name: value for name, value in body.items() if value is not None} | {"headers": headers}
        attempts = 1 + (self.settings.max_retries if retried else 0)
        left_s, started, sent, number = total_s, None, 0, 0
        while True:
            number += 1
            async with self._limiter.acquire():
                begun = time.monotonic()
                # The total starts when the request is first sent: waiting for a turn is our limit, not the server's.
                started = begun if started is None else started
                response = ReceivedResponse(self._max_bytes, started, as_events=as_events)
                limit_s = min(self.settings.attempt_seconds, left_s)
                with self._client() as client:
                    # Built anew for each attempt: sending uses up a body.
                    request = client.build_request(method, _parsed_url(url), **given)
                    fault = await send_once(client, request, response, limit_s)
                now = time.monotonic()
                asked_s = None
                if response.status in RETRIED_STATUSES:
                    asked_s = retry_after(response.headers.get("retry-after"), dt.datetime.now(dt.UTC))
                if response.status in PAUSING_STATUSES and asked_s:
                    self._limiter.pause(asked_s)
            if fault is not None and fault.code == "attempt_timeout" and limit_s >= left_s:
                fault = AttemptFault("total_timeout", f"no whole reply within {total_s:.3g} s")
            sent += fault is None or fault.code not in UNSENT_CODES
            left_s -= now - begun
            outcome = Outcome(response, fault, sent, (now - started) * 1000)
            if outcome.is_answer:
                return outcome
            wait_s = None
            if number < attempts and outcome.is_retryable:
                wait_s = backoff(number, self.settings.backoff_seconds, self._random)
                wait_s += 0.0 if fault else asked_s or 0.0
            if wait_s is None or wait_s >= left_s:
                raise self._failure(outcome, f"{method} {url}", number, wait_s)
            await asyncio.sleep(wait_s)
            left_s -= wait_s

    def _failure(self, outcome: Outcome, request: str, attempts: int, wait_s: float | None) -> EndpointError:
        response, fault = outcome.response, outcome.fault
        body = self._masked_body(response.body) or None
        status: Failure | None = None
        if fault is not None:
            code, found = fault.code, fault.found
            if code in CUT_CODES and response.is_success and body:
                status = "truncated"
        else:
            code = "rate_limited" if response.status == 429 else f"http_{response.status}"
            found = f"HTTP {response.status}{_error_text(bytes(response.body))}"
        by = f" by the proxy {self.settings.proxy}" if self.settings.proxy else ""
        tries = "" if attempts == 1 else f" after {attempts} attempts"
        no_time = "" if wait_s is None else f", and no time to wait {_duration(wait_s)} for the next"
        return EndpointError(
            code,
            self.masked(f"{request}{by}: {found}{tries}{no_time}"),
            status=status,
            requests=outcome.requests,
            partial=body if response.is_success else None,
            elapsed_ms=outcome.elapsed_ms,
            http_status=response.status,
            body=None if response.is_success else body,
        )

    def _reply_fields(self, outcome: Outcome) -> dict[str, Any]:
        response = outcome.response
        return {
            "status": response.status,
            "headers": response.headers,
            "body": self._masked_body(response.body),
            "requests": outcome.requests,
            "elapsed_ms": outcome.elapsed_ms,
            "raw_sha256": hashlib.sha256(response.body).hexdigest(),
            "masked": self.masked,
        }

    def _masked_body(self, body: bytes | bytearray) -> bytes:
        assert self._credentials is not None
        return self._credentials.masked_body(bytes(body))


def _error_text(body: bytes) -> str:
    """Quote the message in the body of an error, in one line."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    while isinstance(value, dict):
        value = next((value[key] for key in ("error", "message", "detail") if value.get(key)), None)
    text = value if isinstance(value, str) else body[: 4 * EXCERPT_BYTES].decode("utf-8", "replace")
    line = " ".join(text.split())[:EXCERPT_BYTES]
    return f": {line!r}" if line else ""


# Parsing a URL takes a tenth of a request's processor time.
_parsed_url = functools.lru_cache(maxsize=1000)(httpx.URL)


def _tls_context(ca_file: str | None, folder: Path) -> ssl.SSLContext:
    try:
        return tls_context(None if ca_file is None else folder / ca_file)
    except InputError as error:
        raise ServiceError("bad_ca_file", str(error)) from None


def _duration(seconds: float) -> str:
    """Return a time in the unit in which people count it: `0.25 s`, `12 min`, `24 h`."""
    size, unit = next(((size, unit) for size, unit in ((3600, "h"), (60, "min")) if seconds >= 2 * size), (1, "s"))
    return f"{seconds / size:.3g} {unit}"
