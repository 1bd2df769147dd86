"""Prefetching in a thread; reading and parsing release the interpreter's lock."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in order; while one is being used, the next is made."""
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        coming: Future[Item | object] = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # what is not the end is an item
