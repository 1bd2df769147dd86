"""Fetch documents and downloads from URLs: through the egress proxy, redirects one by one, decoded size limited.

Nothing of one document reaches another: cookies live as long as the way to one body and, like credentials, are bound to
their origin.
"""

import asyncio
import datetime as dt
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from ssl import SSLContext
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urldefrag, urljoin

import httpx
import stamina
import stamina.instrumentation

from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.content_types import DEFLATED, Body, TruncatedBody, fetched_body, inflated
from rag_eval_pipeline.web.egress import EgressBlocked, EgressConfig, host_of, origin_of, read_secret
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.rate_limits import RETRIED_STATUSES, HostLimits, retry_after
from rag_eval_pipeline.web.tls import UNTRUSTED, certificate_error, tls_context
from rag_eval_pipeline.web.urls import check_url, route_of

# Stamina logs each retry through structlog where that is installed, and structlog prints to stdout, into a command's
# JSON.
stamina.instrumentation.set_on_retry_hooks([])

USER_AGENT = "Mozilla/5.0 (compatible; rag-eval-pipeline)"
REDIRECTS = {301, 302, 303, 307, 308}
RETRY_WAIT_S = 0.3  # before the second attempt; doubled for each further one
RETRY_WAIT_MAX_S = 10.0  # also the longest Retry-After that is honoured
# The proxy ends a connection after 30 s without a byte, which would make a body without a stated length seem whole.
STALL_LIMIT_S = 25.0
STALL_BYTES = 16 << 10  # fewer in that time are no progress: 0.7 kB/s would take a month for the largest download

_CHUNK_BYTES = 1 << 20
_UNQUOTED = re.compile(r"[\\<>\"]")
_LOCATION = "location"
_DOCUMENT_HEADERS = {
    "Accept": "application/pdf,text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.8",
    "Accept-Language": "en",
    "Accept-Encoding": "gzip",
}

Result = TypeVar("Result")
Progress = Callable[[int, int | None], None]
"""Receives the bytes received so far and the size, None while it is unknown."""


class Version(NamedTuple):
    """The version of a body as its server names it (RFC 9110, 8.8); `url` is after redirects, without fragment."""

    url: str
    etag: str | None
    last_modified: str | None


class Fetched(NamedTuple):
    """A body and its version; no body when it is the version already known."""

    body: Body | None
    version: Version


class TransientError(DocumentError):
    """A failure that may pass; `wait_s` is the server's Retry-After."""

    def __init__(self, code: str, message: str, wait_s: float | None = None) -> None:
        super().__init__(code, message)
        self.wait_s = wait_s


def retry_wait(error: Exception) -> bool | float:
    """Return whether to retry after an error, or the seconds of the server's Retry-After, within reason."""
    if not isinstance(error, TransientError):
        return False
    return True if error.wait_s is None else min(max(error.wait_s, 0.0), RETRY_WAIT_MAX_S)


