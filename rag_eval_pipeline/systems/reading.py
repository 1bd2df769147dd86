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
from rag_eval_pipeline.systems.answer import Citation, RetrievedPassage
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.python.passages import SaidPassage
from rag_eval_pipeline.text.normalise import plain
from rag_eval_pipeline.text.refusals import find_refusal

ABSTENTION = "The documents do not answer this question."
NO_DOCUMENT = ""  # a passage whose document the system does not name
EMPTY_ANSWER = "empty_answer"  # code of an answer without a word that nobody declared an abstention
EMPTY_ANSWER_ERROR = "the answer is empty; if that is how this system abstains, set empty_answer: abstained"

# `page:spans]` or `page:spans |` of the citation grammar: where a page number stands in an answer.
_CITED_PAGE = re.compile(r":(\d{1,9})(?=:\d+-\d+(?:,\d+-\d+)*\s*[|\]])")


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
EmptyAnswers = Annotated[
    Literal["error", "abstained"],
    pydantic.Field(description="What an empty answer is, unless the system states that it abstained."),
]
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
    @property
    def empty_answer(self) -> EmptyAnswers | None: ...  # noqa: D102


class EmptyAnswer(ValueError):
    """An answer without a word, of a system that has not said that it abstains so."""

    def __init__(self) -> None:
        super().__init__(EMPTY_ANSWER_ERROR)


class AnswerReader:
    """Reads one system's answers over one corpus.

    Args:
        corpus: The names of its documents and, for page-relative offsets, its pages.
        page_base: The system's number of a first page, 0 or 1; None for 0 in LangChain's documents, else 1.
        offset_base: What its offsets are counted from.
        abstention: Patterns of the answers that say that there is none; None for the pipeline's own refusal detector.
        empty_answer: What an answer without a word is.
    """

    def __init__(
        self,
        corpus: SystemCorpus,
        *,
        page_base: Literal[0, 1] | None = None,
        offset_base: Literal["document", "page"] = "document",
        abstention: Sequence[re.Pattern[str]] | None = None,
        empty_answer: Literal["error", "abstained"] = "error",
    ) -> None:
        self._corpus = corpus
        self._page_base = page_base
        self._offset_base = offset_base
        self._abstention = abstention
        self._empty_answer = empty_answer
        self._on_page_zero = 0
        self._known = frozenset(corpus.files) | corpus.aliases.keys()

    @classmethod
    def set_up(cls, corpus: SystemCorpus, settings: ReadingSettings) -> Self:
        """The reader that a system's settings ask for."""
        return cls(
            corpus,
            page_base=settings.page_base,
            offset_base=settings.offset_base,
            abstention=compile_patterns(settings.abstention),
            empty_answer=settings.empty_answer or "error",
        )

    def observe(self, value: Any) -> Any:
        """The JSON of a reply as it is to be read: itself, unless somebody watches what is read of it."""
        return value if self._corpus.observe is None else self._corpus.observe(value)

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

    def page(self, number: Any, *, counts_from_zero: bool = False) -> int | None:
        """The 1-based page that a system's number means; None for what is no page, such as -1 for "unknown".

        Args:
            number: As the system states it.
            counts_from_zero: It is a LangChain document's, whose loaders call the first page 0.
        """
        if isinstance(number, str) and number.strip().isascii() and number.strip().isdecimal() and len(number) < 10:
            number = int(number)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            return None
        base = (0 if counts_from_zero else 1) if self._page_base is None else self._page_base
        if number < base:
            self._on_page_zero += 1
            return None
        return number + 1 - base

    def passage(self, said: SaidPassage, rank: int) -> RetrievedPassage:
        """A retrieved passage in the normal form; a text that is no more than a document's name names it."""
        if said.document is None and self.document(said.text) in self._corpus.files:
            said = said._replace(document=said.text, text="")
        document = NO_DOCUMENT if said.document is None else self.document(said.document)
        page = self.page(said.page, counts_from_zero=said.counts_from_zero)
        placed = None
        if said.start is not None and said.end is not None:
            placed = self.citation(document, page, said.start, said.end)
        return RetrievedPassage(
            document=document,
            page=page,
            text=said.text,
            score=said.score,
            rank=rank,
            start=None if placed is None else placed.start_char,
            end=None if placed is None else placed.end_char,
            kind=said.kind,
        )

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

    def warnings(self) -> list[str]:
        """What was noticed in the answers so far."""
        if not self._on_page_zero:
            return []
        return [
            f"{self._on_page_zero} passages or citations are on page 0, so their pages are unknown. If the system "
            "counts pages from 0, set page_base: 0."
        ]

    def abstained(self, text: str, stated: bool | None = None) -> bool:
        """Whether an answer says that the documents do not answer the question.

        Args:
            text: The answer.
            stated: What the system itself says; None when it does not say.

        Raises:
            EmptyAnswer: It has no word and is no abstention.
        """
        if stated is not True and not text.strip() and self._empty_answer == "error":
            raise EmptyAnswer
        if stated is not None:
            return stated
        if not text.strip():
            return True
        if self._abstention is None:
            return find_refusal(plain(text)).is_refusal
        return any(pattern.search(text) for pattern in self._abstention)

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
