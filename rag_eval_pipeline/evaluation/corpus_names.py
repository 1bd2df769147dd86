"""The corpus as an evaluation uses it: file names and their aliases, page texts, cited places, retrieved documents.

A page that a benchmark names with two fragments is in the corpus twice, with the same bytes: either file is the same
document, and so is the name without `.pdf`.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from rapidfuzz import fuzz, process

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.naming import SUFFIX
from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.metrics.spans import Citation, Span, TokenOffsets, find_tokens
from rag_eval_pipeline.systems.base import Citation as RagCitation
from rag_eval_pipeline.systems.base import PageText, RagAnswer, SystemCorpus
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.systems.embedded_bm25 import Sentence

NO_CONTEXTS = "no_contexts"
UNKNOWN_DOCUMENTS = "unknown_documents"
NO_DOCUMENTS_NAMED = "no_documents_named"
NO_CITATIONS = "no_citations"
# Reasons why a whole run's retrieval or citations were skipped.
NOTHING_KNOWN = (NO_CONTEXTS, UNKNOWN_DOCUMENTS, NO_DOCUMENTS_NAMED, NO_CITATIONS)

# What to check when a name is not known, by kind of system.
_MAP = "ids and titles are mapped to files by contexts.names"
_HINTS = {
    "http": f"Check contexts.document; {_MAP}.",
    "openai": f"Check contexts_path, and the key of each passage's document; {_MAP}.",
    "nvidia": f"Was this corpus ingested into the collection? Else {_MAP}.",
    "python": f"Check the document names that the callable returns; {_MAP}.",
    "replay": f"Check the document names in the recording; {_MAP}.",
}
# What to do if no passage names a document.
_UNNAMED_HINTS = {
    "http": "Set contexts.document to where a passage has it, such as id.",
    "openai": "Name it in contexts_path, such as sources[].{document: id, text: text}.",
    "python": "Return it as `document` of each passage.",
    "replay": "Record it as `document` of each passage.",
}


class CorpusFiles:
    """The file names of the manifest, and the pages of the files."""

    def __init__(self, paths: BenchmarkPaths, documents: Iterable[CorpusDocument]) -> None:
        self._paths = paths
        self.aliases: dict[str, str] = {}  # every name of a document -> its first file name
        self.sources: dict[str, str] = {}  # path of the file that a document was made from -> its first file name
        self.urls: dict[str, str] = {}  # first file name -> URL of the document
        self._page_counts: dict[str, int] = {}
        first_of: dict[str, str] = {}
        present = [document for document in documents if document.origin != "missing"]
        for document in present:
            self.aliases[document.file_name] = first_of.setdefault(document.key, document.file_name)
            self._page_counts[document.file_name] = document.pages
        for document in present:  # a bare stem and a URL's key, unless they are themselves a file's name
            first = self.aliases[document.file_name]
            self.aliases.setdefault(document.file_name.removesuffix(SUFFIX), first)
            if document.url is not None:
                self.aliases.setdefault(document.key, first)
                self.urls.setdefault(first, document.url)
            else:
                self.sources[document.key] = first

    @classmethod
    def read(cls, paths: BenchmarkPaths) -> Self:
        """Read the manifest of a converted benchmark."""
        return cls(paths, read_manifest(paths.documents))

    def __contains__(self, name: str) -> bool:
        return name in self.aliases

    def most_like(self, name: str) -> str | None:
        """Return the file name most similar to a name; None for an empty corpus."""
        last = name.rsplit("/", 1)[-1]
        found = process.extractOne(last, self.aliases.values(), scorer=fuzz.WRatio, processor=str.casefold)
        return None if found is None else str(found[0])

    def canonical(self, name: str) -> str:
        """Return the first file name of the document that a name means; the name itself if the corpus has none."""
        return self.aliases.get(name, name)

    def last_page(self, name: str) -> int:
        """Return the number of pages of a document of the corpus."""
        return self._page_counts[self.canonical(name)]

    def fault_of(self, citation: RagCitation) -> str | None:
        """Return why a cited place does not exist; None if it does.

        Source: Citation Accuracy Evaluation 4.2, `document_not_found` and `span_out_of_bounds`.
        """
        name = self.canonical(citation.file_name)
        if name not in self.aliases:
            return "document_not_found"
        pages, length = self._extents.get(name, (0, 0))
        if citation.page_number is not None and citation.page_number > pages:
            return "page_not_found"
        return "span_out_of_bounds" if citation.end_char > length else None

    @cached_property
    def _extents(self) -> dict[str, tuple[int, int]]:
        """Document -> its pages and the code points of its text."""
        found: dict[str, tuple[int, int]] = {}
        for page in self.pages:
            pages, length = found.get(page.document, (0, 0))
            found[page.document] = max(pages, page.page), max(length, page.start + len(page.text))
        return found

    @cached_property
    def pages(self) -> list[PageText]:
        """The pages of each document once."""
        return [
            PageText(page.file_name, page.page, page.start, page.text)
            for page in read_pages(self._paths.pages)
            if self.canonical(page.file_name) == page.file_name
        ]

    @cached_property
    def texts(self) -> "CorpusTexts":
        """The sentences of the pages."""
        return CorpusTexts(self.pages)


def system_corpus(
    workspace: Workspace,
    paths: BenchmarkPaths,
    system: str,
    files: CorpusFiles,
    *,
    fingerprint: str,
    started: datetime,
    queries: Sequence[EvaluationQuery] = (),
    retrieval_only: bool = False,
) -> SystemCorpus:
    """Return what a system is given of a converted benchmark; `fingerprint` is the corpus's."""
    return SystemCorpus(
        benchmark=paths.name,
        folder=paths.corpus,
        files=sorted(set(files.aliases.values())),
        aliases=files.aliases,
        fingerprint=fingerprint,
        system=system,
        started=started,
        pages=lambda: files.pages,
        settings_folder=workspace.system_file(system).parent,
        state_folder=workspace.system_state(system, paths.name),
        retrieval_only=retrieval_only,
        sources=files.sources,
        urls=files.urls,
        source_ids=lambda: {query.query_id: query.display_id for query in queries},
    )


