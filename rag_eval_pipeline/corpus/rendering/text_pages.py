"""Print plain texts to PDF, and turn Markdown into the HTML page that is printed.

A PDF's bytes depend on its text alone, although a page is reused for other texts.
"""

import asyncio
import base64
import contextlib
import functools
import json
from dataclasses import replace
from importlib import metadata
from typing import Any

from markdown_it import MarkdownIt
from playwright.async_api import BrowserContext, CDPSession, Error

from rag_eval_pipeline.corpus.text.pdf import fix_dates
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.content_types import Body, decode_text

LINES_MAX = 150_000  # the browser's pages end at 33 million pixels, of which a sheet of 50 lines takes 9,200

_MARGIN_IN = 12 * 3.78 / 96  # Playwright's millimetre is 3.78 pixels, and both ways must give equal sheets
# `render.PRINT_OPTIONS` for `Page.printToPDF` (Chrome DevTools Protocol), in inches.
PRINT_COMMAND: dict[str, Any] = {
    "paperWidth": 8.27,
    "paperHeight": 11.7,
    **{f"margin{side}": _MARGIN_IN for side in ("Top", "Bottom", "Left", "Right")},
    "printBackground": True,
    "generateTaggedPDF": False,
    "generateDocumentOutline": False,
    "transferMode": "ReturnAsBase64",
}
# Set at 125 px and printed at 14. A PDF has widths of glyphs in thousandths of the size: at 125 they are whole eighths
# of a pixel, and a line is one string; at 14 each letter is placed by itself because of rounding, and pdfium reads a
# page with a single line of such letters from top to bottom, a letter a line. Kerning would have the same effect.
# Nothing is shown on the screen, because drawing it took a fifth of the browser's work.
_SCALE = 14 / 125
TEXT_PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"><style>@media screen{body{display:none}}body{margin:72px}'
    'pre{margin:0;font:125px/1.45 "Noto Sans","DejaVu Sans",sans-serif;font-kerning:none;white-space:pre-wrap;'
    "overflow-wrap:anywhere}</style></head><body><pre dir=auto></pre></body></html>"
)
_COMMAND = PRINT_COMMAND | {"scale": _SCALE}
TEXT_PRINT = repr((TEXT_PAGE, sorted(_COMMAND.items())))  # part of what decides a PDF's bytes
_LINE_CHARACTERS = 50  # of full width; Latin lines hold twice as many
_CRASH_NOTICE_LIMIT_S = 1.0

MARKDOWN_PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"><style>'
    'body{{margin:0;font:10.5pt/1.45 "Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere}}'
    'pre,code{{font-family:"Noto Sans Mono","DejaVu Sans Mono",monospace;font-size:9.5pt;white-space:pre-wrap}}'
    "table{{border-collapse:collapse}}th,td{{border:1px solid #999;padding:2pt 5pt}}"
    "img{{max-width:100%}}blockquote{{margin-left:0;padding-left:10pt;border-left:3pt solid #ccc}}"
    "</style></head><body dir=auto>\n{content}</body></html>"
)
# The parser silently drops what is nested deeper; its own default is 20, and a list takes two per level.
_NESTING_MAX = 100


def check_length(text: str) -> None:
    """Refuse a text of which the browser would print only the beginning (`page_too_long`)."""
    ends = text.count("\n") + text.count("\r") - text.count("\r\n")
    lines = ends + len(text) // _LINE_CHARACTERS
    if lines > LINES_MAX:
        message = f"a text of some {lines:,} lines, and {LINES_MAX:,} can be printed; divide it into documents"
        raise DocumentError("page_too_long", message)


class TextPage:
    """A page whose text is replaced for each print, by the DevTools protocol: Playwright's calls take more CPU time."""

    def __init__(self, session: CDPSession, crashed: asyncio.Event) -> None:
        self._session = session
        self._crashed = crashed

    @property
    def is_usable(self) -> bool:
        """Whether it is alive; pages share a process, so it may have died while it was idle."""
        return not self._crashed.is_set()

    async def print(self, text: str) -> bytes:
        """Return a text as PDF; a page that raised Playwright's `Error` has died and must not be used again."""
        printing = asyncio.create_task(self._exchange(text))
        crash = asyncio.create_task(self._crashed.wait())
        try:
            await asyncio.wait((printing, crash), return_when=asyncio.FIRST_COMPLETED)
            if printing.done() and printing.exception() is None:
                return fix_dates(printing.result())
            with contextlib.suppress(TimeoutError):  # the notice of a crash comes a moment after its error
                await asyncio.wait_for(self._crashed.wait(), _CRASH_NOTICE_LIMIT_S)
            if self._crashed.is_set():
                raise Error("the page crashed while it was printed")
            return fix_dates(await printing)
        finally:
            crash.cancel()
            printing.cancel()
            await asyncio.gather(crash, printing, return_exceptions=True)

    async def _exchange(self, text: str) -> bytes:
        # Set as text, so nothing in it can become an element; line ends as the HTML parser normalises them.
        written = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        expression = f"document.querySelector('pre').textContent = {json.dumps(written)}; 0"
        # Sent together: the page handles them in this order without waiting for us in between.
        answers = await asyncio.gather(
            self._session.send("Runtime.evaluate", {"expression": expression}),
            self._session.send("Page.printToPDF", _COMMAND),
        )
        return base64.b64decode(answers[1]["data"])


async def open_text_page(context: BrowserContext) -> TextPage:
    """Open a page for texts in a context without scripts and network, which texts share."""
    page = await context.new_page()
    crashed = asyncio.Event()
    page.on("crash", lambda _: crashed.set())
    await page.set_content(TEXT_PAGE)
    return TextPage(await context.new_cdp_session(page), crashed)


def markdown_page(body: Body) -> Body:
    """Convert a Markdown body to HTML: CommonMark 0.31, with GitHub's tables and strikethrough.

    HTML inside Markdown is part of CommonMark and is let through; the page is printed without scripts.
    """
    html = MARKDOWN_PAGE.format(content=_markdown_parser().render(decode_text(body)))
    return replace(body, kind="html", data=html.encode(), charset="utf-8")


def markdown_print() -> str:
    """Return what decides how Markdown is printed: the page and the version of the parser."""
    return f"{MARKDOWN_PAGE} {_NESTING_MAX} {metadata.version('markdown-it-py')}"


@functools.cache
def _markdown_parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True, "maxNesting": _NESTING_MAX}).enable(["table", "strikethrough"])
