"""Plain text to PDF: on one page after another text, without scripts and without network.

The bytes follow from the text alone, whatever was printed on the page before. Fifty texts in one print, cut apart
afterwards, take two fifths of the CPU time (`bench/text_documents.py`), and were refused: each file would carry the
letters of its forty-nine neighbours in its font and its place among them in its drawing, so that the bytes would
change with the company.
"""

import asyncio
import base64
import contextlib
import json
from typing import TYPE_CHECKING

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.rendering.paper import PRINT_COMMAND
from rag_eval_pipeline.corpus.text.pdf import fix_dates

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession

# Set at 125 px and printed at 14. Widths of glyphs stand in a PDF in thousandths of the size: at 125 they are whole
# eighths of a pixel, and a line is one string; at 14 each letter is placed by itself, for rounding's sake, and pdfium
# reads a page with a single line of such letters from top to bottom, a letter a line. Kerning would do the same.
# On the screen nothing is shown: nobody looks, and drawing it was a fifth of the browser's work.
_SCALE = 14 / 125
TEXT_PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"><style>@media screen{body{display:none}}body{margin:72px}'
    'pre{margin:0;font:125px/1.45 "Noto Sans","DejaVu Sans",sans-serif;font-kerning:none;white-space:pre-wrap;'
    "overflow-wrap:anywhere}</style></head><body><pre dir=auto></pre></body></html>"
)
_COMMAND = PRINT_COMMAND | {"scale": _SCALE}
TEXT_PRINT = repr((TEXT_PAGE, sorted(_COMMAND.items())))  # part of what decides a PDF's bytes

LINES_MAX = 150_000  # the browser's pages end at 33 million pixels, of which a sheet of 50 lines takes 9,200
_LINE_CHARACTERS = 50  # of full width; Latin lines hold twice as many
_CRASH_IS_SAID_WITHIN_S = 1.0


def check_length(text: str) -> None:
    """Refuses a text of which the browser would print no more than the beginning.

    Raises:
        DocumentError: `page_too_long`.
    """
    ends = text.count("\n") + text.count("\r") - text.count("\r\n")
    lines = ends + len(text) // _LINE_CHARACTERS
    if lines > LINES_MAX:
        message = f"a text of some {lines:,} lines, and {LINES_MAX:,} can be printed; divide it into documents"
        raise DocumentError("page_too_long", message)


class TextPage:
    """A page whose text is replaced for each print; `open_text_page` makes it.

    It is spoken to by the DevTools protocol, because Playwright's own calls make several round trips of these two
    commands, and the whole took a fifth more CPU time.
    """

    def __init__(self, session: "CDPSession", crashed: asyncio.Event) -> None:
        self._session = session
        self._crashed = crashed

    @property
    def is_usable(self) -> bool:
        """Whether it lives; pages share a process, and one may have died while it was idle."""
        return not self._crashed.is_set()

    async def print(self, text: str) -> bytes:
        """A text as a PDF; a page that raised must not be used again.

        Raises:
            playwright.async_api.Error: The page or its browser has died; of a page the message says that it `crashed`.
        """
        from playwright.async_api import Error

        printing = asyncio.create_task(self._exchange(text))
        crash = asyncio.create_task(self._crashed.wait())
        try:
            await asyncio.wait((printing, crash), return_when=asyncio.FIRST_COMPLETED)
            if printing.done() and printing.exception() is None:
                return fix_dates(printing.result())
            if await self._has_crashed():
                raise Error("the page crashed while it was printed")
            return fix_dates(await printing)
        finally:
            crash.cancel()
            printing.cancel()
            await asyncio.gather(crash, printing, return_exceptions=True)

    async def _exchange(self, text: str) -> bytes:
        # Never HTML: what stands in the text cannot become an element. Ends of lines as the HTML parser has them.
        written = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        expression = f"document.querySelector('pre').textContent = {json.dumps(written)}; 0"
        # Sent together: the page takes them in this order, and need not wait for us in between.
        answers = await asyncio.gather(
            self._session.send("Runtime.evaluate", {"expression": expression}),
            self._session.send("Page.printToPDF", _COMMAND),
        )
        return base64.b64decode(answers[1]["data"])

    async def _has_crashed(self) -> bool:
        """Whether that was why printing failed, which is said a moment earlier."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._crashed.wait(), _CRASH_IS_SAID_WITHIN_S)
        return self._crashed.is_set()


async def open_text_page(context: "BrowserContext") -> TextPage:
    """A page for texts.

    Args:
        context: Without scripts and without network; texts share it.
    """
    page = await context.new_page()
    crashed = asyncio.Event()
    page.on("crash", lambda _: crashed.set())
    await page.set_content(TEXT_PAGE)
    return TextPage(await context.new_cdp_session(page), crashed)
