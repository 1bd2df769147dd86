"""What must become of each page of the hostile site: a right PDF, or an error with a code.

Answers for which no browser is needed: tests/web/test_fetcher.py and tests/web/test_content_types.py.
"""

from typing import NamedTuple

from corpus.hostile.answers import BLACK, FONT_NAME, GREEN, RED

ANY = (1, 10_000)


class Case(NamedTuple):
    """One URL.

    Args:
        path: On the site.
        seen: Texts that must be in the PDF.
        unseen: Texts that must not.
        sheets: Least and greatest number of sheets.
        flags: Of the row, without those of the machine.
        images: Asked for and drawn.
        error: Code, instead of a PDF.
        kept: Whether the PDF is the publisher's, byte for byte.
        colour: Of what must be drawn.
        font: That must be in the PDF.
        long: Whether only `make test-long` prints it; a shorter page of its kind is in the suite.
    """

    path: str
    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    sheets: tuple[int, int] = (1, 1)
    flags: tuple[str, ...] = ()
    images: tuple[int, int] = (0, 0)
    error: str | None = None
    kept: bool = False
    colour: tuple[int, int, int] | None = None
    font: bytes | None = None
    long: bool = False

    @property
    def hangs(self) -> bool:
        """Whether it takes as long as it is let; all others get time enough for a busy machine."""
        return self.is_given_up or "load_timeout" in self.flags

    @property
    def is_given_up(self) -> bool:
        """Whether it is printed without its scripts in the end, be it sooner or later."""
        return "js_off" in self.flags


END = ("END",)
LATE = ("load_timeout",)
SILENT = ("pdf_no_text",)
STAYED = ("navigation_blocked",)

