"""Documents from URLs: through the guard, redirects one by one, limits on what is decoded.

Nothing of one document reaches another: cookies live as long as the way to one body and, like credentials, are bound to
the origin they belong to.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urldefrag

import httpx

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.egress.clients import ClientFor, guarded_clients, redirect_of
from rag_eval_pipeline.corpus.egress.config import EgressConfig, host_of, origin_of, secret
from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.policy import EgressBlocked
from rag_eval_pipeline.corpus.egress.trust import UNTRUSTED, distrust
from rag_eval_pipeline.corpus.fetching.bodies import Body, fetched_body
from rag_eval_pipeline.corpus.fetching.decoding import CutShort, read_decoded
from rag_eval_pipeline.corpus.fetching.politeness import Politeness
from rag_eval_pipeline.corpus.fetching.retries import BUSY, REDIRECTS, RETRY_WAIT_MAX_S, again, attempts, retry_after
from rag_eval_pipeline.corpus.fetching.robots import Robots
from rag_eval_pipeline.corpus.fetching.urls import check_url, joined

USER_AGENT = "Mozilla/5.0 (compatible; rag-eval-pipeline)"


class Version(NamedTuple):
    """What a server says of the version of a body that it sent (RFC 9110, 8.8).

    Args:
        url: Of the body, after redirects and without fragment.
        etag: As it was sent; None when it sent none.
        last_modified: As it was sent.
    """

    url: str
    etag: str | None
    last_modified: str | None


class Fetched(NamedTuple):
    """A body, and which version of it this is; no body when it is the version that is known."""

    body: Body | None
    version: Version


class _Transient(DocumentError):
    """A failure that may pass; `wait_s` is what the server asked for."""

    def __init__(self, code: str, message: str, wait_s: float | None = None) -> None:
        super().__init__(code, message)
        self.wait_s = wait_s


class Fetcher:
    """Clients behind the guard.

    Args:
        clients: Send to the guard and know no other way out.
        guard: Its answers are told from a server's by its secret.
        config: Limits.
        credentials: Origin to headers.
    """

    def __init__(
        self, clients: ClientFor, guard: Guard, config: EgressConfig, credentials: dict[str, dict[str, str]]
    ) -> None:
        self._clients = clients
        self._guard = guard
        self._config = config
        self._credentials = credentials
        self._politeness = Politeness(requests=config.host_requests, delay_s=config.host_delay_s)
        self._robots = Robots(self._robots_txt, setting=config.robots)

    async def fetch(self, url: str, known: Version | None = None) -> Fetched:
        """The body behind a URL, after redirects.

        Args:
            url: Of the document.
            known: The version that is there already; an unchanged body is then not sent.

        Raises:
            DocumentError: `bad_url`, `scheme`, `egress_blocked`, `host_unresolved`, `connect_failed`, `http_<status>`,
                `too_many_redirects`, `body_too_large`, `fetch_timeout`, `connection_broken`, `tls_untrusted`,
                `bad_encoding`, `empty_body`, `content_mismatch`, `unsupported_type`, `robots_disallowed`,
                `robots_unreachable`.
        """
        return await self._fetch(url, known, self._robots)

    async def _robots_txt(self, url: str) -> bytes:
        fetched = await self._fetch(url, None, None)
        return b"" if fetched.body is None else fetched.body.data

    async def _fetch(self, url: str, known: Version | None, robots: Robots | None) -> Fetched:
        async for attempt in attempts(self._config.attempts, on=_backoff):
            with attempt:
                try:
                    async with asyncio.timeout(self._config.fetch_limit_s) as deadline:
                        return await self._follow(url, known, robots, deadline)
                except TimeoutError as error:
                    raise DocumentError(
                        "fetch_timeout", f"{url}: no whole body within {self._config.fetch_limit_s:g} s"
                    ) from error
        raise AssertionError("the last attempt returns or raises")

    async def _follow(
        self, url: str, known: Version | None, robots: Robots | None, deadline: asyncio.Timeout
    ) -> Fetched:
        current = asking = url
        jars: dict[str | None, httpx.Cookies] = {}
        for _ in range(self._config.max_redirects + 1):
            client = self._clients(asking)
            request = self._request(client, check_url(current), known)
            self._check_open(request.url, asking)
            jar = jars.setdefault(origin_of(str(request.url)), httpx.Cookies())
            jar.set_cookie_header(request)
            async with self._turn(str(request.url), robots, deadline):
                try:
                    response = await client.send(request, stream=True)
                    try:
                        jar.extract_cookies(response)
                        location = self._redirect(response)
                        if location is None:
                            return await self._fetched(response, urldefrag(current).fragment if current != url else "")
                    finally:
                        await response.aclose()
                except httpx.ProxyError as error:
                    # Only a CONNECT that the guard refused ends here; it carries the status line, "403 egress_blocked".
                    code = str(error).partition(" ")[2] or "connect_failed"
                    raise _guarded(code, f"{current}: refused by the egress guard") from error
                except httpx.TransportError as error:
                    if (refused := distrust(error)) is not None:
                        raise DocumentError(UNTRUSTED, f"{current}: {refused.reason}. {refused.hint}") from error
                    raise _Transient("connection_broken", f"{current}: {type(error).__name__}: {error}") from error
                except CutShort as error:
                    raise _Transient("connection_broken", f"{current}: the compressed body is cut short") from error
            # Whoever redirects is who asks: a public page cannot have a private one fetched.
            asking, current = str(response.url), joined(str(response.url), location)
        raise DocumentError("too_many_redirects", f"{url}: more than {self._config.max_redirects} redirects")

    def _check_open(self, url: httpx.URL, asking: str) -> None:
        """Refuses a private host that is not open to who asks, before even its robots.txt is asked for."""
        target = host_of(str(url))
        if target is None:
            return
        try:
            self._guard.policy.is_allowed(*target, host_of(asking))
        except EgressBlocked as error:
            raise DocumentError(error.code, f"{url}: {error}") from error

    @asynccontextmanager
    async def _turn(self, url: str, robots: Robots | None, deadline: asyncio.Timeout) -> AsyncIterator[None]:
        """One request, when it is its turn at the host; the clock of the attempt stands still until then."""
        loop = asyncio.get_running_loop()
        left_s = (deadline.when() or loop.time()) - loop.time()
        deadline.reschedule(None)
        delay_s = 0.0
        if robots is not None:
            await robots.check(url)
            delay_s = await robots.crawl_delay_s(url)
        async with self._politeness.turn(url, delay_s=delay_s):
            deadline.reschedule(loop.time() + left_s)
            yield

    def _request(self, client: httpx.AsyncClient, url: httpx.URL, known: Version | None) -> httpx.Request:
        headers = {"Connection": "close"} | self._credentials.get(origin_of(str(url)) or "", {})
        if known is not None and known.url == str(url):
            if known.etag is not None:
                headers["If-None-Match"] = known.etag
            elif known.last_modified is not None:
                headers["If-Modified-Since"] = known.last_modified
        return client.build_request("GET", url, headers=headers)

    def _redirect(self, response: httpx.Response) -> str | None:
        """Where an answer leads, or None when it is the body, or says that the body is the known one.

        Raises:
            DocumentError: It is neither.
        """
        refusal = self._guard.refusal(str(response.url), response.headers)
        if refusal is not None:
            raise _guarded(response.reason_phrase, f"{response.url}: {refusal}")
        status = response.status_code
        if status in REDIRECTS and (location := redirect_of(response)) is not None:
            return location
        if status in BUSY:
            wait_s = retry_after(response)
            if wait_s is not None:
                self._politeness.hold(str(response.url), min(wait_s, RETRY_WAIT_MAX_S))  # others need not find out
            raise _Transient(f"http_{status}", f"{response.url}: HTTP {status}", wait_s)
        if status == 304 and _is_conditional(response.request):
            return None
        if not 200 <= status < 300:
            raise DocumentError(f"http_{status}", f"{response.url}: HTTP {status}")
        return None

    async def _fetched(self, response: httpx.Response, fragment: str) -> Fetched:
        """The answer; a redirect's fragment (`/#/docs/page`) is a part of where it has led."""
        url = str(response.url)
        version = Version(url, _sendable(response, "etag"), _sendable(response, "last-modified"))
        if response.status_code == 304:
            return Fetched(None, version)
        data = await read_decoded(response, self._config.max_body_bytes)
        shown = f"{url}#{fragment}" if fragment else url
        return Fetched(fetched_body(data, response.headers.get("content-type", ""), shown), version)


