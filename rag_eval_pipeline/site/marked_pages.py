"""The texts of a corpus, and images of its pages with boxes around gold and cited spans."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.corpus.text.page_drawing import Mark, encode_png, marks_by_page
from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.corpus.text.pdf import DrawnPage, draw_page
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.storage.atomic_files import atomic_write


class DocumentTexts:
    """Pages by document; `aliases` maps every name that a document can be called by to its file."""

    def __init__(self, pages: Sequence[Page], aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._pages: dict[str, list[Page]] = {}
        for page in pages:
            self._pages.setdefault(page.file_name, []).append(page)

    def canonical(self, name: str) -> str:
        """Return the file that a name means; the name itself if the corpus has none."""
        return self._aliases.get(name, name)

    def pages(self, name: str) -> Sequence[Page]:
        """Return a document's pages by any of its names; empty if the corpus has no such document."""
        return self._pages.get(self.canonical(name), ())

    def cut(self, name: str, start: int, end: int) -> str:
        """Return the text of a span, a line for each page; empty if the document has no such span."""
        parts = (page.text[max(0, start - page.start) : max(0, end - page.start)] for page in self.pages(name))
        return "\n".join(part for part in parts if part)

    def page_of(self, name: str, start: int) -> int | None:
        """Return the page of an offset."""
        found = None
        for page in self.pages(name):
            if page.start <= start:
                found = page.page
        return found


logger = logging.getLogger(__name__)

FOLDER = "pages"
PICTURE_WIDTH = 700  # pixels: 9-point text can be read, and a page of text has 30 kB
PAGES_A_QUESTION = 3  # gold pages first
_EDGE = 2.0  # pixels around a cited span, for its frame


class DocumentSpan(NamedTuple):
    """A gold or cited span in a document's text."""

    document: str
    start: int
    end: int
    is_gold: bool


class PageImage(NamedTuple):
    """A page with its marks; boxes are left, top, width, height in pixels of the image."""

    document: str
    page: int
    src: str
    width: int
    height: int
    gold: list[tuple[float, float, float, float]]
    cited: list[tuple[float, float, float, float]]


class PageImages:
    """Draws pages of a corpus into a folder of the site, within a budget of files and bytes.

    An image is named after its document's digest and its page, so that all systems and nights share it.
    """

    def __init__(self, site: Path, corpus: Path, texts: DocumentTexts, *, files_max: int, bytes_max: int) -> None:
        self._site, self._corpus, self._texts = site, corpus, texts
        self._left = files_max
        self._bytes_left = bytes_max
        self._drawn: set[str] = set()
        self.used: set[str] = set()  # since the caller last emptied it

    def of(self, spans: Sequence[DocumentSpan]) -> list[PageImage]:
        """Return the pages of spans, gold first; those that cannot be drawn or exceed the budget are left out."""
        marks: dict[tuple[str, int], list[Mark]] = {}
        for span in sorted(spans, key=lambda span: not span.is_gold):
            name = self._texts.canonical(span.document)
            found = marks_by_page(self._texts.pages(name), span.start, span.end, "gold" if span.is_gold else "cited")
            for page, own in found.items():
                marks.setdefault((name, page), []).extend(own)
        shown = []
        for (name, page), own in list(marks.items())[:PAGES_A_QUESTION]:
            picture = self._picture(name, page, own)
            if picture is not None:
                shown.append(picture)
        return shown

    def _picture(self, name: str, page: int, marks: list[Mark]) -> PageImage | None:
        sha = next(one.pdf_sha256 for one in self._texts.pages(name) if one.page == page)
        src = f"{FOLDER}/{sha[:20]}-{page}.png"
        is_new = src not in self._drawn
        if is_new and (self._left <= 0 or self._bytes_left <= 0):
            return None
        try:
            drawn = draw_page(
                self._corpus / name, page, width=PICTURE_WIDTH, ranges=[(mark.start, mark.end) for mark in marks]
            )
        except (DocumentError, FileNotFoundError) as error:
            logger.warning("Page %d of %s is not shown: %s", page, name, error)
            return None
        if is_new:
            self._keep(src, drawn)
        self.used.add(src)
        boxes: dict[bool, list[tuple[float, float, float, float]]] = {True: [], False: []}
        for mark, lines in zip(marks, drawn.boxes, strict=True):
            is_gold = mark.role == "gold"
            edge = 0.0 if is_gold else _EDGE
            boxes[is_gold] += [
                (box.left - edge, box.top - edge, box.right - box.left + 2 * edge, box.bottom - box.top + 2 * edge)
                for box in lines
            ]
        return PageImage(name, page, src, drawn.width, drawn.height, boxes[True], boxes[False])

    def _keep(self, src: str, drawn: DrawnPage) -> None:
        path = self._site / src
        if not path.exists():  # named by what is in it
            atomic_write(path, encode_png(drawn))
        self._left -= 1
        self._bytes_left -= path.stat().st_size
        self._drawn.add(src)
