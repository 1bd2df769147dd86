"""The corpus as an evaluation sees it: pages to search, and which file names mean one document.

A page that a benchmark names with two fragments lies in the corpus twice, with the same bytes. A system that retrieves
or cites either has found it, and a system that reports names without `.pdf` means the same file.
"""

from collections.abc import Iterable
from typing import Self

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.naming import SUFFIX
from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.systems.corpus import PageText, SystemCorpus
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace


class CorpusFiles:
    """The manifest's file names, and the pages behind them."""

    def __init__(self, paths: BenchmarkPaths, documents: Iterable[CorpusDocument]) -> None:
        self._paths = paths
        self._canonical: dict[str, str] = {}
        first_of: dict[str, str] = {}
        present = [document for document in documents if document.origin != "missing"]
        for document in present:
            self._canonical[document.file_name] = first_of.setdefault(document.key, document.file_name)
        for document in present:  # a bare stem, unless it is itself a file's name
            self._canonical.setdefault(document.file_name.removesuffix(SUFFIX), self._canonical[document.file_name])

    @classmethod
    def read(cls, paths: BenchmarkPaths) -> Self:
        """The corpus of a converted benchmark."""
        return cls(paths, read_manifest(paths.documents))

    def names(self) -> frozenset[str]:
        """Every file name, with and without `.pdf`."""
        return frozenset(self._canonical)

    def aliases(self) -> dict[str, str]:
        """Every name that a document can be called by -> its first file name."""
        return dict(self._canonical)

    def count(self) -> int:
        """How many documents the corpus has, each counted once."""
        return len(set(self._canonical.values()))

    def __contains__(self, name: str) -> bool:
        """Whether a name means a document of the corpus."""
        return name in self._canonical

    def most_like(self, name: str) -> str | None:
        """The file name that is spelt most like a name; None of an empty corpus."""
        from rapidfuzz import fuzz, process

        last = name.rsplit("/", 1)[-1]
        found = process.extractOne(last, self._canonical.values(), scorer=fuzz.WRatio, processor=str.casefold)
        return None if found is None else str(found[0])

    def canonical(self, name: str) -> str:
        """The first file name of the document that a name means; the name itself when the corpus has no such file."""
        return self._canonical.get(name, name)

    def pages(self) -> list[PageText]:
        """The pages of each document once."""
        return [
            PageText(page.file_name, page.page, page.start, page.text)
            for page in read_pages(self._paths.pages)
            if self.canonical(page.file_name) == page.file_name
        ]


def system_corpus(workspace: Workspace, paths: BenchmarkPaths, system: str, *, fingerprint: str) -> SystemCorpus:
    """What a system is given of a converted benchmark; `fingerprint` is the corpus's."""
    files = CorpusFiles.read(paths)
    aliases = files.aliases()
    return SystemCorpus(
        benchmark=paths.name,
        folder=paths.corpus,
        files=sorted(set(aliases.values())),
        aliases=aliases,
        fingerprint=fingerprint,
        pages=files.pages,
        settings_folder=workspace.system_file(system).parent,
        state_folder=workspace.system_state(system, paths.name),
    )
