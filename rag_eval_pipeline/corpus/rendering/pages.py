"""Pages to PDFs: what a reader of the page would see, printed once, the same bytes for the same input.

The page gets its bytes from here and everything else through the guard. Each step is bounded; a page whose scripts hang
is printed without scripts.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.fetching.bodies import Body, decode_text
from rag_eval_pipeline.corpus.rendering.browser import BrowserProcess
from rag_eval_pipeline.corpus.rendering.executable import browser_version, font_digest
from rag_eval_pipeline.corpus.rendering.page_scripts import MEASURE, REPAIR, SETTLE, scripts_digest, text_page
from rag_eval_pipeline.corpus.rendering.pool import BrowserPool
from rag_eval_pipeline.corpus.rendering.serving import Serving
from rag_eval_pipeline.corpus.text.pdf import fix_dates

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")

RENDER_LIMIT_S = 120.0  # a table of 213 sheets took 32 s on a busy machine
_AFTER_BLOCKED_LIMIT_S = 2.0
_ALIVE_LIMIT_S = 5.0
_SETTLE_LIMIT_S = 15.0
_SETTLE: dict[str, int] = {"budgetMs": 5000, "scrollHeightMax": 200_000, "quietMs": 60, "quietMaxMs": 500}
_THIN_TEXT = 300  # characters below which a page with scripts is given time to fill itself in
_THIN_LIMIT_MS = 3000.0
_PRINT_LIMIT_S = 60.0
_PRINT_SHARE_MIN = 0.5  # of the text on screen; a print style sheet that hides more hides the article
_TRIES = 2  # a page whose browser dies under it may have been another page's victim
_PRINT: dict[str, Any] = {
    "format": "A4",
    "margin": {side: "12mm" for side in ("top", "bottom", "left", "right")},
    "print_background": True,
    "tagged": False,  # structure ids differ from run to run, and files are 49 % larger
    "outline": False,
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A printed page.

    Args:
        pdf: The file.
        flags: What had to be done (`load_timeout`, `js_off`, `print_css_hides_content`, `navigation_blocked`,
            `no_sandbox`).
        images_expected: Images the page asked for.
        images_drawn: Images that had arrived.
        resources: Files served from the body's folder, as in `CorpusDocument`.
    """

    pdf: bytes
    flags: tuple[str, ...] = ()
    images_expected: int = 0
    images_drawn: int = 0
    resources: tuple[str, ...] = ()


class _Hung(Exception):
    """The page's scripts do not return."""


def renderer_fingerprint(executable: Path) -> str:
    """Changes whenever equal bytes may give another PDF; found without starting the browser.

    Raises:
        ServiceError: `browser_failed`.
    """
    options = repr((sorted(_PRINT.items()), sorted(_SETTLE.items()), _THIN_TEXT, _PRINT_SHARE_MIN))
    parts = (browser_version(executable), font_digest(), options, scripts_digest())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


async def render(pool: BrowserPool, body: Body, *, load_limit_s: float) -> Rendered:
    """An HTML or text body as a PDF.

    Args:
        pool: Gives the browser.
        body: What to print.
        load_limit_s: Seconds to wait for the page's load event.

    Raises:
        DocumentError: `render_timeout`, `render_failed`, `browser_crashed`, `blocked_navigation`.
        ServiceError: The browser cannot be started again.
    """
    from playwright.async_api import Error

    died: Exception | None = None
    for _ in range(_TRIES):
        process = await pool.process()
        try:
            async with asyncio.timeout(RENDER_LIMIT_S):
                rendered = await _render_in(process, body, load_limit_s)
        except TimeoutError as error:
            process.retired = True
            raise DocumentError("render_timeout", f"{body.url}: not printed within {RENDER_LIMIT_S:g} s") from error
        except Error as error:
            if process.is_alive and "crashed" not in str(error):
                raise DocumentError("render_failed", f"{body.url}: {_one_line(error)}") from error
            died = error
            continue
        unsafe = () if process.sandboxed else ("no_sandbox",)
        return replace(rendered, flags=(*body.flags, *rendered.flags, *unsafe))
    raise DocumentError("browser_crashed", f"{body.url}: {_one_line(died)}") from died


