"""The text behind a citation: what stands at its place in the corpus, widened to whole sentences."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from rag_eval_pipeline.systems.corpus import PageText
from rag_eval_pipeline.systems.embedded.passages import Sentence, sentences


class CorpusTexts:
    """Sentences of a corpus by their place; a document is cut into sentences when it is first cited.

    Args:
        pages: Of every document, each once.
    """

    def __init__(self, pages: Iterable[PageText]) -> None:
        by_document: defaultdict[str, list[PageText]] = defaultdict(list)
        for page in pages:
            by_document[page.document].append(page)
        self._documents = {name: _Document(own) for name, own in by_document.items()}

    def cited(self, document: str, start: int, end: int) -> str | None:
        """The sentences that a half-open span touches, joined; None where the document has no text.

        Args:
            document: Basename, as the pages have it.
            start: First code point in the document's text.
            end: One past the last.
        """
        found = self._documents.get(document)
        return None if found is None else found.cited(start, end)


class _Document:
    def __init__(self, pages: list[PageText]) -> None:
        self._pages = pages

    @cached_property
    def _sentences(self) -> list[Sentence]:
        return [sentence for page in sorted(self._pages, key=lambda page: page.start) for sentence in sentences(page)]

    @cached_property
    def _starts(self) -> list[int]:
        return [sentence.start for sentence in self._sentences]

    def cited(self, start: int, end: int) -> str | None:
        first = max(0, bisect_right(self._starts, start) - 1)
        touched = []
        for sentence in self._sentences[first:]:
            if sentence.start >= end:
                break
            if sentence.end > start:
                touched.append(sentence.text)
        return " ".join(touched) or None
