"""Prefetching and background writing in a thread; reading, parsing and writing release the interpreter's lock."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")

WAITING = 2  # items that may wait to be written; each can be some megabytes


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in order; while one is being used, the next is made."""
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        coming: Future[Item | object] = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # what is not the end is an item


class BackgroundWriter(Generic[Item]):
    """Calls a function with each item in order; its error is raised at a later item or on closing."""

    def __init__(self, function: Callable[[Item], object]) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._waiting: deque[Future[object]] = deque()

    def put(self, item: Item) -> None:
        """Add an item; wait while too many others do."""
        while len(self._waiting) >= WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._function, item))

    def close(self) -> None:
        """Wait until all items are written."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)
