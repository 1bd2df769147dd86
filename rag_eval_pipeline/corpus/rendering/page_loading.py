"""Load a page in the browser until it is complete and still; each wait is bounded.

The page gets its own bytes from here, files beside a local body from that folder and nothing outside it, and
everything else through the egress proxy.
"""

import asyncio
import contextlib
import hashlib
import html
import mimetypes
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from playwright.async_api import Error, Page, Request, Route
from playwright.async_api import TimeoutError as PlaywrightTimeout

from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.content_types import Body, image_type
from rag_eval_pipeline.web.egress import host_of
from rag_eval_pipeline.web.egress_proxy import EgressProxy

T = TypeVar("T")

ALIVE_LIMIT_S = 10.0  # a page of 800 sheets did not answer for 3.5 s on a busy machine
SETTLE_LIMIT_S = 15.0
MEASURE_LIMIT_S = 30.0  # nothing waits in there, but a page of 800 sheets takes seconds on a busy machine
SETTLE_OPTIONS: dict[str, int] = {"budgetMs": 5000, "scrollHeightMax": 200_000, "quietMs": 60, "quietMaxMs": 500}
THIN_TEXT = 300  # characters; a page with scripts and less text is given time to load its content
MOVES_MAX = 5  # as many as HTTP redirects
FILE_BYTES_MAX = 100_000_000
ABSENT = "-"  # in place of the digest of a file that a page requested and that was not there
# An image is shown by a page that has it as its only content, under the image's own address.
IMAGE_PAGE = (
    "<!doctype html><style>body{{margin:0}}img{{display:block;max-width:100%;max-height:100vh;margin:auto}}</style>"
    '<img src="{url}" alt="">'
)

_SCRIPTS = Path(__file__).parent / "scripts"
SETTLE = (_SCRIPTS / "settle.js").read_text(encoding="utf-8")
MEASURE = (_SCRIPTS / "measure.js").read_text(encoding="utf-8")

_NO_STYLES = "script-src 'none'; style-src 'none'; font-src 'none'"  # style attributes count as styles
_THIN_LIMIT_MS = 3000.0
_AFTER_LEAVING_LIMIT_S = 2.0
_PARSE_LIMIT_MS = 60_000.0
_ROUNDS_MAX = 2 * MOVES_MAX


class PageHung(Exception):
    """The page's scripts do not return."""


class PageState(NamedTuple):
    """A settled page: whether everything it waited for came in time, and what `measure.js` returned."""

    loaded: bool
    measured: Any


