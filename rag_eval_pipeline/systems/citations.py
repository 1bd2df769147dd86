"""Turn what a system cites into spans of the corpus: marks in its answer, numbers of passages, quotes, offsets.

Only text that is found in the document becomes a span, because the offsets of frameworks (LangChain's `start_index`,
LlamaIndex's `start_char_idx`, Haystack's `split_idx_start`) count in what their own loader extracted. What names no
place is left out, counted, and reported.
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from rag_eval_pipeline.corpus.text.alignment import Hint, Located, TextIndex, contains, fold
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.formats.citation_marks import find_citations
from rag_eval_pipeline.systems.base import Citation, PageText, RetrievedPassage
from rag_eval_pipeline.systems.foreign_values import WrongShape, describe, part, peek, whole_number
from rag_eval_pipeline.systems.passages import TEXT, ParsedPassage, parse_passages, split_page
from rag_eval_pipeline.text.folding import PASSAGE_WORDS, plain_text

NUMBER = ("source_id", "document_index", "number", "index")  # of a passage, in a citation
QUOTE = ("quote", "cited_text", "context_text")  # besides the keys of a passage's text
QUOTE_LENGTH_MIN = 12  # folded characters of a text without a document, which is searched in the passages
INDEXED_DOCUMENTS = 64  # kept for searching; each takes some twenty times its text
COPIED_LENGTH = 16  # characters before a mark, by which it is found in a passage that it was copied from

# Why citations are left out, after "each".
NO_PASSAGE = "names a passage by a number that no stated passage has"
NO_BASE = "is a number that may count from 0 or from 1; set citation_base"
NO_PLACE = "names a document, but no place in it"
NOT_FOUND = "is a passage or quote whose text is not in a document of the corpus"
NO_CITATION = "is no citation"
NO_SPAN = "has an empty or reversed span, or a page before the first"

_NUMBERED = re.compile(
    rf"\[\s*\^?(?:{PASSAGE_WORDS})?(\d{{1,3}}(?:\s*[,;–-]\s*(?:{PASSAGE_WORDS})?\d{{1,3}})*)\s*\]", re.IGNORECASE
)
_COUNTED_ID = re.compile(r"doc[_:-]?(\d{1,6})")  # Cohere's, for a document without an id: its place, from 0
_CITATION_QUERY_ENGINE = re.compile(r"\ASource \d+:\n")  # before the text of each of LlamaIndex's citable nodes

Span = tuple[int, int]


class PassagePlaces:
    """Finds passages and quotes in the documents of a corpus; `pages` reads its texts when they are first needed."""

    def __init__(self, pages: Callable[[], list[PageText]]) -> None:
        self._pages = pages
        self._index = functools.lru_cache(INDEXED_DOCUMENTS)(self._make_index)

    @cached_property
    def texts(self) -> Mapping[str, list[PageText]]:
        """The pages of each document, in their order."""
        texts: dict[str, list[PageText]] = {}
        for page in self._pages():
            texts.setdefault(page.document, []).append(page)
        return {name: sorted(pages, key=lambda page: page.start) for name, pages in texts.items()}

    def spans_of(self, passage: RetrievedPassage) -> Iterator[tuple[int, int, int | None]]:
        """Yield start, end and page of a passage: as stated, else where its text is in the document."""
        if passage.start is not None and passage.end is not None:
            yield passage.start, passage.end, passage.page
            return
        text = _CITATION_QUERY_ENGINE.sub("", passage.text)
        for one in self.locate(passage.document, text, passage.page):
            yield one.start, one.end, one.page

    def locate(self, document: str, text: str, page: int | None) -> list[Located]:
        """Search a text on the stated page and its neighbours, which is fast, and then in the whole document."""
        for nearby in (page, None) if page is not None else (None,):
            index, start, pages = self._nearby(document, nearby)
            if index is not None and (found := index.locate(text, Hint(None if page is None else page - pages))):
                return [
                    dataclasses.replace(one, start=one.start + start, end=one.end + start, page=one.page + pages)
                    for one in found
                ]
        return []

    def _nearby(self, document: str, page: int | None) -> tuple[TextIndex | None, int, int]:
        """Return the index of a page with its neighbours, and the characters and pages before it."""
        pages = self.texts.get(document, [])
        if page is None or not 1 <= page <= len(pages):
            return self._index(document), 0, 0
        first = max(0, page - 2)
        return TextIndex([one.text for one in pages[first : page + 1]]), pages[first].start, first

    def _make_index(self, document: str) -> TextIndex | None:
        pages = self.texts.get(document)
        return None if pages is None else TextIndex([page.text for page in pages])


class CitationReader:
    """Converts the citations of one system to document offsets of one corpus.

    Args:
        known: Every name of a document, by which the end of a file's name in a mark is decided.
        document: Returns the basename that a system's name means.
        place: Returns the document and the 1-based page that a parsed citation names.
        pages: Reads the texts of the corpus.
        first_page: Number of a document's first page in marks.
        first_number: Number of the first passage; None to decide by what the answer states.
        are_page_offsets: Offsets count from the start of the page.
    """

    def __init__(
        self,
        known: frozenset[str],
        document: Callable[[str], str],
        place: Callable[[ParsedPassage], tuple[str, int | None]],
        pages: Callable[[], list[PageText]],
        *,
        first_page: int,
        first_number: int | None,
        are_page_offsets: bool,
    ) -> None:
        self._known = known
        self._document = document
        self._place = place
        self._places = PassagePlaces(pages)
        self._first_page = first_page
        self._first_number = first_number
        self._are_page_offsets = are_page_offsets
        self._left_out: Counter[str] = Counter()
        self._example: str | None = None

    def at(
        self, document: str, page: int | None, start: int, end: int, *, marker: Span | None = None
    ) -> Citation | None:
        """Return a citation in offsets of the document; None for an empty or reversed span, as in the grammar."""
        if start < 0 or end <= start:
            return None
        name = self._document(document)
        shift = self._page_start(name, page) if self._are_page_offsets else 0
        return Citation(name, start + shift, end + shift, page, *(marker or (None, None)))

    def in_answer(self, text: str, passages: Sequence[RetrievedPassage] | None = None) -> tuple[Citation, ...]:
        """Return the citations in an answer, in its order: marks `[file:page:start-end]` and numbers of passages.

        Numbers within another mark are none, since file names may contain `[1]`, and neither is a number that was
        copied from a passage together with the words before it. Without passages, numbers are not read.
        """
        marked = self._marked(text)
        if passages is None:
            return tuple(marked)
        markers = [(citation.marker_start or 0, citation.marker_end or 0) for citation in marked]
        found = list(marked)
        for match in _NUMBERED.finditer(text):
            if any(start <= match.start() < end for start, end in markers) or _is_copied(text, match, passages):
                continue
            for number in _numbers(match):
                index = number - (1 if self._first_number is None else self._first_number)
                found += self._of_passage(passages, index, match.span())
        return tuple(sorted(found, key=lambda citation: citation.marker_start or 0))

    def stated(
        self, items: Any, passages: Sequence[RetrievedPassage] = (), *, answer: str = ""
    ) -> tuple[Citation, ...]:
        """Return the citations that a system states apart from its answer.

        Args:
            items: Marks, quotes, numbers of passages, or mappings and objects: with document, start and end; with a
                document and a quote; or with the number of a passage, and perhaps a quote.
            answer: Its marks by number show from where the numbers count.
        """
        found: list[Citation] = []
        items = items if isinstance(items, list | tuple) else [items]
        first = self._first_number
        first = self._first_of(items, passages, answer) if first is None else first
        for number, item in enumerate(items):
            found += self._stated(item, number, passages, first, answer)
        return tuple(found)

    def warnings(self) -> list[str]:
        """Return a line for each reason why citations were left out."""
        return [
            f"Citations left out: {count:,}, each of which {reason}"
            + (f", such as {self._example}." if reason == NO_CITATION else ".")
            for reason, count in self._left_out.most_common()
        ]

    # --- Marks

    def _marked(self, text: str) -> list[Citation]:
        found = []
        for marker in find_citations(text, self._known, first_page=self._first_page):
            if not marker.spans:
                self._leave_out(NO_SPAN)
            for one in marker.spans:
                found.append(self.at(one.file_name, one.page_number, one.start_char, one.end_char, marker=marker[:2]))
        return [citation for citation in found if citation is not None]

    # --- Stated apart

    def _stated(
        self, item: Any, number: int, passages: Sequence[RetrievedPassage], first: int | None, answer: str
    ) -> Iterable[Citation]:
        if isinstance(item, str):
            return self._stated_text(plain_text(item), number, passages, first)
        if isinstance(item, int) and not isinstance(item, bool):
            return self._by_number(item, "", passages, first)
        if ids := _passage_ids(item):
            return [_with_marker(one) for given in ids for one in self._by_id(given, passages)]
        quote = part(item, *QUOTE)
        passage = _number_of(item)
        try:
            (parsed,) = parse_passages([item])
        except WrongShape:
            parsed = ParsedPassage(None, None, False, "", None)
        name = parsed.document
        if name is not None and name == str(peek(item, "id")) and self._document(name) not in self._known:
            parsed = parsed._replace(document=None)  # the id of the citation itself
        text = plain_text(quote) if isinstance(quote, str) else parsed.text
        if parsed.document is None:
            if passage is not None:
                return self._by_number(passage, text, passages, first)
            return self._in_passages(text, passages) if text.strip() else self._odd(item, number)
        document, page = self._place(parsed)
        start, end = parsed.start, parsed.end
        if start is not None and end is not None and not self._is_of_answer(parsed, document, answer):
            found = self.at(document, page, start, end)
            marker = (whole_number(part(item, key)) for key in ("marker_start", "marker_end"))
            return self._leave_out(NO_SPAN) if found is None else [_with_marker(found, *marker)]
        if text.strip():
            return self._quoted(document, page, text)
        index = -1 if passage is None or first is None else passage - first
        is_meant = 0 <= index < len(passages) and passages[index].document == document
        return self._by_number(passage or 0, "", passages, first) if is_meant else self._leave_out(NO_PLACE)

    def _is_of_answer(self, parsed: ParsedPassage, document: str, answer: str) -> bool:
        """Return whether a citation's offsets are a place in the answer: that has its text there, the document not."""
        span = slice(parsed.start, parsed.end)
        whole = PAGE_BREAK.join(page.text for page in self._places.texts.get(document, []))
        return bool(parsed.text) and answer[span] == parsed.text != whole[span]

    def _by_id(self, given: str, passages: Sequence[RetrievedPassage]) -> list[Citation]:
        """Return the citation of the passage that a system's id means."""
        index = next((place for place, passage in enumerate(passages) if passage.source_id == given), None)
        if index is None and (counted := _COUNTED_ID.fullmatch(given)):
            index = int(counted[1])
        return self._of_passage(passages, -1 if index is None else index, (0, 0))

    def _stated_text(
        self, text: str, number: int, passages: Sequence[RetrievedPassage], first: int | None
    ) -> Iterable[Citation]:
        if marked := self._marked(text):
            return map(_with_marker, marked)  # its markers are not in the answer
        if mark := _NUMBERED.fullmatch(text.strip()):
            base = 1 if self._first_number is None else self._first_number
            return [
                _with_marker(one)
                for named in _numbers(mark)
                for one in self._of_passage(passages, named - base, (0, 0))
            ]
        if (named := whole_number(text.strip())) is not None:
            return self._by_number(named, "", passages, first)
        if self._document(split_page(text)[0]) in self._known:
            return self._leave_out(NO_PLACE)
        return (
            self._in_passages(text, passages) if len(fold(text).text) >= QUOTE_LENGTH_MIN else self._odd(text, number)
        )

    def _by_number(
        self, number: int, quote: str, passages: Sequence[RetrievedPassage], first: int | None
    ) -> Iterable[Citation]:
        named = [number, number - 1] if first is None else [number - first]
        if not any(0 <= index < len(passages) for index in named):
            return self._leave_out(NO_PASSAGE)
        if quote.strip():
            for index in named:
                if 0 <= index < len(passages) and contains(passages[index].text, quote):
                    return self._quoted_in(passages[index], quote)
        if first is None:
            return self._leave_out(NOT_FOUND if quote.strip() else NO_BASE)
        # A quote that its passage has not is still a citation of that passage.
        return map(_with_marker, self._of_passage(passages, named[0], (0, 0)))

    def _first_of(self, items: Sequence[Any], passages: Sequence[RetrievedPassage], answer: str) -> int | None:
        """Return from where the numbers of an answer's citations count; None if nothing or both is shown.

        0 counts from 0, and as many as there are passages counts from 1; a quote is in the passage that is meant;
        marks in the answer count from 1.
        """
        numbers, shown = set(), set()
        for item in items:
            number = item if isinstance(item, int) else None if isinstance(item, str) else _number_of(item)
            if number is None:
                continue
            numbers.add(number)
            quote = None if isinstance(item, int) else peek(item, *QUOTE, *TEXT)
            if isinstance(quote, str) and quote.strip():
                holds = [
                    base for base in (0, 1)
                    if 0 <= number - base < len(passages) and contains(passages[number - base].text, quote)
                ]  # fmt: skip
                shown |= set(holds) if len(holds) == 1 else set()
        if 0 in numbers:
            shown.add(0)
        if passages and len(passages) in numbers:
            shown.add(1)
        if not shown and numbers and numbers == {one for mark in _NUMBERED.finditer(answer) for one in _numbers(mark)}:
            shown.add(1)
        return shown.pop() if len(shown) == 1 else None

    def _odd(self, item: Any, number: int) -> list[Citation]:
        if self._example is None:
            self._example = f"citations[{number}], {describe(item)}"
        return self._leave_out(NO_CITATION)

    def _leave_out(self, reason: str) -> list[Citation]:
        self._left_out[reason] += 1
        return []

    # --- Texts of the corpus

    def _of_passage(self, passages: Sequence[RetrievedPassage], index: int, marker: Span) -> list[Citation]:
        if not 0 <= index < len(passages):
            return self._leave_out(NO_PASSAGE)
        passage = passages[index]
        spans = list(self._places.spans_of(passage))
        if not spans:
            return self._leave_out(NOT_FOUND)
        return [Citation(passage.document, start, end, page, *marker) for start, end, page in spans]

    def _quoted_in(self, passage: RetrievedPassage, quote: str) -> list[Citation]:
        """Return the citation of a quote at its place in the passage, since a document may repeat it."""
        whole = PAGE_BREAK.join(page.text for page in self._places.texts.get(passage.document, []))
        for start, end, page in self._places.spans_of(passage) if whole else ():
            for one in TextIndex([whole[start:end]]).locate(quote):
                return [Citation(passage.document, start + one.start, start + one.end, page)]
        return self._quoted(passage.document, passage.page, quote)

    def _quoted(self, document: str, page: int | None, quote: str) -> list[Citation]:
        found = self._places.locate(document, quote, page)
        return [Citation(document, one.start, one.end, one.page) for one in found] or self._leave_out(NOT_FOUND)

    def _in_passages(self, quote: str, passages: Sequence[RetrievedPassage]) -> list[Citation]:
        passage = next((passage for passage in passages if contains(passage.text, quote)), None)
        return self._leave_out(NOT_FOUND) if passage is None else self._quoted_in(passage, quote)

    def _page_start(self, document: str, page: int | None) -> int:
        pages = self._places.texts.get(document)
        if pages is None:
            return 0  # not in the corpus: the citation is wrong whatever its offsets
        # A missing page starts after the document's end, so that the citation counts and points at nothing.
        past = pages[-1].start + len(pages[-1].text) + 1
        return next((one.start for one in pages if one.page == page), past)


