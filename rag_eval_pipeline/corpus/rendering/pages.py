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
from rag_eval_pipeline.corpus.rendering.browser import ARGUMENTS, SCREEN, BrowserProcess
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
from rag_eval_pipeline.corpus.rendering.page_scripts import MEASURE, REPAIR, SEEN, scripts_digest
from rag_eval_pipeline.corpus.rendering.paper import CONTENT_WIDTH_PX, PRINT_LIMIT_S, PRINT_OPTIONS
from rag_eval_pipeline.corpus.rendering.pool import BrowserPool
from rag_eval_pipeline.corpus.rendering.printed_words import WORDS_MIN, WORDS_SHARE, PrintedWords, count_printed_words
from rag_eval_pipeline.corpus.rendering.serving import IMAGE_PAGE, Serving
from rag_eval_pipeline.corpus.rendering.text_printing import TEXT_PRINT, check_length
from rag_eval_pipeline.corpus.text.pdf import fix_dates
from rag_eval_pipeline.corpus.text.pdf_reader import read_texts

if TYPE_CHECKING:
    from playwright.async_api import Page

Judge = Callable[[Mapping[str, Any], str], None]

RENDER_LIMIT_S = 120.0  # a table of 213 sheets took 32 s on a busy machine
PLAIN_LIMIT_S = 60.0  # for the second try of a page that hangs, without scripts and styles
_SCALE_MIN = 0.2  # of letters on paper; a page of 3,500 pixels fits
_PRINT_SHARE_MIN = 0.5  # of the text on screen; a print style sheet that hides more hides the article
_HEIGHT_MAX_PX = 5_000_000  # some 5,000 sheets; Chromium lays out 33 million pixels and prints them for many minutes
# At a small scale Chromium prints a right-to-left document as empty sheets, unless only its body is right-to-left.
_WHOLE_RIGHT_TO_LEFT = """() => {
  if (!document.body || getComputedStyle(document.documentElement).direction !== "rtl") return;
  document.body.style.setProperty("direction", getComputedStyle(document.body).direction, "important");
  document.documentElement.style.setProperty("direction", "ltr", "important");
}"""
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
            `navigation_blocked`, `shrunk_to_fit`, `styles_off`, `no_sandbox`).
        images_expected: Images the page asked for.
        images_drawn: Images that had arrived.
        resources: Files served from the body's folder, as in `CorpusDocument`.
        words: How many of the page's words are in the PDF; None for plain text and pictures.
    """

    pdf: bytes
    flags: tuple[str, ...] = ()
    images_expected: int = 0
    images_drawn: int = 0
    resources: tuple[str, ...] = ()
    words: PrintedWords | None = None


def renderer_fingerprint(executable: Path) -> str:
    """Changes whenever equal bytes may give another PDF; found without starting the browser.

    Raises:
        ServiceError: `browser_failed`.
    """
    options = (sorted(PRINT_OPTIONS.items()), sorted(SETTLE_OPTIONS.items()))
    words = (WORDS_SHARE, WORDS_MIN, _SCALE_MIN, _WHOLE_RIGHT_TO_LEFT)
    settings = (ARGUMENTS, *options, THIN_TEXT, _PRINT_SHARE_MIN, *words)
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
    plain = False
    for _ in range(_TRIES):
        process = await pool.process()
        try:
            async with asyncio.timeout(PLAIN_LIMIT_S if plain else RENDER_LIMIT_S):
                scripts = crashes < _CRASHES_MAX
                rendered = await _render_in(process, body, load_limit_s, judge, scripts=scripts, plain=plain)
        except (TimeoutError, Hung) as error:
            process.retired = True
            if plain or body.kind not in ("html", "markdown"):
                how = ", even without its scripts and styles" if plain else ""
                raise DocumentError("render_timeout", f"{body.url}: hangs while it is printed{how}") from error
            plain = True
            continue
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
    process: BrowserProcess, body: Body, load_limit_s: float, judge: Judge, *, scripts: bool, plain: bool
) -> Rendered:
    if body.kind == "text":
        text = decode_text(body)
        check_length(text)
        async with process.text_page() as page:
            return Rendered(await page.print(text))
    told: tuple[str, ...] = ("js_off",)
    if body.kind == "markdown":  # has no scripts of its own
        body, scripts, told = await asyncio.to_thread(markdown_page, body), False, ()
    if plain:
        rendered = await _print(process, body, load_limit_s, judge, scripts=False, plain=True)
        return replace(rendered, flags=(*told, "styles_off", *rendered.flags))
    if scripts:
        with contextlib.suppress(Hung):
            return await _print(process, body, load_limit_s, judge, scripts=True)
    rendered = await _print(process, body, load_limit_s, judge, scripts=False)
    return replace(rendered, flags=(*told, *rendered.flags))


async def _print(
    process: BrowserProcess, body: Body, load_limit_s: float, judge: Judge, *, scripts: bool, plain: bool = False
) -> Rendered:
    guard_url = process.guard.url_for(body.final_url or body.url)
    async with process.context(scripts=scripts, guard_url=guard_url) as context:
        page = await context.new_page()
        context.on("page", _close_popup)
        serving = Serving(page, body, process.guard, plain=plain)
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
    words_seen = "" if body.kind == "image" else await bounded(page.evaluate(SEEN), MEASURE_LIMIT_S)
    await bounded(page.emulate_media(media="print"), ALIVE_LIMIT_S)
    printed = await bounded(page.evaluate(MEASURE), MEASURE_LIMIT_S)
    if printed["textLength"] < _PRINT_SHARE_MIN * seen["textLength"]:
        await bounded(page.emulate_media(media="screen"), ALIVE_LIMIT_S)
        flags.append("print_css_hides_content")
    height, width = await bounded(page.evaluate(REPAIR), MEASURE_LIMIT_S)
    _check_address(page, serving, body)  # once more, behind the last time that the page could move
    if height > _HEIGHT_MAX_PX:
        raise DocumentError("page_too_long", f"{body.url}: {height:,} pixels high, more than {_HEIGHT_MAX_PX:,}")
    if serving.has_left:
        flags.append("moved_by_script")
    if serving.blocked or (serving.moves and not serving.has_left):
        flags.append("navigation_blocked")
    pdf = fix_dates(await bounded(page.pdf(**PRINT_OPTIONS), PRINT_LIMIT_S))
    words = None
    if body.kind != "image":
        words = await _printed_words(words_seen, pdf)
        if words.seen >= WORDS_MIN and words.share < WORDS_SHARE:
            # What is wider than a sheet is cut off at its edges; laid out as wide as on the screen it is whole.
            await bounded(page.evaluate(_WHOLE_RIGHT_TO_LEFT), MEASURE_LIMIT_S)
            scale = max(_SCALE_MIN, CONTENT_WIDTH_PX / max(SCREEN["width"], width))
            shrunk = fix_dates(await bounded(page.pdf(**PRINT_OPTIONS, scale=scale), PRINT_LIMIT_S))
            words_shrunk = await _printed_words(words_seen, shrunk)
            if words_shrunk.printed > words.printed:
                pdf, words = shrunk, words_shrunk
                flags.append("shrunk_to_fit")
    resources = tuple(sorted(serving.resources))
    return Rendered(pdf, tuple(flags), seen["imagesExpected"], seen["imagesDrawn"], resources, words)


async def _printed_words(seen: str, pdf: bytes) -> PrintedWords:
    return await asyncio.to_thread(lambda: count_printed_words(seen, read_texts(pdf)))


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
