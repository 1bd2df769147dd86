"""Turns are spaced by the rate, given in order, and wait for a pause that anyone's reply has asked for."""

import asyncio

import pytest

from rag_eval_pipeline.endpoints.limiter import PAUSE_MAX_S, Limiter


class Clock:
    """Time that passes only when everybody waits for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        due = asyncio.Event()
        self._waiting.append((self.now + seconds, due))
        await due.wait()

    async def run(self, tasks) -> None:
        everyone = asyncio.gather(*tasks)
        while not everyone.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if self._waiting:
                self._waiting.sort(key=lambda pair: pair[0])
                self.now, due = self._waiting.pop(0)
                due.set()
        await everyone


async def starts(limiter, clock, number, *, lasting=0.0):
    begun = []

    async def one():
        async with limiter.turn():
            begun.append(clock.now)
            if lasting:
                await clock.sleep(lasting)

    await clock.run([one() for _ in range(number)])
    return begun


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_without_a_rate_turns_start_at_once(clock):
    assert await starts(Limiter(9, clock=clock, sleep=clock.sleep), clock, 3) == [0, 0, 0]


async def test_a_rate_spaces_the_starts_evenly(clock):
    limiter = Limiter(9, 30, clock=clock, sleep=clock.sleep)

    assert await starts(limiter, clock, 4) == [0, 2, 4, 6]


async def test_a_rate_is_not_saved_up(clock):
    limiter = Limiter(9, 30, clock=clock, sleep=clock.sleep)
    await starts(limiter, clock, 1)
    clock.now = 100

    assert await starts(limiter, clock, 3) == [100, 102, 104]


async def test_slots_bound_what_is_under_way(clock):
    limiter = Limiter(2, clock=clock, sleep=clock.sleep)

    assert await starts(limiter, clock, 5, lasting=10) == [0, 0, 10, 10, 20]


async def test_a_pause_holds_for_everybody(clock):
    limiter = Limiter(9, clock=clock, sleep=clock.sleep)
    limiter.pause(7)

    assert await starts(limiter, clock, 2) == [7, 7]


async def test_a_shorter_pause_does_not_end_a_longer_one(clock):
    limiter = Limiter(9, clock=clock, sleep=clock.sleep)
    limiter.pause(7)
    limiter.pause(1)

    assert await starts(limiter, clock, 1) == [7]


async def test_a_pause_is_capped(clock):
    limiter = Limiter(9, clock=clock, sleep=clock.sleep)
    limiter.pause(99_999)

    assert await starts(limiter, clock, 1) == [PAUSE_MAX_S]


async def test_who_already_waits_for_the_rate_waits_for_a_pause_too_and_is_spaced_behind_it(clock):
    limiter = Limiter(9, 30, clock=clock, sleep=clock.sleep)
    begun = []

    async def one():
        async with limiter.turn():
            begun.append(clock.now)

    async def pause():
        await clock.sleep(1)
        limiter.pause(20)

    await clock.run([one(), one(), one(), pause()])

    # The second and third were to start at 2 and 4.
    assert begun[0] == 0
    assert begun[1] >= 21
    assert begun[2] >= begun[1] + 2


async def test_a_caller_that_is_gone_gives_its_slot_back(clock):
    limiter = Limiter(1, clock=clock, sleep=clock.sleep)
    limiter.pause(5)
    gone = asyncio.create_task(starts(limiter, clock, 1))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    clock.now = 5

    assert await starts(limiter, clock, 1) == [5]
