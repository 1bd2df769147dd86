"""When requests may start: slots, even spacing, pauses that a server asks for, and the waits before a retry."""

import asyncio
import datetime as dt
import email.utils
import functools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from rag_eval_pipeline.web.egress import origin_of

RETRIED_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)})  # which may pass, of servers of any kind
# Codes of attempts without a whole response which may pass as well.
RETRIED_CODES = frozenset(
    {"connection_refused", "connection_reset", "connection_broken", "dns", "connect_timeout", "attempt_timeout"}
)
PERMANENT_STATUSES = frozenset(range(400, 500)) - RETRIED_STATUSES
PAUSE_MAX_S = 60.0  # a `Retry-After: 86400` must not hold up a whole run
BACKOFF_MAX_S = 30.0  # longest wait without a `Retry-After`


class RateLimiter:
    """Limits the requests in flight to one server and spaces their starts evenly; belongs to one event loop.

    A token bucket would let a minute's worth through at once, which a server with a limit answers with 429.
    """

    def __init__(
        self,
        in_flight: int,
        interval_s: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._slots = asyncio.Semaphore(in_flight)
        self._starting = asyncio.Lock()
        self._interval_s = interval_s
        self._clock = clock
        self._sleep = sleep
        self._next_start = float("-inf")
        self._users = 0

    @property
    def is_idle(self) -> bool:
        """Whether forgetting this limiter would change nothing."""
        return self._users == 0 and self._next_start <= self._clock()

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a slot, the spacing and the end of any pause, in order of arrival; hold the slot in the block."""
        self._users += 1
        try:
            async with self._slots:
                async with self._starting:
                    # Checked again after each wait: a pause may have begun in the meantime.
                    while (wait_s := self._next_start - self._clock()) > 0:
                        await self._sleep(wait_s)
                    self._next_start = self._clock() + self._interval_s
                yield
        finally:
            self._users -= 1

    def pause(self, seconds: float) -> None:
        """Start nothing for so long, at most `PAUSE_MAX_S`; a longer pause in force stays."""
        self._next_start = max(self._next_start, self._clock() + min(seconds, PAUSE_MAX_S))


class HostLimits:
    """A rate limiter for each origin (scheme, host and port), forgotten once it is idle; arguments as there."""

    def __init__(
        self,
        *,
        requests: int,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._make = functools.partial(RateLimiter, requests, delay_s, clock=clock, sleep=sleep)
        self._hosts: dict[str | None, RateLimiter] = {}

    @asynccontextmanager
    async def acquire(self, url: str) -> AsyncIterator[None]:
        """Wait for a turn at the URL's host.

        A redirect to another host needs a turn of its own after this one: two requests that each hold a slot and wait
        for the other's host would deadlock.
        """
        limiter = self._limiter(url)
        try:
            async with limiter.acquire():
                yield
        finally:
            if limiter.is_idle:
                self._hosts.pop(origin_of(url), None)

    def pause(self, url: str, seconds: float) -> None:
        """Start no request to the URL's host for so long."""
        self._limiter(url).pause(seconds)

    def _limiter(self, url: str) -> RateLimiter:
        origin = origin_of(url)
        if origin not in self._hosts:
            self._hosts[origin] = self._make()
        return self._hosts[origin]


def retry_after(value: str | None, now: dt.datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait; `now` is aware.

    Returns:
        0.0 for a moment in the past; None for anything but a number or a date, a negative number included.

    Source: RFC 9110, 10.2.3.
    """
    text = (value or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdecimal():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or dt.UTC) - now).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return None


def backoff(attempt: int, first_s: float, rng: random.Random) -> float:
    """Return the seconds before the next attempt: full jitter below `first_s`, doubled after each further attempt.

    Source: Brooker, Exponential Backoff And Jitter (AWS Architecture Blog, 2015).
    """
    return rng.uniform(0.0, min(BACKOFF_MAX_S, first_s * 2 ** (attempt - 1)))
