"""A browser that is always available, and never given a page before it was proven unable to reach this machine.

Chromium bypasses a proxy for loopback addresses unless told otherwise, and a policy on the machine can set another
proxy: pages would then read local services into PDFs. So each new process is asked to open local addresses first.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from playwright.async_api import BrowserContext, Error

from rag_eval_pipeline.corpus.rendering.browser import BrowserProcess, find_browser, launch, unprivileged_command
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.web.egress_proxy import EgressProxy

# What Chromium, or setpriv before it, says where a container refuses user namespaces or other users.
_SANDBOX_REFUSED = ("No usable sandbox", "namespace sandbox", "credentials.cc", "zygote_host_impl", "setpriv:")
_PROOF_LIMIT_MS = 15_000.0


class BrowserPool:
    """Browser processes, one at a time: started on demand, replaced when worn out or dead.

    Args:
        proxy: Their only way out.
        executable: The browser; found on this machine unless given.

    Attributes:
        started: Number of processes started so far.
    """

    def __init__(self, proxy: EgressProxy, executable: Path | None = None) -> None:
        self._proxy = proxy
        self._executable = executable
        self._starting = asyncio.Lock()
        self._current: BrowserProcess | None = None
        self._retired: list[BrowserProcess] = []
        self.started = 0

    async def process(self) -> BrowserProcess:
        """Return a process that takes further pages.

        Raises:
            ServiceError: `browser_missing`, `browser_failed`, `egress_open`.
        """
        async with self._starting:
            if self._current is not None and not self._current.is_usable:
                self._retired.append(self._current)
                self._current = None
            await self._close_idle()  # at each page, because a retired process can hold a page that takes a whole core
            if self._current is None:
                self._current = await self._start()
            return self._current

    async def close(self) -> None:
        """End all processes."""
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
            process = await launch(command, self._proxy, sandboxed=True)
        except ServiceError as error:
            if not any(sign in error.message for sign in _SANDBOX_REFUSED):
                raise
            # Containers often refuse user namespaces. The caller decides what may be rendered without a sandbox.
            plain = [str(executable)] if "setpriv:" in error.message else command
            process = await launch(plain, self._proxy, sandboxed=False)
        try:
            for url in self._proxy.urls:
                async with process.context(scripts=False, proxy_url=url) as context:
                    await prove_egress_closed(context, self._proxy)
        except BaseException:
            await process.close()
            raise
        return process


@contextlib.asynccontextmanager
async def browser_pool(proxy: EgressProxy, executable: Path | None = None) -> AsyncIterator[BrowserPool]:
    """Open a pool whose processes end with the block."""
    pool = BrowserPool(proxy, executable)
    try:
        yield pool
    finally:
        await asyncio.shield(pool.close())


async def prove_egress_closed(context: BrowserContext, proxy: EgressProxy) -> None:
    """Request this machine's own addresses, which must be refused without a connection.

    Raises:
        ServiceError: `egress_open`.
    """
    connections = 0

    def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(count, "127.0.0.1", 0) as canary:
        port = canary.sockets[0].getsockname()[1]
        page = await context.new_page()
        before = proxy.denied
        for host in ("127.0.0.1", "localhost"):
            with contextlib.suppress(Error):
                await page.goto(f"http://{host}:{port}/", timeout=_PROOF_LIMIT_MS)
        denied = proxy.denied - before
    if connections or denied < 2:
        raise ServiceError(
            "egress_open",
            f"The browser reached this machine {connections} times and was refused {denied} times where 2 were due",
            hint="Nothing is rendered while pages can reach local services. Does a browser policy set a proxy?",
        )