class RequestRouter:
    """Answers the requests of one HTML page or image; a plain one is shown without its styles and scripts.

    Attributes:
        leaving: Set when the page tries to navigate; each page has its own.
        arrived: Set when the last of `moves` has replaced the page.
        is_settled: Set it to keep the page from moving on.
        blocked: Whether a navigation was blocked.
        moves: Navigations that were followed, in order.
        resources: Files requested from the body's folder, as in `CorpusDocument`.
    """

    def __init__(self, page: Page, body: Body, proxy: EgressProxy, *, plain: bool = False) -> None:
        self._headers = {"Content-Security-Policy": _NO_STYLES} if plain else {}
        self.proxy = proxy
        self.leaving = asyncio.Event()
        self.arrived = asyncio.Event()
        self.is_settled = False
        self.blocked = False
        self.moves: list[Request] = []
        self.resources: set[str] = set()
        self._page = page
        self._body = body
        document = body.final_url or body.url
        self._strayed = False
        self._home = host_of(document) if proxy.url_for(document) != proxy.url else None
        self._address: str | None = None  # of the page, as the browser spells it
        self._visited: set[str] = set()
        page.on("framenavigated", lambda frame: self.arrived.set() if frame == page.main_frame else None)

    @property
    def has_moved(self) -> bool:
        """Whether the page is now at another address."""
        return bool(self.moves) and _without_fragment(self._page.url) != self._address

    @property
    def left_private_host(self) -> bool:
        """Whether a page that may reach private hosts tried to move to another host, which may not."""
        return self._strayed or self._is_foreign(self._page.url)

    async def handle(self, route: Route) -> None:
        """Answer a request; redirects do not come here, the proxy sees them."""
        with contextlib.suppress(Error):  # the page may be gone by now
            await self._handle(route)

    async def _handle(self, route: Route) -> None:
        request = route.request
        address = _without_fragment(request.url)
        if request.is_navigation_request() and request.frame == self._page.main_frame:
            if self._address is None:
                self._address = address
                self._visited.add(address)
                if self._body.kind == "image":
                    page = IMAGE_PAGE.format(url=html.escape(address))
                    await route.fulfill(status=200, content_type="text/html", body=page)
                else:
                    headers = {"Content-Type": self._content_type(), **self._headers}
                    await route.fulfill(status=200, headers=headers, body=self._body.data)
                return
            # A page from a local body has no reason to navigate; a fetched one may move on, but not in a circle.
            may_move = self._body.final_url is not None and not self.is_settled and len(self.moves) < MOVES_MAX
            self.leaving.set()
            self._strayed = self._strayed or (may_move and self._is_foreign(request.url))
            if not may_move or address in self._visited or self._strayed:
                self.blocked = True
                await route.fulfill(status=204)  # leaves the page as it is; an error would blank it
                return
            self._visited.add(address)
            self.moves.append(request)
            self.arrived, self.leaving = asyncio.Event(), asyncio.Event()
        elif address == self._address:
            await route.fulfill(status=200, content_type=self._content_type(), body=self._body.data)
            return
        if self.left_private_host:
            await route.abort()
            return
        relative = self._relative_path(request.url)
        if relative is not None and self._body.folder is not None:
            data = read_beside(self._body.folder, relative)
            self.resources.add(f"{_digest(data)} {relative}")
            if data is not None:
                content_type = mimetypes.guess_type(relative)[0] or "application/octet-stream"
                await route.fulfill(status=200, content_type=content_type, body=data)
                return
        await route.continue_()

    def _content_type(self) -> str:
        if self._body.kind == "image":
            return image_type(self._body.data) or "image/svg+xml"
        return f"text/html; charset={self._body.charset}" if self._body.charset else "text/html"

    def _is_foreign(self, url: str) -> bool:
        return self._home is not None and url.startswith("http") and host_of(url) != self._home

    def _relative_path(self, url: str) -> str | None:
        """Return the path of a URL below the page's own folder; None if it is elsewhere."""
        requested, own = urlsplit(url), urlsplit(self._address or "")
        if (requested.scheme, requested.netloc) != (own.scheme, own.netloc):
            return None
        folder = own.path.rpartition("/")[0] + "/"
        if not requested.path.startswith(folder):
            return None
        parts = [unquote(part) for part in requested.path.removeprefix(folder).split("/")]
        if any(part in {"", ".", ".."} or "/" in part or "\0" in part for part in parts):
            return None
        return "/".join(parts)


def _without_fragment(url: str) -> str:
    return url.partition("#")[0]


def read_beside(folder: Path, relative: str) -> bytes | None:
    """Return a regular file in a folder, reached without any link; None if there is none."""
    path = folder.resolve() / relative
    try:
        if path.resolve(strict=True) != path or not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _digest(data: bytes | None) -> str:
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


def resources_unchanged(folder: Path, resources: tuple[str, ...]) -> bool:
    """Whether the files that a page was drawn with are still the same, and the absent ones still absent."""
    return all(
        _digest(read_beside(folder, relative)) == known
        for known, _, relative in (resource.partition(" ") for resource in resources)
    )


