"""Read what systems return: document names, pages, offsets, passages, citations, abstention.

The conventions of a system (`page_base`, `offset_base`) are undone here, once. Afterwards pages count from 1 and
offsets are code points of the document's text.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
import pydantic

from rag_eval_pipeline.formats.citations import find_citations
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.systems.base import (
    Citation,
    Query,
    RagAnswer,
    RetrievedPassage,
    SystemCorpus,
    Usage,
    failed_answer,
)
from rag_eval_pipeline.systems.passages import DOCUMENT, ParsedPassage, parse_passages
from rag_eval_pipeline.systems.values import WrongShape, describe, identifier, part, plain_text, whole_number
from rag_eval_pipeline.text.normalise import plain
from rag_eval_pipeline.text.refusals import find_refusal
from rag_eval_pipeline.web.client import EndpointError
from rag_eval_pipeline.web.settings import Prices

ABSTENTION = "The documents do not answer this question."
NO_DOCUMENT = ""  # of a passage whose document the system does not name


_NUMBERED = re.compile(r"\[\s*(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\s*\]")


# --- Settings


def _regular_expressions(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for pattern in patterns or ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"regular expressions ({error})") from None
    return patterns


PageBase = Annotated[
    Literal[0, 1] | None,
    pydantic.Field(description="Number of a document's first page; by default 0 in LangChain's documents, else 1."),
]
OffsetBase = Annotated[
    Literal["document", "page"],
    pydantic.Field(description="What the system counts characters from: the start of the document, or of the page."),
]
AbstentionPatterns = Annotated[
    tuple[str, ...] | None,
    pydantic.AfterValidator(_regular_expressions),
    pydantic.Field(
        description="Regular expressions, ignoring case; an answer that contains a match is an "
        "abstention. By default the refusals that the lexical judge knows."
    ),
]
EmptyAnswers = Annotated[
    Literal["error", "abstained"],
    pydantic.Field(description="What an empty answer is, unless the system states that it abstained."),
]


class ReadingSettings(Model):
    """How the answers of a system are read; part of most kinds' settings."""

    page_base: PageBase = None
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = None
    empty_answer: EmptyAnswers = "error"


# --- Answers