class CorpusTexts:
    """Sentences of a corpus by their offsets; a document is split into sentences when it is first cited."""

    def __init__(self, pages: Iterable[PageText]) -> None:
        self._pages: defaultdict[str, list[PageText]] = defaultdict(list)
        for page in pages:
            self._pages[page.document].append(page)
        self._sentences: dict[str, list[Sentence]] = {}

    def cited(self, document: str, start: int, end: int) -> str | None:
        """Return the sentences that a half-open span of code points touches, joined; None where there is no text."""
        if document not in self._sentences:
            from rag_eval_pipeline.systems.embedded_bm25 import split_sentences

            pages = sorted(self._pages.get(document, ()), key=attrgetter("start"))
            self._sentences[document] = [sentence for page in pages for sentence in split_sentences(page)]
        sentences = self._sentences[document]
        first = max(0, bisect_right(sentences, start, key=attrgetter("start")) - 1)
        touched = takewhile(lambda sentence: sentence.start < end, sentences[first:])
        return " ".join(sentence.text for sentence in touched if sentence.end > start) or None


def places(cited: Iterable[CitationSpan | RagCitation], files: CorpusFiles) -> list[Citation]:
    """Convert citations to those of the span metrics, without pages: document offsets locate a span exactly."""
    return [Citation(files.canonical(c.file_name), None, Span(c.start_char, c.end_char)) for c in cited]


def cited_words(files: CorpusFiles, *sides: Sequence[Sequence[Citation]]) -> dict[str, TokenOffsets]:
    """Return the words of each document that any side cites, by file name."""
    cited = {citation.file_name for side in sides for one in side for citation in one}
    pages: dict[str, list[PageText]] = {}
    for page in files.pages:
        if page.document in cited:
            pages.setdefault(page.document, []).append(page)
    return {
        name: find_tokens("\f".join(page.text for page in sorted(found, key=lambda page: page.start)))
        for name, found in pages.items()
    }


