"""Work done a step ahead, in a thread beside the one that needs it: reading, parsing and writing let go of the lock."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")

WAITING = 2  # items that may wait to be written; each can be some megabytes


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items in order; while one is being used, the next is made."""
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        coming: Future[Item | object] = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # what is not the end is an item


class Behind(Generic[Item]):
    """Calls a function with each item, in order and in a thread; a fault comes up at a later item or at the end."""

    def __init__(self, function: Callable[[Item], object]) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="behind")
        self._waiting: deque[Future[object]] = deque()

    def put(self, item: Item) -> None:
        """Takes an item; waits while too many others do."""
        while len(self._waiting) >= WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._function, item))

    def close(self) -> None:
        """Waits until all is done."""
        try:
            while self._waiting:
                self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._pool.shutdown(cancel_futures=True)
