"""The egress proxy: a forward proxy on 127.0.0.1 through which the fetcher and the browser reach the outside.

It applies the egress policy to each connection, dials only addresses that the policy has checked, and answers one
request a connection, so that nothing can be smuggled behind an allowed first request. Requests that two parsers could
read differently are refused (h11 accepts folded headers and bare newlines). Each host whose documents may ask a private
host has its own port here, which identifies the document. A corporate proxy gets only what the policy allows.
"""

import asyncio
import base64
import contextlib
import functools
import logging
import re
import secrets
import time
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rag_eval_pipeline.web.egress import (
    EgressBlocked,
    EgressConfig,
    EgressPolicy,
    HostNowhere,
    HostPort,
    HostUnresolved,
    host_of,
    read_secret,
    system_resolver,
)

logger = logging.getLogger(__name__)

# Marks this proxy's own answers: its value begins with a secret, and no server's response passes with the header.
REFUSAL_HEADER = "x-egress-guard"

_HEAD_LIMIT_BYTES = 64 * 1024
_IDLE_LIMIT_S = 30.0
_BODY_MARGIN_BYTES = 1 << 20  # so that the fetcher notices first, with a better error
_CONNECT_LIMIT_S = 10.0
_TUNNEL_LIMIT_S = 15.0
_ADDRESSES_TRIED = 4
_UNRESOLVED_KEPT_S = 30.0  # an offline page asks one dead host for each of its pictures
_RESOLVED_KEPT_S = 300.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BARE_IPV6 = re.compile(r"([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*):([0-9]{1,5})")
_HOP_BY_HOP = {"connection", "keep-alive", "upgrade", "te", "trailer", "expect", "host"}