@dataclass(slots=True)
class RetrievedDocuments:
    """The retrieved passages of a run, counted by whether they name a document of the corpus.

    A question with unknown documents only has no retrieval score, instead of 0; if half or more of the passages name no
    document, no question has one.

    Args:
        returned: The first unknown name, as the system returned it.
        paged: Passages whose page is known.
        beyond: Passages whose document has no such page.
    """

    files: CorpusFiles = field(repr=False)
    kind: str
    answers: int = 0
    passages: int = 0
    unnamed: int = 0
    unknown: int = 0
    returned: str | None = None
    paged: int = 0
    beyond: int = 0
    example_beyond: str | None = None

    def add(self, answer: RagAnswer) -> None:
        """Count the passages of one answer."""
        self.answers += answer.status == "ok"
        self.passages += len(answer.contexts)
        for passage in answer.contexts:
            self.paged += passage.page is not None
            if not passage.document:
                self.unnamed += 1
            elif passage.document not in self.files:
                self.unknown += 1
                self.returned = passage.document if self.returned is None else self.returned
            elif passage.page is not None and passage.page > (last := self.files.last_page(passage.document)):
                self.beyond += 1
                self.example_beyond = f"page {passage.page} of {passage.document!r}, which has {last}"

    @property
    def known(self) -> int:
        """Passages that name a document of the corpus."""
        return self.passages - self.unnamed - self.unknown

    @property
    def reason(self) -> str | None:
        """Why the run's retrieval cannot be scored: half or more of its passages name no document of the corpus."""
        if not self.passages:
            return NO_CONTEXTS
        if 2 * self.known > self.passages:
            return None
        return UNKNOWN_DOCUMENTS if self.unknown else NO_DOCUMENTS_NAMED

    def skip_reason(self, answer: RagAnswer) -> str | None:
        """Return why an answer's retrieval cannot be scored; None if it can. An answer without passages is a miss."""
        names = [passage.document for passage in answer.contexts]
        if self.reason is not None or not names or any(name in self.files for name in names):
            return self.reason
        return UNKNOWN_DOCUMENTS if any(names) else NO_DOCUMENTS_NAMED

    def warnings(self) -> list[str]:
        """Return sentences on unknown documents and on pages that documents do not have."""
        if not self.answers:
            return []
        if not self.passages:
            return [
                f"None of {self.answers} answers states retrieved passages, so retrieval is not scored [{NO_CONTEXTS}]."
            ]
        found = []
        if self.known < self.passages:
            unscored = f", so retrieval is not scored [{self.reason}]" if self.reason else ""
            found.append(f"{self.known} of {self.passages} retrieved passages name a document of the corpus{unscored}.")
            if self.unknown:
                in_corpus = self.files.most_like(self.returned or "")
                if in_corpus is None:
                    return [f"{found[0]} The corpus has no documents: `documents` in benchmark.yaml adds some."]
                found.append(f"Returned: {self.returned!r}; the corpus has {in_corpus!r}.")
            if self.unnamed:
                which = "They state" if self.unnamed == self.passages else f"{self.unnamed} state"
                found.append(f"{which} no document at all.")
            hints = _UNNAMED_HINTS if self.unnamed == self.passages else _HINTS
            found = [" ".join([*found, hints.get(self.kind, "")]).strip()]
        if self.beyond:
            found.append(
                f"{self.beyond} of {self.paged} stated pages are beyond the end of their document, such as "
                f"{self.example_beyond}. Does page_base say how the system counts?"
            )
        return found

    def check(self) -> Check:
        """Return the check `retrieved_documents_known`."""
        numbers: dict[str, Any] = {
            "passages": self.passages, "known": self.known, "unknown": self.unknown, "unnamed": self.unnamed,
        }  # fmt: skip
        if warnings := self.warnings():
            numbers["warning"] = " ".join(warnings)
        return Check(
            name="retrieved_documents_known", passed=self.known == self.passages, blocking=False, numbers=numbers
        )


def retrieved_documents(answers: Iterable[RagAnswer], files: CorpusFiles, *, kind: str) -> RetrievedDocuments:
    """Count the passages of a run's answers by whether the corpus has their documents."""
    counts = RetrievedDocuments(files, kind)
    for answer in answers:
        counts.add(answer)
    return counts
