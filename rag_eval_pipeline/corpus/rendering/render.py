"""Print pages to PDF as a reader would see them; the same input gives the same bytes.

Each step is bounded. A page whose scripts hang is printed without scripts, and if that hangs, without its styles.
"""

import asyncio
import contextlib
import functools
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from playwright.async_api import Error, Page

from rag_eval_pipeline.corpus.documents import HIDDEN_SHOWN, WORDS_SHARE
from rag_eval_pipeline.corpus.rendering.browser import (
    ARGUMENTS,
    PREPARE,
    SCREEN,
    BrowserPool,
    BrowserProcess,
    browser_pool,
    browser_version,
    font_digest,
)
from rag_eval_pipeline.corpus.rendering.page_loading import (
    ALIVE_LIMIT_S,
    IMAGE_PAGE,
    MEASURE,
    MEASURE_LIMIT_S,
    SETTLE,
    SETTLE_OPTIONS,
    THIN_TEXT,
    PageHung,
    PageState,
    RequestRouter,
    bounded,
    load_and_settle,
)
from rag_eval_pipeline.corpus.rendering.text_pages import TEXT_PRINT, check_length, markdown_page, markdown_print
from rag_eval_pipeline.corpus.text.pdf import fix_dates, read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.text.tokens import tokenize
from rag_eval_pipeline.web.content_types import Body, decode_text
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy

CheckPage = Callable[[Mapping[str, Any], str], None]

RENDER_LIMIT_S = 120.0  # a table of 213 sheets took 32 s on a busy machine
PLAIN_LIMIT_S = 60.0  # for the second try of a page that hangs, without scripts and styles
PRINT_LIMIT_S = 60.0
PRINT_OPTIONS: dict[str, Any] = {
    "format": "A4",
    "margin": {side: "12mm" for side in ("top", "bottom", "left", "right")},
    "print_background": True,
    "tagged": False,  # structure ids differ from run to run, and files are 49 % larger
    "outline": False,
}
WORDS_MIN = 20  # on a page with fewer words a share means nothing

_CONTENT_WIDTH_PX = 703  # of A4 between the margins: the width of the layout at scale 1
_SCALE_MIN = 0.2  # of letters on paper; a page of 3,500 pixels fits
_PRINT_SHARE_MIN = 0.5  # of the text on screen; a print style sheet that hides more hides the article
_HEIGHT_MAX_PX = 5_000_000  # some 5,000 sheets; Chromium lays out 33 million pixels and prints them for many minutes
_TRIES = 3  # a page whose browser dies under it may have been another page's victim
_CRASHES_MAX = 2  # a page whose own process dies under it twice does so because of its scripts
# What Playwright says when a page's process is gone; a navigation that was under way is called aborted.
_DIED = ("crashed", "Target closed", "has been closed", "net::ERR_ABORTED")

_SCRIPTS = Path(__file__).parent / "scripts"
_SEEN = (_SCRIPTS / "seen.js").read_text(encoding="utf-8")
_REPAIR = (_SCRIPTS / "repair.js").read_text(encoding="utf-8")
_TEXT_LENGTH = "document.body ? document.body.innerText.length : 0"
# At a small scale Chromium prints a right-to-left document as empty sheets, unless only its body is right-to-left.
_WHOLE_RIGHT_TO_LEFT = """() => {
  if (!document.body || getComputedStyle(document.documentElement).direction !== "rtl") return;
  document.body.style.setProperty("direction", getComputedStyle(document.body).direction, "important");
  document.documentElement.style.setProperty("direction", "ltr", "important");
}"""
_HYPHENATED = re.compile(r"\b(\w++)[-\u2010\u00ad]\n(\w+)")


class PrintedWords(NamedTuple):
    """How many words a person can see on the page, and how many of them its PDF has; repetitions count."""

    seen: int
    printed: int

    @property
    def share(self) -> float:
        """Share of the words that are in the PDF; 1.0 if the page has none."""
        return self.printed / self.seen if self.seen else 1.0

    def is_enough(self, share: float) -> bool:
        """Whether so large a share of the words is in the PDF; always true of pages with very few words."""
        return self.seen < WORDS_MIN or self.share >= share


@dataclass(frozen=True, slots=True)
class Rendered:
    """A printed page; the fields are those of `CorpusDocument`, and no words are counted for texts and images.

    `flags` are `load_timeout`, `js_off`, `print_css_hides_content`, `moved_by_script`, `navigation_blocked`,
    `shrunk_to_fit`, `hidden_text_shown`, `styles_off`, `no_sandbox`; `texts` is the text of each page of the PDF.
    """

    pdf: bytes
    texts: list[str]
    flags: tuple[str, ...] = ()
    images_expected: int = 0
    images_drawn: int = 0
    resources: tuple[str, ...] = ()
    words: PrintedWords = PrintedWords(0, 0)