class Fetcher:
    """Fetches through a running egress proxy; made by `fetcher`."""

    def __init__(self, proxy: EgressProxy, credentials: Mapping[str, Mapping[str, str]], clients: "_Clients") -> None:
        self._proxy = proxy
        self._config: EgressConfig = proxy.policy.config
        self._credentials = credentials
        self._clients = clients
        self._limits = HostLimits(requests=self._config.host_requests, delay_s=self._config.host_delay_s)

    async def fetch(self, url: str, known: Version | None = None) -> Fetched:
        """Return the body behind a URL, after redirects; an unchanged body of a known version is not sent.

        Raises:
            DocumentError: `bad_url`, `scheme`, `egress_blocked`, `host_unresolved`, `connect_failed`, `http_<status>`,
                `too_many_redirects`, `body_too_large`, `fetch_timeout`, `connection_broken`, `tls_untrusted`,
                `bad_encoding`, `empty_body`, `content_mismatch`, `unsupported_type`.
        """

        def headers_for(current: httpx.URL) -> dict[str, str]:
            headers = _DOCUMENT_HEADERS | dict(self._credentials.get(origin_of(str(current)) or "", {}))
            if known is not None and known.url == str(current):
                if known.etag is not None:
                    headers["If-None-Match"] = known.etag
                elif known.last_modified is not None:
                    headers["If-Modified-Since"] = known.last_modified
            return headers

        limit_s = self._config.fetch_limit_s
        on_timeout = DocumentError("fetch_timeout", f"{url}: no whole body within {limit_s:g} s")
        return await self._retry(url, headers_for, self._fetched, limit_s, on_timeout)

    async def download(
        self, url: str, target: Path, *, headers: Mapping[str, str], max_bytes: int, progress: Progress
    ) -> str:
        """Write the decoded body behind a URL to a file, as long as bytes keep coming.

        Args:
            target: Overwritten by each attempt.
            headers: Sent to the URL's own origin only.

        Returns:
            The URL after redirects.

        Raises:
            DocumentError: The codes of `fetch` for addresses and connections; `fetch_timeout` when the body stalls.
        """
        origin = origin_of(str(check_url(url)))
        stall_s = min(STALL_LIMIT_S, self._config.fetch_limit_s)

        def headers_for(current: httpx.URL) -> dict[str, str]:
            own = headers if origin_of(str(current)) == origin else {}
            # Some servers encode a body anew for each request; a stated size is worth more than a shorter way.
            return {"Accept": "*/*", "Accept-Encoding": "identity", **own}

        async def save(response: httpx.Response, fragment: str, deadline: asyncio.Timeout) -> str:
            await _save(response, target, max_bytes, progress, deadline, stall_s)
            return str(response.url)

        stalled = TransientError("fetch_timeout", f"{url}: less than {STALL_BYTES:,} bytes in {stall_s:g} s")
        return await self._retry(url, headers_for, save, stall_s, stalled)

    async def _retry(
        self,
        url: str,
        headers_for: Callable[[httpx.URL], dict[str, str]],
        read: Callable[[httpx.Response, str, asyncio.Timeout], Awaitable[Result]],
        limit_s: float,
        on_timeout: DocumentError,
    ) -> Result:
        """Follow redirects to the body, and read it, again while the failure may pass."""
        async for attempt in stamina.retry_context(
            on=retry_wait,
            attempts=self._config.attempts,
            timeout=None,
            wait_initial=RETRY_WAIT_S,
            wait_max=RETRY_WAIT_MAX_S,
        ):
            with attempt:
                try:
                    async with asyncio.timeout(limit_s) as deadline:
                        return await self._follow(url, headers_for, read, deadline)
                except TimeoutError as error:
                    raise on_timeout from error
        raise AssertionError("the last attempt returns or raises")

    async def _follow(
        self,
        url: str,
        headers_for: Callable[[httpx.URL], dict[str, str]],
        read: Callable[[httpx.Response, str, asyncio.Timeout], Awaitable[Result]],
        deadline: asyncio.Timeout,
    ) -> Result:
        """Make one attempt; `read` also gets the fragment that the page is shown with: a route, or a redirect's."""
        current = asking = url
        fragment = route_of(url.partition("#")[2])
        jars: dict[str | None, httpx.Cookies] = {}
        for _ in range(self._config.max_redirects + 1):
            client = self._clients.client_for(asking)
            target = check_url(current)
            request = client.build_request("GET", target, headers={"Connection": "close", **headers_for(target)})
            self._check_open(request.url, asking)
            jar = jars.setdefault(origin_of(str(request.url)), httpx.Cookies())
            if "cookie" not in request.headers:
                jar.set_cookie_header(request)
            async with self._turn(str(request.url), deadline):
                try:
                    response = await client.send(request, stream=True)
                    try:
                        jar.extract_cookies(response)
                        location = self._redirect(response)
                        if location is None:
                            return await read(response, fragment, deadline)
                    finally:
                        await response.aclose()
                except httpx.ProxyError as error:
                    # Only a refused CONNECT ends here; the error carries the status line, "403 egress_blocked".
                    code = str(error).partition(" ")[2] or "connect_failed"
                    raise _refused(code, f"{current}: refused by the egress proxy") from error
                except httpx.TransportError as error:
                    if (found := certificate_error(error)) is not None:
                        raise DocumentError(UNTRUSTED, f"{current}: {found[0]}. {found[1]}") from error
                    raise TransientError("connection_broken", f"{current}: {type(error).__name__}: {error}") from error
                except TruncatedBody as error:
                    raise TransientError("connection_broken", f"{current}: the compressed body is cut short") from error
            # The page that redirects is the one that asks: a public page cannot have a private one fetched.
            asking = str(response.url)
            try:
                # Some servers send them as they are, which a URL may not hold.
                current = _UNQUOTED.sub(lambda match: quote(match[0]), urljoin(asking, location))
                fragment = urldefrag(current).fragment or fragment  # RFC 9110, 10.2.2: a fragment is inherited
            except ValueError as error:
                raise DocumentError("bad_url", f"{location[:200]!r}: {error}") from error
        raise DocumentError("too_many_redirects", f"{url}: more than {self._config.max_redirects} redirects")

    def _check_open(self, url: httpx.URL, asking: str) -> None:
        """Refuse a private host that is not open to the asking page, before anything is requested."""
        target = host_of(str(url))
        try:
            if target is not None:
                self._proxy.policy.is_allowed(*target, host_of(asking))
        except EgressBlocked as error:
            raise DocumentError(error.code, f"{url}: {error}") from error

    @asynccontextmanager
    async def _turn(self, url: str, deadline: asyncio.Timeout) -> AsyncIterator[None]:
        """Wait for the host's turn; the time limit of the attempt is suspended until then."""
        loop = asyncio.get_running_loop()
        left_s = (deadline.when() or loop.time()) - loop.time()
        deadline.reschedule(None)
        async with self._limits.acquire(url):
            deadline.reschedule(loop.time() + left_s)
            yield

    def _redirect(self, response: httpx.Response) -> str | None:
        """Return where a response leads; None when it is the body, or confirms the known version."""
        url, status = str(response.url), response.status_code
        refusal = self._proxy.refusal(url, response.headers)
        if refusal is not None:
            raise _refused(response.reason_phrase, f"{url}: {refusal}")
        location: str | None = response.extensions.get(_LOCATION)
        if status in REDIRECTS and location is not None:
            return location
        if status in RETRIED_STATUSES:
            wait_s = retry_after(response.headers.get("retry-after"), dt.datetime.now(dt.UTC))
            if wait_s is not None:
                self._limits.pause(url, min(wait_s, RETRY_WAIT_MAX_S))  # other requests need not find out
            raise TransientError(f"http_{status}", f"{url}: HTTP {status}", wait_s)
        asked = response.request.headers
        if status == 304 and ("if-none-match" in asked or "if-modified-since" in asked):
            return None
        if not 200 <= status < 300:
            raise DocumentError(f"http_{status}", f"{url}: HTTP {status}")
        return None

    async def _fetched(self, response: httpx.Response, fragment: str, deadline: asyncio.Timeout) -> Fetched:
        """Return the body; a redirect's fragment (`/#/docs/page`) is part of the address that the page is shown at."""
        url = str(response.url)
        version = Version(url, _sendable(response, "etag"), _sendable(response, "last-modified"))
        if response.status_code == 304:
            return Fetched(None, version)
        data = b"".join([part async for part in _decoded(response, self._config.max_body_bytes)])
        shown = f"{url}#{fragment}" if fragment else url
        return Fetched(fetched_body(data, response.headers.get("content-type", ""), shown), version)


