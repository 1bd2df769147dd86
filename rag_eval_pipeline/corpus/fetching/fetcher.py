"""Bodies from URLs: GET through the guard, with every limit the egress policy sets.

A body is either whole or a `DocumentError`. Busy and broken servers are asked again; everything else is final.
"""

import asyncio
import datetime as dt
import email.utils
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import httpx
import stamina

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.egress.config import EgressConfig
from rag_eval_pipeline.corpus.egress.guard import GUARD_HEADER, Guard
from rag_eval_pipeline.corpus.fetching.bodies import Body, fetched_body
from rag_eval_pipeline.corpus.naming import parse_url

USER_AGENT = "Mozilla/5.0 (compatible; rag-eval-pipeline)"
REDIRECTS = {301, 302, 303, 307, 308}
BUSY = {429, 500, 502, 503, 504}
RETRY_WAIT_S = 0.3  # before the second attempt; doubled for each further one
RETRY_WAIT_MAX_S = 10.0  # also the most that a server's Retry-After can ask for

_CHUNK_BYTES = 1 << 20


class _Transient(DocumentError):
    """A failure that may pass; `wait_s` is what the server asked for."""

    def __init__(self, code: str, message: str, wait_s: float | None = None) -> None:
        super().__init__(code, message)
        self.wait_s = wait_s


class Fetcher:
    """A client behind the guard.

    Args:
        client: Sends to the guard and knows no other way out.
        guard: Its answers are told from a server's by its secret.
        config: Limits.
    """

    def __init__(self, client: httpx.AsyncClient, guard: Guard, config: EgressConfig) -> None:
        self._client = client
        self._guard = guard
        self._config = config

    async def fetch(self, url: str) -> Body:
        """The body behind a URL, after redirects.

        Raises:
            DocumentError: `bad_url`, `scheme`, `egress_blocked`, `host_unresolved`, `connect_failed`, `http_<status>`,
                `too_many_redirects`, `body_too_large`, `fetch_timeout`, `connection_broken`, `bad_encoding`,
                `empty_body`, `content_mismatch`, `unsupported_type`.
        """
        attempts = stamina.retry_context(
            on=_backoff,
            attempts=self._config.attempts,
            timeout=None,
            wait_initial=RETRY_WAIT_S,
            wait_max=RETRY_WAIT_MAX_S,
        )
        async for attempt in attempts:
            with attempt:
                try:
                    async with asyncio.timeout(self._config.fetch_limit_s):
                        return await self._follow(url)
                except TimeoutError as error:
                    raise DocumentError(
                        "fetch_timeout", f"{url}: no whole body within {self._config.fetch_limit_s:g} s"
                    ) from error
        raise AssertionError("the last attempt returns or raises")

    async def _follow(self, url: str) -> Body:
        current = url
        for _ in range(self._config.max_redirects + 1):
            request = self._client.build_request("GET", check_url(current), headers={"Connection": "close"})
            try:
                response = await self._client.send(request, stream=True)
                try:
                    location = self._redirect(response)
                    if location is None:
                        data = await self._read(response)
                        return fetched_body(data, response.headers.get("content-type", ""), str(response.url))
                finally:
                    await response.aclose()
            except httpx.ProxyError as error:
                # Only a CONNECT that the guard refused ends here; it carries the status line, "403 egress_blocked".
                code = str(error).partition(" ")[2] or "connect_failed"
                raise _guarded(code, f"{current}: refused by the egress guard") from error
            except httpx.TransportError as error:
                raise _Transient("connection_broken", f"{current}: {type(error).__name__}: {error}") from error
            current = urljoin(str(response.url), location)
        raise DocumentError("too_many_redirects", f"{url}: more than {self._config.max_redirects} redirects")

    def _redirect(self, response: httpx.Response) -> str | None:
        """Where an answer leads, or None when it is the body.

        Raises:
            DocumentError: It is neither.
        """
        refusal = response.headers.get(GUARD_HEADER, "")
        if refusal.startswith(self._guard.secret):
            reason = refusal.removeprefix(self._guard.secret).strip()
            raise _guarded(response.reason_phrase, f"{response.url}: {reason}")
        status = response.status_code
        if status in REDIRECTS and "location" in response.headers:
            return str(response.headers["location"])
        if status in BUSY:
            raise _Transient(f"http_{status}", f"{response.url}: HTTP {status}", retry_after(response))
        if not 200 <= status < 300:
            raise DocumentError(f"http_{status}", f"{response.url}: HTTP {status}")
        return None

    async def _read(self, response: httpx.Response) -> bytes:
        """The decoded body; a few kilobytes of gzip can stand for gigabytes, so the decoded size is what is limited."""
        limit = self._config.max_body_bytes
        too_large = DocumentError("body_too_large", f"{response.url}: more than {limit:,} bytes")
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"identity", "gzip", "x-gzip", "deflate"}:
            raise DocumentError("bad_encoding", f"{response.url}: sent as {encoding!r}, which was not asked for")
        decoder = None if encoding == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
        data = bytearray()
        async for raw in response.aiter_raw(_CHUNK_BYTES):
            try:
                data += raw if decoder is None else decoder.decompress(raw, limit + 1 - len(data))
            except zlib.error as error:
                raise DocumentError("bad_encoding", f"{response.url}: not {encoding}: {error}") from error
            if len(data) > limit:
                raise too_large
        if decoder is not None and data and not decoder.eof:
            raise _Transient("connection_broken", f"{response.url}: the compressed body is cut short")
        return bytes(data)


@asynccontextmanager
async def fetcher(guard: Guard) -> AsyncIterator[Fetcher]:
    """A fetcher behind a running guard; proxies named by environment variables are not used."""
    config = guard.policy.config
    async with httpx.AsyncClient(
        proxy=guard.url,
        trust_env=False,
        follow_redirects=False,
        timeout=config.fetch_limit_s,
        headers={
            "User-Agent": USER_AGENT,
            "Accept": "application/pdf,text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.8",
            "Accept-Language": "en",
            "Accept-Encoding": "gzip",
        },
    ) as client:
        yield Fetcher(client, guard, config)


def check_url(url: str) -> httpx.URL:
    """The URL as it can be requested, without fragment.

    Raises:
        DocumentError: `scheme` for anything but http and https; `bad_url` for credentials, control characters, no host.
    """
    url = url.strip()
    parts = parse_url(url)
    if parts.scheme not in {"http", "https"}:
        raise DocumentError("scheme", f"{url[:200]!r} is not an http or https URL")
    if re.search(r"[\x00-\x20\x7f\ud800-\udfff]", url) or re.search(r"[\\@]", parts.netloc):
        raise DocumentError("bad_url", f"{url[:200]!r} holds blanks, control characters or credentials")
    try:
        checked = httpx.URL(url).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError) as error:
        raise DocumentError("bad_url", f"{url[:200]!r}: {error}") from error
    if not checked.host or (checked.port is not None and not 0 < checked.port < 1 << 16):
        raise DocumentError("bad_url", f"{url[:200]!r} names no host or no port")
    return checked


def _guarded(code: str, message: str) -> DocumentError:
    return _Transient(code, message) if code == "connect_failed" else DocumentError(code, message)


def _backoff(error: Exception) -> bool | float:
    if not isinstance(error, _Transient):
        return False
    return True if error.wait_s is None else min(max(error.wait_s, 0.0), RETRY_WAIT_MAX_S)


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a server asks to wait: a number or a date; None when it says neither."""
    value = response.headers.get("retry-after", "")
    if value.isdecimal():
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=dt.UTC)
    return (date - dt.datetime.now(dt.UTC)).total_seconds()
