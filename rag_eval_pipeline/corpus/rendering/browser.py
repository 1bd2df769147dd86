"""One browser process behind the guard, with its own driver, home and temp folder, and the pages it opens.

It is retired after some hundred pages, when it has died, or when a page could not be closed. Nothing of it stays on
disk or in memory once it is closed.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from rag_eval_pipeline.corpus.egress.guard import Guard
from rag_eval_pipeline.corpus.egress.trust import authorities
from rag_eval_pipeline.corpus.rendering.executable import browser_folder_parent, check_driver, write_launcher
from rag_eval_pipeline.corpus.rendering.page_scripts import PREPARE
from rag_eval_pipeline.corpus.rendering.text_printing import TextPage, open_text_page
from rag_eval_pipeline.corpus.rendering.trust_store import write_trust_store
from rag_eval_pipeline.errors import ServiceError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright, ViewportSize

PAGES_A_PROCESS = 300  # the node driver grows by 80 MB over 1,000 pages; the browser itself does not
TEXT_PAGE_SHARE = 0.05  # what a page of text uses of those hundreds
SCREEN: "ViewportSize" = {"width": 1280, "height": 800}
TEMP_PREFIX = "rag-eval-browser-"

_LAUNCH_LIMIT_MS = 60_000.0
_CLOSE_LIMIT_S = 5.0
_DEATH_LIMIT_S = 2.0
_STALE_AFTER_S = 86_400.0
ARGUMENTS = [
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # WebRTC would otherwise go past the proxy
    "--blink-settings=imageAnimationPolicy=2",  # what moves within an `img` cannot be stopped by a script
    "--js-flags=--max-old-space-size=512",  # one greedy page shall not take the machine's memory
]


class BrowserProcess:
    """One browser process with its driver; `sandboxed` says whether its pages are confined."""

    def __init__(
        self, folder: Path, driver: "Playwright", browser: "Browser", guard: Guard, *, sandboxed: bool
    ) -> None:
        self.sandboxed = sandboxed
        self.guard = guard
        self.retired = False
        self._folder = folder
        self._driver = driver
        self._browser = browser
        self._served = 0.0
        self._open = 0
        self._opening = asyncio.Lock()
        self._plain: BrowserContext | None = None
        self._idle: list[TextPage] = []

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
    async def context(self, *, scripts: bool, guard_url: str | None = None) -> AsyncIterator["BrowserContext"]:
        """A fresh context for one page: no cookie, cache or worker of another page.

        Args:
            scripts: Whether the page's scripts run.
            guard_url: Which of the guard's addresses is the only way out; the one that opens no private host unless
                given.
        """
        self._served += 1
        self._open += 1
        try:
            context = await self._browser.new_context(
                java_script_enabled=scripts,
                service_workers="block",
                accept_downloads=False,
                viewport=SCREEN,
                locale="en-US",
                timezone_id="UTC",
                color_scheme="light",
                reduced_motion="reduce",
                proxy={"server": guard_url or self.guard.url, "bypass": "<-loopback>"},
            )
            try:
                if scripts:
                    await context.add_init_script(PREPARE)
                yield context
            finally:
                await self._close_context(context)
        finally:
            self._open -= 1

    @contextlib.asynccontextmanager
    async def text_page(self) -> AsyncIterator[TextPage]:
        """A page without scripts and without network that is used again: for plain text only, it isolates nothing."""
        self._served += TEXT_PAGE_SHARE
        self._open += 1
        try:
            async with self._opening:
                if self._plain is None:
                    self._plain = await self._browser.new_context(java_script_enabled=False, offline=True)
            self._idle = [page for page in self._idle if page.is_usable]
            page = self._idle.pop() if self._idle else await open_text_page(self._plain)
            yield page
            self._idle.append(page)  # not after an error: such a page is forgotten
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


def remove_browser(folder: Path) -> None:
    """Ends the process group that a launcher's folder belongs to, if it still runs, and removes the folder."""
    with contextlib.suppress(OSError, ValueError):
        group = int((folder / "pid").read_text())
        os.killpg(group, signal.SIGKILL)
        # A process that still dies can still write, and would leave a file in a folder that is being removed.
        deadline = time.monotonic() + _DEATH_LIMIT_S
        while _is_running(group) and time.monotonic() < deadline:
            time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


def browser_temp() -> Path:
    """The folder that browsers' folders lie in."""
    return Path(browser_folder_parent() or tempfile.gettempdir())


def stale_folders(parent: Path) -> Iterator[Path]:
    """The folders of browsers whose owner was killed; those browsers ended with their driver.

    Only after a day: another container may share the temp folder, and its processes cannot be seen.
    """
    for folder in parent.glob(f"{TEMP_PREFIX}*"):
        owner = folder.name.removeprefix(TEMP_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            is_old = time.time() - facts.st_mtime > _STALE_AFTER_S
            if is_old and facts.st_uid == os.geteuid() and owner.isdecimal() and not psutil.pid_exists(int(owner)):
                yield folder


def _is_running(group: int) -> bool:
    """Whether a process of a group lives; in a container without init the dead ones stay on as zombies."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


async def launch(command: list[str], guard: Guard, *, sandboxed: bool) -> BrowserProcess:
    """Starts a browser whose only way out is the guard.

    Raises:
        ServiceError: `browser_failed`, `driver_failed`, `browser_trust`.
        InputError: `bad_ca_file`.
    """
    from playwright.async_api import async_playwright

    for folder in stale_folders(browser_temp()):
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{TEMP_PREFIX}{os.getpid()}-", dir=browser_temp()))
    driver = None
    try:
        launcher = write_launcher(folder, command)
        with _temp_folder(folder / "driver"):
            driver = await async_playwright().start()
        home = str(folder / "home")
        ca_file = guard.policy.config.ca_file
        if ca_file is not None:
            write_trust_store(folder / "home", authorities(Path(ca_file)))
        browser = await driver.chromium.launch(
            executable_path=launcher,
            chromium_sandbox=sandboxed,
            args=ARGUMENTS,
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
        if driver is None and isinstance(error, Exception):
            check_driver()  # says what is wrong with it, if it does not even start by itself
            raise ServiceError("driver_failed", f"Playwright's driver cannot be started: {error}") from error
        if isinstance(error, (_playwright_error(), OSError)):
            said = " ".join(str(error).split())
            raise ServiceError("browser_failed", f"{command[-1]} cannot be started: {said}") from error
        raise
    return BrowserProcess(folder, driver, browser, guard, sandboxed=sandboxed)


_driver_folder: ContextVar[Path | None] = ContextVar("driver_folder", default=None)


@contextlib.contextmanager
def _temp_folder(folder: Path) -> Iterator[None]:
    """Has a driver that is started in this context put its temp files into a folder.

    The driver takes it from its environment only, and leaves its files behind when its connection is cut: when a run is
    ended by a signal, an event loop's tasks are all cancelled at once, the driver's among them. Playwright copies this
    process's environment, which other threads read too, so the copy is changed and not the original.
    """
    folder.mkdir()
    from playwright._impl import transport

    transport.__dict__["get_driver_env"] = _driver_environment
    token = _driver_folder.set(folder)
    try:
        yield
    finally:
        _driver_folder.reset(token)


def _driver_environment() -> dict[str, str]:
    """What Playwright's own function of `transport` returns, and the folder."""
    from playwright._impl._driver import get_driver_env

    folder = _driver_folder.get()
    environment: dict[str, str] = get_driver_env()
    return environment if folder is None else {**environment, "TMPDIR": str(folder)}


def _playwright_error() -> type[Exception]:
    from playwright.async_api import Error

    return Error