def _number_of(item: Any) -> int | None:
    """Return the number of a passage in a citation; `index` of OpenAI's annotations is a place in the answer."""
    is_annotation = str(peek(item, "type") or "").endswith("_citation")
    return whole_number(part(item, *(NUMBER[:-1] if is_annotation else NUMBER)))


def _passage_ids(item: Any) -> list[str]:
    """Return the ids of passages in a citation of Cohere's, whose offsets and text are those of the answer."""
    ids = part(item, "document_ids")
    if ids is None and isinstance(sources := part(item, "sources"), list):
        ids = [part(source, "id") for source in sources if not isinstance(source, str)]
    return [one for one in ids if isinstance(one, str)] if isinstance(ids, list) else []


def _with_marker(citation: Citation, start: int | None = None, end: int | None = None) -> Citation:
    return msgspec.structs.replace(citation, marker_start=start, marker_end=end)


def cited_place(citation: Citation) -> tuple[str, int, int]:
    """Return document, start and end, by which equal citations are recognised."""
    return citation.file_name, citation.start_char, citation.end_char


def merge_citations(in_text: Sequence[Citation], stated: Sequence[Citation]) -> tuple[Citation, ...]:
    """Return the citations of a text, followed by the stated ones that it does not contain, without their markers."""
    known = {cited_place(citation) for citation in in_text}
    return (*in_text, *(_with_marker(citation) for citation in stated if cited_place(citation) not in known))


def _numbers(mark: re.Match[str]) -> list[int]:
    """Return the numbers of a mark; `1-3` are three of them."""
    ranges = re.findall(r"(\d+)(?:\s*[–-]\s*(\d+))?", mark[1])
    return [number for first, last in ranges for number in range(int(first), int(last or first) + 1)]


def _is_copied(text: str, mark: re.Match[str], passages: Sequence[RetrievedPassage]) -> bool:
    """Return whether a passage has a mark after the same words, as encyclopedias do."""
    copied = text[max(0, mark.start() - COPIED_LENGTH) : mark.end()]
    return len(copied) > len(mark[0]) and any(copied in passage.text for passage in passages)