def renderer_fingerprint(executable: Path) -> str:
    """Return a digest of everything but the body that decides a PDF's bytes, without starting the browser."""
    options = (sorted(PRINT_OPTIONS.items()), sorted(SETTLE_OPTIONS.items()))
    words = (WORDS_SHARE, WORDS_MIN, _SCALE_MIN, _WHOLE_RIGHT_TO_LEFT)
    settings = (ARGUMENTS, *options, THIN_TEXT, _PRINT_SHARE_MIN, _TEXT_LENGTH, *words)
    parts = (
        browser_version(executable),
        font_digest(),
        repr(settings),
        *(PREPARE, SETTLE, MEASURE, _SEEN, _REPAIR),
        TEXT_PRINT,
        markdown_print(),
        IMAGE_PAGE,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


async def render(
    pool: BrowserPool, body: Body, *, load_limit_s: float, check_page: CheckPage = lambda measured, url: None
) -> Rendered:
    """Print an HTML, Markdown, text or image body to PDF.

    Args:
        load_limit_s: How long to wait for the page's load event.
        check_page: Called with what `measure.js` found on the settled page and the page's address; it raises
            `DocumentError` for a page that is not to be printed.

    Raises:
        DocumentError: `render_timeout`, `render_failed`, `browser_crashed`, `page_too_long`, `image_damaged`,
            `blocked_navigation`, `http_<status>` of where a page leads.
    """
    died: Exception | None = None
    crashes = 0
    plain = False
    for _ in range(_TRIES):
        process = await pool.process()
        try:
            async with asyncio.timeout(PLAIN_LIMIT_S if plain else RENDER_LIMIT_S):
                scripts = crashes < _CRASHES_MAX
                rendered = await _render_in(process, body, load_limit_s, check_page, scripts=scripts, plain=plain)
        except (TimeoutError, PageHung) as error:
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
    process: BrowserProcess, body: Body, load_limit_s: float, check_page: CheckPage, *, scripts: bool, plain: bool
) -> Rendered:
    if body.kind == "text":
        text = decode_text(body)
        check_length(text)
        async with process.text_page() as page:
            pdf = await page.print(text)
        return Rendered(pdf, await asyncio.to_thread(read_texts, pdf))
    flags: tuple[str, ...] = ("js_off",)
    if body.kind == "markdown":  # has no scripts of its own
        body, scripts, flags = await asyncio.to_thread(markdown_page, body), False, ()
    if plain:
        flags = (*flags, "styles_off")
    elif scripts:
        with contextlib.suppress(PageHung):
            return await _print_page(process, body, load_limit_s, check_page, scripts=True)
    rendered = await _print_page(process, body, load_limit_s, check_page, scripts=False, plain=plain)
    return replace(rendered, flags=(*flags, *rendered.flags))


async def _print_page(
    process: BrowserProcess,
    body: Body,
    load_limit_s: float,
    check_page: CheckPage,
    *,
    scripts: bool,
    plain: bool = False,
) -> Rendered:
    proxy_url = process.proxy.url_for(body.final_url or body.url)
    async with process.context(scripts=scripts, proxy_url=proxy_url) as context:
        page = await context.new_page()
        context.on("page", _close_popup)
        router = RequestRouter(page, body, process.proxy, plain=plain)
        await page.route("**/*", router.handle)
        state = await load_and_settle(page, router, body.url, load_limit_s=load_limit_s, scripts=scripts)
        _check_address(page, router, body)
        check_page(state.measured, page.url)
        return await _print_settled(page, router, body, state)


async def _print_settled(page: Page, router: RequestRouter, body: Body, state: PageState) -> Rendered:
    measured = state.measured
    flags = [] if state.loaded else ["load_timeout"]
    if body.kind == "image" and not measured["imagesDrawn"]:
        raise DocumentError("image_damaged", f"{body.url}: the browser cannot show this picture")
    seen, is_shown = ("", False) if body.kind == "image" else await bounded(page.evaluate(_SEEN), MEASURE_LIMIT_S)
    if is_shown:
        flags.append(HIDDEN_SHOWN)
    await bounded(page.emulate_media(media="print"), ALIVE_LIMIT_S)
    text_length = await bounded(page.evaluate(_TEXT_LENGTH), MEASURE_LIMIT_S)
    if text_length < _PRINT_SHARE_MIN * measured["textLength"]:
        await bounded(page.emulate_media(media="screen"), ALIVE_LIMIT_S)
        flags.append("print_css_hides_content")
    height, width = await bounded(page.evaluate(_REPAIR), MEASURE_LIMIT_S)
    _check_address(page, router, body)  # again, after the last time that the page could move
    if height > _HEIGHT_MAX_PX:
        raise DocumentError("page_too_long", f"{body.url}: {height:,} pixels high, more than {_HEIGHT_MAX_PX:,}")
    if router.has_moved:
        flags.append("moved_by_script")
    if router.blocked or (router.moves and not router.has_moved):
        flags.append("navigation_blocked")
    pdf, texts = await _print(page)
    words = await asyncio.to_thread(count_printed_words, seen, texts)
    # Content wider than a sheet is cut off at its edges, and some is hidden at its width; laid out as wide as on the
    # screen it is whole. What the page itself hides in print is not there either.
    if words.printed < words.seen and await _is_seen_in_print(page, texts):
        await bounded(page.evaluate(_WHOLE_RIGHT_TO_LEFT), MEASURE_LIMIT_S)
        scale = max(_SCALE_MIN, _CONTENT_WIDTH_PX / max(SCREEN["width"], width))
        shrunk, shrunk_texts = await _print(page, scale=scale)
        shrunk_words = await asyncio.to_thread(count_printed_words, seen, shrunk_texts)
        if shrunk_words.printed > words.printed:
            pdf, texts, words = shrunk, shrunk_texts, shrunk_words
            flags.append("shrunk_to_fit")
    images = measured["imagesExpected"], measured["imagesDrawn"]
    return Rendered(pdf, texts, tuple(flags), *images, tuple(sorted(router.resources)), words)


