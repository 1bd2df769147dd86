"""Politeness: how many requests a host gets at once, and how far apart they start.

A host is scheme, name and port together. Turns are given in the order of asking. What is known of a host is forgotten
once it would change nothing, so that a corpus of a hundred thousand hosts costs no more than one of ten.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rag_eval_pipeline.corpus.egress.config import origin_of

HOLD_MAX_S = 60.0  # a `Retry-After: 86400` would otherwise keep the whole nightly run waiting
_SWEEP_FROM = 64  # hosts; fewer are not worth looking through


@dataclass(slots=True)
class _Host:
    slots: asyncio.Semaphore
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_start: float = 0.0
    users: int = 0


class Politeness:
    """Turns at the hosts; belongs to one event loop.

    Args:
        requests: At most as many of one host at the same time.
        delay_s: Least seconds between the starts of two requests to one host.
        clock: Seconds that only grow.
        sleep: Waits for seconds of that clock.
    """

    def __init__(
        self,
        *,
        requests: int,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._requests = requests
        self._delay_s = delay_s
        self._clock = clock
        self._sleep = sleep
        self._hosts: dict[str, _Host] = {}
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        """Hosts that are remembered."""
        return len(self._hosts)

    @asynccontextmanager
    async def turn(self, url: str, *, delay_s: float = 0.0) -> AsyncIterator[None]:
        """One request to the URL's host, once it is this one's turn.

        A redirect to another host needs a turn of its own, after this one: two requests that each wait for the other's
        host would wait for ever.

        Args:
            url: What is asked for.
            delay_s: Seconds until the next one may start, where the host asked for more than the setting
                (`Robots.crawl_delay_s`).

        Raises:
            ValueError: The URL names no host.
        """
        key, host = self._host(url)
        host.users += 1
        try:
            async with host.slots:
                async with host.starting:
                    # Again after each wait: the host may have been put on hold in the meantime.
                    while (wait_s := host.next_start - self._clock()) > 0:
                        await self._sleep(wait_s)
                    host.next_start = self._clock() + max(self._delay_s, delay_s)
                yield
        finally:
            host.users -= 1
            if self._is_idle(host):
                del self._hosts[key]

    def hold(self, url: str, seconds: float) -> None:
        """No request to the URL's host starts for so long; those that have started go on.

        Args:
            url: The one that was answered with `Retry-After`.
            seconds: At most `HOLD_MAX_S` count; a shorter hold than the one in force changes nothing.

        Raises:
            ValueError: The URL names no host.
        """
        until = self._clock() + min(seconds, HOLD_MAX_S)
        if until > self._clock():
            _, host = self._host(url)
            host.next_start = max(host.next_start, until)

    def _host(self, url: str) -> tuple[str, _Host]:
        key = origin_of(url)
        if key is None:
            raise ValueError(f"{url[:200]!r} names no host")
        if key not in self._hosts:
            self._sweep()
            self._hosts[key] = _Host(asyncio.Semaphore(self._requests))
        return key, self._hosts[key]

    def _sweep(self) -> None:
        """Forgets idle hosts whenever their number has doubled, which costs a constant time a host."""
        if len(self._hosts) < self._sweep_at:
            return
        self._hosts = {key: host for key, host in self._hosts.items() if not self._is_idle(host)}
        self._sweep_at = max(_SWEEP_FROM, 2 * len(self._hosts))

    def _is_idle(self, host: _Host) -> bool:
        return host.users == 0 and host.next_start <= self._clock()
