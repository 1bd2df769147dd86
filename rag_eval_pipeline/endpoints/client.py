"""The client of one server: turns, limits, retries, and an account of every request that was sent.

All who ask a server share one `Endpoint`, so that its limits and its wish for a pause hold for all of them. No proxy or
other setting is taken from the environment, redirects are not followed, and no compressed body is asked for or taken.
"""

import asyncio
import datetime as dt
import functools
import hashlib
import logging
import random
import ssl
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from rag_eval_pipeline.endpoints.attempts import UNSENT, Fault, Received, attempt
from rag_eval_pipeline.endpoints.connections import Connections
from rag_eval_pipeline.endpoints.credentials import Credentials
from rag_eval_pipeline.endpoints.errors import EndpointError
from rag_eval_pipeline.endpoints.failures import Tried, failure_of
from rag_eval_pipeline.endpoints.limiter import Limiter
from rag_eval_pipeline.endpoints.replies import Reply, StreamReply
from rag_eval_pipeline.endpoints.retries import (
    PAUSING_STATUSES,
    RETRIED_CODES,
    RETRIED_STATUSES,
    backoff,
    retry_after,
)
from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.errors import ServiceError

__all__ = ["Endpoint", "EndpointError", "Reply", "StreamReply"]

CONNECT_MAX_S = 10.0  # a server that is there accepts within a packet's round trip; more is a full queue or a firewall


