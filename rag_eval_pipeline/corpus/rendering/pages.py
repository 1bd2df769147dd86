"""Pages to PDFs: what a reader of the page would see, printed once, the same bytes for the same input.

The page gets its bytes from here and everything else through the guard. Each step is bounded; a page whose scripts hang
is printed without scripts.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.fetching.bodies import Body, decode_text
from rag_eval_pipeline.corpus.rendering.browser import ARGUMENTS, BrowserProcess
from rag_eval_pipeline.corpus.rendering.executable import browser_version, font_digest
from rag_eval_pipeline.corpus.rendering.loading import (
    ALIVE_LIMIT_S,
    MEASURE_LIMIT_S,
    SETTLE_OPTIONS,
    THIN_TEXT,
    AtRest,
    Hung,
    bounded,
    bring_to_rest,
)
from rag_eval_pipeline.corpus.rendering.markdown import markdown_page, markdown_print
from rag_eval_pipeline.corpus.rendering.page_scripts import MEASURE, REPAIR, scripts_digest
from rag_eval_pipeline.corpus.rendering.paper import PRINT_LIMIT_S, PRINT_OPTIONS
from rag_eval_pipeline.corpus.rendering.pool import BrowserPool
from rag_eval_pipeline.corpus.rendering.serving import IMAGE_PAGE, Serving
from rag_eval_pipeline.corpus.rendering.text_printing import TEXT_PRINT, check_length
from rag_eval_pipeline.corpus.text.pdf import fix_dates

if TYPE_CHECKING:
    from playwright.async_api import Page

Judge = Callable[[Mapping[str, Any], str], None]

RENDER_LIMIT_S = 120.0  # a table of 213 sheets took 32 s on a busy machine
_PRINT_SHARE_MIN = 0.5  # of the text on screen; a print style sheet that hides more hides the article
_HEIGHT_MAX_PX = 5_000_000  # some 5,000 sheets; Chromium lays out 33 million pixels and prints them for many minutes
_TRIES = 3  # a page whose browser dies under it may have been another page's victim
# What Playwright says when a page's process is gone; a navigation that was under way is called aborted.
_DIED = ("crashed", "Target closed", "has been closed", "net::ERR_ABORTED")
_CRASHES_MAX = 2  # a page whose own process dies under it twice does so by its scripts


@dataclass(frozen=True, slots=True)
class Rendered:
    """A printed page.

    Args:
        pdf: The file.
        flags: What had to be done (`load_timeout`, `js_off`, `print_css_hides_content`, `moved_by_script`,
            `navigation_blocked`, `no_sandbox`).
        images_expected: Images the page asked for.
        images_drawn: Images that had arrived.
        resources: Files served from the body's folder, as in `CorpusDocument`.
    """

    pdf: bytes
    flags: tuple[str, ...] = ()
    images_expected: int = 0
    images_drawn: int = 0
    resources: tuple[str, ...] = ()


def renderer_fingerprint(executable: Path) -> str:
    """Changes whenever equal bytes may give another PDF; found without starting the browser.

    Raises:
        ServiceError: `browser_failed`.
    """
    settings = (ARGUMENTS, sorted(PRINT_OPTIONS.items()), sorted(SETTLE_OPTIONS.items()), THIN_TEXT, _PRINT_SHARE_MIN)
    parts = (
        browser_version(executable),
        font_digest(),
        repr(settings),
        scripts_digest(),
        TEXT_PRINT,
        markdown_print(),
        IMAGE_PAGE,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


async def render(
    pool: BrowserPool, body: Body, *, load_limit_s: float, judge: Judge = lambda seen, url: None
) -> Rendered:
    """An HTML, Markdown, text or image body as a PDF.

    Args:
        pool: Gives the browser.
        body: What to print.
        load_limit_s: Seconds to wait for the page's load event.
        judge: Given what `measure.js` found on a page at rest and the page's address; raises `DocumentError` for one
            that is not to be printed.

    Raises:
        DocumentError: `render_timeout`, `render_failed`, `browser_crashed`, `blocked_navigation`, `page_too_long`,
            `image_damaged`, `http_<status>` of where a page leads.
        ServiceError: The browser cannot be started again.
    """
    from playwright.async_api import Error

    died: Exception | None = None
    crashes = 0
    for _ in range(_TRIES):
        process = await pool.process()
        try:
            async with asyncio.timeout(RENDER_LIMIT_S):
                rendered = await _render_in(process, body, load_limit_s, judge, scripts=crashes < _CRASHES_MAX)
        except TimeoutError as error:
            process.retired = True
            raise DocumentError("render_timeout", f"{body.url}: not printed within {RENDER_LIMIT_S:g} s") from error
        except Error as error:
            if process.is_alive and not any(sign in str(error) for sign in _DIED):
                raise DocumentError("render_failed", f"{body.url}: {_one_line(error)}") from error
            died = error
            crashes += process.is_alive
            continue
        unsafe = () if process.sandboxed else ("no_sandbox",)
        return replace(rendered, flags=(*body.flags, *rendered.flags, *unsafe))
    raise DocumentError("browser_crashed", f"{body.url}: {_one_line(died)}") from died


async def _render_in(
    process: BrowserProcess, body: Body, load_limit_s: float, judge: Judge, *, scripts: bool
) -> Rendered:
    if body.kind == "text":
        text = decode_text(body)
        check_length(text)
        async with process.text_page() as page:
            return Rendered(await page.print(text))
    told: tuple[str, ...] = ("js_off",)
    if body.kind == "markdown":  # has no scripts of its own
        body, scripts, told = await asyncio.to_thread(markdown_page, body), False, ()
    if scripts:
        with contextlib.suppress(Hung):
            return await _print(process, body, load_limit_s, judge, scripts=True)
    try:
        rendered = await _print(process, body, load_limit_s, judge, scripts=False)
    except Hung as error:
        raise DocumentError("render_timeout", f"{body.url}: hangs even without scripts") from error
    return replace(rendered, flags=(*told, *rendered.flags))


async def _print(process: BrowserProcess, body: Body, load_limit_s: float, judge: Judge, *, scripts: bool) -> Rendered:
    guard_url = process.guard.url_for(body.final_url or body.url)
    async with process.context(scripts=scripts, guard_url=guard_url) as context:
        page = await context.new_page()
        context.on("page", _close_popup)
        serving = Serving(page, body, process.guard)
        await page.route("**/*", serving.answer)
        rest = await bring_to_rest(page, serving, body.url, load_limit_s=load_limit_s, scripts=scripts)
        _check_address(page, serving, body)
        judge(rest.seen, page.url)
        return await _print_at_rest(page, serving, body, rest)


async def _print_at_rest(page: "Page", serving: Serving, body: Body, rest: AtRest) -> Rendered:
    seen = rest.seen
    flags = [] if rest.loaded else ["load_timeout"]
    if body.kind == "image" and not seen["imagesDrawn"]:
        raise DocumentError("image_damaged", f"{body.url}: the browser cannot show this picture")
    await bounded(page.emulate_media(media="print"), ALIVE_LIMIT_S)
    printed = await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    if printed["textLength"] < _PRINT_SHARE_MIN * seen["textLength"]:
        await bounded(page.emulate_media(media="screen"), ALIVE_LIMIT_S)
        flags.append("print_css_hides_content")
    height = await bounded(page.evaluate(REPAIR), MEASURE_LIMIT_S)
    _check_address(page, serving, body)  # once more, behind the last time that the page could move
    if height > _HEIGHT_MAX_PX:
        raise DocumentError("page_too_long", f"{body.url}: {height:,} pixels high, more than {_HEIGHT_MAX_PX:,}")
    if serving.has_left:
        flags.append("moved_by_script")
    if serving.blocked or (serving.moves and not serving.has_left):
        flags.append("navigation_blocked")
    pdf = await bounded(page.pdf(**PRINT_OPTIONS), PRINT_LIMIT_S)
    resources = tuple(sorted(serving.resources))
    return Rendered(fix_dates(pdf), tuple(flags), seen["imagesExpected"], seen["imagesDrawn"], resources)


def _check_address(page: "Page", serving: Serving, body: Body) -> None:
    if serving.has_strayed:
        raise DocumentError("blocked_navigation", f"{body.url}: a page of a private host leads to {page.url[:200]}")
    if not page.url.startswith(("http:", "https:")):
        raise DocumentError("blocked_navigation", f"{body.url}: leads to what is refused or no page ({page.url[:80]})")


async def _close_popup(popup: "Page") -> None:
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await popup.close()


def _one_line(error: Exception | None) -> str:
    return " ".join(str(error).split())[:200]
