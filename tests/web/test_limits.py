"""Requests start few at a time, evenly spaced and in order, and wait for pauses."""

import asyncio
import datetime as dt
import heapq
import random
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.web.rate_limits import BACKOFF_MAX_S, PAUSE_MAX_S, HostLimits, backoff, retry_after

A = "https://a.example/"
B = "https://b.example/"


class Clock:
    """Time that passes only when all work waits for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = count()

    async def sleep(self, seconds: float) -> None:
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._number), waking))
        await waking

    async def run(self, *work) -> None:
        """Do the work, whose sleeps take no time."""
        done = asyncio.gather(*work)
        while not done.done():
            for _ in range(10):  # steps that the work may take without sleeping
                await asyncio.sleep(0)
            if self._sleepers and not done.done():
                self.now, _, waking = heapq.heappop(self._sleepers)
                if not waking.done():
                    waking.set_result(None)
        await done


class Log:
    """Requests to hosts that take a second each, and when they started."""

    def __init__(self, requests: int = 1, delay_s: float = 0.0) -> None:
        self.clock = Clock()
        self.limits = HostLimits(
            requests=requests, delay_s=delay_s, clock=lambda: self.clock.now, sleep=self.clock.sleep
        )
        self.starts: list[tuple[str, float]] = []

    async def request(self, url: str) -> None:
        async with self.limits.acquire(url):
            self.starts.append((url, self.clock.now))
            await self.clock.sleep(1.0)

    async def run(self, *urls: str) -> list[float]:
        """Return when requests that are made at once have started."""
        await self.clock.run(*map(self.request, urls))
        return [start for _, start in self.starts]


STARTS = {
    "two at a time": ({"requests": 2}, [A] * 5, [0, 0, 1, 1, 2]),
    "spaced": ({"requests": 4, "delay_s": 3}, [A] * 3, [0, 3, 6]),
    "hosts for themselves": ({"delay_s": 3}, [A, B, "https://a.example:8443/"], [0, 0, 0]),
    "spellings of one host": ({}, ["https://A.example/x", "https://a.example:443/y"], [0, 1]),
}


@pytest.mark.parametrize(("options", "urls", "starts"), STARTS.values(), ids=STARTS)
async def test_host_limits_start_requests(options, urls, starts):
    assert await Log(**options).run(*urls) == starts


async def test_host_limits_save_no_starts_up():
    log = Log(requests=9, delay_s=2)

    await log.run(A)
    log.clock.now = 100.0
    await log.run(A, A)

    assert [start for _, start in log.starts] == [0, 100, 102]


async def test_host_limits_pause_one_host_also_for_requests_that_already_wait():
    log = Log(requests=9, delay_s=2)

    async def busy() -> None:
        await log.clock.sleep(1)
        log.limits.pause(A, 8)
        log.limits.pause(A, 2)

    await log.clock.run(log.request(A), log.request(A), log.request(B), busy())

    assert log.starts == [(A, 0), (B, 0), (A, 9)]


@pytest.mark.fault(18)
@pytest.mark.parametrize(("seconds", "start"), [(99_999.0, PAUSE_MAX_S), (-5.0, 0.0)])
async def test_host_limits_cap_a_pause(seconds, start):
    log = Log()
    log.limits.pause(A, seconds)

    assert await log.run(A) == [start]


async def test_host_limits_release_the_slot_of_a_cancelled_request():
    log = Log()
    first, waiting = asyncio.ensure_future(log.request(A)), asyncio.ensure_future(log.request(A))
    await asyncio.sleep(0)
    waiting.cancel()
    await log.clock.run(first, log.request(A))

    assert [start for _, start in log.starts] == [0, 1]


@given(requests=st.integers(1, 3), delay_s=st.sampled_from([0.0, 0.5, 2.0]), urls=st.lists(st.sampled_from([A, B])))
def test_host_limits_hold_and_serve_everything(requests, delay_s, urls):
    log = Log(requests, delay_s)
    asyncio.run(log.run(*urls))

    assert len(log.starts) == len(urls)
    for host in (A, B):
        starts = [start for url, start in log.starts if url == host]
        assert all(later - sooner >= delay_s for sooner, later in pairwise(starts))
        # A request takes a second: the n-th after another starts when that one has ended.
        assert all(later - sooner >= 1 for sooner, later in zip(starts, starts[requests:], strict=False))


NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
HEADERS = {
    "none":               (None,                                None),
    "a fraction":         ("1.5",                               1.5),
    "huge":               ("9" * 30,                            1e30),
    "negative":           ("-5",                                None),
    "Arabic digits":      ("٧",                                 None),
    "infinite":           ("inf",                               None),
    "a date":             ("Fri, 02 Jan 2026 03:04:35 GMT",     30.0),
    "a date that is past": ("Fri, 02 Jan 2026 03:04:00 GMT",    0.0),
    "no such date":       ("Fri, 99 Jan 2026 03:04:00 GMT",     None),
}  # fmt: skip


@pytest.mark.fault(45)
@pytest.mark.parametrize(("value", "expected"), HEADERS.values(), ids=HEADERS)
def test_retry_after(value, expected):
    assert retry_after(value, NOW) == expected


@pytest.mark.fault(45)
def test_backoff_is_drawn_below_a_doubling_ceiling():
    for attempt, ceiling in ((1, 0.5), (2, 1.0), (3, 2.0), (50, BACKOFF_MAX_S)):
        drawn = [backoff(attempt, 0.5, random.Random(seed)) for seed in range(50)]
        assert 0.8 * ceiling < max(drawn) <= ceiling
        assert min(drawn) < 0.2 * ceiling