class Refused(Exception):
    """The proxy's own answer; `code` is the reason phrase and `reason` one line for a person."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code


class ProxyRequest(NamedTuple):
    """Host (without brackets) and port of a request, and the head to send there; a tunnel (`CONNECT`) has no head."""

    method: str
    host: str
    port: int
    head: bytes
    body_bytes: int


def parse_request(head: bytes) -> ProxyRequest:
    """Parse the one request of a connection."""
    line, *fields = head[:-4].decode("latin-1").split("\r\n")
    parts = line.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or re.search(r"[\x00-\x1f\x7f-\xff]", line):
        raise Refused(400, "bad_request", "the request line cannot be read")
    method, target, _ = parts
    if method == "CONNECT":
        # httpx omits the brackets; a tunnel's target always ends with a port, so there is one way to read it.
        target = _BARE_IPV6.sub(r"[\1]:\2", target) if _BARE_IPV6.fullmatch(target) else target
    try:
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = url.hostname, url.port or 80
    except ValueError as error:
        raise Refused(400, "bad_request", str(error)) from error
    if not host or "@" in url.netloc or (url.path if method == "CONNECT" else url.scheme != "http"):
        raise Refused(400, "bad_request", "only http:// without credentials, and CONNECT host:port")
    if method == "CONNECT":
        return ProxyRequest(method, host, port, b"", 0)
    kept = [f"Host: {url.netloc}"]
    length = 0
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or re.search(r"[\x00\r\n]", value):
            raise Refused(400, "bad_request", "a header cannot be read")
        if name.lower() == "transfer-encoding":
            raise Refused(400, "bad_request", "a request body needs a length")
        if name.lower() == "content-length":
            if length or not value.strip().isdecimal():
                raise Refused(400, "bad_request", "the length of the body cannot be read")
            length = int(value)
        if name.lower() not in _HOP_BY_HOP and not name.lower().startswith("proxy-"):
            kept.append(field)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
    return ProxyRequest(method, host, port, "\r\n".join(lines).encode("latin-1"), length)


def proxy_authorization(config: EgressConfig) -> bytes:
    """Return the header line for the corporate proxy; empty if it needs none."""
    if config.proxy is None or config.proxy_credentials is None:
        return b""
    pair = read_secret(config.proxy_credentials, "proxy_credentials").encode("latin-1")
    return b"Proxy-Authorization: Basic " + base64.b64encode(pair) + b"\r\n"


async def open_tunnel(proxy: Streams, host: str, port: int, authorization: bytes) -> None:
    """Make the corporate proxy turn the connection into a tunnel."""
    target = _target(host, port)
    proxy[1].write(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (target, target, authorization))
    try:
        head = await asyncio.wait_for(proxy[0].readuntil(b"\r\n\r\n"), _TUNNEL_LIMIT_S)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise Refused(504, "connect_failed", "the proxy does not answer") from error
    status = head.partition(b"\r\n")[0].decode("latin-1")
    if not re.match(r"HTTP/1\.[01] 2\d\d\b", status):
        raise Refused(502, "connect_failed", f"the proxy answers: {status}")


def for_proxy(head: bytes, host: str, port: int, authorization: bytes) -> bytes:
    """Return a plain request as a proxy expects it: with the whole URL (RFC 9112, 3.2.2)."""
    method, _, rest = head.partition(b" ")
    line, _, fields = rest.partition(b"\r\n")
    return b"%b http://%b%b\r\n%b%b" % (method, _target(host, port), line, authorization, fields)


def _target(host: str, port: int) -> bytes:
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode("latin-1")


class EgressProxy:
    """The running proxy; an asynchronous context manager.

    What the policy refuses is logged; `denied` counts it.
    """

    def __init__(self, policy: EgressPolicy) -> None:
        self.policy = policy
        self.denied = 0
        self.last_refusal: Refused | None = None  # for clients that do not report it
        self.secret = secrets.token_hex(16)
        self._answers: dict[tuple[HostPort | None, str, int], tuple[float, list[str] | Exception]] = {}
        self._asking: dict[tuple[HostPort | None, str, int], asyncio.Lock] = {}
        self._servers: dict[HostPort | None, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._proxy_authorization = proxy_authorization(policy.config)

    @property
    def url(self) -> str:
        """Address of the proxy for documents that may ask no private host."""
        return self._url(None)

    @property
    def urls(self) -> list[str]:
        """All addresses of the proxy."""
        return [self._url(document) for document in self._servers]

    def url_for(self, document: str) -> str:
        """Return the address of the proxy for what the document at a URL asks."""
        host = host_of(document)
        return self._url(host if host in self._servers else None)

    def refusal(self, url: str, headers: Mapping[str, str]) -> str | None:
        """Return why the proxy refused a request; None if a server answered.

        Over HTTPS every answer is a server's, whatever its headers say: there, the tunnel is refused.
        """
        value = headers.get(REFUSAL_HEADER, "")
        if not url.startswith("http:") or not value.startswith(self.secret):
            return None
        return value.removeprefix(self.secret).strip()

    def _url(self, document: HostPort | None) -> str:
        return f"http://127.0.0.1:{self._servers[document].sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "EgressProxy":
        for document in (None, *self.policy.config.openings):
            accept = functools.partial(self._accept, document)
            self._servers[document] = await asyncio.start_server(accept, "127.0.0.1", 0, limit=_HEAD_LIMIT_BYTES)
        return self

    async def __aexit__(self, *error: object) -> None:
        for server in self._servers.values():
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for server in self._servers.values():
            await server.wait_closed()

    async def _accept(
        self, document: HostPort | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            try:
                await self._serve((reader, writer), document)
            except Refused as refusal:
                self.last_refusal = refusal
                await self._refuse(writer, refusal)
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
                pass  # the client went away, or never finished its request
        writer.close()

    async def _serve(self, client: Streams, document: HostPort | None) -> None:
        head = await asyncio.wait_for(client[0].readuntil(b"\r\n\r\n"), _IDLE_LIMIT_S)
        request = parse_request(head)
        by_proxy = self.policy.goes_by_proxy(request.host, request.port)
        server = await self._dial(request.host, request.port, document, by_proxy=by_proxy)
        limit = self.policy.config.max_body_bytes + _BODY_MARGIN_BYTES
        try:
            if request.method == "CONNECT":
                if by_proxy:
                    await open_tunnel(server, request.host, request.port, self._proxy_authorization)
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _first_done(_send(client[0], server[1]), _receive(server[0], client[1], limit))
                return
            head = request.head
            if by_proxy:
                head = for_proxy(head, request.host, request.port, self._proxy_authorization)
            server[1].write(head)
            sending = _send(client[0], server[1], request.body_bytes)
            await _first_done(_answer(server[0], client[1], limit), sending)
        finally:
            server[1].close()

    async def _dial(self, host: str, port: int, document: HostPort | None, *, by_proxy: bool) -> Streams:
        target = f"{host}:{port}"
        try:
            addresses = await self._addresses(host, port, document)
        except EgressBlocked as error:
            self.denied += 1
            logger.info("%s: %s: %s", error.code, target, error)
            raise Refused(403, error.code, str(error)) from error
        except HostUnresolved as error:
            # Behind a corporate proxy this machine often knows no names of the internet, and the proxy does.
            if not by_proxy or isinstance(error, HostNowhere):
                raise Refused(502, error.code, str(error)) from error
            if not self.policy.config.proxy_resolves:
                reason = (
                    f"{error}; if the proxy resolves names and refuses private addresses itself, "
                    "set proxy_resolves: true in egress.config.yaml"
                )
                raise Refused(502, error.code, reason) from error
        if by_proxy:
            target = f"the proxy {self.policy.config.proxy}"
            proxy_host, _, proxy_port = str(self.policy.config.proxy).rpartition(":")
            port = int(proxy_port)
            try:
                addresses = await system_resolver(proxy_host.strip("[]"), port)
            except HostUnresolved as error:
                raise Refused(502, error.code, f"the proxy: {error}") from error
        reason = "no answer"
        for address in addresses[:_ADDRESSES_TRIED]:
            try:
                opening = asyncio.open_connection(address, port, limit=_HEAD_LIMIT_BYTES)
                return await asyncio.wait_for(opening, _CONNECT_LIMIT_S)
            except (OSError, TimeoutError) as error:
                reason = str(error) or reason
        raise Refused(504, "connect_failed", f"{target}: {reason}")

    async def _addresses(self, host: str, port: int, document: HostPort | None) -> list[str]:
        """Return the policy's answer, asked once a host: a second answer could differ (DNS rebinding)."""
        asked = (document, host, port)
        async with self._asking.setdefault(asked, asyncio.Lock()):
            until, answer = self._answers.get(asked, (0.0, None))
            if answer is None or until < time.monotonic():
                try:
                    answer, kept_s = await self.policy.addresses(host, port, document=document), _RESOLVED_KEPT_S
                except (EgressBlocked, HostUnresolved) as error:
                    answer, kept_s = error, _UNRESOLVED_KEPT_S
                self._answers[asked] = (time.monotonic() + kept_s, answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _refuse(self, writer: asyncio.StreamWriter, refusal: Refused) -> None:
        # No body: the browser then shows its own error page, which is recognised, and not a page that could be printed.
        reason = re.sub(r"[^\x20-\x7e]", "?", str(refusal))[:200]
        writer.write(
            f"HTTP/1.1 {refusal.status} {refusal.code}\r\n{REFUSAL_HEADER}: {self.secret} {reason}\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()


async def _answer(server: asyncio.StreamReader, client: asyncio.StreamWriter, limit: int) -> None:
    """Forward the final response, marked as the connection's last."""
    while True:
        head = await asyncio.wait_for(server.readuntil(b"\r\n\r\n"), _IDLE_LIMIT_S)
        # A browser takes a bare newline for the end of a line, too: a header behind one must not pass unseen.
        status, *fields = re.split(rb"[\r\n]+", head[:-4])
        # 1xx responses are interim; 101 would turn the connection into something else, and was never requested.
        if not re.match(rb"HTTP/1\.[01] 1\d\d", status):
            break
    kept = [f for f in fields if f.split(b":")[0].strip().lower() not in (b"connection", b"keep-alive", b"upgrade")]
    kept = [f for f in kept if not f.strip().lower().startswith((b"proxy-", REFUSAL_HEADER.encode()))]
    client.write(b"\r\n".join([status, *kept, b"Connection: close", b"", b""]))
    await _receive(server, client, limit)


async def _receive(server: asyncio.StreamReader, client: asyncio.StreamWriter, limit: int) -> None:
    """Forward bytes from the server until it ends, is idle for too long, or exceeds the body limit."""
    while chunk := await asyncio.wait_for(server.read(65536), _IDLE_LIMIT_S):
        limit -= len(chunk)
        if limit < 0:
            return
        client.write(chunk)
        await client.drain()


async def _send(client: asyncio.StreamReader, server: asyncio.StreamWriter, size: int | None = None) -> None:
    """Forward bytes to the server, of a plain request exactly its body; ends when the client goes away."""
    while chunk := await client.read(65536):
        if size is not None:
            chunk = chunk[:size]
            size -= len(chunk)
        server.write(chunk)
        await server.drain()


async def _first_done(*directions: Coroutine[Any, Any, None]) -> None:
    """Run both directions of a connection until one ends."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
