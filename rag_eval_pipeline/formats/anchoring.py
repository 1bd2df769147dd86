r"""Annotated spans held against the text they are offsets into, and moved to where their quoted text really stands.

Offsets mean something in one extraction only. When the quoted text is not at its span, it is searched: as it is, then
with white space evened out; of several places the nearest to the span counts. A document's text is its pages joined by
one form feed; offsets that count from the page's first character are converted here.
"""

import bisect
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rag_eval_pipeline.formats.annotation_records import AnnotatedCitation, CitationAnnotation
from rag_eval_pipeline.formats.ground_truth import GroundTruth

PAGE_BREAK = "\f"

OffsetBase = Literal["document", "page"]
Fit = Literal["exact", "white_space", "moved", "moved_white_space", "not_found", "no_document", "no_page"]

_SPACE = re.compile(r"\s+")


class Anchored(NamedTuple):
    """A citation against its document.

    Args:
        fit: `exact`: its text is its slice; `white_space`: but for white space; `moved`, `moved_white_space`: the text
            stands elsewhere; `not_found`: nowhere; `no_document`: the document is not there; `no_page`: offsets count
            from a page that is not stated or not there.
        start: Where the text stands, in the document's text; None when it stands nowhere.
        end: One past its last character.
    """

    fit: Fit
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Reanchored:
    """A ground truth whose spans are where their texts are.

    Args:
        truth: With document offsets and page numbers; citations without a place are as they were.
        fits: How many citations fitted how.
        lost: The citations without a place, such as `annotation 'a_1', citations[0]`.
    """

    truth: GroundTruth
    fits: Mapping[Fit, int]
    lost: tuple[str, ...]


class DocumentText:
    """One document's text, ready for searches.

    Args:
        text: Its pages joined by form feeds.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.page_starts = [0, *(at.end() for at in re.finditer(PAGE_BREAK, text))]
        self._even: tuple[str, list[int]] | None = None

    def limit(self, citation: AnnotatedCitation, base: OffsetBase) -> int | None:
        """How far the citation's offsets may go; None without its page."""
        if base == "document":
            return len(self.text)
        page = citation.page_number
        return (
            None if page is None or page > len(self.page_starts) else self.page_end(page) - self.page_starts[page - 1]
        )

    def page_end(self, page: int) -> int:
        """One past a page's last character, in the document's text; `page` is 1-based."""
        is_last = page == len(self.page_starts)
        return len(self.text) if is_last else self.page_starts[page] - len(PAGE_BREAK)

    def at_span(self, citation: AnnotatedCitation, base: OffsetBase = "document") -> Anchored | None:
        """The citation's span in document offsets, when its text stands there."""
        limit = self.limit(citation, base)
        if limit is None:
            return None
        start, end = (self._offset(citation, base) + offset for offset in (citation.start_char, citation.end_char))
        if end > len(self.text):
            return None
        if self.text[start:end] == citation.text:
            return Anchored("exact", start, end)
        if _even(self.text[start:end]) == _even(citation.text):
            return Anchored("white_space", start, end)
        return None

    def anchor(self, citation: AnnotatedCitation, base: OffsetBase = "document") -> Anchored:
        """Where the citation's text stands: at its span, or else nearest to it."""
        if self.limit(citation, base) is None:
            return Anchored("no_page")
        return self.at_span(citation, base) or self._found(
            citation.text, self._offset(citation, base) + citation.start_char
        )

    def page(self, offset: int) -> int:
        """1-based page of a character."""
        return bisect.bisect_right(self.page_starts, offset)

    def _offset(self, citation: AnnotatedCitation, base: OffsetBase) -> int:
        """What its base adds to the citation's offsets; its page is there."""
        return 0 if base == "document" else self.page_starts[(citation.page_number or 1) - 1]

    def _found(self, text: str, near: int) -> Anchored:
        at = _nearest(self.text, text, near)
        if at is not None:
            return Anchored("moved", at, at + len(text))
        even = _even(text)
        if not even:
            return Anchored("not_found")
        own, origin = self._evened()
        at = _nearest(own, even, bisect.bisect_left(origin, near))
        if at is None:
            return Anchored("not_found")
        return Anchored("moved_white_space", origin[at], origin[at + len(even) - 1] + 1)

    def _evened(self) -> tuple[str, list[int]]:
        """The text with one space for each stretch of white space, and each character's place in the original."""
        if self._even is None:
            origin: list[int] = []
            end = 0
            for space in _SPACE.finditer(self.text):
                origin += [*range(end, space.start()), space.start()]
                end = space.end()
            origin += range(end, len(self.text))
            self._even = _SPACE.sub(" ", self.text), origin
        return self._even


def offset_base(truth: GroundTruth, texts: Mapping[str, str]) -> OffsetBase:
    """What the offsets count from: the base in which more quoted texts are at their spans; `document` on a tie."""
    documents = {name: DocumentText(text) for name, text in texts.items()}
    at_place: Counter[OffsetBase] = Counter()
    for annotation in truth.citation_annotations:
        for citation in annotation.citations:
            document = documents.get(citation.file_name)
            if document is not None:
                at_place["document"] += document.at_span(citation, "document") is not None
                at_place["page"] += document.at_span(citation, "page") is not None
    return "page" if at_place["page"] > at_place["document"] else "document"


def reanchor(truth: GroundTruth, texts: Mapping[str, str], *, base: OffsetBase = "document") -> Reanchored:
    """The ground truth in document offsets, each span where its text stands.

    Args:
        truth: Of one dataset.
        texts: Documents by file name.
        base: What its offsets count from; `offset_base` finds it out.
    """
    documents = {name: DocumentText(text) for name, text in texts.items()}
    fits: Counter[Fit] = Counter()
    lost: list[str] = []

    def placed(annotation: CitationAnnotation, index: int, citation: AnnotatedCitation) -> AnnotatedCitation:
        document = documents.get(citation.file_name)
        anchored = Anchored("no_document") if document is None else document.anchor(citation, base)
        fits[anchored.fit] += 1
        if document is None or anchored.start is None or anchored.end is None:
            lost.append(shown(annotation, index))
            return citation
        page = document.page(anchored.start)
        page_start = document.page_starts[page - 1]
        return citation.model_copy(
            update={
                "start_char": anchored.start,
                "end_char": anchored.end,
                "page_number": page,
                "page_start": anchored.start - page_start,
                "page_end": min(anchored.end, document.page_end(page)) - page_start,
            }
        )

    annotations = tuple(
        annotation.model_copy(
            update={"citations": tuple(placed(annotation, i, c) for i, c in enumerate(annotation.citations))}
        )
        if isinstance(annotation, CitationAnnotation)
        else annotation
        for annotation in truth.annotations
    )
    return Reanchored(truth.model_copy(update={"annotations": annotations}), dict(fits), tuple(lost))


def shown(annotation: CitationAnnotation, index: int) -> str:
    """How messages name a citation; its index counts from 0, as in the file."""
    return f"annotation {annotation.annotation_id!r} of {annotation.annotator_id!r}, citations[{index}]"


def _even(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _nearest(text: str, wanted: str, near: int) -> int | None:
    """Of the places where a text stands, the one nearest to an offset, the earlier of two."""
    after = text.find(wanted, max(0, near))
    before = text.rfind(wanted, 0, max(0, near) + len(wanted) - 1)  # begins before `near`
    places = [at for at in (before, after) if at >= 0]
    return min(places, key=lambda at: (abs(at - near), at)) if places else None
