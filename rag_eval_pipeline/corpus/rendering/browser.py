"""Find, start and end a headless Chromium whose only way to the network is the egress proxy.

Each process has its own driver, home and temp folder. Before it is given a page, it must prove that it cannot reach
this machine: Chromium bypasses a proxy for loopback addresses by default, and a policy can set another proxy.
"""

import asyncio
import contextlib
import functools
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path

import psutil
from playwright._impl import _driver
from playwright.async_api import Browser, BrowserContext, Error, Playwright, ViewportSize, async_playwright

from rag_eval_pipeline.corpus.rendering.text_pages import TextPage, open_text_page
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.tls import authorities, write_trust_store

try:
    from playwright._impl import transport
except ImportError:  # before Playwright 1.65
    from playwright._impl import _transport as transport  # type: ignore[attr-defined,no-redef]

EXECUTABLE_VARIABLE = "RAG_EVAL_CHROMIUM"
NOBODY = 65534
PAGES_PER_PROCESS = 300  # the node driver grows by 80 MB over 1,000 pages; the browser itself does not
TEXT_PAGE_SHARE = 0.05  # of one of those pages: what printing a plain text uses
SCREEN: ViewportSize = {"width": 1280, "height": 800}
TEMP_PREFIX = "rag-eval-browser-"
ARGUMENTS = [
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # WebRTC would otherwise bypass the proxy
    "--blink-settings=imageAnimationPolicy=2",  # no script can stop an animation inside an `img`
    "--js-flags=--max-old-space-size=512",  # one greedy page must not take the machine's memory
]

_VERSION_LIMIT_S = 30.0
_LAUNCH_LIMIT_MS = 60_000.0
_CLOSE_LIMIT_S = 5.0
_DEATH_LIMIT_S = 2.0
_STALE_AFTER_S = 86_400.0
_INSTALL_HINT = (
    "On Debian: apt-get install chromium-headless-shell. Elsewhere: playwright install --only-shell chromium (as root, "
    f"with PLAYWRIGHT_BROWSERS_PATH set to a folder that every user can read). Or set {EXECUTABLE_VARIABLE} to one."
)
# What Chromium, or setpriv before it, says where a container refuses user namespaces or other users.
_SANDBOX_REFUSED = ("No usable sandbox", "namespace sandbox", "credentials.cc", "zygote_host_impl", "setpriv:")
_PROOF_LIMIT_MS = 15_000.0
PREPARE = (Path(__file__).parent / "scripts" / "prepare.js").read_text(encoding="utf-8")


def find_browser() -> Path:
    """Return the browser to use: the headless shell if there is one, because the full one needs three times the CPU."""
    wanted = os.environ.get(EXECUTABLE_VARIABLE)
    if wanted:
        if not os.access(wanted, os.X_OK):
            raise ServiceError("browser_missing", f"{EXECUTABLE_VARIABLE} names {wanted}, which cannot be executed")
        return Path(wanted).absolute()
    for candidate in _candidates():
        if os.access(candidate, os.X_OK) and (os.geteuid() != 0 or _is_open_to_all(candidate)):
            return candidate
    raise ServiceError("browser_missing", "No Chromium was found on this machine", hint=_INSTALL_HINT)


def _candidates() -> Iterator[Path]:
    yield from map(Path, filter(None, [shutil.which("chromium-headless-shell"), "/usr/bin/chromium-headless-shell"]))
    installs = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    for pattern in (
        "chromium_headless_shell-*/*/headless_shell",
        "chromium_headless_shell-*/*/chrome-headless-shell",
        "chromium-*/*/chrome",
        "chromium-*/*/Chromium.app/Contents/MacOS/Chromium",
    ):
        yield from sorted(installs.glob(pattern), reverse=True)
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    yield from map(Path, filter(None, map(shutil.which, names)))


def _is_open_to_all(path: Path) -> bool:
    real = path.resolve()
    return all(part.stat().st_mode & 0o001 for part in (real, *real.parents))


@functools.cache
def browser_version(executable: Path) -> str:
    """Return the browser's name and version, such as `Chromium 156.0.8078.79`."""
    try:
        done = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=_VERSION_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServiceError("browser_failed", f"{executable} --version: {error}", hint=_INSTALL_HINT) from error
    return done.stdout.strip()


def check_driver() -> None:
    """Check that Playwright's driver, a Node.js that comes with it, runs on this machine."""
    command = [sys.executable, "-m", "playwright", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_VERSION_LIMIT_S, check=False)
    if done.returncode != 0:
        message = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        hint = "Install the library it names; on Debian: apt-get install libatomic1."
        raise ServiceError("driver_failed", f"Playwright's driver does not run: {message}", hint=hint)


