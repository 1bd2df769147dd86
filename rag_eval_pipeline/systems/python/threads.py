"""Calls of code that is not async, each in a thread that may be left behind.

The interpreter waits at its end for the threads of `asyncio.to_thread`: one call that never returns would keep a
finished run alive. These are daemon threads of our own. A call that is given up keeps its thread until it returns, if
ever, and what it returns is thrown away. Threads that are not given up are used again,
so that what a library keeps by thread is kept.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

ABANDONED_LIMIT = 256  # threads, at 8 MB of address space each; a system that hangs this often answers nobody


class Outcome(NamedTuple):
    """What a call returned or raised; an exception is a value here, for a future refuses some of them."""

    value: Any
    error: BaseException | None


class TooManyAbandoned(Exception):
    """Calls that were given up have not returned."""


class CallThreads:
    """A thread for each call that runs; used on one event loop."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._abandoned: set[_Worker] = set()

    async def call(self, function: Callable[[], Any]) -> Outcome:
        """What a function returned or raised; `TooManyAbandoned` when 256 calls that were given up still run."""
        self._abandoned = {worker for worker in self._abandoned if worker.is_alive()}
        if len(self._abandoned) >= ABANDONED_LIMIT:
            return Outcome(None, TooManyAbandoned(f"{len(self._abandoned)} earlier calls have not returned"))
        worker = self._idle.pop() if self._idle else _Worker()
        try:
            outcome = await worker.run(function)
        except BaseException:  # given up: what called this was cancelled
            self._abandoned.add(worker)
            worker.stop()
            raise
        self._idle.append(worker)
        return outcome

    def close(self) -> None:
        """Lets the threads end; those whose call has not returned are not waited for."""
        for worker in self._idle:
            worker.stop()
        self._idle.clear()


class _Worker:
    """One daemon thread that runs one function after the other."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Outcome]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="python-system", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def run(self, function: Callable[[], Any]) -> "asyncio.Future[Outcome]":
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._jobs.put((function, future))
        return future

    def stop(self) -> None:
        """Ends the thread after what it is running."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, future = job
            try:
                outcome = Outcome(function(), None)
            except BaseException as error:  # the callable's SystemExit ends neither the thread nor the run
                outcome = Outcome(None, error)
            with contextlib.suppress(RuntimeError):  # the loop was closed while the call ran
                future.get_loop().call_soon_threadsafe(_deliver, future, outcome)
            del job, function, future, outcome  # nothing is kept alive while waiting for the next


def _deliver(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
