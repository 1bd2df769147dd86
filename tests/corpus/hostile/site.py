"""A hostile web site on loopback: whole answers from a table, and answers that no library's server would give.

It speaks HTTP by hand, one request a connection: only so can it break off, drip, lie about lengths and hang.
"""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

REASONS = {200: "OK", 302: "Found", 401: "Unauthorized", 404: "Not Found"}


class Reply(NamedTuple):
    """A whole answer; its length is stated."""

    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[str, ...] = ()


def page(body: str, head: str = "", title: str = "A page") -> str:
    return f'<!doctype html><html><head><meta charset="utf-8"><title>{title}</title>{head}</head><body>{body}</body>'


def moved(to: str) -> Reply:
    return Reply(status=302, headers=(f"Location: {to}",))


NOT_HERE = Reply(b"<p>not here", status=404)
Odd = Callable[["Site", asyncio.StreamWriter], Awaitable[None]]
Answers = dict[str, "Reply | Odd"]


class Site:
    """The running site.

    Args:
        answers: By path, without query.
        otherwise: For all other paths.

    Attributes:
        asked: How often each path was asked for; `CONNECTED` counts connections, even silent ones.
        done: Set when the site is to end, for answers that wait for ever.
    """

    CONNECTED = "connected"

    def __init__(self, answers: Answers, otherwise: Reply) -> None:
        self.asked: Counter[str] = Counter()
        self.done = asyncio.Event()
        self.port = 0
        self._answers = answers
        self._otherwise = otherwise
        self._open: set[asyncio.Task[None]] = set()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str, scheme: str = "http") -> str:
        return f"{scheme}://{self.host}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.asked[self.CONNECTED] += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode().partition("?")[0]
                self.asked[path] += 1
                answer = self._answers.get(path, self._otherwise)
                if isinstance(answer, Reply):
                    await send(writer, answer)
                else:
                    await answer(self, writer)
        finally:
            self._open.discard(task)
            writer.close()

    def end(self) -> None:
        """Breaks off what is still open."""
        self.done.set()
        for task in self._open:
            task.cancel()


async def send(writer: asyncio.StreamWriter, reply: Reply, *, length: int | None = None) -> None:
    """Writes an answer; `length` states another one than it has."""
    reason = REASONS.get(reply.status, "Status")
    lines = [
        f"HTTP/1.1 {reply.status} {reason}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(reply.body) if length is None else length}",
        "Connection: close",
    ]
    writer.write("\r\n".join([*lines, *reply.headers, "", ""]).encode("latin-1") + reply.body)
    await writer.drain()


@contextlib.asynccontextmanager
async def running(
    answers: Answers, *, otherwise: Reply = NOT_HERE, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    """The site on a free port, for as long as the block."""
    site = Site(answers, otherwise)
    server = await asyncio.start_server(site.serve, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        site.end()
        await server.wait_closed()