async def _render_in(process: BrowserProcess, body: Body, load_limit_s: float) -> Rendered:
    if body.kind == "text":
        return await _print_text(process, decode_text(body))
    with contextlib.suppress(_Hung):
        return await _print(process, body, load_limit_s, scripts=True)
    try:
        rendered = await _print(process, body, load_limit_s, scripts=False)
    except _Hung as error:
        raise DocumentError("render_timeout", f"{body.url}: hangs even without scripts") from error
    return replace(rendered, flags=("js_off", *rendered.flags))


async def _print_text(process: BrowserProcess, text: str) -> Rendered:
    async with process.plain_page() as page:
        await page.set_content(text_page(text), wait_until="load", timeout=_PRINT_LIMIT_S * 1000)
        return Rendered(fix_dates(await page.pdf(**_PRINT)))


async def _print(process: BrowserProcess, body: Body, load_limit_s: float, *, scripts: bool) -> Rendered:

    flags: list[str] = []
    async with process.context(scripts=scripts) as context:
        page = await context.new_page()
        context.on("page", _close_popup)
        serving = Serving(page, body)
        await page.route("**/*", serving.answer)
        if not await _load(page, body.url, serving, load_limit_s):
            flags.append("load_timeout")
        seen = await _settle(page, scripts=scripts)
        await page.emulate_media(media="print")
        printed = await _bounded(page.evaluate(MEASURE), _ALIVE_LIMIT_S)
        if printed["textLength"] < _PRINT_SHARE_MIN * seen["textLength"]:
            await page.emulate_media(media="screen")
            flags.append("print_css_hides_content")
        await _bounded(page.evaluate(REPAIR), _SETTLE_LIMIT_S)
        if page.url.startswith("chrome-error:"):
            raise DocumentError("blocked_navigation", f"{body.url}: the page leads to an address that was refused")
        if serving.navigation_blocked.is_set():
            flags.append("navigation_blocked")
        pdf = await _bounded(page.pdf(**_PRINT), _PRINT_LIMIT_S)
    resources = tuple(sorted(serving.resources))
    return Rendered(fix_dates(pdf), tuple(flags), seen["imagesExpected"], seen["imagesDrawn"], resources)


async def _load(page: "Page", url: str, serving: Serving, limit_s: float) -> bool:
    """Whether the page has loaded in time; a page that tried to leave while it loaded counts as loaded."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as TooLate

    loading = asyncio.ensure_future(page.goto(url, wait_until="load", timeout=limit_s * 1000))
    leaving = asyncio.ensure_future(serving.navigation_blocked.wait())
    try:
        await asyncio.wait({loading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            # The load event that goto waits for may never come once a navigation was refused.
            await asyncio.wait({loading}, timeout=_AFTER_BLOCKED_LIMIT_S)
        if loading.done():
            loading.result()
    except TooLate:
        return False
    except Error:
        if not serving.navigation_blocked.is_set():
            raise
    finally:
        leaving.cancel()
        loading.cancel()
    return True


async def _settle(page: "Page", *, scripts: bool) -> Any:
    """Waits until the page is at rest, and measures it; without scripts no timer runs and nothing is waited for."""
    from playwright.async_api import TimeoutError as NotYet

    if not scripts:
        return await _bounded(page.evaluate(MEASURE), _ALIVE_LIMIT_S)
    await _bounded(page.evaluate("1"), _ALIVE_LIMIT_S)
    await _bounded(page.evaluate(SETTLE, _SETTLE), _SETTLE_LIMIT_S)
    seen = await _bounded(page.evaluate(MEASURE), _ALIVE_LIMIT_S)
    if seen["textLength"] < _THIN_TEXT and seen["scripts"]:
        try:
            await page.wait_for_function(f"document.body?.innerText.length >= {_THIN_TEXT}", timeout=_THIN_LIMIT_MS)
        except NotYet:
            return seen  # a short page is a page
        await _bounded(page.evaluate(SETTLE, _SETTLE), _SETTLE_LIMIT_S)
        seen = await _bounded(page.evaluate(MEASURE), _ALIVE_LIMIT_S)
    return seen


async def _bounded(step: Awaitable[T], limit_s: float) -> T:
    """The outcome of a step, unless the page does not answer in time."""
    try:
        return await asyncio.wait_for(step, limit_s)
    except TimeoutError as error:
        raise _Hung from error


async def _close_popup(popup: "Page") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await popup.close()


def _one_line(error: Exception | None) -> str:
    return " ".join(str(error).split())[:200]
