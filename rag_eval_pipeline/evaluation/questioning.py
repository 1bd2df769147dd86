"""Many questions at once: so many in flight, each with its limit, stopped cleanly when there is a reason to stop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from rag_eval_pipeline.systems.answer import Query, RagAnswer, System, failed_answer


async def _unlimited() -> None:
    """Asking is free."""


async def ask_all(
    system: System,
    queries: Iterable[Query],
    keep: Callable[[RagAnswer], None],
    *,
    in_flight: int,
    timeout_s: float | None,
    reserve: Callable[[], Awaitable[None]] = _unlimited,
) -> None:
    """Asks in order; memory does not grow with the number of questions.

    Args:
        system: Whom.
        queries: What.
        keep: Takes each terminal answer, in the order in which they come.
        in_flight: Questions under way at once.
        timeout_s: For one question; None for a system that keeps its own limits.
        reserve: Awaited before each question, for room in a budget; raises once nothing is left.

    Raises:
        Whatever `keep` or `reserve` raises: an answer that cannot be kept or paid for must not be asked for.
    """
    pending = iter(queries)

    async def worker() -> None:
        while (query := next(pending, None)) is not None:
            await reserve()
            keep(await _answer(system, query, timeout_s))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # one full disk, not sixty-four of them


async def _answer(system: System, query: Query, timeout_s: float | None) -> RagAnswer:
    if timeout_s is None:
        return await system.answer(query)
    started = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            return await system.answer(query)
    except TimeoutError:
        elapsed_ms = (time.perf_counter() - started) * 1000
        return failed_answer(
            query, "timeout", code="timeout", error=f"no answer within {timeout_s:g} s", latency_ms=elapsed_ms
        )
