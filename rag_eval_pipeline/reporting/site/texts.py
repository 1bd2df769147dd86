"""Texts of a corpus as pages show them: spans cut out of documents, and on which page a place stands."""

from collections.abc import Mapping, Sequence

from rag_eval_pipeline.corpus.text.pages import Page


class DocumentTexts:
    """Pages by document.

    Args:
        pages: Of the corpus; none where it is not there any more.
        aliases: Every name that a document can be called by -> its file.
    """

    def __init__(self, pages: Sequence[Page], aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._pages: dict[str, list[Page]] = {}
        for page in pages:
            self._pages.setdefault(page.file_name, []).append(page)

    def canonical(self, name: str) -> str:
        """The file that a name means; the name itself where the corpus has none."""
        return self._aliases.get(name, name)

    def pages(self, name: str) -> Sequence[Page]:
        """Of a document by any of its names; none where the corpus has no such document."""
        return self._pages.get(self.canonical(name), ())

    def cut(self, name: str, start: int, end: int) -> str:
        """The text of a span, a line a page; empty where the document has no such place."""
        parts = (page.text[max(0, start - page.start) : max(0, end - page.start)] for page in self.pages(name))
        return "\n".join(part for part in parts if part)

    def page_of(self, name: str, start: int) -> int | None:
        """The page on which a place stands."""
        found = None
        for page in self.pages(name):
            if page.start <= start:
                found = page.page
        return found