class Endpoint:
    """`async with Endpoint(settings) as endpoint`; one for a server, shared by all who ask it.

    Args:
        settings: Where and how.
        folder: To which a relative `ca_file` is relative; the working folder by default.
        seed: Of the random waits.
    """

    def __init__(self, settings: EndpointSettings, *, folder: Path | None = None, seed: int | None = None) -> None:
        self.settings = settings
        self._folder = folder or Path()
        self._random = random.Random(seed)
        self._limiter = Limiter(settings.in_flight, settings.requests_per_minute)
        self._max_bytes = int(settings.body_mb_max * 1_000_000)
        self._credentials: Credentials | None = None
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.settings.base_url!r})"

    async def __aenter__(self) -> Self:
        """Reads the secrets; asks nothing yet.

        Raises:
            ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`.
        """
        self._credentials = Credentials.read(self.settings)
        # At INFO httpx writes a line a request, at DEBUG httpcore the headers of every reply: neither is an event
        # that an operator acts on, and both quote what servers and settings say.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._connections = Connections(
            functools.partial(
                httpx.AsyncClient,
                headers={**self._credentials.headers, "Accept-Encoding": "identity", "User-Agent": "rag-eval-pipeline"},
                verify=_trust(self.settings.ca_file, self._folder),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=min(CONNECT_MAX_S, self.settings.attempt_seconds / 2)),
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connections is not None:
            await self._connections.aclose()
            self._connections = None

    def masked(self, text: str) -> str:
        """The text without this endpoint's secrets."""
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
        total_seconds: float | None = None,
    ) -> Reply:
        """The whole reply to a request.

        Args:
            method: Of HTTP.
            path: Below the base URL; empty for the base URL itself.
            json: The body, as a JSON value.
            params: Of the query.
            files: Parts of a multipart body, as httpx takes them; an open file is read from its start each time.
            data: Form fields beside the files.
            headers: Beside the endpoint's own; none that is secret.
            retried: Off for what must not be done twice.
            total_seconds: Instead of the settings'.

        Raises:
            EndpointError: Any failure after retries, a status other than 2xx included.
        """
        body = {"json": json, "params": params, "files": files, "data": data, "headers": headers}
        tried = await self._exchange(method, path, body, retried=retried, total_s=total_seconds, as_events=False)
        return Reply(**self._facts(tried))

    async def stream(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        total_seconds: float | None = None,
    ) -> StreamReply:
        """The whole stream that a request is answered by; arguments as of `request`.

        A stream that was cut before its first event is asked for again like any broken reply; after it the answer was
        under way and has been paid for, so it is returned as `cut`.

        Raises:
            EndpointError: Any failure after retries, a status other than 2xx included.
        """
        body = {"json": json, "params": params, "headers": headers}
        tried = await self._exchange(method, path, body, retried=True, total_s=total_seconds, as_events=True)
        events = [event._replace(data=self._kept(event.data.encode()).decode()) for event in tried.received.events]
        return StreamReply(**self._facts(tried), events=events, ended="done" if tried.fault is None else "cut")

    async def _exchange(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        *,
        retried: bool,
        total_s: float | None,
        as_events: bool,
    ) -> Tried:
        total_s = self.settings.total_seconds if total_s is None else total_s
        build = self._builder(method, path, body)
        attempts = 1 + (self.settings.max_retries if retried else 0)
        left_s, started, sent, number = total_s, None, 0, 0
        while True:
            number += 1
            async with self._limiter.turn():
                begun = time.monotonic()
                # The clock of a request starts when it is first sent: waiting for a turn is our wish, not the server's.
                started = begun if started is None else started
                received = Received(self._max_bytes, started, as_events=as_events)
                limit_s = min(self.settings.attempt_seconds, left_s)
                assert self._connections is not None, "an endpoint is used within `async with`"
                with self._connections.taken() as client:
                    fault = await attempt(client, functools.partial(build, client), received, limit_s)
                now = time.monotonic()
                if received.status in PAUSING_STATUSES:
                    asked_s = retry_after(received.headers.get("retry-after"), dt.datetime.now(dt.UTC))
                    if asked_s:
                        self._limiter.pause(asked_s)
            if fault is not None and fault.code == "attempt_timeout" and limit_s >= left_s:
                fault = Fault("total_timeout", f"no whole reply within {total_s:.3g} s, {number} attempts")
            sent += fault is None or fault.code not in UNSENT
            left_s -= now - begun
            tried = Tried(received, fault, sent, (now - started) * 1000)
            if tried.is_answered:
                return tried
            wait_s = self._wait(tried, number) if number < attempts else None
            if wait_s is None or wait_s >= left_s:
                raise self._failure(tried, f"{method} {self._url(path)}", number, wait_s)
            await asyncio.sleep(wait_s)
            left_s -= wait_s

    def _failure(self, tried: Tried, what: str, attempts: int, wait_s: float | None) -> EndpointError:
        no_time = "" if wait_s is None else f", and no time to wait {wait_s:.3g} s for the next"
        return failure_of(tried, what, attempts, no_time, masked=self.masked, kept=self._kept)

    def _wait(self, tried: Tried, attempts: int) -> float | None:
        """Seconds before the next attempt; None when there is to be none."""
        received, fault = tried.received, tried.fault
        # An answer that was under way is not asked for twice: it would be paid for twice.
        again = not received.events and (fault.code in RETRIED_CODES if fault else received.status in RETRIED_STATUSES)
        if not again:
            return None
        asked_s = retry_after(received.headers.get("retry-after"), dt.datetime.now(dt.UTC)) if not fault else None
        return (asked_s or 0.0) + backoff(attempts, self.settings.backoff_seconds, self._random)

    def _builder(self, method: str, path: str, body: Mapping[str, Any]) -> Callable[[httpx.AsyncClient], httpx.Request]:
        request_id = uuid.uuid4().hex
        headers = {**(body.get("headers") or {}), "X-Request-Id": request_id, "Idempotency-Key": request_id}
        given = {name: value for name, value in body.items() if value is not None and name != "headers"}

        def build(client: httpx.AsyncClient) -> httpx.Request:
            return client.build_request(method, _parsed_url(self._url(path)), headers=headers, **given)

        return build

    def _url(self, path: str) -> str:
        return f"{self.settings.base_url}/{path.lstrip('/')}" if path.strip("/") else self.settings.base_url

    def _facts(self, tried: Tried) -> dict[str, Any]:
        received = tried.received
        return {
            "status": received.status,
            "headers": received.headers,
            "body": self._kept(received.body),
            "requests": tried.requests,
            "elapsed_ms": tried.elapsed_ms,
            "raw_sha256": hashlib.sha256(received.body).hexdigest(),
            "masked": self.masked,
        }

    def _kept(self, body: bytes | bytearray) -> bytes:
        assert self._credentials is not None
        return self._credentials.masked_body(bytes(body))


@functools.lru_cache(maxsize=1000)
def _parsed_url(url: str) -> httpx.URL:
    """An address as httpx keeps it; parsing one takes a tenth of a request's time."""
    return httpx.URL(url)


@functools.cache
def _public_authorities() -> ssl.SSLContext:
    """Read once: it takes 38 ms, also for an endpoint that speaks no TLS."""
    return httpx.create_ssl_context(trust_env=False)


def _trust(ca_file: str | None, folder: Path) -> ssl.SSLContext:
    if ca_file is None:
        return _public_authorities()
    context = httpx.create_ssl_context(trust_env=False)
    try:
        context.load_verify_locations(cafile=folder / ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ServiceError("bad_ca_file", f"{folder / ca_file} is no PEM file of an authority: {error}") from None
    return context
