"""Requests start few at a time, evenly spaced and in order, wait for pauses, and idle hosts are forgotten."""

import asyncio
import datetime as dt
import heapq
import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.web.limits import BACKOFF_MAX_S, PAUSE_MAX_S, HostLimits, RateLimiter, backoff, retry_after

A = "https://a.example/"
B = "https://b.example/"


class Clock:
    """Time that passes only when everybody waits for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = count()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waking = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._number), waking))
        await waking

    async def run(self, *work) -> list[object]:
        """The results of the work, whose sleeps take no time."""
        done = asyncio.gather(*work)
        while not done.done():
            for _ in range(10):  # steps that the work may take without sleeping
                await asyncio.sleep(0)
            if self._sleepers and not done.done():
                self.now, _, waking = heapq.heappop(self._sleepers)
                if not waking.done():
                    waking.set_result(None)
        return await done


@pytest.fixture
def clock():
    return Clock()


class Log:
    """Requests that take a second each, and what was seen of them."""

    def __init__(self, clock: Clock, limits: HostLimits) -> None:
        self.clock = clock
        self.limits = limits
        self.starts: list[tuple[str, float]] = []
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}

    async def request(self, url: str, name: str = "", *, delay_s: float = 0.0, takes_s: float = 1.0) -> None:
        async with self.limits.acquire(url, delay_s=delay_s):
            host = url.split("/")[2]
            self.starts.append((name or host, self.clock.now - 100.0))
            self.running[host] = self.running.get(host, 0) + 1
            self.most[host] = max(self.most.get(host, 0), self.running[host])
            await self.clock.sleep(takes_s)
            self.running[host] -= 1


def polite(clock: Clock, requests: int = 1, delay_s: float = 0.0) -> Log:
    return Log(clock, HostLimits(requests=requests, delay_s=delay_s, clock=clock, sleep=clock.sleep))


async def test_host_limits_bound_requests_in_flight(clock):
    log = polite(clock, requests=2)

    await clock.run(*(log.request(A, str(n)) for n in range(5)))

    assert log.starts == [("0", 0.0), ("1", 0.0), ("2", 1.0), ("3", 1.0), ("4", 2.0)]


async def test_host_limits_space_the_starts(clock):
    log = polite(clock, requests=4, delay_s=3.0)

    await clock.run(*(log.request(A, str(n)) for n in range(3)))

    assert log.starts == [("0", 0.0), ("1", 3.0), ("2", 6.0)]


async def test_host_limits_are_per_host(clock):
    log = polite(clock, requests=1, delay_s=3.0)

    await clock.run(log.request(A), log.request(B), log.request("https://a.example:8443/"))

    assert [start for _, start in log.starts] == [0.0, 0.0, 0.0]


async def test_host_limits_know_spellings_of_one_host(clock):
    log = polite(clock, requests=1)

    await clock.run(log.request("https://A.example/x"), log.request("https://a.example:443/y"))

    assert [start for _, start in log.starts] == [0.0, 1.0]


async def test_host_limits_keep_the_delay_of_an_idle_host(clock):
    log = polite(clock, delay_s=5.0)

    await clock.run(log.request(A, "first"))
    await clock.run(log.request(A, "second"))

    assert log.starts == [("first", 0.0), ("second", 5.0)]


async def test_host_limits_use_the_longer_of_two_delays(clock):
    log = polite(clock, requests=9, delay_s=2.0)

    await clock.run(log.request(A, delay_s=4.0), log.request(A, delay_s=1.0), log.request(A))

    assert [start for _, start in log.starts] == [0.0, 4.0, 6.0]


async def test_host_limits_pause_one_host_only(clock):
    log = polite(clock, requests=9)
    log.limits.pause(A + "busy", 7.0)
    log.limits.pause(A + "less busy", 2.0)

    await clock.run(log.request(A), log.request(B))

    assert sorted(log.starts) == [("a.example", 7.0), ("b.example", 0.0)]


async def test_host_limits_pause_those_who_already_wait(clock):
    log = polite(clock, requests=9, delay_s=2.0)

    async def busy() -> None:
        await clock.sleep(1.0)
        log.limits.pause(A, 8.0)

    await clock.run(log.request(A), log.request(A), busy())

    assert [start for _, start in log.starts] == [0.0, 9.0]


@pytest.mark.parametrize(
    ("seconds", "start"),
    [(99_999.0, PAUSE_MAX_S), (float("inf"), PAUSE_MAX_S), (-5.0, 0.0), (0.0, 0.0), (float("nan"), 0.0)],
)
async def test_host_limits_cap_a_pause(clock, seconds, start):
    log = polite(clock)
    log.limits.pause(A, seconds)

    await clock.run(log.request(A))

    assert log.starts == [("a.example", start)]


async def test_host_limits_release_the_slot_of_a_failed_or_cancelled_request(clock):
    log = polite(clock, requests=1)

    async def fails() -> None:
        with pytest.raises(RuntimeError):
            async with log.limits.acquire(A):
                raise RuntimeError

    await clock.run(fails())
    first, waiting = asyncio.ensure_future(log.request(A)), asyncio.ensure_future(log.request(A))
    await asyncio.sleep(0)
    waiting.cancel()
    await clock.run(first, log.request(A, "next"))

    assert log.starts == [("a.example", 0.0), ("next", 1.0)]
    assert len(log.limits) == 0


@pytest.mark.parametrize("delay_s", [0.0, 5.0])
async def test_host_limits_forget_idle_hosts(clock, delay_s):
    limits = HostLimits(requests=2, delay_s=delay_s, clock=clock, sleep=clock.sleep)

    for n in range(100_000):
        async with limits.acquire(f"https://h{n}.example/"):
            clock.now += 1.0

    assert len(limits) <= 64


async def test_host_limits_remember_a_paused_host(clock):
    log = polite(clock)
    log.limits.pause(A, 50.0)
    for n in range(1000):
        async with log.limits.acquire(f"https://h{n}.example/"):
            pass

    await clock.run(log.request(A))

    assert log.starts == [("a.example", 50.0)]


async def test_host_limits_refuse_an_address_without_host(clock):
    log = polite(clock)

    with pytest.raises(ValueError, match="names no host"):
        await log.request("file:///etc/passwd")


@settings(deadline=None, max_examples=60)
@given(
    requests=st.integers(1, 3),
    delay_s=st.sampled_from([0.0, 0.5, 2.0]),
    jobs=st.lists(st.tuples(st.sampled_from([A, B]), st.sampled_from([0.25, 1.0, 3.0])), max_size=12),
)
def test_host_limits_hold_and_serve_everything(requests, delay_s, jobs):
    clock = Clock()
    log = polite(clock, requests, delay_s)

    async def main() -> None:
        await clock.run(*(log.request(url, takes_s=takes_s) for url, takes_s in jobs))

    asyncio.run(main())

    assert len(log.starts) == len(jobs)
    for host in ("a.example", "b.example"):
        starts = [start for name, start in log.starts if name == host]
        assert log.most.get(host, 0) <= requests
        assert all(later - sooner >= delay_s for sooner, later in zip(starts, starts[1:], strict=False))


async def test_rate_limiter_does_not_save_up_unused_starts(clock):
    limiter = RateLimiter(9, 2.0, clock=clock, sleep=clock.sleep)
    starts = []

    async def one() -> None:
        async with limiter.acquire():
            starts.append(clock.now)

    await clock.run(one())
    clock.now = 200.0
    await clock.run(one(), one(), one())

    assert starts == [100.0, 200.0, 202.0, 204.0]


NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
HEADERS = {
    "none":               (None,                                None),
    "empty":              ("",                                  None),
    "a number":           ("7",                                 7.0),
    "a fraction":         ("1.5",                               1.5),
    "zero":               ("0",                                 0.0),
    "huge":               ("9" * 30,                            1e30),
    "negative":           ("-5",                                None),
    "Arabic digits":      ("٧",                                 None),
    "words":              ("soon",                              None),
    "infinite":           ("inf",                               None),
    "a date":             ("Fri, 02 Jan 2026 03:04:35 GMT",     30.0),
    "a date without zone": ("Fri, 02 Jan 2026 03:04:35 -0000",  30.0),
    "a date that is past": ("Fri, 02 Jan 2026 03:04:00 GMT",    0.0),
    "no such date":       ("Fri, 99 Jan 2026 03:04:00 GMT",     None),
}  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), HEADERS.values(), ids=HEADERS)
def test_retry_after(value, expected):
    assert retry_after(value, NOW) == expected


@given(st.text())
def test_retry_after_of_any_text_is_a_wait_or_none(value):
    wait = retry_after(value, NOW)

    assert wait is None or wait >= 0


@given(attempt=st.integers(1, 50), seed=st.integers())
def test_backoff_stays_below_a_doubling_ceiling(attempt, seed):
    assert 0 <= backoff(attempt, 0.5, random.Random(seed)) <= min(BACKOFF_MAX_S, 0.5 * 2 ** (attempt - 1))


def test_backoff_depends_on_the_seed():
    waits = [
        [backoff(n, 0.5, rng) for n in (1, 2, 3)] for rng in (random.Random(7), random.Random(7), random.Random(8))
    ]

    assert waits[0] == waits[1] != waits[2]
