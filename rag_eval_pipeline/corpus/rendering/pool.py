"""A browser that is always there: started when the first page is wanted, replaced when it is worn out or has died.

A process is given a page only after it was proven unable to reach this machine. A retired one ends when its last page
is done; all end with the block.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.rendering.browser import BrowserProcess, launch
from rag_eval_pipeline.corpus.rendering.executable import find_browser, unprivileged_command
from rag_eval_pipeline.corpus.rendering.proof import prove_closed
from rag_eval_pipeline.errors import ServiceError

# What Chromium, or setpriv before it, says where a container refuses user namespaces or other users.
_SANDBOX_REFUSED = ("No usable sandbox", "namespace sandbox", "credentials.cc", "zygote_host_impl", "setpriv:")


class BrowserPool:
    """Browser processes, one at a time, started when the first page is wanted.

    Args:
        guard: Their only way out.
        executable: The browser; found on this machine unless given.

    Attributes:
        started: Number of processes started so far.
    """

    def __init__(self, guard: Guard, executable: Path | None = None) -> None:
        self._guard = guard
        self._executable = executable
        self._starting = asyncio.Lock()
        self._current: BrowserProcess | None = None
        self._retired: list[BrowserProcess] = []
        self.started = 0

    async def process(self) -> BrowserProcess:
        """A process that takes further pages.

        Raises:
            ServiceError: `browser_missing`, `browser_failed`, `egress_open`.
        """
        async with self._starting:
            if self._current is not None and not self._current.is_usable:
                self._retired.append(self._current)
                self._current = None
            await self._close_idle()  # at each page: a retired one can hold a page that takes a whole core
            if self._current is None:
                self._current = await self._start()
            return self._current

    async def close(self) -> None:
        """Ends all processes."""
        for process in [*self._retired, *([self._current] if self._current else [])]:
            await process.close()
        self._retired, self._current = [], None

    async def _close_idle(self) -> None:
        for process in [p for p in self._retired if p.is_idle or not p.is_alive]:
            self._retired.remove(process)
            await process.close()

    async def _start(self) -> BrowserProcess:
        executable = self._executable or find_browser()
        command = unprivileged_command(executable)
        self.started += 1
        try:
            process = await launch(command, self._guard, sandboxed=True)
        except ServiceError as error:
            if not any(sign in error.message for sign in _SANDBOX_REFUSED):
                raise
            # Containers often refuse user namespaces. What may be rendered so is for the caller to decide.
            plain = [str(executable)] if "setpriv:" in error.message else command
            process = await launch(plain, self._guard, sandboxed=False)
        try:
            for url in self._guard.urls:
                async with process.context(scripts=False, guard_url=url) as context:
                    await prove_closed(context, self._guard)
        except BaseException:
            await process.close()
            raise
        return process


@contextlib.asynccontextmanager
async def browser_pool(guard: Guard, executable: Path | None = None) -> AsyncIterator[BrowserPool]:
    """A pool whose processes end with the block."""
    pool = BrowserPool(guard, executable)
    try:
        yield pool
    finally:
        await asyncio.shield(pool.close())