@asynccontextmanager
async def fetcher(proxy: EgressProxy) -> AsyncIterator[Fetcher]:
    """Open a fetcher behind a running egress proxy.

    Raises:
        InputError: `missing_secret`, `bad_secret`, `bad_ca_file`.
    """
    credentials = {
        origin: {header: read_secret(variable, f"credentials of {origin}") for header, variable in headers.items()}
        for origin, headers in proxy.policy.config.credentials.items()
    }
    async with AsyncExitStack() as stack:
        yield Fetcher(proxy, credentials, _Clients(proxy, stack))


class _Clients:
    """HTTP clients whose only way out is the egress proxy, one for each of its addresses.

    They keep no cookies, follow no redirects, and ignore the proxies that environment variables name.
    """

    def __init__(self, proxy: EgressProxy, stack: AsyncExitStack) -> None:
        self._proxy = proxy
        self._stack = stack
        self._tls: SSLContext = tls_context(proxy.policy.config.ca_file)
        self._clients: dict[str, httpx.AsyncClient] = {}

    def client_for(self, document: str) -> httpx.AsyncClient:
        """Return the client for what a document asks for, by the URL that the document comes from."""
        address = self._proxy.url_for(document)
        if address not in self._clients:
            client = httpx.AsyncClient(
                proxy=address,
                verify=self._tls,
                trust_env=False,
                follow_redirects=False,
                timeout=None,  # each attempt has a deadline
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                headers={"User-Agent": USER_AGENT},
                event_hooks={"request": [_bracket_ipv6], "response": [_set_location_aside]},
            )
            self._stack.push_async_callback(client.aclose)
            self._clients[address] = client
        return self._clients[address]


