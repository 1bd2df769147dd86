"""The guard: a forward proxy on 127.0.0.1 through which both the fetcher and the browser reach the outside.

It applies the egress policy to each connection, dials only addresses that the policy has judged, and answers one
request per connection, so that nothing can be smuggled behind an allowed first request. Each host whose documents may
ask a private host has its own port here; the port of a request tells which document it is for.
"""

import asyncio
import contextlib
import functools
import re
import secrets
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.egress.config import HostPort, host_of
from rag_eval_pipeline.corpus.egress.policy import (
    EgressBlocked,
    EgressPolicy,
    HostNowhere,
    HostUnresolved,
    system_resolver,
)
from rag_eval_pipeline.corpus.egress.proxy_request import Refused, parse_request
from rag_eval_pipeline.corpus.egress.upstream import for_proxy, open_tunnel, proxy_authorization

GUARD_HEADER = "x-egress-guard"  # marks the guard's own answers; its value is a secret that no server can guess

_HEAD_LIMIT_BYTES = 64 * 1024
_IDLE_LIMIT_S = 30.0
_BODY_MARGIN_BYTES = 1 << 20  # so that it is the fetcher who notices, and says so
_CONNECT_LIMIT_S = 10.0
_ADDRESSES_TRIED = 4
_UNRESOLVED_KEPT_S = 30.0  # an offline page asks one dead host for each of its pictures
_RESOLVED_KEPT_S = 300.0
_DENIALS_KEPT = 1000

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Denial(NamedTuple):
    """A request that the guard refused."""

    code: str
    target: str
    reason: str


class Guard:
    """The running proxy; use as an asynchronous context manager.

    Args:
        policy: Decides about hosts and their addresses.

    Raises:
        InputError: `missing_secret` for a proxy whose credentials are not set.

    Attributes:
        denials: The newest refusals.
        denied: Number of all refusals.
    """

    def __init__(self, policy: EgressPolicy) -> None:
        self.policy = policy
        self.denials: deque[Denial] = deque(maxlen=_DENIALS_KEPT)
        self.denied = 0
        self.secret = secrets.token_hex(16)
        self._answers: dict[tuple[HostPort | None, str, int], tuple[float, list[str] | Exception]] = {}
        self._asking: dict[tuple[HostPort | None, str, int], asyncio.Lock] = {}
        self._servers: dict[HostPort | None, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._proxy = policy.config.proxy_address
        self._proxy_authorization = proxy_authorization(policy.config)

    @property
    def url(self) -> str:
        """Address of the proxy, for all that may ask no private host."""
        return self._url(None)

    @property
    def urls(self) -> list[str]:
        """All its addresses."""
        return [self._url(document) for document in self._servers]

    def url_for(self, document: str) -> str:
        """Address of the proxy, for what a document asks.

        Args:
            document: The URL that the document comes from.
        """
        host = host_of(document)
        return self._url(host if host in self._servers else None)

    def refusal(self, url: str, headers: Mapping[str, str]) -> str | None:
        """Why the guard refused a request; None when the answer is a server's.

        Over HTTPS every answer is a server's, whatever its headers say: what the guard refuses there is the tunnel.
        """
        value = headers.get(GUARD_HEADER, "")
        if not url.startswith("http:") or not value.startswith(self.secret):
            return None
        return value.removeprefix(self.secret).strip()

    def _url(self, document: HostPort | None) -> str:
        return f"http://127.0.0.1:{self._servers[document].sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Guard":
        for document in (None, *self.policy.config.openings):
            accept = functools.partial(self._accept, document)
            self._servers[document] = await asyncio.start_server(accept, "127.0.0.1", 0, limit=_HEAD_LIMIT_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            try:
                await self._serve((reader, writer), document)
            except Refused as refusal:
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
            self.denials.append(Denial(error.code, target, str(error)))
            raise Refused(403, error.code, str(error)) from error
        except HostUnresolved as error:
            # Behind a corporate proxy this machine often knows no names of the internet, and the proxy does.
            if not by_proxy or isinstance(error, HostNowhere):
                raise Refused(502, error.code, str(error)) from error
        if by_proxy:
            target, port = f"the proxy {self.policy.config.proxy}", self._proxy.port
            addresses = await self._proxy_addresses()
        reason = "no answer"
        for address in addresses[:_ADDRESSES_TRIED]:
            try:
                opening = asyncio.open_connection(address, port, limit=_HEAD_LIMIT_BYTES)
                return await asyncio.wait_for(opening, _CONNECT_LIMIT_S)
            except (OSError, TimeoutError) as error:
                reason = str(error) or reason
        raise Refused(504, "connect_failed", f"{target}: {reason}")

    async def _proxy_addresses(self) -> list[str]:
        try:
            return await system_resolver(*self._proxy)
        except HostUnresolved as error:
            raise Refused(502, error.code, f"the proxy: {error}") from error

    async def _addresses(self, host: str, port: int, document: HostPort | None) -> list[str]:
        """The policy's answer, asked once a host: a second answer could be another one."""
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
        # No body: a browser then shows its own error page, which is recognised, and not a page that could be printed.
        reason = re.sub(r"[^\x20-\x7e]", "?", str(refusal))[:200]
        writer.write(
            f"HTTP/1.1 {refusal.status} {refusal.code}\r\n{GUARD_HEADER}: {self.secret} {reason}\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()


async def _answer(server: asyncio.StreamReader, client: asyncio.StreamWriter, limit: int) -> None:
    """One final answer, marked as the connection's last."""
    while True:
        head = await asyncio.wait_for(server.readuntil(b"\r\n\r\n"), _IDLE_LIMIT_S)
        status, *fields = head[:-4].split(b"\r\n")
        # 1xx answers are steps on the way; 101 would turn the connection into something else, and was never asked for.
        if not re.match(rb"HTTP/1\.[01] 1\d\d", status):
            break
    kept = [f for f in fields if f.split(b":")[0].strip().lower() not in (b"connection", b"keep-alive", b"upgrade")]
    kept = [f for f in kept if not f.lower().startswith((b"proxy-", GUARD_HEADER.encode()))]
    client.write(b"\r\n".join([status, *kept, b"Connection: close", b"", b""]))
    await _receive(server, client, limit)


async def _receive(server: asyncio.StreamReader, client: asyncio.StreamWriter, limit: int) -> None:
    """Bytes from the server until it ends, is idle for too long, or has sent more than a body may hold."""
    while chunk := await asyncio.wait_for(server.read(65536), _IDLE_LIMIT_S):
        limit -= len(chunk)
        if limit < 0:
            return
        client.write(chunk)
        await client.drain()


async def _send(client: asyncio.StreamReader, server: asyncio.StreamWriter, size: int | None = None) -> None:
    """Bytes to the server, of a plain request its body and not one more; ends when the client goes away."""
    while chunk := await client.read(65536):
        if size is not None:
            chunk = chunk[:size]
            size -= len(chunk)
        server.write(chunk)
        await server.drain()


async def _first_done(*directions: Coroutine[Any, Any, None]) -> None:
    """Runs both directions of a connection until one ends: then the connection has ended."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
