"""Turns at one server: so many at once, so many a minute, and a pause for all when the server asks for one."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

PAUSE_MAX_S = 60.0  # one header of one reply cannot hold up everybody for longer


class Limiter:
    """Hands out turns in the order of asking.

    A rate is kept by spacing the starts evenly, not by a bucket: a bucket lets a minute's worth through at once, which
    is what a limit of a server answers with 429.

    Args:
        in_flight: Turns at once.
        requests_per_minute: Starts in a minute; None for no limit.
        clock: Seconds; only differences count.
        sleep: Waits so many seconds of that clock.
    """

    def __init__(
        self,
        in_flight: int,
        requests_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._slots = asyncio.Semaphore(in_flight)
        self._interval = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next_start = float("-inf")
        self._paused_until = float("-inf")

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a slot, the rate and the end of a pause; holds the slot within."""
        async with self._slots:
            await self._due()
            yield

    def pause(self, seconds: float) -> None:
        """Nothing starts for so long, at most `PAUSE_MAX_S`; a longer pause that is under way stands."""
        self._paused_until = max(self._paused_until, self._clock() + min(seconds, PAUSE_MAX_S))

    async def _due(self) -> None:
        while True:
            now = self._clock()
            start = max(now, self._next_start, self._paused_until)
            self._next_start = start + self._interval
            if start > now:
                await self._sleep(start - now)
            # A pause may have begun meanwhile; who waits through it takes a new place behind it, spaced as ever.
            if self._paused_until <= start:
                return