async def _is_seen_in_print(page: Page, texts: Sequence[str]) -> bool:
    """Whether the page, at the screen's width and in its styles for print, shows words that were not printed."""
    seen, _ = await bounded(page.evaluate(_SEEN), MEASURE_LIMIT_S)
    words = await asyncio.to_thread(count_printed_words, seen, texts)
    return words.printed < words.seen


async def _print(page: Page, *, scale: float = 1.0) -> tuple[bytes, list[str]]:
    """Return the page as PDF, and the text of each page of the PDF."""
    pdf = fix_dates(await bounded(page.pdf(**PRINT_OPTIONS, scale=scale), PRINT_LIMIT_S))
    return pdf, await asyncio.to_thread(read_texts, pdf)


def count_printed_words(seen: str, pages: Sequence[str]) -> PrintedWords:
    """Compare the text that `seen.js` found on a page with the texts of its PDF."""
    seen, text = _normalized(seen), "\n".join(pages)
    wanted, (printed, letters) = Counter(tokenize(seen)), _printed_words(text)
    words = PrintedWords(wanted.total(), (wanted & printed).total())
    if words.share >= WORDS_SHARE:  # words side by side may have been extracted as one
        lost = sum(max(0, wanted[word] - letters.count(word)) for word in wanted - printed)
        return words._replace(printed=words.seen - lost)
    # A PDF has gaps instead of spaces: spaced-out letters are extracted as words, and cells side by side as one word.
    trigrams = _letter_trigrams("".join(tokenize(seen)))
    share = (trigrams & _letter_trigrams(letters)).total() / max(1, trigrams.total())
    return words._replace(printed=max(words.printed, int(share * words.seen)))


@functools.lru_cache(maxsize=8)  # the text of a PDF is compared with its page twice
def _printed_words(text: str) -> tuple[Counter[str], str]:
    """Return the words of a PDF's text, those divided at the end of a line also as one, and its letters."""
    text = _normalized(text)
    words = list(tokenize(text))
    printed = Counter(words)
    printed.update(first + second for first, second in _HYPHENATED.findall(text))
    return printed, "".join(words)


def _letter_trigrams(letters: str) -> Counter[str]:
    """Count every three consecutive letters."""
    return Counter(letters[place : place + 3] for place in range(len(letters) - 2))


def _normalized(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace("\u00ad\n", "-\n").replace("\u00ad", "")).casefold()


def _check_address(page: Page, router: RequestRouter, body: Body) -> None:
    if router.left_private_host:
        raise DocumentError("blocked_navigation", f"{body.url}: a page of a private host leads to {page.url[:200]}")
    if not page.url.startswith(("http:", "https:")):
        raise DocumentError(
            "blocked_navigation", f"{body.url}: leads to an address that is refused or is not a page ({page.url[:80]})"
        )


async def _close_popup(popup: Page) -> None:
    with contextlib.suppress(Error):
        await popup.close()


def _one_line(error: Exception | None) -> str:
    return " ".join(str(error).split())[:200]


class BrowserCheck(NamedTuple):
    """Whether a browser's pages are confined, the owners of their processes, and the text of a page that it printed."""

    sandboxed: bool
    users: tuple[str, ...]
    text: str


def check_browser(lines: list[str]) -> BrowserCheck:
    """Start the browser as for a corpus and print a page with these paragraphs; no request leaves the machine."""
    return asyncio.run(_check_browser("<title>Trial</title>" + "".join(f"<p>{line}</p>" for line in lines)))


async def _check_browser(html: str) -> BrowserCheck:
    body = Body("html", html.encode(), "http://document.invalid/trial", charset="utf-8")
    config = EgressConfig()
    async with EgressProxy(EgressPolicy(config)) as proxy, browser_pool(proxy) as pool:
        process = await pool.process()
        async with process.context(scripts=True) as context:
            await (await context.new_page()).set_content("<p>This page is open while its process is inspected.")
            users = _users_of_pages()
        rendered = await render(pool, body, load_limit_s=config.page_load_limit_s)
    return BrowserCheck(process.sandboxed, users, "\n".join(rendered.texts))


def _users_of_pages() -> tuple[str, ...]:
    """Return the owners of this process's descendants that draw pages, sorted."""
    users = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # a spare process that has just ended
            if "--type=renderer" in " ".join(child.cmdline()):
                users.add(child.username())
    return tuple(sorted(users))
