"""An HTTP server over loopback that does what a test's script says, well-behaved or not."""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NamedTuple


class Asked(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Step = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class ScriptedServer:
    """Plays one step a request; the last step is played for ever."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = list(steps)
        self.asked: list[Asked] = []
        self.at_once = 0
        self.most_at_once = 0
        self.base_url = ""

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                asked = await _read(reader)
                if asked is None:
                    break
                self.asked.append(asked)
                step = self.steps[min(len(self.asked), len(self.steps)) - 1]
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    await step(asked, writer)
                finally:
                    self.at_once -= 1
        writer.close()


@contextlib.asynccontextmanager
async def serving(*steps: Step, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    script = ScriptedServer(steps)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):  # asyncio would report a cancelled connection as a fault
            await script.serve_connection(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    script.base_url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield script
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body)


def raw(*pieces: bytes, close: bool = True) -> Step:
    """Exactly these bytes, a packet a piece, and then the end of the connection."""

    async def step(_: Asked, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if close:
            writer.close()

    return step


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1")


def reply(status: int = 200, body: bytes | str | Any = b"", headers: dict[str, str] | None = None) -> Step:
    """A whole reply; a body that is no text is sent as JSON."""
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, bytes | str) else "application/json"
    fields = {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}
    return raw(head(status, fields) + data, close=False)


def stream(*pieces: bytes | str, end: bool = True, status: int = 200) -> Step:
    """A chunked event stream; without its end, the connection is closed where the last chunk ought to follow."""
    chunks = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
    framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk]
    first = head(status, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
    return raw(first, *framed, *([b"0\r\n\r\n"] if end else []), close=not end)


def reset(*pieces: bytes) -> Step:
    """These bytes, and then a reset of the connection."""

    async def step(_: Asked, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return step


def hang(*pieces: bytes) -> Step:
    """These bytes, and then nothing more."""

    async def step(_: Asked, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        await asyncio.Event().wait()

    return step


def drip(first: bytes, byte: bytes) -> Step:
    """A byte now and then, for ever: each comes soon enough for a limit between two reads."""

    async def step(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(byte)
            await writer.drain()
            await asyncio.sleep(0.01)

    return step