async def load_and_settle(
    page: Page, router: RequestRouter, url: str, *, load_limit_s: float, scripts: bool
) -> PageState:
    """Open a URL, follow the page where it leads, and wait until it no longer changes."""
    limit_ms = load_limit_s * 1000
    loaded = await _loaded(page.goto(url, wait_until="load", timeout=limit_ms), router.leaving)
    followed = 0
    for _ in range(_ROUNDS_MAX):
        if len(router.moves) > followed:
            followed = len(router.moves)
            loaded = await _follow(page, router, url, load_limit_s)
        try:
            if not loaded:
                await _require_parsed(page, scripts=scripts)
            measured = await _settle(page, scripts=scripts)
        except Error as error:
            if "navigation" not in str(error):
                raise
            loaded = await _loaded(page.wait_for_load_state(timeout=limit_ms), router.leaving)
            continue
        if len(router.moves) == followed:
            router.is_settled = True
            return PageState(loaded, measured)
    raise DocumentError("blocked_navigation", f"{url}: the page keeps leading to other pages")


async def bounded(step: Awaitable[T], limit_s: float) -> T:
    """Await a step, or raise `PageHung` at the limit."""
    try:
        return await asyncio.wait_for(step, limit_s)
    except TimeoutError as error:
        raise PageHung from error


async def _loaded(loading: Awaitable[object], leaving: asyncio.Event) -> bool:
    """Whether a page has loaded in time; one that is being left counts as loaded."""
    load = asyncio.ensure_future(loading)
    leave = asyncio.ensure_future(leaving.wait())
    try:
        await asyncio.wait({load, leave}, return_when=asyncio.FIRST_COMPLETED)
        if leave.done():
            # The load event may never come once a page has begun to navigate.
            await asyncio.wait({load}, timeout=_AFTER_LEAVING_LIMIT_S)
        if load.done():
            load.result()
    except PlaywrightTimeout:
        return False
    except Error:
        if not leaving.is_set():
            raise
    finally:
        leave.cancel()
        load.cancel()
    return True


async def _follow(page: Page, router: RequestRouter, url: str, limit_s: float) -> bool:
    """Wait for the page that the page has moved on to; return whether it has loaded in time."""
    move = router.moves[-1]
    try:
        async with asyncio.timeout(limit_s):
            response = await move.response()
            while move.redirected_to is not None:
                move = move.redirected_to
                response = await move.response()
    except TimeoutError:
        return False
    if response is not None and router.proxy.refusal(response.url, response.headers) is not None:
        raise DocumentError("blocked_navigation", f"{url}: leads to {move.url}, which was refused")
    if response is not None and response.status >= 400:
        raise DocumentError(f"http_{response.status}", f"{url}: leads to {move.url}, HTTP {response.status}")
    try:
        await asyncio.wait_for(router.arrived.wait(), _AFTER_LEAVING_LIMIT_S)
    except TimeoutError:
        return True  # a download, or nothing to show: the page stays
    return await _loaded(page.wait_for_load_state(timeout=limit_s * 1000), router.leaving)


async def _require_parsed(page: Page, *, scripts: bool) -> None:
    """Make sure that a page that has not loaded in time has been parsed to its end."""
    if not scripts:
        await page.wait_for_load_state("domcontentloaded", timeout=_PARSE_LIMIT_MS)
    elif await bounded(page.evaluate("document.readyState"), ALIVE_LIMIT_S) == "loading":
        raise PageHung  # a script that does not arrive blocks everything after it


async def _settle(page: Page, *, scripts: bool) -> Any:
    """Wait until the page is still, and measure it; without scripts no timers run and nothing is waited for."""
    if scripts:
        await bounded(page.evaluate("1"), ALIVE_LIMIT_S)
        await bounded(page.evaluate(SETTLE, SETTLE_OPTIONS), SETTLE_LIMIT_S)
    measured = await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    if scripts and measured["textLength"] < THIN_TEXT and measured["scripts"]:
        with contextlib.suppress(PlaywrightTimeout):  # a short page is a page
            await page.wait_for_function(f"document.body?.innerText.length >= {THIN_TEXT}", timeout=_THIN_LIMIT_MS)
            await bounded(page.evaluate(SETTLE, SETTLE_OPTIONS), SETTLE_LIMIT_S)
        measured = await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    return measured