@functools.cache
def font_digest() -> str:
    """Return a digest of the installed fonts, which decide line breaks and which scripts are shown."""
    try:
        listed = subprocess.run(["fc-list"], capture_output=True, timeout=_VERSION_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return hashlib.sha256(b"\n".join(sorted(listed.splitlines()))).hexdigest()


def unprivileged_command(executable: Path) -> list[str]:
    """Return the command that runs the browser, as nobody if this process is root: the sandbox refuses root."""
    if os.geteuid() != 0:
        return [str(executable)]
    drop = f"--reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs --bounding-set=-all"
    return ["setpriv", *drop.split(), "--", str(executable)]


def write_launcher(folder: Path, command: list[str]) -> Path:
    """Write a script that starts the browser with its profile in `folder` and leaves its process id in `folder/pid`.

    Playwright makes a profile that only its own user can enter; of two `--user-data-dir` the second one wins.
    """
    home = folder / "home"
    home.mkdir(mode=0o700)
    folder.chmod(0o711)
    if os.geteuid() == 0:
        try:
            os.chown(home, NOBODY, NOBODY)
        except PermissionError as error:
            raise ServiceError(
                "browser_failed", "root without its capabilities cannot give the browser a user of its own",
                hint="Run as a user who is not root, or keep CAP_CHOWN, CAP_SETUID and CAP_SETGID.",
            ) from error  # fmt: skip
    launcher = folder / "browser"
    profile, pid = shlex.quote(str(home / "profile")), shlex.quote(str(folder / "pid"))
    launcher.write_text(f'#!/bin/sh\necho $$ >{pid}\nexec {shlex.join(command)} "$@" --user-data-dir={profile}\n')
    launcher.chmod(0o755)
    return launcher


def browser_temp() -> Path:
    """Return the parent of the browsers' folders, which the user that runs them can enter."""
    usual = Path(tempfile.gettempdir())
    return usual if os.geteuid() != 0 or _is_open_to_all(usual) else Path("/tmp")


def stale_folders(parent: Path) -> Iterator[Path]:
    """Yield the folders of browsers whose owner was killed; those browsers ended with their driver.

    Only after a day: another container, whose processes cannot be seen, may share the temp folder.
    """
    for folder in parent.glob(f"{TEMP_PREFIX}*"):
        owner = folder.name.removeprefix(TEMP_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            is_old = time.time() - facts.st_mtime > _STALE_AFTER_S
            if is_old and facts.st_uid == os.geteuid() and owner.isdecimal() and not psutil.pid_exists(int(owner)):
                yield folder


class BrowserProcess:
    """One browser process with its driver; `sandboxed` says whether its pages are confined."""

    def __init__(
        self, folder: Path, driver: Playwright, browser: Browser, proxy: EgressProxy, *, sandboxed: bool
    ) -> None:
        self.sandboxed = sandboxed
        self.proxy = proxy
        self.retired = False
        self._folder = folder
        self._driver = driver
        self._browser = browser
        self._served = 0.0
        self._open = 0
        self._opening = asyncio.Lock()
        self._text_context: BrowserContext | None = None
        self._idle_text_pages: list[TextPage] = []

    @property
    def is_usable(self) -> bool:
        """Whether further pages may be opened in it."""
        return not self.retired and self._served < PAGES_PER_PROCESS and self.is_alive

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._browser.is_connected()

    @property
    def is_idle(self) -> bool:
        """Whether no page is open in it."""
        return self._open == 0

    @contextlib.asynccontextmanager
    async def context(self, *, scripts: bool, proxy_url: str | None = None) -> AsyncIterator[BrowserContext]:
        """Open a context for one page, without cookies, cache or workers of other pages.

        Its only way out is `proxy_url`, by default the address of the proxy that opens no private host.
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
                proxy={"server": proxy_url or self.proxy.url, "bypass": "<-loopback>"},
            )
            try:
                if scripts:
                    await context.add_init_script(PREPARE)
                yield context
            finally:
                try:
                    await asyncio.wait_for(context.close(), _CLOSE_LIMIT_S)
                except TimeoutError:
                    self.retired = True  # a page in an endless loop ends with the process
                except Error:
                    pass  # the process has died, and the context with it
        finally:
            self._open -= 1

    @contextlib.asynccontextmanager
    async def text_page(self) -> AsyncIterator[TextPage]:
        """Lend a page without scripts and network; it is reused for other plain texts, so it isolates nothing."""
        self._served += TEXT_PAGE_SHARE
        self._open += 1
        try:
            async with self._opening:
                if self._text_context is None:
                    self._text_context = await self._browser.new_context(java_script_enabled=False, offline=True)
            self._idle_text_pages = [page for page in self._idle_text_pages if page.is_usable]
            page = self._idle_text_pages.pop() if self._idle_text_pages else await open_text_page(self._text_context)
            yield page
            self._idle_text_pages.append(page)  # not reached after an error, so such a page is dropped
        finally:
            self._open -= 1

    async def close(self) -> None:
        """End the process, by force if need be, and remove what it left on disk."""
        self.retired = True
        with contextlib.suppress(Exception):  # the process group is killed below in any case
            await asyncio.wait_for(self._browser.close(), _CLOSE_LIMIT_S)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._driver.stop(), _CLOSE_LIMIT_S)
        remove_browser(self._folder)


def remove_browser(folder: Path) -> None:
    """Kill the process group that belongs to a launcher's folder, if it still runs, and remove the folder."""
    with contextlib.suppress(OSError, ValueError):
        group = int((folder / "pid").read_text())
        os.killpg(group, signal.SIGKILL)
        # A dying process can still write, and would leave a file in a folder that is being removed.
        deadline = time.monotonic() + _DEATH_LIMIT_S
        while _is_running(group) and time.monotonic() < deadline:
            time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(group: int) -> bool:
    """Whether a process of a group lives; in a container without init, dead ones stay as zombies."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


async def launch(command: list[str], proxy: EgressProxy, *, sandboxed: bool) -> BrowserProcess:
    """Start a browser whose only way out is the proxy."""
    for folder in stale_folders(browser_temp()):
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{TEMP_PREFIX}{os.getpid()}-", dir=browser_temp()))
    driver = None
    try:
        launcher = write_launcher(folder, command)
        with _driver_temp(folder / "driver"):
            driver = await async_playwright().start()
        home = str(folder / "home")
        ca_file = proxy.policy.config.ca_file
        if ca_file is not None:
            write_trust_store(folder / "home", authorities(Path(ca_file)))
        browser = await driver.chromium.launch(
            executable_path=launcher,
            chromium_sandbox=sandboxed,
            args=ARGUMENTS,
            env={"HOME": home, "TMPDIR": home, "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"},
            # `<-loopback>` removes Chromium's own exception for this machine's addresses.
            proxy={"server": proxy.url, "bypass": "<-loopback>"},
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
            check_driver()  # names the cause if the driver does not even start by itself
            raise ServiceError("driver_failed", f"Playwright's driver cannot be started: {error}") from error
        if isinstance(error, (Error, OSError)):
            message = " ".join(str(error).split())
            raise ServiceError("browser_failed", f"{command[-1]} cannot be started: {message}") from error
        raise
    return BrowserProcess(folder, driver, browser, proxy, sandboxed=sandboxed)


_driver_folder: ContextVar[Path | None] = ContextVar("driver_folder", default=None)


@contextlib.contextmanager
def _driver_temp(folder: Path) -> Iterator[None]:
    """Make a driver that is started in this context put its temp files into a folder.

    It leaves them behind when a signal ends a run. It knows the folder from its environment only, and Playwright's
    public interface passes on that of this process, which other threads read too. So the copy is changed.
    """
    folder.mkdir()
    transport.__dict__["get_driver_env"] = _driver_environment
    token = _driver_folder.set(folder)
    try:
        yield
    finally:
        _driver_folder.reset(token)


def _driver_environment() -> dict[str, str]:
    folder = _driver_folder.get()
    environment: dict[str, str] = _driver.get_driver_env()
    return environment if folder is None else {**environment, "TMPDIR": str(folder)}


class BrowserPool:
    """Browser processes, one at a time: started on demand, replaced when worn out or dead; `started` counts them."""

    def __init__(self, proxy: EgressProxy) -> None:
        self._proxy = proxy
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
            # At each page, because a retired process can hold a page that takes a whole core.
            for process in [p for p in self._retired if p.is_idle or not p.is_alive]:
                self._retired.remove(process)
                await process.close()
            if self._current is None:
                self._current = await self._start()
            return self._current

    async def close(self) -> None:
        """End all processes."""
        for process in [*self._retired, *([self._current] if self._current else [])]:
            await process.close()
        self._retired, self._current = [], None

    async def _start(self) -> BrowserProcess:
        executable = find_browser()
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
async def browser_pool(proxy: EgressProxy) -> AsyncIterator[BrowserPool]:
    """Open a pool whose processes end with the block."""
    pool = BrowserPool(proxy)
    try:
        yield pool
    finally:
        await asyncio.shield(pool.close())


async def prove_egress_closed(context: BrowserContext, proxy: EgressProxy) -> None:
    """Request this machine's own addresses, which must be refused without a connection."""
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
