"""A host gets its requests few at a time and apart, in the order of asking, and is forgotten when nothing is owed."""

import asyncio
import heapq
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.fetching.politeness import HOLD_MAX_S, Politeness

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

    def __init__(self, clock: Clock, politeness: Politeness) -> None:
        self.clock = clock
        self.politeness = politeness
        self.starts: list[tuple[str, float]] = []
        self.running: dict[str, int] = {}
        self.most: dict[str, int] = {}

    async def request(self, url: str, name: str = "", *, delay_s: float = 0.0, takes_s: float = 1.0) -> None:
        async with self.politeness.turn(url, delay_s=delay_s):
            host = url.split("/")[2]
            self.starts.append((name or host, self.clock.now - 100.0))
            self.running[host] = self.running.get(host, 0) + 1
            self.most[host] = max(self.most.get(host, 0), self.running[host])
            await self.clock.sleep(takes_s)
            self.running[host] -= 1


def polite(clock: Clock, requests: int = 1, delay_s: float = 0.0) -> Log:
    return Log(clock, Politeness(requests=requests, delay_s=delay_s, clock=clock, sleep=clock.sleep))


async def test_a_host_has_at_most_so_many_requests_at_once(clock):
    log = polite(clock, requests=2)

    await clock.run(*(log.request(A, str(n)) for n in range(5)))

    assert log.starts == [("0", 0.0), ("1", 0.0), ("2", 1.0), ("3", 1.0), ("4", 2.0)]


async def test_requests_of_a_host_start_apart(clock):
    log = polite(clock, requests=4, delay_s=3.0)

    await clock.run(*(log.request(A, str(n)) for n in range(3)))

    assert log.starts == [("0", 0.0), ("1", 3.0), ("2", 6.0)]


async def test_hosts_do_not_wait_for_each_other(clock):
    log = polite(clock, requests=1, delay_s=3.0)

    await clock.run(log.request(A), log.request(B), log.request("https://a.example:8443/"))

    assert [start for _, start in log.starts] == [0.0, 0.0, 0.0]


async def test_spellings_of_one_host_are_one_host(clock):
    log = polite(clock, requests=1)

    await clock.run(log.request("https://A.example/x"), log.request("https://a.example:443/y"))

    assert [start for _, start in log.starts] == [0.0, 1.0]


async def test_the_delay_holds_when_the_host_was_left_alone_in_between(clock):
    log = polite(clock, delay_s=5.0)

    await clock.run(log.request(A, "first"))
    await clock.run(log.request(A, "second"))

    assert log.starts == [("first", 0.0), ("second", 5.0)]


async def test_a_crawl_delay_counts_when_it_is_the_longer_one(clock):
    log = polite(clock, requests=9, delay_s=2.0)

    await clock.run(log.request(A, delay_s=4.0), log.request(A, delay_s=1.0), log.request(A))

    assert [start for _, start in log.starts] == [0.0, 4.0, 6.0]


async def test_retry_after_of_one_document_holds_its_host_and_no_other(clock):
    log = polite(clock, requests=9)
    log.politeness.hold(A + "busy", 7.0)
    log.politeness.hold(A + "less busy", 2.0)

    await clock.run(log.request(A), log.request(B))

    assert sorted(log.starts) == [("a.example", 7.0), ("b.example", 0.0)]


async def test_a_hold_reaches_those_who_wait_already(clock):
    log = polite(clock, requests=9, delay_s=2.0)

    async def busy() -> None:
        await clock.sleep(1.0)
        log.politeness.hold(A, 8.0)

    await clock.run(log.request(A), log.request(A), busy())

    assert [start for _, start in log.starts] == [0.0, 9.0]


@pytest.mark.parametrize(
    ("seconds", "start"),
    [(99_999.0, HOLD_MAX_S), (float("inf"), HOLD_MAX_S), (-5.0, 0.0), (0.0, 0.0), (float("nan"), 0.0)],
)
async def test_a_hold_is_bounded_whatever_the_server_says(clock, seconds, start):
    log = polite(clock)
    log.politeness.hold(A, seconds)

    await clock.run(log.request(A))

    assert log.starts == [("a.example", start)]


async def test_a_request_that_failed_or_was_given_up_leaves_its_place(clock):
    log = polite(clock, requests=1)

    async def fails() -> None:
        with pytest.raises(RuntimeError):
            async with log.politeness.turn(A):
                raise RuntimeError

    await clock.run(fails())
    first, waiting = asyncio.ensure_future(log.request(A)), asyncio.ensure_future(log.request(A))
    await asyncio.sleep(0)
    waiting.cancel()
    await clock.run(first, log.request(A, "next"))

    assert log.starts == [("a.example", 0.0), ("next", 1.0)]
    assert len(log.politeness) == 0


@pytest.mark.parametrize("delay_s", [0.0, 5.0])
async def test_idle_hosts_are_forgotten(clock, delay_s):
    politeness = Politeness(requests=2, delay_s=delay_s, clock=clock, sleep=clock.sleep)

    for n in range(100_000):
        async with politeness.turn(f"https://h{n}.example/"):
            clock.now += 1.0

    assert len(politeness) <= 64


async def test_a_host_on_hold_is_not_forgotten_among_others(clock):
    log = polite(clock)
    log.politeness.hold(A, 50.0)
    for n in range(1000):
        async with log.politeness.turn(f"https://h{n}.example/"):
            pass

    await clock.run(log.request(A))

    assert log.starts == [("a.example", 50.0)]


async def test_an_address_without_host_is_refused(clock):
    log = polite(clock)

    with pytest.raises(ValueError, match="names no host"):
        await log.request("file:///etc/passwd")


@settings(deadline=None, max_examples=60)
@given(
    requests=st.integers(1, 3),
    delay_s=st.sampled_from([0.0, 0.5, 2.0]),
    jobs=st.lists(st.tuples(st.sampled_from([A, B]), st.sampled_from([0.25, 1.0, 3.0])), max_size=12),
)
def test_whatever_is_asked_the_two_limits_hold_and_everything_is_served(requests, delay_s, jobs):
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