@asynccontextmanager
async def fetcher(guard: Guard) -> AsyncIterator[Fetcher]:
    """A fetcher behind a running guard.

    Raises:
        InputError: `missing_secret`, `bad_secret`, `bad_ca_file`.
    """
    config = guard.policy.config
    credentials = {
        origin: {header: secret(variable, f"credentials of {origin}") for header, variable in headers.items()}
        for origin, headers in config.credentials.items()
    }
    headers = {
        "User-Agent": USER_AGENT,
        "Accept": "application/pdf,text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.8",
        "Accept-Language": "en",
        "Accept-Encoding": "gzip",
    }
    async with guarded_clients(guard, headers=headers, timeout_s=config.fetch_limit_s) as clients:
        yield Fetcher(clients, guard, config, credentials)


def _is_conditional(request: httpx.Request) -> bool:
    return "if-none-match" in request.headers or "if-modified-since" in request.headers


def _sendable(response: httpx.Response, name: str) -> str | None:
    """A header that can be sent back as it came; None for one that cannot."""
    value: str | None = response.headers.get(name)
    return value if value is not None and value.isascii() and value.isprintable() else None


def _guarded(code: str, message: str) -> DocumentError:
    return _Transient(code, message) if code == "connect_failed" else DocumentError(code, message)


def _backoff(error: Exception) -> bool | float:
    return isinstance(error, _Transient) and again(error.wait_s)