class AnswerReader:
    """Converts what one system states to names, pages and offsets of one corpus."""

    def __init__(self, corpus: SystemCorpus, settings: ReadingSettings | None = None) -> None:
        settings = settings or ReadingSettings()
        self._corpus = corpus
        self._page_base = settings.page_base
        self._offset_base = settings.offset_base
        self._empty_answer = settings.empty_answer
        self._abstention = None
        if settings.abstention is not None:
            self._abstention = [re.compile(pattern, re.IGNORECASE) for pattern in settings.abstention]
        self._on_page_zero = 0
        self._known = frozenset(corpus.files) | corpus.aliases.keys()

    def observe(self, value: Any) -> Any:
        """Return the JSON of a reply as it is to be read: itself, unless the corpus has an observer."""
        return value if self._corpus.observe is None else self._corpus.observe(value)

    def document(self, name: str) -> str:
        """Return the basename in the corpus that a system's name means; the name as given if there is none."""
        # A file name in a corpus may contain a backslash and `%2F`, but never a slash.
        last = name.rsplit("/", 1)[-1]
        candidates = [name, last, last.rsplit("\\", 1)[-1]]
        for candidate in candidates:
            if candidate in self._known:
                return self._corpus.aliases.get(candidate, candidate)
        by_folded = self._by_folded_name
        folded = {by_folded[text.casefold()] for text in candidates if text.casefold() in by_folded}
        return folded.pop() if len(folded) == 1 else name

    def page(self, number: Any, *, counts_from_zero: bool = False) -> int | None:
        """Return the 1-based page that a system's number means; None for anything else, such as -1 for "unknown"."""
        counted = whole_number(number.strip() if isinstance(number, str) else number)
        if counted is None or counted < 0:
            return None
        base = (0 if counts_from_zero else 1) if self._page_base is None else self._page_base
        if counted < base:
            self._on_page_zero += 1
            return None
        return counted + 1 - base

    def passage(self, parsed: ParsedPassage, rank: int) -> RetrievedPassage:
        """Return a passage in terms of the corpus; a text that is only a document's name is taken as the name."""
        if parsed.document is None and self.document(parsed.text) in self._corpus.files:
            parsed = parsed._replace(document=parsed.text, text="")
        document = NO_DOCUMENT if parsed.document is None else self.document(parsed.document)
        page = self.page(parsed.page, counts_from_zero=parsed.counts_from_zero)
        span = None
        if parsed.start is not None and parsed.end is not None:
            span = self.citation(document, page, parsed.start, parsed.end)
        return RetrievedPassage(
            document=document,
            page=page,
            text=parsed.text,
            score=parsed.score,
            rank=rank,
            start=None if span is None else span.start_char,
            end=None if span is None else span.end_char,
            kind=parsed.kind,
        )

    def passages_at(self, path: str, items: Sequence[Any]) -> tuple[RetrievedPassage, ...]:
        """Return the passages that a server's JSON has at a path, in its order."""
        try:
            parsed = parse_passages(items)
        except WrongShape as wrong:
            raise WrongShape(f"passages at {path!r}: {wrong}") from None
        return tuple(self.passage(passage, rank) for rank, passage in enumerate(parsed, start=1))

    def citation(
        self, document: str, page: int | None, start: int, end: int, *, marker: tuple[int, int] | None = None
    ) -> Citation | None:
        """Return a citation in offsets of the document; None for an empty or reversed span, as in the grammar."""
        if start < 0 or end <= start:
            return None
        name = self.document(document)
        shift = self._page_start(name, page) if self._offset_base == "page" else 0
        return Citation(name, start + shift, end + shift, page, *(marker or (None, None)))

    def citations(self, text: str) -> tuple[Citation, ...]:
        """Return the citations `[file:page:start-end]` of an answer, in its order."""
        found = (
            self.citation(
                span.file_name, span.page_number, span.start_char, span.end_char, marker=(marker.start, marker.end)
            )
            for marker in find_citations(text, self._known, first_page=0 if self._page_base == 0 else 1)
            for span in marker.spans
        )
        return tuple(citation for citation in found if citation is not None)

    def stated_citations(self, items: Sequence[Any]) -> tuple[Citation, ...]:
        """Return the citations that a system states apart from its answer: texts in the grammar, mappings or objects.

        An item without offsets, such as a document alone, is left out: it cites no span.
        """
        found: list[Citation] = []
        for number, item in enumerate(items):
            if isinstance(item, str):
                found += map(_without_marker, self.citations(plain_text(item)))  # its markers are not in the answer
                continue
            names = (identifier(part(item, name)) for name in DOCUMENT)
            if (document := next(filter(None, names), None)) is None:
                raise WrongShape(f"citations[{number}] that is {describe(item)}, without a document")
            start, end = (whole_number(part(item, name, f"{name}_char")) for name in ("start", "end"))
            if start is None or end is None:
                continue
            page = self.page(whole_number(part(item, "page", "page_number")))
            if (citation := self.citation(document, page, start, end)) is not None:
                first, last = (whole_number(part(item, name)) for name in ("marker_start", "marker_end"))
                found.append(msgspec.structs.replace(citation, marker_start=first, marker_end=last))
        return tuple(found)

    def citations_at(self, path: str, items: Sequence[Any]) -> tuple[Citation, ...]:
        """Return the citations that a server's JSON has at a path, in its order."""
        try:
            return tuple(map(_without_marker, self.stated_citations(items)))
        except WrongShape as wrong:
            raise WrongShape(f"citations at {path!r}: {wrong}") from None

    def warnings(self) -> list[str]:
        """Return what was noticed in the answers so far."""
        if not self._on_page_zero:
            return []
        return [
            f"{self._on_page_zero} passages or citations are on page 0, so their pages are unknown. If the system "
            "counts pages from 0, set page_base: 0."
        ]

    def record(
        self,
        query: Query,
        text: str,
        *,
        latency_ms: float | None,
        usage: Usage,
        contexts: tuple[RetrievedPassage, ...],
        citations: tuple[Citation, ...],
        abstained: bool | None = None,
        timings: dict[str, float] | None = None,
        raw_sha256: str | None = None,
        model: str | None = None,
    ) -> RagAnswer:
        """Return the record of an answer; an empty one is an error, unless that is how the system abstains.

        Args:
            usage: Also counted for an empty answer.
            abstained: What the system states; None to decide by the text.
        """
        if not text.strip() and abstained is not True and self._empty_answer == "error":
            return failed_answer(
                query,
                "error",
                code="empty_answer",
                error="the answer is empty; if that is how this system abstains, set empty_answer: abstained",
                latency_ms=latency_ms,
                usage=usage,
                partial=text or None,
                raw_sha256=raw_sha256,
            )
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=text,
            abstained=self.abstained(text) if abstained is None else abstained,
            contexts=contexts,
            citations=citations,
            latency_ms=latency_ms,
            usage=usage,
            timings=timings or {},
            raw_sha256=raw_sha256,
            model=model,
        )

    def abstained(self, text: str) -> bool:
        """Return whether an answer is empty or states that the documents do not answer the question."""
        if not text.strip():
            return True
        if self._abstention is None:
            return find_refusal(plain(text)).is_refusal
        return any(pattern.search(text) for pattern in self._abstention)

    def _page_start(self, document: str, page: int | None) -> int:
        pages = self._page_starts.get(document)
        if pages is None:
            return 0  # not in the corpus: the citation is wrong whatever its offsets
        # A missing page starts after the document's end, so that the citation counts and points at nothing.
        return pages.get(page, max(pages.values()))

    @cached_property
    def _page_starts(self) -> dict[str, dict[int | None, int]]:
        """Document -> page -> start; None -> one past the document's end."""
        starts: dict[str, dict[int | None, int]] = {}
        for page in self._corpus.pages():
            of_document = starts.setdefault(page.document, {})
            of_document[page.page] = page.start
            of_document[None] = max(of_document.get(None, 0), page.start + len(page.text) + 1)
        return starts

    @cached_property
    def _by_folded_name(self) -> dict[str, str]:
        """Case-folded name -> basename, for names that differ from all others by more than case."""
        found: dict[str, set[str]] = {}
        for name in self._known:
            found.setdefault(name.casefold(), set()).add(self._corpus.aliases.get(name, name))
        return {folded: next(iter(names)) for folded, names in found.items() if len(names) == 1}


