"""Connections to one server, a client each: httpx looks through all connections of a client at every step of a request.

With 64 in flight in one client a request took 9.4 ms of processor time, with a client for each of them 0.8 ms
(bench/evaluation.py measures both).
"""

import contextlib
from collections.abc import Callable, Iterator

import httpx


class Connections:
    """Clients that are lent one request at a time; as many as were ever needed at once.

    Args:
        make: Makes a client of one connection.
    """

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._idle: list[httpx.AsyncClient] = []
        self._all: list[httpx.AsyncClient] = []

    @contextlib.contextmanager
    def taken(self) -> Iterator[httpx.AsyncClient]:
        """A client for a block; the one that was used last, whose connection is most likely still open."""
        if not self._idle:
            client = self._make()
            self._all.append(client)
            self._idle.append(client)
        client = self._idle.pop()
        try:
            yield client
        finally:
            self._idle.append(client)

    async def aclose(self) -> None:
        """Closes every connection."""
        for client in self._all:
            await client.aclose()
        self._all, self._idle = [], []