async def _bracket_ipv6(request: httpx.Request) -> None:
    """Write an IPv6 address in brackets where the proxy reads the whole URL; httpcore leaves them out."""
    if request.url.scheme == "http" and ":" in request.url.host:
        request.extensions["target"] = str(request.url).encode("ascii")


async def _set_location_aside(response: httpx.Response) -> None:
    """Keep httpx from building the next request: it raises at `mailto:x`, whether it may follow or not."""
    if _LOCATION in response.headers:
        response.extensions[_LOCATION] = response.headers.pop(_LOCATION)


async def _save(
    response: httpx.Response,
    target: Path,
    max_bytes: int,
    progress: Progress,
    deadline: asyncio.Timeout,
    stall_s: float,
) -> None:
    if response.status_code != 200:
        raise DocumentError(f"http_{response.status_code}", f"{response.url}: HTTP {response.status_code}")
    size = _content_length(response)
    loop = asyncio.get_running_loop()
    done = since = 0
    progress(0, size)
    with target.open("wb") as file:
        async for part in _decoded(response, max_bytes, chunk_bytes=None):
            file.write(part)
            done += len(part)
            since += len(part)
            progress(done, size)
            if since >= STALL_BYTES:
                deadline.reschedule(loop.time() + stall_s)
                since = 0


async def _decoded(
    response: httpx.Response, limit: int, *, chunk_bytes: int | None = _CHUNK_BYTES
) -> AsyncIterator[bytes]:
    """Yield the decoded body; its decoded size is limited, because a few kilobytes of gzip can stand for gigabytes."""
    encoding = str(response.headers.get("content-encoding", "identity")).strip().lower() or "identity"
    if encoding not in {"identity", *DEFLATED}:
        raise DocumentError("bad_encoding", f"{response.url}: sent as {encoding!r}, which was not asked for")
    too_large = DocumentError("body_too_large", f"{response.url}: more than {limit:,} bytes")
    if (_content_length(response) or 0) > limit:
        raise too_large
    chunks = response.aiter_raw(chunk_bytes)
    size = 0
    try:
        async for part in chunks if encoding == "identity" else inflated(chunks, limit):
            size += len(part)
            if size > limit:
                raise too_large
            yield part
    except zlib.error as error:
        raise DocumentError("bad_encoding", f"{response.url}: not {encoding}: {error}") from error


def _content_length(response: httpx.Response) -> int | None:
    value = response.headers.get("content-length", "")
    return int(value) if value.isdecimal() and len(value) < 20 else None


def _sendable(response: httpx.Response, name: str) -> str | None:
    """Return a header that can be sent back as it came; None for one that cannot."""
    value: str | None = response.headers.get(name)
    return value if value is not None and value.isascii() and value.isprintable() else None


def _refused(code: str, message: str) -> DocumentError:
    return TransientError(code, message) if code == "connect_failed" else DocumentError(code, message)