def _without_marker(citation: Citation) -> Citation:
    return msgspec.structs.replace(citation, marker_start=None, marker_end=None)


def cited_place(citation: Citation) -> tuple[str, int, int]:
    """Return document, start and end, by which equal citations are recognised."""
    return citation.file_name, citation.start_char, citation.end_char


def merge_citations(in_text: Sequence[Citation], stated: Sequence[Citation]) -> tuple[Citation, ...]:
    """Return the citations of a text, followed by the stated ones that it does not contain."""
    known = {cited_place(citation) for citation in in_text}
    return (*in_text, *(citation for citation in stated if cited_place(citation) not in known))


def with_numbered_citations(
    text: str, citations: Sequence[Citation], passages: Sequence[RetrievedPassage]
) -> tuple[Citation, ...]:
    """Add the citations of passages by number (`[2]`, `[1, 3]`), in the order of the answer.

    Left out are numbers without a passage, numbers of passages without offsets, and numbers within another citation,
    since file names may contain `[1]`.
    """
    markers = [(citation.marker_start or 0, citation.marker_end or 0) for citation in citations]
    found = list(citations)
    for match in _NUMBERED.finditer(text):
        if any(start <= match.start() < end for start, end in markers):
            continue
        for number in re.findall(r"\d+", match[1]):
            passage = passages[int(number) - 1] if 0 < int(number) <= len(passages) else None
            if passage is not None and passage.start is not None and passage.end is not None:
                found.append(
                    Citation(passage.document, passage.start, passage.end, passage.page, match.start(), match.end())
                )
    return tuple(sorted(found, key=lambda citation: citation.marker_start or 0))


def estimated_usage(
    prices: Prices, requests: int, prompt_tokens: int = 0, completion_tokens: int = 0, *, cost: float | None = None
) -> Usage:
    """Return the usage of a question; the cost is estimated from the prices unless the server states it."""
    if cost is None:
        cost = prices.estimate(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, requests=requests)
    return Usage(prompt_tokens + completion_tokens, cost, requests, prompt_tokens, completion_tokens)


def failed_request(query: Query, error: EndpointError, prices: Prices, *, before_ms: float = 0.0) -> RagAnswer:
    """Return the record of a question whose request failed; its requests are paid for, its tokens are unknown."""
    return failed_answer(
        query,
        error.status,
        code=error.code,
        error=error.message,
        latency_ms=before_ms + error.elapsed_ms,
        usage=estimated_usage(prices, error.requests),
        partial=None if error.partial is None else error.partial.decode("utf-8", "replace"),
        raw_sha256=error.raw_sha256,
    )
