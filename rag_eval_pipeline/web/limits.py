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

PAUSE_MAX_S = 60.0  # a `Retry-After: 86400` must not hold up a whole run
BACKOFF_MAX_S = 30.0  # longest wait without a `Retry-After`
_SWEEP_FROM = 64  # hosts; fewer are not worth looking through


class RateLimiter:
    """Limits the requests in flight to one server and spaces their starts evenly; belongs to one event loop.

    A token bucket would let a minute's worth through at once, which a server with a limit answers with 429.

    Args:
        in_flight: Requests at the same time.
        interval_s: Seconds between two starts.
        clock: Monotonic seconds.
        sleep: Waits for seconds of that clock.
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
    async def acquire(self, *, interval_s: float = 0.0) -> AsyncIterator[None]:
        """Wait for a slot, the spacing and the end of any pause, in order of arrival; hold the slot inside the block.

        The next request starts after `interval_s`, if that is longer than the limiter's own interval.
        """
        self._users += 1
        try:
            async with self._slots:
                async with self._starting:
                    # Checked again after each wait: a pause may have begun in the meantime.
                    while (wait_s := self._next_start - self._clock()) > 0:
                        await self._sleep(wait_s)
                    self._next_start = self._clock() + max(self._interval_s, interval_s)
                yield
        finally:
            self._users -= 1

    def pause(self, seconds: float) -> None:
        """Start nothing for so long, at most `PAUSE_MAX_S`; a longer pause in force stays."""
        self._next_start = max(self._next_start, self._clock() + min(seconds, PAUSE_MAX_S))


class HostLimits:
    """A rate limiter for each origin (scheme, host and port); idle ones are forgotten.

    Args:
        requests: Requests to one host at the same time.
        delay_s: Seconds between two starts at one host.
        clock: As for `RateLimiter`.
        sleep: As for `RateLimiter`.
    """

    def __init__(
        self,
        *,
        requests: int,
        delay_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._make = functools.partial(RateLimiter, requests, delay_s, clock=clock, sleep=sleep)
        self._hosts: dict[str, RateLimiter] = {}
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        """Hosts that are remembered."""
        return len(self._hosts)

    @asynccontextmanager
    async def acquire(self, url: str, *, delay_s: float = 0.0) -> AsyncIterator[None]:
        """Wait for a turn at the URL's host.

        A redirect to another host needs a turn of its own after this one: two requests that each hold a slot and wait
        for the other's host would deadlock.

        Raises:
            ValueError: The URL names no host.
        """
        limiter = self._limiter(url)
        try:
            async with limiter.acquire(interval_s=delay_s):
                yield
        finally:
            if limiter.is_idle:
                self._hosts.pop(str(origin_of(url)), None)

    def pause(self, url: str, seconds: float) -> None:
        """Start no request to the URL's host for so long."""
        if seconds > 0:
            self._limiter(url).pause(seconds)

    def _limiter(self, url: str) -> RateLimiter:
        origin = origin_of(url)
        if origin is None:
            raise ValueError(f"{url[:200]!r} names no host")
        if origin not in self._hosts:
            # Sweep when the number of hosts has doubled: constant time a host, and 100,000 hosts cost no more than ten.
            if len(self._hosts) >= self._sweep_at:
                self._hosts = {name: host for name, host in self._hosts.items() if not host.is_idle}
                self._sweep_at = max(_SWEEP_FROM, 2 * len(self._hosts))
            self._hosts[origin] = self._make()
        return self._hosts[origin]


def retry_after(value: str | None, now: dt.datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait.

    Args:
        value: The header; None if there is none.
        now: Aware.

    Returns:
        0.0 for a moment in the past; None for anything but a number or a date, a negative number included.

    Source: RFC 9110, 10.2.3.
    """
    text = (value or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdecimal():
        # Twenty digits are a number too; float() has no limit on them, int() has.
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or dt.UTC) - now).total_seconds())
    except (ValueError, OverflowError, TypeError):
        return None


def backoff(attempt: int, first_s: float, rng: random.Random) -> float:
    """Return the seconds before the next attempt: full jitter below a ceiling that doubles.

    Args:
        attempt: Attempts made so far, 1 or more.
        first_s: Ceiling after the first attempt.
        rng: Draws the jitter.

    Source: Brooker, Exponential Backoff And Jitter (AWS Architecture Blog, 2015).
    """
    return rng.uniform(0.0, min(BACKOFF_MAX_S, first_s * 2 ** (attempt - 1)))
