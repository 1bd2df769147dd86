"""HTTP/1.1 between a socket and a handler: whole requests in; answers, parts of answers and broken ones out.

The protocol is h11's. A handler is given the connection itself, because a server for trying faults has to do what a
good one never does: hang up in the middle, reset, or say nothing.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

import h11

logger = logging.getLogger(__name__)

BODY_BYTES_MAX = 1 << 30  # one upload of a thousand filings; more is somebody's mistake
HEADER_BYTES_MAX = 64 * 1024
_NO_LINGER = struct.pack("ii", 1, 0)  # closing then sends RST instead of FIN


class Request(NamedTuple):
    """A request that has arrived whole.

    Args:
        method: Upper case.
        path: Without query, percent-decoded.
        query: The last value of each parameter.
        headers: Lower-case names.
        body: Decoded from its transfer coding.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """One client's connection: requests are answered one after the other.

    Args:
        handle: Answers a request by `send`, by `begin`, `write` and `finish`, or by breaking the connection. It is
            cancelled when the client goes away.
    """

    def __init__(self, handle: Callable[[Request, "Connection"], Awaitable[None]]) -> None:
        self._handle = handle
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends an answer that nobody reads."""
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Takes bytes in, and starts the handler when a request is complete."""
        self._http.receive_data(data)
        self._read()

    async def send(
        self, status: int, body: bytes, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole answer."""
        fields = [("content-type", content_type), ("content-length", str(len(body))), *(headers or {}).items()]
        self._transport.write(
            b"".join(
                part
                for event in (h11.Response(status_code=status, headers=fields), h11.Data(data=body), h11.EndOfMessage())
                if (part := self._http.send(event))
            )
        )
        await self._writable.wait()

    def begin(
        self, status: int = 200, content_type: str = "text/event-stream", headers: Mapping[str, str] | None = None
    ) -> None:
        """The head of an answer whose body comes in pieces."""
        fields = [("content-type", content_type), ("cache-control", "no-cache"), *(headers or {}).items()]
        self._transport.write(self._http.send(h11.Response(status_code=status, headers=fields)) or b"")

    async def write(self, data: bytes) -> None:
        """A piece of the body, sent at once; waits while the client does not read."""
        self._transport.write(self._http.send(h11.Data(data=data)) or b"")
        await self._writable.wait()

    def finish(self) -> None:
        """The end of the body."""
        self._transport.write(self._http.send(h11.EndOfMessage()) or b"")

    def reset(self) -> None:
        """Ends the connection with RST."""
        connection: socket.socket = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def hang_up(self) -> None:
        """Ends the connection when what was written is sent, whatever was promised."""
        self._transport.close()

    async def silence(self) -> None:
        """Waits until the client goes away."""
        await asyncio.get_running_loop().create_future()

    def _read(self) -> None:
        try:
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._head, self._body, self._size = event, [], 0
                    if self._http.they_are_waiting_for_100_continue:
                        go_on = h11.InformationalResponse(status_code=100, headers=[])
                        self._transport.write(self._http.send(go_on) or b"")
                elif isinstance(event, h11.Data):
                    self._body.append(bytes(event.data))
                    self._size += len(event.data)
                    if self._size > BODY_BYTES_MAX:
                        self._refuse(413)
                        return
                elif isinstance(event, h11.EndOfMessage):
                    self._task = asyncio.get_running_loop().create_task(self._answer(self._request()))
                    return
                elif isinstance(event, h11.ConnectionClosed):
                    self._transport.close()
                    return
                else:  # NEED_DATA, or PAUSED until the present answer is out
                    return
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)

    def _request(self) -> Request:
        assert self._head is not None
        path, _, query = self._head.target.decode("latin-1").partition("?")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
        return Request(
            self._head.method.decode(),
            unquote(path),
            dict(parse_qsl(query, keep_blank_values=True)),
            headers,
            self._body[0] if len(self._body) == 1 else b"".join(self._body),
        )

    async def _answer(self, request: Request) -> None:
        try:
            await self._handle(request, self)
        except Exception:
            logger.exception("%s %s", request.method, request.path)
            if self._http.our_state is h11.SEND_RESPONSE:
                await self.send(500, b'{"message":"Internal server error. Please check server logs for more details."}')
        if self._transport.is_closing():
            return
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._task = None
            self._read()
        else:
            self._transport.close()

    def _refuse(self, status: int) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            fields = [("content-length", "0"), ("connection", "close")]
            head = self._http.send(h11.Response(status_code=status, headers=fields)) or b""
            self._transport.write(head + (self._http.send(h11.EndOfMessage()) or b""))
        self._transport.close()
