"""A browser that is replaced when it dies, behind the guard, proven unable to reach this machine.

Each process has its own driver and temp folder. It is retired after some hundred pages, when it has died, or when a
page could not be closed; a retired one ends when its last page is done. Nothing stays behind, whatever ends the block.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.corpus.executable import (
    browser_folder_parent,
    find_browser,
    unprivileged_command,
    write_launcher,
)
from rag_eval_pipeline.corpus.guard import Guard
from rag_eval_pipeline.corpus.page_scripts import PREPARE
from rag_eval_pipeline.corpus.proof import prove_closed
from rag_eval_pipeline.errors import ServiceError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

PAGES_A_PROCESS = 300  # the node driver grows by 80 MB over 1,000 pages; the browser itself does not
TEMP_PREFIX = "rag-eval-browser-"

_LAUNCH_LIMIT_MS = 60_000.0
_CLOSE_LIMIT_S = 5.0
_ARGUMENTS = [
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # WebRTC would otherwise go past the proxy
    "--js-flags=--max-old-space-size=512",  # one greedy page shall not take the machine's memory
]
_SANDBOX_REFUSED = ("No usable sandbox", "namespace sandbox", "credentials.cc", "zygote_host_impl", "setpriv:")


class BrowserProcess:
    """One browser process with its driver; `sandboxed` says whether its pages are confined."""

    def __init__(self, folder: Path, driver: "Playwright", browser: "Browser", *, sandboxed: bool) -> None:
        self.sandboxed = sandboxed
        self.retired = False
        self._folder = folder
        self._driver = driver
        self._browser = browser
        self._served = 0
        self._open = 0

    @property
    def is_usable(self) -> bool:
        """Whether further pages may be opened in it."""
        return not self.retired and self._served < PAGES_A_PROCESS and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._browser.is_connected()

    @property
    def is_idle(self) -> bool:
        """Whether no page is open."""
        return self._open == 0

    @contextlib.asynccontextmanager
    async def context(self, *, scripts: bool) -> AsyncIterator["BrowserContext"]:
        """A fresh context for one page: no cookie, cache or worker of another page."""
        self._served += 1
        self._open += 1
        try:
            context = await self._browser.new_context(
                java_script_enabled=scripts,
                service_workers="block",
                accept_downloads=False,
                viewport={"width": 1280, "height": 800},
                locale="en-US",
                timezone_id="UTC",
                color_scheme="light",
                reduced_motion="reduce",
            )
            try:
                if scripts:
                    await context.add_init_script(PREPARE)
                yield context
            finally:
                await self._close_context(context)
        finally:
            self._open -= 1

    async def _close_context(self, context: "BrowserContext") -> None:
        try:
            await asyncio.wait_for(context.close(), _CLOSE_LIMIT_S)
        except TimeoutError:
            self.retired = True  # a page in an endless loop; it ends with the process
        except _playwright_error():
            pass  # the process has died, and the context with it

    async def close(self) -> None:
        """Ends the process, by force if need be, and removes what it left on disk."""
        self.retired = True
        with contextlib.suppress(Exception):  # whatever the driver says, the process group is ended below
            await asyncio.wait_for(self._browser.close(), _CLOSE_LIMIT_S)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._driver.stop(), _CLOSE_LIMIT_S)
        remove_browser(self._folder)


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
            if self._current is None or not self._current.is_usable:
                if self._current is not None:
                    self._retired.append(self._current)
                    self._current = None
                await self._close_idle()
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
            process = await _launch(command, self._guard, sandboxed=True)
        except ServiceError as error:
            if not any(sign in error.message for sign in _SANDBOX_REFUSED):
                raise
            # Containers often refuse user namespaces. What may be rendered so is for the caller to decide.
            plain = [str(executable)] if "setpriv:" in error.message else command
            process = await _launch(plain, self._guard, sandboxed=False)
        try:
            async with process.context(scripts=False) as context:
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


def remove_browser(folder: Path) -> None:
    """Ends the process group that a launcher's folder belongs to, if it still runs, and removes the folder."""
    with contextlib.suppress(OSError, ValueError):
        os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


async def _launch(command: list[str], guard: Guard, *, sandboxed: bool) -> BrowserProcess:
    from playwright.async_api import async_playwright

    folder = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=browser_folder_parent()))
    driver = None
    try:
        launcher = write_launcher(folder, command)
        driver = await async_playwright().start()
        home = str(folder / "home")
        browser = await driver.chromium.launch(
            executable_path=launcher,
            chromium_sandbox=sandboxed,
            args=_ARGUMENTS,
            env={"HOME": home, "TMPDIR": home, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"},
            # `<-loopback>` takes away Chromium's own exception for this machine's addresses.
            proxy={"server": guard.url, "bypass": "<-loopback>"},
            timeout=_LAUNCH_LIMIT_MS,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except BaseException as error:
        if driver is not None:
            with contextlib.suppress(Exception):
                await driver.stop()
        remove_browser(folder)
        if isinstance(error, (_playwright_error(), OSError)):
            said = " ".join(str(error).split())
            raise ServiceError("browser_failed", f"{command[-1]} cannot be started: {said}") from error
        raise
    return BrowserProcess(folder, driver, browser, sandboxed=sandboxed)


def _playwright_error() -> type[Exception]:
    from playwright.async_api import Error

    return Error