CASES = (
    # What is there only for those who look.
    Case("/lazy", ("TOP", "END"), sheets=(4, 9), images=(1, 1), colour=RED),
    Case("/lazy-by-observer", ("TOP", "SEEN"), ("NOTSEEN",), (4, 9), images=(1, 1), colour=RED),
    Case("/lazy-by-scroll", ("TOP",), sheets=(4, 9), images=(1, 1), colour=RED),
    Case("/details", ("FOLDED", "SCROLLED")),
    Case("/inner-scroller", END, sheets=(6, 12)),
    Case("/cookie-wall", END, sheets=(3, 7)),
    Case("/fixed-header", ("HEADER", "END"), sheets=(3, 7)),
    Case("/sticky-header", ("HEADER", "END"), sheets=(3, 7)),
    Case("/fades-in", ("FADED", "END")),
    # What print style sheets do.
    Case("/print-css", ("ALWAYS", "PRINTONLY"), ("SCREENONLY",)),
    Case("/print-hides-all", ("ARTICLE", "AD"), flags=("print_css_hides_content",)),
    Case("/at-page", END, sheets=(1, 3)),
    # What a page is made of.
    Case("/iframe", ("PLAIN", "END")),
    Case("/scripts-of-the-world", ("深度学习", "日本語", "한국어", "ไทย", "🚀", "½")),
    Case("/canvas", END, colour=GREEN),
    Case("/mathml", ("MATH", "17")),
    Case("/web-font", ("FONT",), font=FONT_NAME),
    Case("/video", END),
    Case("/large-picture", END, images=(1, 1), colour=BLACK),
    Case("/giant-picture", END, images=(1, 1), colour=BLACK, long=True),
    Case("/missing-picture", END, images=(1, 0)),
    Case("/anchor#S20", ("S0", "S29", "END"), sheets=(8, 20)),
    Case("/97-sheets", ("row 0", "row 699", "END"), sheets=(80, 120)),
    Case("/828-sheets", ("row 0", "row 5999", "END"), sheets=(700, 1000), long=True),
    Case("/table", ("0.0", "999.9", "END"), sheets=(18, 26)),
    Case("/long-table", ("0.0", "9999.9", "END"), sheets=(180, 260), long=True),
    Case("/too-long", error="page_too_long"),
    # Scripts that do not end, or ask.
    Case("/timers", END),
    Case("/never-idle", END),
    Case("/fills-itself-late", ("FILLED",), ("Loading",)),
    Case("/dialogs", END),
    Case("/beforeunload", END),
    Case("/prints-itself", END),
    Case("/loops-later", END, flags=("js_off",)),
    Case("/loops-at-once", END, flags=("js_off",)),
    Case("/loops-when-printed", END, flags=("js_off",)),
    Case("/grows-on-scroll", END, sheets=ANY),
    Case("/grows-by-itself", ("TOP",), sheets=ANY),
    Case("/eats-memory", END),
    Case("/eats-heap", END, flags=("js_off",)),
    Case("/popups", END, ("PLAIN",)),
    Case("/service-worker", END),
    Case("/downloads", END, flags=STAYED),
    Case("/asks-for-password-inside", END, images=(1, 0)),
    # Pages that lead elsewhere.
    Case("/refreshes-itself", END, flags=STAYED),
    Case("/script-redirect", ("PLAIN",), ("FIRST",), flags=("moved_by_script",)),
    Case("/late-redirect", ("PLAIN",), ("FIRST",), flags=("moved_by_script",)),
    Case("/circle", ("SECOND",), ("FIRST",), flags=("moved_by_script", *STAYED)),
    Case("/spin", ("SECOND",), ("FIRST",), flags=("moved_by_script", *STAYED)),
    Case("/for-ever-on?0", ("ON",), flags=("moved_by_script", *STAYED)),
    Case("/leads-to-404", error="http_404"),
    Case("/leads-to-blank", error="blocked_navigation"),
    Case("/leads-to-pdf", ("FIRST",), flags=STAYED),
    # What looks like a page and is none: printed here; flagging them is for whoever judges pages.
    Case("/lost", error="soft_404"),
    Case("/guarded", error="challenge_page"),
    # Answers around a page.
    Case("/hangs-on-picture", END, flags=LATE, images=(1, 0)),
    Case("/hangs-on-style", END, flags=LATE),
    Case("/hangs-on-script", ("END", "AFTER"), flags=("js_off",)),
    Case("/drips-a-script", ("END", "AFTER"), flags=("js_off",)),
    Case("/cut-picture", END, images=(1, 0)),
    Case("/compressed-bomb-inside", END),
    # Answers instead of a page.
    Case("/slow", ("chunk 0", "chunk 19", "END")),
    Case("/reset", error="connection_broken"),
    Case("/wrong-charset", ("café MARK-é naïve",), flags=("charset_repaired",)),
    Case("/utf-16", ("café MARK-é",)),
    Case("/html-attached", ("TOP", "END"), sheets=(4, 9), images=(1, 1), colour=RED),
    Case("/json", ('"t": "END"',)),
    Case("/xml", ("<a>END</a>",)),
    # PDFs, whatever they are called.
    Case("/pdf", ("PUBLISHED one", "PUBLISHED two"), sheets=(2, 2), kept=True),
    Case("/pdf-as-picture", ("PUBLISHED one",), sheets=(2, 2), kept=True),
    Case("/pdf-cut", error="pdf_damaged"),
    # Pictures in place of pages.
    Case("/png-image", flags=SILENT, images=(1, 1), colour=GREEN),
    Case("/jpeg-image", flags=SILENT, images=(1, 1), colour=GREEN),
    Case("/gif-image", flags=SILENT, images=(1, 1), colour=GREEN),
    Case("/webp-image", flags=SILENT, images=(1, 1), colour=GREEN),
    Case("/svg-image", ("DRAWN",), images=(1, 1), colour=GREEN),
    Case("/tall-image", flags=SILENT, images=(1, 1), colour=BLACK),
    Case("/cut-image", error="image_damaged"),
    Case("/html-as-svg", error="image_damaged"),
)
