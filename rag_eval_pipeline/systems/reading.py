"""Answers of servers read into the normal form: names of documents, pages, offsets, citations, abstention.

What the file of a system says of its server (`page_base`, `offset_base`) is undone here, once, when an answer is read:
behind it pages count from 1 and offsets are code points of the document.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, Self

import pydantic

from rag_eval_pipeline.formats.citations import find_citations
from rag_eval_pipeline.systems.answer import Citation
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.text.normalise import plain
from rag_eval_pipeline.text.refusals import find_refusal

ABSTENTION = "The documents do not answer this question."

# `page:spans]` or `page:spans |` of the citation grammar: where a page number stands in an answer.
_CITED_PAGE = re.compile(r":(\d{1,9})(?=:\d+-\d+(?:,\d+-\d+)*\s*[|\]])")


def _regular_expressions(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for pattern in patterns or ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"regular expressions ({error})") from None
    return patterns


PageBase = Annotated[Literal[0, 1], pydantic.Field(description="Number that the system gives to the first page.")]
OffsetBase = Annotated[
    Literal["document", "page"],
    pydantic.Field(description="What the system counts characters from: the start of the document, or of the page."),
]
AbstentionPatterns = Annotated[
    tuple[str, ...] | None,
    pydantic.AfterValidator(_regular_expressions),
    pydantic.Field(
        description="Regular expressions; an answer in which one is found, in any case, says that the documents do not "
        "answer the question. By default the refusals that the lexical judge knows."
    ),
]


def compile_patterns(patterns: Sequence[str] | None) -> tuple[re.Pattern[str], ...] | None:
    """Compile patterns of abstention, in which case does not matter; None stays None."""
    return None if patterns is None else tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


class ReadingSettings(Protocol):
    """What settings say of how answers are read."""

    @property
    def page_base(self) -> PageBase: ...  # noqa: D102
    @property
    def offset_base(self) -> OffsetBase: ...  # noqa: D102
    @property
    def abstention(self) -> AbstentionPatterns: ...  # noqa: D102


class AnswerReader:
    """Reads one system's answers over one corpus.

    Args:
        corpus: The names of its documents and, for page-relative offsets, its pages.
        page_base: The system's number of a first page, 0 or 1.
        offset_base: What its offsets are counted from.
        abstention: Patterns of the answers that say that there is none; None for the pipeline's own refusal detector.
    """

    def __init__(
        self,
        corpus: SystemCorpus,
        *,
        page_base: Literal[0, 1] = 1,
        offset_base: Literal["document", "page"] = "document",
        abstention: Sequence[re.Pattern[str]] | None = None,
    ) -> None:
        self._corpus = corpus
        self._page_base = page_base
        self._offset_base = offset_base
        self._abstention = abstention
        self._known = frozenset(corpus.files) | corpus.aliases.keys()

    @classmethod
    def set_up(cls, corpus: SystemCorpus, settings: ReadingSettings) -> Self:
        """The reader that a system's settings ask for."""
        return cls(
            corpus,
            page_base=settings.page_base,
            offset_base=settings.offset_base,
            abstention=compile_patterns(settings.abstention),
        )

    def document(self, name: str) -> str:
        """The basename in the corpus that a system's name of a document means; the name as given when none does."""
        # A corpus' file name may contain a backslash and `%2F`, but never a slash.
        last = name.rsplit("/", 1)[-1]
        tries = [name, last, last.rsplit("\\", 1)[-1]]
        for tried in tries:
            if tried in self._known:
                return self._corpus.aliases.get(tried, tried)
        folded = {self._by_folded_name[tried.casefold()] for tried in tries if tried.casefold() in self._by_folded_name}
        return folded.pop() if len(folded) == 1 else name

    def page(self, number: Any) -> int | None:
        """The 1-based page that a system's number means; None for what is no page, such as -1 for "unknown"."""
        if isinstance(number, str) and number.strip().isascii() and number.strip().isdecimal() and len(number) < 10:
            number = int(number)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool) or number < self._page_base:
            return None
        return number + 1 - self._page_base

    def citation(
        self, document: str, page: int | None, start: int, end: int, *, marker: tuple[int, int] | None = None
    ) -> Citation | None:
        """A citation by the system's own offsets; the page is 1-based already.

        Args:
            document: The system's name of it.
            page: As `page` gives it.
            start: As the system counts.
            end: One past the last.
            marker: Where the citation's own mark begins and ends in the answer, when it stands there.

        Returns:
            None for an empty or reversed span, as the grammar leaves them out.
        """
        if start < 0 or end <= start:
            return None
        name = self.document(document)
        shift = self._page_start(name, page) if self._offset_base == "page" else 0
        return Citation(name, start + shift, end + shift, page, *(marker or (None, None)))

    def citations(self, text: str) -> tuple[Citation, ...]:
        """The citations `[file:page:start-end]` of an answer, in its order."""
        counted, grown = _from_one(text) if self._page_base == 0 else (text, [])
        read = (
            self.citation(
                span.file_name,
                span.page_number,
                span.start_char,
                span.end_char,
                marker=(found.start - bisect_right(grown, found.start), found.end - bisect_right(grown, found.end)),
            )
            for found in find_citations(counted, self._known)
            for span in found.spans
        )
        return tuple(citation for citation in read if citation is not None)

    def abstained(self, text: str) -> bool:
        """The answer says that the documents do not answer the question, or says nothing at all."""
        if self._abstention is None:
            return find_refusal(plain(text)).is_refusal
        return not text.strip() or any(pattern.search(text) for pattern in self._abstention)

    def _page_start(self, document: str, page: int | None) -> int:
        pages = self._page_starts.get(document)
        if pages is None:
            return 0  # no document of the corpus: the citation is wrong wherever it points
        # A page that does not exist: behind the document's end, so that the citation counts and points at nothing.
        return pages.get(page, max(pages.values()))

    @cached_property
    def _page_starts(self) -> dict[str, dict[int | None, int]]:
        """Document -> page -> start; under None, where the document has ended."""
        starts: dict[str, dict[int | None, int]] = {}
        for page in self._corpus.pages():
            of_document = starts.setdefault(page.document, {})
            of_document[page.page] = page.start
            of_document[None] = max(of_document.get(None, 0), page.start + len(page.text) + 1)
        return starts

    @cached_property
    def _by_folded_name(self) -> dict[str, str]:
        """Names that differ from others by more than case, without regard to case."""
        found: dict[str, set[str]] = {}
        for name in self._known:
            found.setdefault(name.casefold(), set()).add(self._corpus.aliases.get(name, name))
        return {folded: next(iter(names)) for folded, names in found.items() if len(names) == 1}


def _from_one(text: str) -> tuple[str, list[int]]:
    """The text with every cited page raised by one, and where that made it a character longer."""
    grown: list[int] = []

    def raised(match: re.Match[str]) -> str:
        number = str(int(match[1]) + 1).zfill(len(match[1]))
        if len(number) > len(match[1]):
            grown.append(match.end() + len(grown) + 1)
        return f":{number}"

    return _CITED_PAGE.sub(raised, text), grown
