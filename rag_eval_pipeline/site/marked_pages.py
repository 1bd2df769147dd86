"""The texts of a corpus, and images of its pages with boxes around what a question and its answer name in them.

Where a benchmark names a document and no place in it, the sentence nearest to the gold answer is marked; where an
answer cites nothing, its retrieved passages are. Both are for the eye and never scored.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, get_args

from msgspec.structs import replace

from rag_eval_pipeline.audit.nearest_sentences import nearest_sentence
from rag_eval_pipeline.corpus.text.page_drawing import Mark, Role, encode_png, marks_by_page
from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.corpus.text.pdf import Box, DrawnPage, draw_page
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.systems.base import Citation, PageText, RagAnswer
from rag_eval_pipeline.systems.citations import PassagePlaces


class DocumentTexts:
    """Pages by document; `aliases` maps every name that a document can be called by to its file."""

    def __init__(self, pages: Sequence[Page], aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._pages: dict[str, list[Page]] = {}
        for page in pages:
            self._pages.setdefault(page.file_name, []).append(page)
        self.places = PassagePlaces(lambda: [PageText(one.file_name, one.page, one.start, one.text) for one in pages])

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
PASSAGES_MARKED = 5
_EDGE = 2.0  # pixels around what is framed


class DocumentSpan(NamedTuple):
    """A span in a document's text; an empty one means its first page. `rank` is of a retrieved passage."""

    document: str
    start: int
    end: int
    role: Role
    rank: int = 0


def stated_spans(answer: RagAnswer, query: EvaluationQuery | None) -> list[DocumentSpan]:
    """Return the gold and cited spans of a question."""
    sides: tuple[tuple[Role, Sequence[Citation | CitationSpan]], ...] = (
        ("gold", query.citations if query else ()),
        ("cited", answer.citations),
    )
    return [DocumentSpan(one.file_name, one.start_char, one.end_char, role) for role, spans in sides for one in spans]


def likely_spans(answer: RagAnswer, query: EvaluationQuery | None, texts: DocumentTexts) -> Iterator[DocumentSpan]:
    """Yield what stands in for places that are not stated, if their texts are found in the corpus.

    These are the sentence nearest to the gold answer in each relevant document without a gold text (in none of them:
    the first one's first page), and the first passages of an answer that cites nothing.
    """
    if query is not None and (answers := query.accepted_answers):
        located = {texts.canonical(one.file_name) for one in query.citations}
        names = [
            name for name in query.relevant_documents if texts.pages(name) and texts.canonical(name) not in located
        ]
        nearest = [
            DocumentSpan(name, one.start, one.end, "nearest")
            for name in names[:PAGES_A_QUESTION]
            if (one := nearest_sentence(texts.places.texts[name], query.query_text, answers))
        ]
        yield from nearest
        if names and not nearest and not located:
            yield DocumentSpan(names[0], 0, 0, "nearest")
    found = 0
    for passage in () if answer.citations else sorted(answer.contexts, key=attrgetter("rank")):
        name = texts.canonical(passage.document)
        spans = list(texts.places.spans_of(replace(passage, document=name))) if texts.pages(name) else []
        found += bool(spans)
        yield from (DocumentSpan(name, start, end, "retrieved", passage.rank) for start, end, _ in spans)
        if found == PASSAGES_MARKED:
            break


Rectangle = tuple[float, float, float, float]


class PageImage(NamedTuple):
    """A page with its marks, rectangles in pixels of the image: left, top, width, height.

    Args:
        nearest: The sentence nearest to the gold answer, line by line.
        retrieved: The rank of a passage, and the rectangle around what the page has of it.
    """

    document: str
    page: int
    src: str
    width: int
    height: int
    gold: list[Rectangle]
    cited: list[Rectangle]
    nearest: list[Rectangle] = []
    retrieved: list[tuple[int, Rectangle]] = []


class PageImages:
    """Draws pages of a corpus into a folder of the site, within a budget of files and bytes.

    An image is named after its document's digest and its page, so that all systems and nights share it.
    """

    def __init__(self, site: Path, corpus: Path, texts: DocumentTexts, *, files_max: int, bytes_max: int) -> None:
        self._site, self._corpus, self._texts = site, corpus, texts
        self._left = files_max
        self._spare = files_max // 2  # for pages that have more than retrieved passages
        self._bytes_left = bytes_max
        self._drawn: set[str] = set()
        self.used: set[str] = set()  # since the caller last emptied it

    def of(self, spans: Sequence[DocumentSpan]) -> list[PageImage]:
        """Return the pages of spans, gold first; those that cannot be drawn or exceed the budget are left out."""
        marks: dict[tuple[str, int], list[Mark]] = {}
        for span in sorted(spans, key=lambda span: get_args(Role).index(span.role)):
            name, pages = self._texts.canonical(span.document), self._texts.pages(span.document)
            found = marks_by_page(pages, span.start, span.end, span.role, span.rank)
            if span.start == span.end and pages:
                found = {pages[0].page: []}
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
        spare = self._spare if marks and all(mark.role == "retrieved" for mark in marks) else 0
        if is_new and (self._left <= spare or self._bytes_left <= 0):
            return None
        try:
            ranges = [(mark.start, mark.end) for mark in marks]
            has_pixels = is_new and not (self._site / src).exists()  # it is named by what is in it
            drawn = draw_page(self._corpus / name, page, width=PICTURE_WIDTH, ranges=ranges, has_pixels=has_pixels)
        except (DocumentError, FileNotFoundError) as error:
            logger.warning("Page %d of %s is not shown: %s", page, name, error)
            return None
        if is_new:
            self._keep(src, drawn)
        self.used.add(src)
        boxes: dict[Role, list[Rectangle]] = {"gold": [], "cited": [], "nearest": []}
        retrieved = []
        for mark, lines in zip(marks, drawn.boxes, strict=True):
            if mark.role == "retrieved":
                retrieved += [(mark.rank, _around(lines, 2 * _EDGE))] if lines else []
            else:
                boxes[mark.role] += [_around([box], 0.0 if mark.role == "gold" else _EDGE) for box in lines]
        return PageImage(name, page, src, drawn.width, drawn.height, **boxes, retrieved=retrieved)

    def _keep(self, src: str, drawn: DrawnPage) -> None:
        path = self._site / src
        if not path.exists():
            atomic_write(path, encode_png(drawn))
        self._left -= 1
        self._bytes_left -= path.stat().st_size
        self._drawn.add(src)


def _around(boxes: Sequence[Box], edge: float) -> Rectangle:
    """Return the rectangle around some boxes at a distance in pixels."""
    left, top = min(box.left for box in boxes) - edge, min(box.top for box in boxes) - edge
    right, bottom = max(box.right for box in boxes) + edge, max(box.bottom for box in boxes) + edge
    return left, top, right - left, bottom - top
